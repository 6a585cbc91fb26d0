"""What is recorded of an answer, of every mode of the frameworks: `data/records/*.jsonl` say it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import ragmonitor_langchain
import ragmonitor_llama_index
from tests.contract import langchain_cells as langchain
from tests.contract import llama_index_cells as llama_index
from tests.contract.kit_capture import (
    THINGS,
    Watched,
    about,
    cases,
    check,
    result_of,
    told,
    watching,
)

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("application")
LANGCHAIN = {case["cell"]: case for case in cases("records/langchain.jsonl")}
LLAMA_INDEX = {case["cell"]: case for case in cases("records/llama_index.jsonl")}
ENDINGS = {(case["framework"], case["cell"]): case for case in cases("records/endings.jsonl")}
NOT_RETRIED = {("with_retry", mode) for mode in ("stream", "astream", "astream_events")}
"""LangChain does not retry a stream: what was yielded cannot be taken back."""


@pytest.fixture
def langchain_watched() -> Iterator[Watched]:
    """Give a monitor to which LangChain and LangGraph are known."""
    with watching() as watched, TRACER.start_as_current_span("request"):
        ragmonitor_langchain.instrument(watched.monitor)
        yield watched
        ragmonitor_langchain.uninstrument()


@pytest.fixture
def llama_index_watched() -> Iterator[Watched]:
    """Give a monitor to which LlamaIndex is known."""
    with watching() as watched, TRACER.start_as_current_span("request"):
        ragmonitor_llama_index.instrument(watched.monitor)
        yield watched
        ragmonitor_llama_index.uninstrument()


def test_every_cell_has_its_record() -> None:
    """The data and the applications name the same cells."""
    assert LANGCHAIN.keys() == langchain.APPS.keys()
    assert LLAMA_INDEX.keys() == llama_index.APPS.keys()


@pytest.mark.parametrize("mode", langchain.ONE)
@pytest.mark.parametrize("cell", LANGCHAIN)
def test_langchain_is_recorded(langchain_watched: Watched, cell: str, mode: str) -> None:
    """Whatever the application's shape and the mode of its call, one question is one record."""
    app = langchain.APPS[cell]()
    case = LANGCHAIN[cell]
    if (cell, mode) in NOT_RETRIED:
        with pytest.raises(RuntimeError, match="the model is gone"):
            result_of(langchain.ONE[mode](app, case["question"]))
        ending = ENDINGS["langchain", "model fails"]
        check(langchain_watched.told(), ending, framework="langchain")
        return
    assert result_of(langchain.ONE[mode](app, case["question"])) == case["answer"]
    check(langchain_watched.told(), case, framework="langchain")
    assert langchain_watched.is_below(trace.get_current_span())


@pytest.mark.parametrize("mode", langchain.MANY)
@pytest.mark.parametrize("cell", LANGCHAIN)
def test_questions_at_once_to_langchain_are_kept_apart(
    langchain_watched: Watched, cell: str, mode: str
) -> None:
    """Batches, tasks and threads: each question with its own chunks, answer and tokens."""
    answers = asyncio.run(langchain.MANY[mode](langchain.APPS[cell]()))
    expected = [about(LANGCHAIN[cell], thing) for thing in THINGS]
    assert answers == [case["answer"] for case in expected]
    check(langchain_watched.told(), *expected, framework="langchain")


@pytest.mark.parametrize("mode", llama_index.MODES)
@pytest.mark.parametrize("cell", LLAMA_INDEX)
def test_llama_index_is_recorded(llama_index_watched: Watched, cell: str, mode: str) -> None:
    """Engines, chat engines, agents and workflows: synchronous, asynchronous, streamed, at once."""
    answers = llama_index.ask_in(mode, llama_index.APPS[cell])
    if answers is None:  # a workflow needs an event loop
        assert llama_index_watched.told() == []
        return
    expected = [about(LLAMA_INDEX[cell], thing) for thing in answers]
    assert [*answers.values()] == [case["answer"] for case in expected]
    check(llama_index_watched.told(), *expected, framework="llama_index")
    # A thread of the application's own does not know the span of the one that started it.
    assert mode == "threads" or llama_index_watched.is_below(trace.get_current_span())


# --- how an answer ends --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("part", ["retriever", "model"])
def test_a_failure_in_langchain_is_recorded(
    langchain_watched: Watched, part: str, mode: str
) -> None:
    """The application gets its own exception, and the record says what it was."""
    failing: dict[str, Any] = {
        "retriever": {"retriever": langchain.Notes(fails=True)},
        "model": {"model": langchain.Model(fails=1)},
    }[part]
    case = ENDINGS["langchain", f"{part} fails"]
    app = langchain.App(runnable=langchain.lcel(**failing))
    with pytest.raises(RuntimeError, match=case["error"].removeprefix("RuntimeError: ")):
        result_of(langchain.ONE[mode](app, case["question"]))
    check(langchain_watched.told(), case)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("part", ["retriever", "model"])
