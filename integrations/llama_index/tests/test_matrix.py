"""Every shape of application in every mode: one question is one interaction, and all of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llama_index_instrumentation.dispatcher import instrument_tags
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext, Tracer, format_span_id, format_trace_id

from integrations.llama_index.tests.matrix import (
    ASIDE,
    IMPOSSIBLE,
    MODES,
    SHAPES,
    Asked,
    Parts,
    Shape,
    Told,
    answer,
    question,
)
from integrations.llama_index.tests.scripted import FakeMonitor
from ragmonitor import Chunk, Generation, Interaction, Usage

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)


def _cells(*, possible: bool) -> list[Any]:
    return [
        pytest.param(shape, mode, id=f"{shape.name}-{mode}")
        for shape in SHAPES
        for mode in MODES
        if ((shape.name, mode) not in IMPOSSIBLE) is possible
    ]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    """Give the application's own tracer."""
    provider = TracerProvider()
    yield provider.get_tracer("application")
    provider.shutdown()


def _asked_in(
    shape: Shape, mode: str, parts: Parts, tracer: Tracer
) -> list[tuple[str, str, SpanContext]]:
    """Ask in this mode; return each load, what its user saw, and the span of the caller."""
    application = shape.build(parts)
    sync = "sync" in shape.calls

    def ask(load: str) -> tuple[str, str, SpanContext]:
        with (
            tracer.start_as_current_span("request") as span,
            instrument_tags({"session_id": f"s-{load}", "tags": ["beta"], "route": "/ask"}),
        ):
            return load, application.sync(question(load)), span.get_span_context()

    async def aask(load: str) -> tuple[str, str, SpanContext]:
        with (
            tracer.start_as_current_span("request") as span,
            instrument_tags({"session_id": f"s-{load}", "tags": ["beta"], "route": "/ask"}),
        ):
            return load, await application.asynchronous(question(load)), span.get_span_context()

    async def gathered() -> list[tuple[str, str, SpanContext]]:
        return await asyncio.gather(*(aask(f"g{n}") for n in range(50)))

    if mode == "gather of 50":
        return asyncio.run(gathered())
    if mode == "thread pool":
        loads = [f"t{n}" for n in range(16)]
        with ThreadPoolExecutor(4) as pool:
            return [*pool.map(ask if sync else lambda load: asyncio.run(aask(load)), loads)]
    return [asyncio.run(aask("7")) if mode.endswith("async") else ask("7")]


@pytest.mark.parametrize(("shape", "mode"), _cells(possible=True))
def test_a_question_is_one_whole_interaction(
    monitor: FakeMonitor, tracer: Tracer, shape: Shape, mode: str
) -> None:
    """Query, chunks, what was not shown, answer, model calls, tokens, labels and caller."""
    parts = Parts(monitor=monitor, streaming=mode.startswith("streaming"))
    seen = _asked_in(shape, mode, parts, tracer)
    assert monitor.open_runs == 0
    by_query = {i.query: i for i in monitor.interactions}
    assert len(by_query) == len(monitor.interactions) == len(seen)
    for load, saw, caller in seen:
        assert saw == answer(load)
        interaction = by_query[question(load)]
        _assert_whole(interaction, shape, load)
        asked = [each for each in parts.log if each.load == load and each.task not in ASIDE]
        _assert_generations(interaction.generations, asked)
        assert interaction.usage == Usage(
            input_tokens=sum(each.tokens["prompt_tokens"] for each in asked),
            output_tokens=sum(each.tokens["completion_tokens"] for each in asked),
        )
        assert interaction.caller is not None
        assert interaction.caller.span_id == format_span_id(caller.span_id)
        assert interaction.caller.trace_id == format_trace_id(caller.trace_id)


def _assert_whole(interaction: Interaction, shape: Shape, load: str) -> None:
    assert interaction.framework == shape.framework
    assert (interaction.status, interaction.error) == ("ok", "")
    assert not interaction.capture_incomplete
    _assert_told(interaction.chunks, shape.chunks(load))
    _assert_told(interaction.not_shown, shape.not_shown(load))
    assert interaction.answer == answer(load)
    assert interaction.session_id == f"s-{load}"
    if shape.framework != "python":  # a block says its own
        assert (interaction.tags, interaction.attributes) == (("beta",), {"route": "/ask"})
    assert len(interaction.retrievals) == shape.retrievals
    for retrieval in interaction.retrievals:
        assert load in retrieval.query
        assert interaction.started_ns <= retrieval.started_ns <= retrieval.ended_ns
    for generation in interaction.generations:
        assert generation.started_ns <= generation.ended_ns <= interaction.ended_ns


def _assert_told(chunks: tuple[Chunk, ...], told: list[Told]) -> None:
    assert [(c.text, c.score) for c in chunks] == [
        (each.text, each.score if each.score is None else pytest.approx(each.score))
        for each in told
    ]
    for chunk, each in zip(chunks, told, strict=True):
        assert each.id is None or chunk.id == each.id
        assert each.score is None or "page" in chunk.metadata


def _assert_generations(generations: tuple[Generation, ...], asked: list[Asked]) -> None:
    """Compare what is known of each model call with what the model itself noted."""
    # A reranker's prompt shows nodes to a model that answers nothing; it is not kept.
    expected = Counter(
        (() if each.task == "rerank" else each.prompt, each.output) for each in asked
    )
    assert (
        Counter((tuple((m.role, m.text) for m in g.input), g.output) for g in generations)
        == expected
    )
    for generation in generations:
        assert generation.model in {"scripted-1", "scripted-chat"}
        assert generation.error == ""


# What LlamaIndex leaves behind when it refuses.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(("shape", "mode"), _cells(possible=False))
def test_an_impossible_cell_is_refused_by_the_framework(
    monitor: FakeMonitor, shape: Shape, mode: str
) -> None:
    """It raises, and nothing is captured of it, nor left open."""
    parts = Parts(monitor=monitor, streaming=mode.startswith("streaming"))
    with pytest.raises(RuntimeError, match="no running event loop"):
        shape.build(parts).sync(question("7"))
    assert (monitor.interactions, monitor.open_runs) == ([], 0)
