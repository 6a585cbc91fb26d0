"""Streams: what the user reads is untouched, and their end is the interaction's end."""

from __future__ import annotations

import asyncio
import gc
import types
import typing
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from integrations.llama_index.tests.scripted import ANSWER, PIECES, FakeMonitor, ScriptedLLM, chat_engine, query_engine

from ragmonitor import Usage
from ragmonitor_llama_index import uninstrument
from ragmonitor_llama_index.handler import EventListener
from ragmonitor_llama_index.streams import heard, pulled


def test_a_stream_closed_halfway_is_partial(monitor: FakeMonitor) -> None:
    """What was read until then is the answer."""
    stream = query_engine(streaming=True).query("How heavy?").response_gen
    next(stream)
    stream.close()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", PIECES[0])


def test_a_stream_dropped_halfway_is_partial(monitor: FakeMonitor) -> None:
    """Garbage collection ends it as `close` does."""
    response = query_engine(streaming=True).query("How heavy?")
    for _ in response.response_gen:
        break
    del response
    gc.collect()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", PIECES[0])


def test_a_stream_never_read_but_held_is_given_up_by_the_sweep(quiet_monitor: FakeMonitor) -> None:
    """It ages out as partial, with its chunks and no answer."""
    from ragmonitor_llama_index import LlamaIndexTranslator, instrument

    recorder = quiet_monitor.recorder(LlamaIndexTranslator(), open_run_age_s=0)
    instrument(quiet_monitor)
    response = query_engine(streaming=True).query("How heavy?")
    assert len(recorder) == 1
    recorder.sweep()
    interaction = quiet_monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", "")
    assert [c.id for c in interaction.chunks] == ["n0", "n1", "n2"]
    assert str(response) == ANSWER
    assert quiet_monitor.only() is interaction


def test_a_stream_never_read_and_dropped_is_partial(monitor: FakeMonitor) -> None:
    """The question was asked, and nobody read the answer."""
    query_engine(streaming=True).query("How heavy?")
    gc.collect()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", "")


async def test_an_async_stream_closed_halfway_is_partial(monitor: FakeMonitor) -> None:
    """What was read until then is the answer."""
    response = await query_engine(streaming=True).aquery("How heavy?")
    stream: Any = response.response_gen
    await anext(stream)
    await stream.aclose()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", PIECES[0])


async def test_an_async_stream_dropped_halfway_is_partial(monitor: FakeMonitor) -> None:
    """Garbage collection ends it as `aclose` does."""
    response: Any = await query_engine(streaming=True).aquery("How heavy?")
    async for _ in response.async_response_gen():
        break
    del response
    gc.collect()
    for _ in range(5):  # the event loop closes what was collected
        await asyncio.sleep(0)
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("partial", PIECES[0])


def test_a_stream_read_twice_behaves_as_the_original(monitor: FakeMonitor) -> None:
    """The second time it is exhausted; `str` keeps its text; one interaction."""
    response = query_engine(streaming=True).query("How heavy?")
    assert str(response) == ANSWER
    assert str(response) == ANSWER
    assert list(response.response_gen) == []
    assert monitor.only().answer == ANSWER


def test_a_stream_is_still_a_generator(monitor: FakeMonitor) -> None:
    """LlamaIndex and applications may ask whether it is one; its repr names no one else."""
    stream = query_engine(streaming=True).query("How heavy?").response_gen
    assert isinstance(stream, typing.Generator)
    assert "ragmonitor" not in repr(stream)
    assert isinstance(stream.gi_frame, types.FrameType)
    assert next(stream) == PIECES[0]
    assert stream.send(None) == PIECES[1]
    with pytest.raises(KeyError):
        stream.throw(KeyError("mine"))


async def test_an_async_stream_is_still_an_async_generator(monitor: FakeMonitor) -> None:
    """LlamaIndex and applications may ask whether it is one."""
    response: Any = await query_engine(streaming=True).aquery("How heavy?")
    stream = response.response_gen
    assert isinstance(stream, typing.AsyncGenerator)
    assert await stream.asend(None) == PIECES[0]
    with pytest.raises(KeyError):
        await stream.athrow(KeyError("mine"))


