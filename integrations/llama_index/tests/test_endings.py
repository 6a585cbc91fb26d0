"""However a question ends, it is one interaction that says so, and the application sees no change.

Streams are what an application holds when its engine has long returned: read, read in part, read
twice, or never.
"""

from __future__ import annotations

import asyncio
import gc
import types
import typing
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from llama_index.core import MockEmbedding, VectorStoreIndex
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from workflows.errors import WorkflowCancelledByUser, WorkflowTimeoutError

from integrations.llama_index.tests.matrix import (
    Answering,
    Notes,
    Parts,
    answer,
    clerk,
    memory,
    pieces,
    question,
    read,
    text_tool,
)
from integrations.llama_index.tests.scripted import FakeMonitor
from ragmonitor import Cause, ExportSettings, Monitor, Unscored
from ragmonitor.testing import ListExporter
from ragmonitor_llama_index import LlamaIndexTranslator, instrument, uninstrument
from ragmonitor_llama_index.handler import EventListener

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)

LOAD = "7"
QUESTION, ANSWER, PIECES = question(LOAD), answer(LOAD), pieces(LOAD)
FAILURE = ConnectionError("gone")


def ids(chunks: Any) -> list[str]:
    return [chunk.id for chunk in chunks]


ALL = [f"{LOAD}-{n}" for n in range(3)]

# --- streams, and what may become of them --------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """What an application does with a stream, and what is then known."""

    name: str
    do: Callable[[Parts], Any]
    status: str
    answer: str

    def __str__(self) -> str:
        return self.name


def _stream(parts: Parts) -> Any:
    return parts.engine().query(QUESTION)


async def _astream(parts: Parts) -> Any:
    return await parts.engine().aquery(QUESTION)


def _read_whole(parts: Parts) -> None:
    assert [*_stream(parts).response_gen] == [*PIECES]


def _printed(parts: Parts) -> None:
    with redirect_stdout(StringIO()) as printed:
        _stream(parts).print_response_stream()
    assert printed.getvalue() == ANSWER


def _read_twice(parts: Parts) -> None:
    response = _stream(parts)
    for _ in range(2):
        assert str(response) == ANSWER
    assert list(response.response_gen) == []


def _made_whole(parts: Parts) -> None:
    response = _stream(parts)
    assert response.get_response().response == ANSWER
    assert len(response.source_nodes) == 3


def _closed(parts: Parts) -> None:
    stream = _stream(parts).response_gen
    assert next(stream) == PIECES[0]
    stream.close()
    assert list(stream) == []


def _broken_off(parts: Parts) -> None:
    for piece in _stream(parts).response_gen:
        assert piece == PIECES[0]
        break
    gc.collect()


def _never_read(parts: Parts) -> None:
    _stream(parts)
    gc.collect()


def _thrown_into(parts: Parts) -> None:
    stream = _stream(parts).response_gen
    assert next(stream) == PIECES[0]
    with pytest.raises(ConnectionError) as caught:
        stream.throw(FAILURE)
    assert caught.value is FAILURE


async def _amade_whole(parts: Parts) -> None:
    response = await _astream(parts)
    assert (await response.get_response()).response == ANSWER
    assert [piece async for piece in response.response_gen] == []


async def _aclosed(parts: Parts) -> None:
    stream = (await _astream(parts)).response_gen
    assert await anext(stream) == PIECES[0]
    await stream.aclose()
    assert [piece async for piece in stream] == []


async def _abroken_off(parts: Parts) -> None:
    async for piece in (await _astream(parts)).async_response_gen():
        assert piece == PIECES[0]
        break
    await _collected()


async def _anever_read(parts: Parts) -> None:
    await _astream(parts)
    await _collected()


async def _collected() -> None:
    gc.collect()
    for _ in range(5):  # the event loop closes what was collected
        await asyncio.sleep(0)