def test_a_failure_in_llama_index_is_recorded(
    llama_index_watched: Watched, part: str, asynchronous: bool, streaming: bool
) -> None:
    """The application gets its own exception, and the record says what it was."""
    failing: dict[str, Any] = {
        "retriever": {"retriever": llama_index.Notes(fails=True)},
        "model": {"llm": llama_index.AsyncModel(fails=True)},
    }[part]
    case = ENDINGS["llama_index", f"{part} fails"]
    mode = f"streaming {'async' if asynchronous else 'sync'}" if streaming else "sync"

    def make(streams: bool) -> llama_index.App:
        return llama_index.asked(llama_index.engine(streaming=streams, **failing))

    with pytest.raises(RuntimeError, match=case["error"].removeprefix("RuntimeError: ")):
        llama_index.ask_in(mode, make)
    check(llama_index_watched.told(), case)


def test_a_langchain_stream_that_is_closed_early_is_partial(langchain_watched: Watched) -> None:
    """The record has what the user saw."""
    case = ENDINGS["langchain", "closed after two pieces"]
    pieces: Any = langchain.lcel().stream(case["question"])
    assert next(pieces) + next(pieces) == case["answer"]
    pieces.close()
    check(langchain_watched.told(), case)


def test_an_asynchronous_langchain_stream_that_is_closed_early_is_partial(
    langchain_watched: Watched,
) -> None:
    """As the synchronous one."""
    case = ENDINGS["langchain", "closed after two pieces"]

    async def read() -> str:
        pieces: Any = langchain.lcel().astream(case["question"])
        seen = await anext(pieces) + await anext(pieces)
        await pieces.aclose()
        return seen

    assert asyncio.run(read()) == case["answer"]
    check(langchain_watched.told(), case)


def test_a_llama_index_stream_that_is_closed_early_is_partial(llama_index_watched: Watched) -> None:
    """The record has what the user saw."""
    case = ENDINGS["llama_index", "closed after two pieces"]
    pieces: Any = llama_index.engine(streaming=True).query(case["question"])
    assert next(pieces.response_gen) + next(pieces.response_gen) == case["answer"]
    pieces.response_gen.close()
    check(llama_index_watched.told(), case)


async def _cancelled(began: asyncio.Event, asking: Any) -> None:
    task = asyncio.ensure_future(asking)
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_request_to_langchain_is_cancelled(langchain_watched: Watched) -> None:
    """The user has gone away while the model was asked."""
    case = ENDINGS["langchain", "cancelled"]

    async def ask() -> None:
        began = asyncio.Event()
        asking = langchain.lcel(model=langchain.Model(waits=began)).ainvoke(case["question"])
        await _cancelled(began, asking)

    asyncio.run(ask())
    check(langchain_watched.told(), case)


def test_a_cancelled_request_to_llama_index_is_cancelled(llama_index_watched: Watched) -> None:
    """The user has gone away while the model was asked."""
    case = ENDINGS["llama_index", "cancelled"]

    async def ask() -> None:
        began = asyncio.Event()
        engine = llama_index.engine(llm=llama_index.AsyncModel(waits=began))
        await _cancelled(began, engine.aquery(case["question"]))

    asyncio.run(ask())
    check(llama_index_watched.told(), case)


def test_a_paused_graph_that_nobody_resumes_is_partial() -> None:
    """At the latest when the monitor closes, with what was found until then."""
    case = ENDINGS["langchain", "never resumed"]
    app = langchain.APPS["StateGraph, interrupt and Command(resume)"]()
    with watching() as watched:
        ragmonitor_langchain.instrument(watched.monitor)
        given, config = app.calls(case["question"])[0]
        app.runnable.invoke(given, config)
        assert watched.told() == []
        ragmonitor_langchain.uninstrument()
        assert watched.monitor.close()
        check([*map(told, watched.reports.interactions())], case)


# --- what is chosen, and who asked ---------------------------------------------------------------


def test_langchain_says_who_asked(langchain_watched: Watched) -> None:
    """Session, user and tags stand in the config of the call."""
    case = LANGCHAIN["LCEL"]
    config: Any = {"metadata": {"session_id": "s-1", "user_id": "u-1"}, "tags": ["beta"]}
    langchain.lcel().invoke(case["question"], config)
    check(langchain_watched.told(), case | {"session": "s-1", "user": "u-1", "tags": ["beta"]})


def test_llama_index_says_who_asked(llama_index_watched: Watched) -> None:
    """Session, user and tags stand in the tags of the instrumentation."""
    from llama_index_instrumentation.dispatcher import instrument_tags

    case = LLAMA_INDEX["RetrieverQueryEngine"]
    with instrument_tags({"session_id": "s-1", "user_id": "u-1", "tags": ["beta"]}):
        llama_index.engine().query(case["question"])
    check(llama_index_watched.told(), case | {"session": "s-1", "user": "u-1", "tags": ["beta"]})


def test_a_tag_chooses_the_run_that_counts(langchain_watched: Watched) -> None:
    """`ragmonitor:interaction` on a chain makes of a job with several questions several records."""
    from langchain_core.runnables import RunnableLambda

    chain = langchain.lcel().with_config(tags=["ragmonitor:interaction"])
    job = RunnableLambda(lambda questions: [chain.invoke(each) for each in questions])
    job.invoke([langchain.question(thing) for thing in THINGS])
    asked = [record["question"] for record in langchain_watched.told()]
    assert asked == sorted(langchain.question(thing) for thing in THINGS)


def test_a_chain_that_retrieves_nothing_is_no_interaction(langchain_watched: Watched) -> None:
    """A model call alone is not recorded."""
    langchain.Model().invoke("How often is the pump serviced?")
    assert langchain_watched.told() == []
