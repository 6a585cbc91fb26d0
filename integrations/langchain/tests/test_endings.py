"""How a question ends other than with its whole answer, and what is known of it then."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from integrations.langchain.tests import matrix
from integrations.langchain.tests.matrix import (
    Notes,
    ScriptedModel,
    agent,
    generating,
    lcel,
    line,
    messages,
    question,
    reply,
    retrieval_chain,
    retrieving,
    state,
    under,
)
from ragmonitor import ExportSettings, Monitor, Unscored
from ragmonitor.records import Status
from ragmonitor.testing import ListExporter
from ragmonitor_langchain import instrument, uninstrument

QUERY = question(7)
ANSWER = reply("07")
FIRST = "Pump 07 "
"""What two pieces of the answer say."""


class BrokenError(Exception):
    """The application's own."""


# --- applications that can be made to fail -------------------------------------------------------


class NotesThatFail(Notes):
    failure: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise self.failure

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise self.failure


class ModelThatStops(ScriptedModel):
    """Waits for ever, or fails: at once, or after two pieces."""

    failure: Any = None
    at_once: bool = False
    waiting: Any = None

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        raise self.failure

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        self.waiting.set()
        await asyncio.Event().wait()

    def _stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        for number, piece in enumerate(super()._stream(messages)):
            if self.at_once or number == 2:
                raise self.failure
            yield piece

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        for number, piece in enumerate(ScriptedModel._stream(self, messages)):
            if number == 2 and self.failure is None:
                self.waiting.set()
                await asyncio.Event().wait()
            if self.at_once or number == 2:
                raise self.failure
            yield piece


@dataclass(frozen=True, kw_only=True)
class App:
    """One shape, around these parts."""

    runnable: Any
    inputs: Any
    text: Callable[[Any], str]
    """Of one piece of its stream."""
    streams: dict[str, Any]

    def stream(self) -> Any:
        return self.runnable.stream(self.inputs, **self.streams)

    def astream(self) -> Any:
        return self.runnable.astream(self.inputs, **self.streams)


def _lcel(retriever: Any = None, model: Any = None) -> App:
    runnable = lcel(retriever=retriever, model=model)
    return App(runnable=runnable, inputs=QUERY, text=str, streams={})


def _retrieval_chain(retriever: Any = None, model: Any = None) -> App:
    return App(
        runnable=retrieval_chain(retriever=retriever, model=model),
        inputs={"input": QUERY},
        text=lambda piece: under("answer")([piece]),
        streams={},
    )


def _graph(retriever: Any = None, model: Any = None) -> App:
    generate = generating(model or ScriptedModel())

    async def agenerate(given: matrix.State) -> matrix.State:
        asked = model or ScriptedModel()
        prompt = f"{matrix.joined(given['context'])}\n{given['question']}"
        return {"answer": str((await asked.ainvoke(prompt)).text)}

    node = RunnableLambda(generate, agenerate)
    return App(
        runnable=line(("retrieve", retrieving(retriever)), ("generate", node)),
        inputs=state(QUERY),
        text=lambda piece: str(piece[0].text),
        streams={"stream_mode": "messages"},
    )


APPS = {"LCEL": _lcel, "create_retrieval_chain": _retrieval_chain, "StateGraph": _graph}


# --- endings -------------------------------------------------------------------------------------


Build = Callable[..., App]


async def _closed(build: Build) -> None:
    app, seen = build(), ""
    with closing(app.stream()) as stream:
        for piece in stream:
            seen += app.text(piece)
            if seen == FIRST:
                break


async def _collected(build: Build) -> None:
    app, seen = build(), ""
    stream = app.stream()
    for piece in stream:
        seen += app.text(piece)
        if seen == FIRST:
            break
    del stream
    gc.collect()


async def _acollected(build: Build) -> None:
    app, seen = build(), ""
    stream = app.astream()
    async for piece in stream:
        seen += app.text(piece)
        if seen == FIRST:
            break
    del stream
    gc.collect()


async def _cancelled(build: Build) -> None:
    waiting = asyncio.Event()
    app = build(model=ModelThatStops(waiting=waiting))
    task = asyncio.create_task(app.runnable.ainvoke(app.inputs))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def _cancelled_stream(build: Build) -> None:
    waiting = asyncio.Event()
    app = build(model=ModelThatStops(waiting=waiting))

    async def read() -> None:
        async for _ in app.astream():
            pass

    task = asyncio.create_task(read())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class _Deadline:
    """Comes when the model is waited for, however long it took to get there."""

    def __init__(self) -> None:
        self.limit = asyncio.timeout(None)

    def set(self) -> None:
        self.limit.reschedule(asyncio.get_running_loop().time())


async def _timed_out_stream(build: Build) -> None:
    deadline = _Deadline()
    app = build(model=ModelThatStops(waiting=deadline))
    with pytest.raises(TimeoutError):
        async with deadline.limit:
            await _astream(app)