class Hang:
    """What a model waits for that never replies."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


async def _acancelled(parts: Parts) -> None:
    hang = Hang()
    response = await _astream(replace(parts, failing={"hangs": hang}))
    task = asyncio.create_task(read(response))
    await hang.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def _chat(parts: Parts) -> Any:
    from llama_index.core.chat_engine import ContextChatEngine

    return ContextChatEngine.from_defaults(
        retriever=parts.retriever, llm=parts.chat_model, memory=memory()
    )


def _chat_never_read(parts: Parts) -> None:
    _chat(parts).stream_chat(QUESTION).write_response_to_history_thread.join()


async def _chat_anever_read(parts: Parts) -> None:
    response = await _chat(parts).astream_chat(QUESTION)
    await response.awrite_response_to_history_task


def _block_closed(parts: Parts) -> None:
    with parts.monitor.interaction(query=QUESTION):
        parts.retriever.retrieve(QUESTION)
        stream = parts.model.stream_complete(QUESTION)
    assert next(stream).delta == PIECES[0]
    stream.close()


async def _block_abroken_off(parts: Parts) -> None:
    async with parts.monitor.interaction(query=QUESTION):
        await parts.retriever.aretrieve(QUESTION)
        stream = await parts.async_model.astream_complete(QUESTION)
        async for reply in stream:
            assert reply.delta == PIECES[0]
            break
        await stream.aclose()


ENDINGS: tuple[Ending, ...] = (
    Ending("print_response_stream", _printed, "ok", ANSWER),
    Ending("str, twice", _read_twice, "ok", ANSWER),
    Ending("get_response", _made_whole, "ok", ANSWER),
    Ending("broken off and collected", _broken_off, "partial", PIECES[0]),
    Ending("never read", _never_read, "partial", ""),
    Ending("an exception thrown into it", _thrown_into, "error", PIECES[0]),
    Ending("async: get_response", _amade_whole, "ok", ANSWER),
    Ending("async: aclose", _aclosed, "partial", PIECES[0]),
    Ending("async: broken off and collected", _abroken_off, "partial", PIECES[0]),
    Ending("async: never read", _anever_read, "partial", ""),
    Ending("async: cancelled while reading", _acancelled, "cancelled", PIECES[0]),
    # LlamaIndex drains a streamed chat into its history, whether or not anyone reads.
    Ending("chat: never read", _chat_never_read, "ok", ANSWER),
    Ending("async chat: never read", _chat_anever_read, "ok", ANSWER),
    Ending("by hand: closed after the block", _block_closed, "partial", ""),
    Ending("by hand, async: broken off in the block", _block_abroken_off, "partial", ""),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
async def test_the_end_of_a_stream_is_the_interactions(
    monitor: FakeMonitor, ending: Ending
) -> None:
    """Status and answer are what the user saw; chunks are known; nothing is left open."""
    done = ending.do(Parts(monitor=monitor, streaming=True))
    if isinstance(done, Awaitable):
        await done
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == (ending.status, ending.answer)
    assert interaction.query == QUESTION
    assert ids(interaction.chunks) == ALL
    assert interaction.not_shown == ()


def test_a_stream_never_read_but_held_is_given_up_by_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ages out as partial, with its chunks and no answer; the application may still read it."""
    monkeypatch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 0)
    monitor = FakeMonitor()
    recorder = monitor.recorder(LlamaIndexTranslator())
    instrument(monitor)  # type: ignore[arg-type]
    response = _stream(Parts(monitor=monitor, streaming=True))
    recorder.sweep()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", "")
    assert ids(interaction.chunks) == ALL
    assert str(response) == ANSWER
    assert monitor.only() is interaction
    uninstrument()


def test_a_models_stream_never_read_in_a_block_is_given_up_by_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The block waits for it no longer than for any other run."""
    monkeypatch.setattr("ragmonitor.capture.recorder.OPEN_RUN_AGE_S", 0)
    monitor = FakeMonitor()
    recorder = monitor.recorder(LlamaIndexTranslator())
    instrument(monitor)  # type: ignore[arg-type]
    parts = Parts(monitor=monitor)
    with monitor.interaction(query=QUESTION):
        parts.retriever.retrieve(QUESTION)
        parts.model.stream_complete(QUESTION)
    assert monitor.interactions == []
    recorder.sweep()
    assert monitor.only().status == "partial"
    uninstrument()


def test_a_stream_is_still_a_generator(monitor: FakeMonitor) -> None:
    """LlamaIndex and applications may ask whether it is one; its repr names no one else."""
    stream = _stream(Parts(monitor=monitor, streaming=True)).response_gen
    assert isinstance(stream, typing.Generator)
    assert "ragmonitor" not in repr(stream)
    assert isinstance(stream.gi_frame, types.FrameType)
    assert next(stream) == PIECES[0]
    assert stream.send(None) == PIECES[1]
    with pytest.raises(KeyError):
        stream.throw(KeyError("mine"))


def test_events_are_listened_to_from_the_first_stream_on(monitor: FakeMonitor) -> None:
    """An application without streams does not pay for LlamaIndex's every event."""

    def listens() -> int:
        handlers = get_dispatcher().event_handlers
        return sum(isinstance(handler, EventListener) for handler in handlers)

    Parts(monitor=monitor).engine().query(QUESTION)
    assert listens() == 0
    for _ in range(2):
        _read_whole(Parts(monitor=monitor, streaming=True))
        assert listens() == 1


