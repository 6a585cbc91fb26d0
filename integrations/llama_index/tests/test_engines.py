"""Every way of asking a query or chat engine is one whole interaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index_instrumentation.dispatcher import instrument_tags
from opentelemetry.sdk.trace import TracerProvider
from integrations.llama_index.tests.scripted import (
    ANSWER,
    AsyncLLM,
    BestTwoReversed,
    FakeMonitor,
    ListRetriever,
    NoneOfThem,
    ScriptedLLM,
    chat_engine,
    query_engine,
    some_nodes,
)

from ragmonitor import Interaction, Usage

CHATS = ("context", "condense_plus_context", "condense_question")
ENGINES = ("query", *CHATS)
MODES = ("sync", "async", "stream", "astream")

Ask = Callable[[str], Awaitable[str]]


def asker(engine: str, mode: str, llm: ScriptedLLM | None = None, **kwargs: Any) -> Ask:
    """Return a function that asks this engine this way and returns what its user saw."""
    asks_query = engine == "query"
    target = (
        query_engine(llm, streaming="stream" in mode, **kwargs)
        if asks_query
        else chat_engine(engine, llm, **kwargs)
    )

    async def ask(question: str) -> str:
        if mode == "sync":
            return str(target.query(question) if asks_query else target.chat(question))
        if mode == "async":
            return str(await (target.aquery(question) if asks_query else target.achat(question)))
        if mode == "stream":
            response = target.query(question) if asks_query else target.stream_chat(question)
            return "".join(response.response_gen)
        response = await (target.aquery(question) if asks_query else target.astream_chat(question))
        return "".join([piece async for piece in response.async_response_gen()])

    return ask


def assert_whole(interaction: Interaction, question: str) -> None:
    assert interaction.query == question
    assert [(c.text, c.id, c.score, dict(c.metadata)) for c in interaction.chunks] == [
        (f"Text {i}.", f"n{i}", pytest.approx(0.9 - i / 10), {"page": i}) for i in range(3)
    ]
    assert interaction.answer == ANSWER
    assert (interaction.status, interaction.error) == ("ok", "")
    assert interaction.framework == "llama_index"


every_way = pytest.mark.parametrize(
    ("engine", "mode"), [(engine, mode) for engine in ENGINES for mode in MODES]
)


@every_way
async def test_query_chunks_and_answer_are_whole(
    monitor: FakeMonitor, engine: str, mode: str
) -> None:
    """One interaction, with the question, all chunks in order and the answer to its last space."""
    assert await asker(engine, mode)("How heavy?") == ANSWER
    assert_whole(monitor.only(), "How heavy?")


@every_way
async def test_each_model_call_is_counted_once(
    monitor: FakeMonitor, engine: str, mode: str
) -> None:
    """A model's synchronous call inside its asynchronous one is the same call."""
    await asker(engine, mode)("How heavy?")
    (generation,) = monitor.only().generations
    assert generation.output == ANSWER
    assert generation.model == "scripted-1"
    assert monitor.only().usage == Usage(input_tokens=30, output_tokens=7)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_model_that_streams_by_itself_is_counted_once(
    monitor: FakeMonitor, engine: str
) -> None:
    """An asynchronous stream of the model's own is joined to its interaction with its usage."""
    await asker(engine, "astream", AsyncLLM())("How heavy?")
    assert monitor.only().usage == Usage(input_tokens=30, output_tokens=7)


@every_way
async def test_times_enclose_retrieval_and_generation(
    monitor: FakeMonitor, engine: str, mode: str
) -> None:
    """The interaction begins before its retrieval and ends with the last token."""
    await asker(engine, mode)("How heavy?")
    interaction = monitor.only()
    (retrieval,), (generation,) = interaction.retrievals, interaction.generations
    assert interaction.started_ns <= retrieval.started_ns <= retrieval.ended_ns
    assert retrieval.ended_ns <= generation.started_ns <= generation.ended_ns
    assert generation.ended_ns <= interaction.ended_ns


@every_way
async def test_the_callers_span_is_kept(monitor: FakeMonitor, engine: str, mode: str) -> None:
    """The application's own span is the interaction's parent."""
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("request") as span:
        await asker(engine, mode)("How heavy?")
    caller = monitor.only().caller
    assert caller is not None
    assert int(caller.span_id, 16) == span.get_span_context().span_id
    assert int(caller.trace_id, 16) == span.get_span_context().trace_id


