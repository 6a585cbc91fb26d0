"""Observes the streams that an application consumes: generators around LlamaIndex's own.

LlamaIndex's query span exits before a token exists, and its model's span opens only while the
stream is consumed, without a parent. So the stream itself is wrapped: its items pass through
unchanged, and its end is the interaction's end.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from contextvars import ContextVar
from typing import Any, Protocol


class Listener(Protocol):
    """An interaction whose answer is still being read. Its methods do not raise."""

    dropped: weakref.ref[Any] | None
    """Tells that a stream was dropped, read or not."""

    def note_first(self) -> None:
        """Note that the stream's first text has just come."""
        ...

    def finish(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        """Note that nothing more comes; only the first call counts."""
        ...


pulled: ContextVar[Listener | None] = ContextVar("ragmonitor_llama_index_pulled", default=None)
"""The interaction whose stream is being advanced right now, in this thread or task.

Set and put back within one call of the application's, and only read by spans without a parent.
Threads and tasks that are started inside the call inherit it.
"""


def _read(
    inner: Any, listener: Listener, take: Callable[[Any], None]
) -> Generator[Any, None, None]:
    began = False
    try:
        while True:
            before = pulled.get()
            pulled.set(listener)
            try:
                item = next(inner)
            except StopIteration:
                break
            finally:
                pulled.set(before)
            if not began and item:
                began = True
                if type(item) is str:  # of another kind of stream whoever takes it notes this
                    listener.note_first()
            take(item)
            yield item
        listener.finish()
    except GeneratorExit:
        inner.close()
        listener.finish(whole=False)
        raise
    except BaseException as error:
        listener.finish(error)
        raise


async def _aread(
    inner: Any, listener: Listener, take: Callable[[Any], None]
) -> AsyncGenerator[Any, None]:
    began = False
    try:
        while True:
            before = pulled.get()
            pulled.set(listener)
            try:
                item = await anext(inner)
            except StopAsyncIteration:
                break
            finally:
                pulled.set(before)
            if not began and item:
                began = True
                if type(item) is str:
                    listener.note_first()
            take(item)
            yield item
        listener.finish()
    except GeneratorExit:
        listener.finish(whole=False)
        await inner.aclose()
        raise
    except BaseException as error:
        listener.finish(error)
        raise


def observe(stream: Any, listener: Listener, take: Callable[[Any], None]) -> Any | None:
    """Return the stream, observed; None if it is no stream that can be read once only.

    `take` is called with each item, and must not raise.
    """
    # OpenInference's proxy has the methods of both kinds and the class of what it stands for.
    kind = stream.__class__
    read: Any
    if hasattr(kind, "__anext__"):
        read = _aread(stream, listener, take)
    elif hasattr(kind, "__next__"):
        read = _read(stream, listener, take)
    else:
        return None
    # A generator that was never begun runs nothing when it is dropped.
    listener.dropped = weakref.ref(read, lambda _: listener.finish(whole=False))
    return read