def test_a_failure_in_mid_stream_is_the_applications_own(monitor: FakeMonitor) -> None:
    """The very exception reaches the reader; the interaction has it and the text until then."""
    failure = ConnectionError("gone")
    llm = ScriptedLLM(fails_after=1, failure=failure)
    stream = query_engine(llm, streaming=True).query("How heavy?").response_gen
    assert next(stream) == PIECES[0]
    with pytest.raises(ConnectionError) as caught:
        next(stream)
    assert caught.value is failure
    interaction = monitor.only()
    assert (interaction.status, interaction.error) == ("error", "ConnectionError: gone")
    assert interaction.answer == PIECES[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failure_in_a_streamed_chat_is_the_applications_own(monitor: FakeMonitor) -> None:
    """It arises in the chat's writer thread, reaches the reader, and ends the interaction."""
    failure = ConnectionError("gone")
    chat = chat_engine("context", ScriptedLLM(fails_after=1, failure=failure))
    response = chat.stream_chat("How heavy?")
    thread = response.write_response_to_history_thread
    with pytest.raises(ConnectionError) as caught:
        list(response.response_gen)
    assert caught.value is failure
    thread.join()
    interaction = monitor.only()
    assert (interaction.status, interaction.error) == ("error", "ConnectionError: gone")
    assert interaction.answer == PIECES[0]


def test_a_streamed_chat_that_nobody_reads_is_whole(monitor: FakeMonitor) -> None:
    """Its writer drains the model into the history anyway, so the answer was given."""
    response = chat_engine("context").stream_chat("How heavy?")
    response.write_response_to_history_thread.join()
    interaction = monitor.only()
    assert (interaction.status, interaction.answer) == ("ok", ANSWER)


def test_a_stream_begun_before_uninstrument_is_recorded_to_its_end(monitor: FakeMonitor) -> None:
    """Usage included; then nothing of ours is left on the dispatcher (see the fixture)."""
    response = query_engine(streaming=True).query("How heavy?")
    uninstrument()
    query_engine().query("not recorded")
    assert str(response) == ANSWER
    assert monitor.only().usage == Usage(input_tokens=30, output_tokens=7)


class Reading:
    """A listener whose model has begun to speak."""

    def __init__(self) -> None:
        self.streams = {"model": object()}

    def finish(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        self.streams.clear()


def test_what_begins_while_a_stream_is_read_finds_its_interaction() -> None:
    """A second model too, at any token, the innermost stream first; and nothing in between."""

    def inner() -> typing.Iterator[Any]:
        for _ in range(3):
            yield pulled()

    def outer() -> typing.Iterator[Any]:
        yield pulled()
        for item in heard(inner(), innermost, [].append):
            yield pulled(), item

    outermost, innermost = Reading(), Reading()
    stream: Any = heard(outer(), outermost, [].append)
    assert next(stream) is outermost
    for _ in range(3):
        assert pulled() is None
        assert next(stream) == (outermost, innermost)
    assert list(stream) == []
    assert pulled() is None


async def test_the_same_of_an_asynchronous_stream() -> None:
    """At any token, and nothing in between."""

    async def inner() -> typing.AsyncIterator[Any]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield pulled()

    listener = Reading()
    stream: Any = heard(inner(), listener, [].append)
    for _ in range(3):
        assert await anext(stream) is listener
        assert pulled() is None
    assert [item async for item in stream] == []


def test_events_are_listened_to_from_the_first_stream_on(monitor: FakeMonitor) -> None:
    """An application without streams does not pay for LlamaIndex's every event."""

    def listens() -> int:
        handlers = get_dispatcher().event_handlers
        return sum(isinstance(handler, EventListener) for handler in handlers)

    query_engine().query("How heavy?")
    assert listens() == 0
    for _ in range(2):
        assert str(query_engine(streaming=True).query("How heavy?")) == ANSWER
        assert listens() == 1
