"""Streams that an application consumes, listened to without being touched.

LlamaIndex's query span exits before a token exists, and its model's span opens only while the
stream is consumed, without a parent. So the stream itself is wrapped: what the application reads
passes through unchanged, and its end is the interaction's end.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol, Self

from ragmonitor import record_error


class Listener(Protocol):
    """An interaction whose answer is still being read. Its method does not raise."""

    def finish(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        """Note that nothing more comes; only the first call counts."""
        ...


pulling: ContextVar[Listener | None] = ContextVar("ragmonitor_llama_index_pulling", default=None)
"""The interaction whose stream is being advanced right now, in this thread or task.

Set and put back within one call of the application's, and only read by spans without a parent.
"""


class _Heard:
    """What both kinds of stream share. Looks like the stream it wraps."""

    __slots__ = ("__weakref__", "_inner", "_listener", "_take")

    def __init__(self, inner: Any, listener: Listener, take: Callable[[Any], None]) -> None:
        self._inner = inner
        self._listener: Listener | None = listener
        self._take = take

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_inner"), name)

    def __del__(self) -> None:
        # Dropped before its end, or never read at all: what was heard is all there will be.
        try:
            self._end(whole=False)
        except Exception as error:  # noqa: BLE001 - at interpreter exit anything may be gone
            record_error("capture", error)

    def _end(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        listener = self._listener
        if listener is not None:
            self._listener = None
            listener.finish(failure, whole=whole)


class HeardStream(_Heard):
    """A generator of an answer's pieces."""

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        # `_pulled`, written out: this runs for every token.
        listener = self._listener
        if listener is None:
            return next(self._inner)
        before = pulling.get()
        pulling.set(listener)
        try:
            item = next(self._inner)
        except StopIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            pulling.set(before)
        self._take(item)
        return item

    def send(self, value: Any) -> Any:
        """Pass a value into the generator."""
        return self._pulled(self._inner.send, value)

    def throw(self, *raised: Any) -> Any:
        """Raise inside the generator."""
        return self._pulled(self._inner.throw, *raised)

    def close(self) -> None:
        """Close the generator."""
        try:
            self._inner.close()
        finally:
            self._end(whole=False)

    def _pulled(self, advance: Callable[..., Any], *given: Any) -> Any:
        listener = self._listener
        if listener is None:
            return advance(*given)
        before = pulling.get()
        pulling.set(listener)
        try:
            item = advance(*given)
        except StopIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            pulling.set(before)
        self._take(item)
        return item


class HeardAsyncStream(_Heard):
    """An asynchronous generator of an answer's pieces."""

    __slots__ = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        # `_pulled`, written out: this runs for every token.
        listener = self._listener
        if listener is None:
            return await anext(self._inner)
        before = pulling.get()
        pulling.set(listener)
        try:
            item = await anext(self._inner)
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            pulling.set(before)
        self._take(item)
        return item

    async def asend(self, value: Any) -> Any:
        """Pass a value into the generator."""
        return await self._pulled(self._inner.asend, value)

    async def athrow(self, *raised: Any) -> Any:
        """Raise inside the generator."""
        return await self._pulled(self._inner.athrow, *raised)

    async def aclose(self) -> None:
        """Close the generator."""
        try:
            await self._inner.aclose()
        finally:
            self._end(whole=False)

    async def _pulled(self, advance: Callable[..., Any], *given: Any) -> Any:
        listener = self._listener
        if listener is None:
            return await advance(*given)
        before = pulling.get()
        pulling.set(listener)
        try:
            item = await advance(*given)
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            pulling.set(before)
        self._take(item)
        return item


def heard(stream: Any, listener: Listener, take: Callable[[Any], None]) -> Any | None:
    """Return the stream, listened to; None if it is no stream that can be read once only.

    `take` is called with each item, and must not raise.
    """
    if hasattr(stream, "__anext__"):
        return HeardAsyncStream(stream, listener, take)
    if hasattr(stream, "__next__"):
        return HeardStream(stream, listener, take)
    return None