async def _interrupted(build: Build) -> None:
    app = build(model=ModelThatStops(failure=KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        app.runnable.invoke(app.inputs)


Way = Callable[[App], Awaitable[Any]]


async def _invoke(app: App) -> None:
    app.runnable.invoke(app.inputs)


async def _ainvoke(app: App) -> None:
    await app.runnable.ainvoke(app.inputs)


async def _stream(app: App) -> None:
    for _ in app.stream():
        pass


async def _astream(app: App) -> None:
    async for _ in app.astream():
        pass


WAYS: dict[str, Way] = {
    "invoke": _invoke,
    "ainvoke": _ainvoke,
    "stream": _stream,
    "astream": _astream,
}


def _fails(way: Way, part: str, **how: Any) -> Callable[[Build], Awaitable[None]]:
    async def provoke(build: Build) -> None:
        failure = BrokenError("no disk")
        kind = NotesThatFail if part == "retriever" else ModelThatStops
        with pytest.raises(BrokenError) as raised:
            await way(build(**{part: kind(failure=failure, **how)}))
        assert raised.value is failure

    return provoke


@dataclass(frozen=True, kw_only=True)
class Ending:
    """One row: how a question ends, and what is captured of it."""

    name: str
    how: str
    """How it is provoked."""
    status: Status
    answer: str
    """What is known of it."""
    provoke: Callable[[Build], Awaitable[None]]
    chunks: bool = True
    """Whether anything had been retrieved."""
    error: str = ""


ENDINGS: tuple[Ending, ...] = (
    Ending(
        name="stream closed early",
        how="break, then close()",
        status="partial",
        answer=FIRST,
        provoke=_closed,
    ),
    Ending(
        name="stream that nobody closed",
        how="break, then garbage collection",
        status="partial",
        answer=FIRST,
        provoke=_collected,
    ),
    Ending(
        name="async stream that nobody closed",
        how="break, then garbage collection",
        status="partial",
        answer=FIRST,
        provoke=_acollected,
    ),
    Ending(
        name="cancelled call",
        how="Task.cancel() while the model works",
        status="cancelled",
        answer="",
        provoke=_cancelled,
    ),
    Ending(
        name="cancelled stream",
        how="Task.cancel() while the model writes",
        status="cancelled",
        answer=FIRST,
        provoke=_cancelled_stream,
    ),
    Ending(
        name="stream that takes too long",
        how="asyncio.timeout()",
        status="cancelled",
        answer=FIRST,
        provoke=_timed_out_stream,
    ),
    Ending(
        name="interrupted by the keyboard",
        how="KeyboardInterrupt in the model",
        status="cancelled",
        answer="",
        provoke=_interrupted,
    ),
    *(
        Ending(
            name=f"model fails, {name}",
            how="an exception of the application's own",
            status="error",
            answer="",
            error="BrokenError: no disk",
            provoke=_fails(way, "model", at_once=True),
        )
        for name, way in WAYS.items()
    ),
    *(
        Ending(
            name=f"model fails while it writes, {name}",
            how="an exception of the application's own",
            status="error",
            answer=FIRST,
            error="BrokenError: no disk",
            provoke=_fails(WAYS[name], "model"),
        )
        for name in ("stream", "astream")
    ),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
async def test_no_other_ending_is_scored(ending: Ending) -> None:
    """A part of an answer, or none: every score is a cause, and counted."""
    reports = ListExporter()
    with Monitor(
        service="test", server=False, export=ExportSettings(traces=False), exporters=[reports]
    ) as monitor:
        instrument(monitor)
        try:
            await ending.provoke(_lcel)
            for _ in range(50):
                await asyncio.sleep(0)
            assert monitor.flush(10)
        finally:
            uninstrument()
    (report,) = reports.reports
    causes = {"partial": {"partial"}, "cancelled": {"partial"}, "error": {"application_error"}}
    assert all(isinstance(evaluation, Unscored) for evaluation in report.evaluations)
    assert {str(e.cause) for e in report.evaluations} == causes[ending.status]


@pytest.mark.parametrize("build", APPS.values(), ids=APPS.keys())
def test_a_stream_that_is_held_open_ages_out(
    listening: Any, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is partial by then; what comes afterwards changes nothing."""
    monkeypatch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 0)
    with listening() as monitor:
        instrument(monitor)
        app = build()
        stream = app.stream()
        next(piece for piece in stream if app.text(piece))
        monitor.known.sweep()
        assert (monitor.only.status, monitor.only.query) == ("partial", QUERY)
        assert ANSWER.startswith(monitor.only.answer)
        assert "aged_out" in monitor.forgotten
        stream.close()
        assert len(monitor.finished) == 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_parser_that_fails_is_an_error(monitor: Any, way: str) -> None:
    """What the model had said is known; the user saw nothing of it."""
    instrument(monitor)
    failure = BrokenError("no JSON")

    def parse(_: AIMessage) -> str:
        raise failure

    with pytest.raises(BrokenError) as raised:
        await WAYS[way](App(runnable=lcel(parser=parse), inputs=QUERY, text=str, streams={}))
    assert raised.value is failure
    assert (monitor.only.status, monitor.only.error) == ("error", "BrokenError: no JSON")
    assert [g.output for g in monitor.only.generations] == [ANSWER]


@tool
def dial(query: str) -> str:
    """Call somebody."""
    raise BrokenError(query)


async def test_another_tool_that_fails_is_no_interaction(monitor: Any) -> None:
    """Nothing was to be retrieved."""
    instrument(monitor)
    with pytest.raises(BrokenError):
        await agent([], dial).ainvoke(messages(QUERY))
    assert monitor.interactions == []


async def test_a_model_that_is_given_up_for_another_one(monitor: Any) -> None:
    """The user has a whole answer; the model that took too long has no end, and ages out."""
    instrument(monitor)
    deadline = _Deadline()
    slow, quick = ModelThatStops(waiting=deadline), ScriptedModel()

    async def ask(prompt: Any) -> str:
        try:
            async with deadline.limit:
                return str((await slow.ainvoke(prompt)).text)
        except TimeoutError:
            return str((await quick.ainvoke(prompt)).text)

    def never(_: Any) -> str:
        raise AssertionError

    assert await lcel(model=RunnableLambda(never, ask)).ainvoke(QUERY) == ANSWER
    assert (monitor.only.status, monitor.only.answer) == ("ok", ANSWER)
    assert monitor.open_runs == 1
    monitor.known.clear()


async def _names_it_in_the_background(prompt: Any) -> str:
    answered = await ScriptedModel().ainvoke(prompt)
    has_begun = asyncio.Event()
    naming = asyncio.create_task(ModelThatStops(waiting=has_begun).ainvoke("A title for pump 07"))
    await has_begun.wait()
    naming.cancel()
    return str(answered.text)


async def _asks_two(prompt: Any) -> str:
    has_begun = asyncio.Event()
    models = ScriptedModel(), ModelThatStops(waiting=has_begun)
    asked = [asyncio.create_task(each.ainvoke(prompt)) for each in models]
    await has_begun.wait()
    (first,), (second,) = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    second.cancel()
    return str(first.result().text)


async def _reads_a_grader_in_part(prompt: Any) -> str:
    grader = ScriptedModel(respond=lambda _: "yes, they are about it")
    async with aclosing(grader.astream(prompt)) as grade:
        assert str((await anext(grade)).text) == "yes, "
    return str((await ScriptedModel().ainvoke(prompt)).text)


async def _gives_up_one_that_writes(prompt: Any) -> str:
    deadline = _Deadline()
    try:
        async with deadline.limit:
            return str((await ModelThatStops(waiting=deadline).ainvoke(prompt)).text)
    except TimeoutError:
        return str((await ScriptedModel().ainvoke(prompt)).text)


@pytest.mark.parametrize(
    "ask",
    [_names_it_in_the_background, _asks_two, _reads_a_grader_in_part, _gives_up_one_that_writes],
)
async def test_a_model_that_has_not_ended_does_not_cut_another_one_s_answer_short(
    monitor: Any, ask: Any
) -> None:
    """The user has the whole answer of a model that ended, whatever became of the others."""
    instrument(monitor)

    def never(_: Any) -> str:
        raise AssertionError

    async for _ in lcel(model=RunnableLambda(never, ask)).astream_events(QUERY, version="v2"):
        pass
    assert (monitor.only.status, monitor.only.answer) == ("ok", ANSWER)
    monitor.known.clear()


def test_a_cut_answer_is_partial_whatever_other_models_said(monitor: Any) -> None:
    """A model that rewrote the question has ended, and did not write the answer."""
    instrument(monitor)
    rewriting = ScriptedModel(respond=lambda _: "Pump 07: how often is it serviced?")

    def first_word(prompt: Any) -> str:
        asked = rewriting.invoke(prompt)
        with closing(ScriptedModel().stream(f"{prompt}\n{asked.text}")) as stream:
            return str(next(stream).text)

    assert lcel(model=first_word).invoke(QUERY) == "Pump "
    assert (monitor.only.status, monitor.only.answer) == ("partial", "Pump ")


def test_a_model_that_is_read_in_part_inside_a_chain_is_partial(monitor: Any) -> None:
    """A step that stops reading the model has cut the answer short."""
    instrument(monitor)

    def first_word(prompt: Any) -> str:
        with closing(ScriptedModel().stream(prompt)) as stream:
            return str(next(stream).text)

    assert lcel(model=first_word).invoke(QUERY) == "Pump "
    assert (monitor.only.status, monitor.only.answer) == ("partial", "Pump ")