# --- failures in every stage ---------------------------------------------------------------------


class Breaks(BaseNodePostprocessor):
    """Fails."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        raise FAILURE


class BrokenEmbedding(MockEmbedding):
    """Fails on a question."""

    def _get_query_embedding(self, query: str) -> list[float]:
        raise FAILURE

    async def _aget_query_embedding(self, query: str) -> list[float]:
        raise FAILURE


def _embedding() -> BaseRetriever:
    nodes = [TextNode(text="It weighs 40 kg.")]
    index = VectorStoreIndex(nodes, embed_model=BrokenEmbedding(embed_dim=2))
    return index.as_retriever()


class BrokenSynthesizer(CompactAndRefine):
    """Fails before it asks its model."""

    def get_response(self, *_: Any, **__: Any) -> Any:
        raise FAILURE

    async def aget_response(self, *_: Any, **__: Any) -> Any:
        raise FAILURE


STAGES: dict[str, Callable[[Parts], dict[str, Any]]] = {
    "retriever": lambda _: {"retriever": Notes(failure=FAILURE)},
    "embedding": lambda _: {"retriever": _embedding()},
    "postprocessor": lambda _: {"more": {"node_postprocessors": [Breaks()]}},
    "model": lambda _: {"failing": {"fails_after": 0, "failure": FAILURE}},
    "model in mid-stream": lambda _: {"failing": {"fails_after": 1, "failure": FAILURE}},
    "synthesizer": lambda p: {
        "more": {"response_synthesizer": BrokenSynthesizer(llm=p.model)},
    },
}


@pytest.mark.parametrize("stage", ["retriever", "model"])
async def test_a_workflow_whose_parts_fail_is_recorded(monitor: FakeMonitor, stage: str) -> None:
    """Status error, and the very exception."""
    parts = Parts(monitor=monitor, **STAGES[stage](Parts(monitor=monitor)))
    with pytest.raises(ConnectionError) as caught:
        await Answering(parts).run(query=QUESTION)
    assert caught.value is FAILURE
    interaction = monitor.only()
    assert (interaction.status, interaction.error) == ("error", "ConnectionError: gone")
    assert interaction.query == QUESTION


@pytest.mark.parametrize("kind", ["text", "query engine"])
async def test_a_search_that_fails_in_a_tool_is_known(monitor: FakeMonitor, kind: str) -> None:
    """The agent answers without; the retrieval's error stands in the interaction."""
    parts = Parts(monitor=monitor, retriever=Notes(failure=FAILURE))
    tool = text_tool(FAILURE) if kind == "text" else parts.tool()
    await clerk(parts, tool).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("ok", ANSWER)
    assert interaction.chunks == ()
    assert [r.error for r in interaction.retrievals] == ["ConnectionError: gone"]


# --- timeouts and cancellation -------------------------------------------------------------------


def _hanging(monitor: FakeMonitor) -> Parts:
    return Parts(monitor=monitor, failing={"hangs": Hang()})


async def test_a_workflow_out_of_time_is_an_error(monitor: FakeMonitor) -> None:
    """Of the framework's own name."""
    with pytest.raises(WorkflowTimeoutError):
        await Answering(_hanging(monitor), timeout=1.0).run(query=QUESTION)
    interaction = monitor.only()
    assert interaction.status == "error"
    assert interaction.error.startswith("WorkflowTimeoutError: ")
    assert (interaction.query, interaction.answer) == (QUESTION, "")
    assert ids(interaction.chunks) == ALL[:2]


@pytest.mark.parametrize("how", ["cancel_run", "cancel"])
@pytest.mark.filterwarnings("ignore:WorkflowHandler.cancel:DeprecationWarning")
async def test_a_cancelled_workflow_is_cancelled(monitor: FakeMonitor, how: str) -> None:
    """By its user, in either of LlamaIndex's ways."""
    parts = _hanging(monitor)
    run: Any = Answering(parts, timeout=None).run(query=QUESTION)
    await parts.failing["hangs"].reached.wait()
    if how == "cancel_run":
        await run.cancel_run()
    else:
        run.cancel()
    with pytest.raises((WorkflowCancelledByUser, asyncio.CancelledError)):
        await run
    (interaction,) = monitor.interactions  # its hanging step has not ended
    assert interaction.status == "cancelled"


class Naming(Workflow):
    """Answers, and has the conversation named in the background."""

    def __init__(self, parts: Parts, naming: Parts) -> None:
        super().__init__(timeout=10)
        self._parts, self._naming = parts, naming

    @step
    async def reply(self, ev: StartEvent) -> StopEvent:
        await self._parts.retriever.aretrieve(ev.query)
        reply = await self._parts.async_model.acomplete(ev.query)
        self.naming = asyncio.create_task(self._naming.async_model.acomplete(ev.query))
        await self._naming.failing["hangs"].reached.wait()
        return StopEvent(result=str(reply))