@every_way
async def test_instrument_tags_become_labels(monitor: FakeMonitor, engine: str, mode: str) -> None:
    """LlamaIndex's own tags say session, user, tags and attributes."""
    ask = asker(engine, mode)
    with instrument_tags({"session_id": "s", "user_id": "u", "tags": ["beta"], "route": "/ask"}):
        await ask("How heavy?")
    interaction = monitor.only()
    assert (interaction.session_id, interaction.user_id) == ("s", "u")
    assert interaction.tags == ("beta",)
    assert interaction.attributes == {"route": "/ask"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["async", "astream"])
async def test_gathered_questions_stay_apart(monitor: FakeMonitor, engine: str, mode: str) -> None:
    """Questions that are asked at once on one event loop are one whole interaction each."""
    questions = [f"Question {n}?" for n in range(8)]
    await asyncio.gather(*(asker(engine, mode)(question) for question in questions))
    assert monitor.open_runs == 0
    interactions = sorted(monitor.interactions, key=lambda i: i.query)
    for interaction, question in zip(interactions, questions, strict=True):
        assert_whole(interaction, question)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["sync", "stream"])
def test_questions_in_threads_stay_apart(monitor: FakeMonitor, engine: str, mode: str) -> None:
    """Questions that are asked at once in threads are one whole interaction each."""
    questions = [f"Question {n}?" for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda q: asyncio.run(asker(engine, mode)(q)), questions))
    assert monitor.open_runs == 0
    interactions = sorted(monitor.interactions, key=lambda i: i.query)
    for interaction, question in zip(interactions, questions, strict=True):
        assert_whole(interaction, question)


@every_way
async def test_chunks_are_what_the_model_saw(monitor: FakeMonitor, engine: str, mode: str) -> None:
    """After a postprocessor has cut and reordered, its nodes are the chunks, in its order."""
    await asker(engine, mode, node_postprocessors=[BestTwoReversed()])("How heavy?")
    interaction = monitor.only()
    assert [c.id for c in interaction.chunks] == ["n1", "n0"]
    assert [c.id for c in interaction.retrievals[0].chunks] == ["n0", "n1", "n2"]


@every_way
async def test_nothing_left_after_postprocessing_is_no_chunk(
    monitor: FakeMonitor, engine: str, mode: str
) -> None:
    """LlamaIndex's own words, without the model, are an answer over no chunks."""
    seen = await asker(engine, mode, node_postprocessors=[NoneOfThem()])("How heavy?")
    interaction = monitor.only()
    assert interaction.answer == seen == "Empty Response"
    assert interaction.chunks == ()
    assert interaction.generations == ()


async def test_a_condensed_question_keeps_the_users_words(monitor: FakeMonitor) -> None:
    """In a second turn the query is what the user wrote; the retrieval has the rewritten one."""
    engine = chat_engine("condense_question")
    await engine.achat("How heavy?")
    monitor.interactions.clear()
    await engine.achat("And by train?")
    interaction = monitor.only()
    assert interaction.query == "And by train?"
    assert interaction.retrievals[0].query == ANSWER
    assert interaction.usage == Usage(input_tokens=60, output_tokens=14)


def test_a_query_bundle_is_a_question(monitor: FakeMonitor) -> None:
    """A question in LlamaIndex's own wrapper is the same question."""
    from llama_index.core.schema import QueryBundle

    query_engine().query(QueryBundle("How heavy?"))
    assert monitor.only().query == "How heavy?"


def test_later_changes_of_nodes_do_not_show(monitor: FakeMonitor) -> None:
    """Chunks are as they were, whatever the application does to its nodes afterwards."""
    nodes = some_nodes(1)
    kept: list[Any] = []
    recorder = monitor.recorder(None)  # type: ignore[arg-type]
    recorder._hand_over = kept.append
    response = query_engine(retriever=ListRetriever(nodes)).query("How heavy?")
    nodes[0].node.metadata["page"] = 99
    response.source_nodes[0].score = -1.0
    response.source_nodes.clear()
    (chunk,) = kept[0].interaction().chunks
    assert (chunk.metadata["page"], chunk.score) == (0, 0.9)
