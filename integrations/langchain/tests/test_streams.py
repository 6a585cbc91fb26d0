"""Streams that are closed early, cancelled, or left alone."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from ragmonitor_langchain import RagMonitorHandler, instrument


async def _settled(monitor: Any) -> None:
    """LangChain ends an async stream's runs in tasks of its own; let them run."""
    for _ in range(200):
        if monitor.finished and not monitor.open_runs:
            return
        await asyncio.sleep(0)


def _first(app: Any, pieces: int) -> None:
    stream = app.chain.stream(app.given("a"))
    seen = 0
    for piece in stream:
        seen += bool(app.text(piece))
        if seen == pieces:
            break
    stream.close()


async def _afirst(app: Any, pieces: int) -> None:
    stream = app.chain.astream(app.given("a"))
    seen = 0
    async for piece in stream:
        seen += bool(app.text(piece))
        if seen == pieces:
            break
    await stream.aclose()


def test_a_stream_closed_early_is_partial(monitor: Any, build: Any) -> None:
    """Sync: LangChain calls it an ordinary end; the model that is still open tells."""
    instrument(monitor)
    _first(build(), 2)
    assert monitor.only.status == "partial"


def test_a_partial_answer_is_what_the_user_saw(monitor: Any, build: Any) -> None:
    """Sync: the last piece too, which LangChain loses, and not what is drained afterwards."""
    instrument(monitor)
    _first(build(), 2)
    assert monitor.only.answer == "The pump "


def test_a_stream_closed_at_once_is_partial(monitor: Any, build: Any) -> None:
    """Sync: after one piece LangChain reports no output at all."""
    instrument(monitor)
    _first(build(), 1)
    assert (monitor.only.status, monitor.only.answer) == ("partial", "The ")


def test_a_partial_record_has_query_and_chunks(monitor: Any, build: Any) -> None:
    """What was asked and found is known although the answer is not whole."""
    instrument(monitor)
    _first(build(), 2)
    assert (monitor.only.query, len(monitor.only.chunks)) == ("a", 3)


async def test_an_async_stream_closed_early_is_partial(monitor: Any, build: Any) -> None:
    """Async: the answer is what the model had said by then."""
    instrument(monitor)
    await _afirst(build(), 2)
    await _settled(monitor)
    assert (monitor.only.status, monitor.only.answer) == ("partial", "The pump ")


def test_a_stream_that_nobody_closed_is_partial(monitor: Any, build: Any) -> None:
    """Collected by the garbage collector, it is noted as partial."""
    instrument(monitor)
    app = build()
    stream = app.chain.stream(app.given("a"))
    next(piece for piece in stream if app.text(piece))
    del stream
    gc.collect()
    assert monitor.only.status == "partial"


async def test_a_cancelled_question_is_cancelled(monitor: Any, apps: Any) -> None:
    """A task that the application cancels is no error of its answers."""
    instrument(monitor)
    waiting = asyncio.Event()

    class Slow(apps.AnsweringModel):  # type: ignore[misc]
        async def _agenerate(self, *args: Any, **kwargs: Any) -> Any:
            waiting.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(apps.lcel(llm=Slow(respond=str)).chain.ainvoke("a"))
    await waiting.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await _settled(monitor)
    assert (monitor.only.status, monitor.only.error) == ("cancelled", "")
    # LangChain never ends the run of a chat model that is cancelled; the recorder's sweep does.
    assert monitor.open_runs == 1
    monitor.known.clear()


async def test_events_are_a_stream_too(monitor: Any, build: Any, apps: Any) -> None:
    """`astream_events` is recorded like any other call."""
    instrument(monitor)
    app = build()
    async for _ in app.chain.astream_events(app.given("a"), version="v2"):
        pass
    assert (monitor.only.query, monitor.only.answer) == ("a", apps.ANSWER)


def test_protocol_events_are_a_stream_too(monitor: Any, apps: Any) -> None:
    """A model that is read with `stream_events` (v3) tells its pieces in events."""
    instrument(monitor)
    pieces: list[str] = []
    handler = RagMonitorHandler(monitor)
    handler._piece = lambda _run, text: pieces.append(text)
    llm = apps.model()
    text = apps.lcel(llm=lambda prompt: str(llm.stream_events(prompt, version="v3").text))
    assert text.chain.invoke("a") == apps.ANSWER
    assert "".join(pieces) == monitor.only.answer == apps.ANSWER


def test_a_model_that_is_read_in_part_inside_a_chain_is_partial(monitor: Any, apps: Any) -> None:
    """A step that stops reading the model has cut the answer short."""
    instrument(monitor)
    llm = apps.model()

    def first_word(prompt: Any) -> str:
        stream = llm.stream(prompt)
        word = str(next(stream).text)
        stream.close()
        return word

    assert apps.lcel(llm=first_word).chain.invoke("a") == "The "
    assert (monitor.only.status, monitor.only.answer) == ("partial", "The ")