async def test_a_model_that_has_not_ended_does_not_cut_a_workflow_s_answer_short(
    monitor: FakeMonitor,
) -> None:
    """The user has the whole answer of the model that ended."""
    workflow = Naming(Parts(monitor=monitor), _hanging(monitor))
    await workflow.run(query=QUESTION)
    workflow.naming.cancel()
    (interaction,) = monitor.interactions
    assert (interaction.status, interaction.answer) == ("ok", ANSWER)


# --- workflows that stream -----------------------------------------------------------------------


def _own(replies: Any) -> Any:
    async def texts() -> Any:
        async for each in replies:
            yield each.delta

    return texts()


STREAMS: dict[str, Callable[[Any], Any]] = {
    "replies": lambda replies: replies,
    "own texts": _own,
    "in a dict": lambda replies: {"response": replies, "sources": []},
}


class Streaming(Workflow):
    """Returns its model's stream, or reads it in its step."""

    def __init__(self, parts: Parts, given: Callable[[Any], Any] | None) -> None:
        super().__init__(timeout=10)
        self._parts, self._given = parts, given

    @step
    async def reply(self, ev: StartEvent) -> StopEvent:
        await self._parts.retriever.aretrieve(ev.query)
        replies = await self._parts.async_model.astream_complete(ev.query)
        if self._given is not None:
            return StopEvent(result=self._given(replies))
        async for last in replies:
            text = last.text
        return StopEvent(result=text)


async def _streamed(monitor: FakeMonitor, given: Callable[[Any], Any], **failing: Any) -> Any:
    parts = Parts(monitor=monitor, failing=failing)
    result = await Streaming(parts, given).run(query=QUESTION)
    assert monitor.interactions == []
    return result["response"] if isinstance(result, dict) else result


def _stands(found: Any, status: str, text: str) -> None:
    assert (found.query, found.status, found.answer) == (QUESTION, status, text)
    assert (ids(found.chunks), len(found.generations)) == (ALL, 1)


@pytest.mark.parametrize("given", STREAMS.values(), ids=STREAMS)
async def test_a_stream_that_a_workflow_returns_is_its_answer(
    monitor: FakeMonitor, given: Callable[[Any], Any]
) -> None:
    """Read by the application after the workflow has ended, of whatever the stream is made."""
    stream = await _streamed(monitor, given)
    assert len([piece async for piece in stream]) == len(PIECES)
    _stands(monitor.only(), "ok", ANSWER)


@pytest.mark.parametrize("given", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("reads", [0, 1])
async def test_a_stream_of_a_workflow_that_is_not_read_is_partial(
    monitor: FakeMonitor, given: Callable[[Any], Any], reads: int
) -> None:
    """Dropped before its first piece, or closed after it."""
    stream = await _streamed(monitor, given)
    if reads:
        await anext(stream)
        await stream.aclose()
    del stream
    async with asyncio.timeout(10):
        while monitor.open_runs:  # the workflow's own tasks hold its result until they have ended
            gc.collect()
            await asyncio.sleep(0)
    _stands(monitor.only(), "partial", "")


async def test_a_stream_of_a_workflow_that_fails_is_an_error(monitor: FakeMonitor) -> None:
    """While the application reads it."""
    stream = await _streamed(monitor, _own, fails_after=1, failure=FAILURE)
    with pytest.raises(ConnectionError):
        [piece async for piece in stream]
    assert (monitor.only().status, monitor.only().error) == ("error", "ConnectionError: gone")


def test_no_ending_but_a_whole_answer_is_scored(quiet_monitor: FakeMonitor) -> None:
    """A partial answer and a failure have a cause instead of a score."""
    exporter = ListExporter()
    with Monitor(
        service="test", exporters=[exporter], server=False, export=ExportSettings(traces=False)
    ) as monitor:
        instrument(monitor)
        _closed(Parts(monitor=monitor, streaming=True))
        failing = Parts(monitor=monitor, retriever=Notes(failure=FAILURE))
        with pytest.raises(ConnectionError):
            failing.engine().query(QUESTION)
        monitor.flush()
        uninstrument()
    causes = {
        evaluation.cause if isinstance(evaluation, Unscored) else None
        for report in exporter.reports
        for evaluation in report.evaluations
    }
    assert causes == {Cause.PARTIAL, Cause.APPLICATION_ERROR}
