"""Observes the streams that an application consumes, without changing them.

LlamaIndex's query span exits before a token exists, and its model's span opens only while the
stream is consumed, without a parent. So the stream itself is wrapped: its items pass through
unchanged, and its end is the interaction's end.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import chain
from typing import Any, Protocol, Self, cast

from ragmonitor import record_error


class Listener(Protocol):
    """An interaction whose answer is still being read. Its method does not raise."""

    streams: dict[str, Any]
    """Streams of its models that have begun and, as far as is known, not ended."""

    def note_first(self) -> None:
        """Note that the stream's first text has just come."""
        ...

    def finish(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        """Note that nothing more comes; only the first call counts."""
        ...


_pulling: ContextVar[Listener | None] = ContextVar("ragmonitor_llama_index_pulling", default=None)
"""The interaction whose stream is being advanced right now, in this thread or task.

Set and put back within one call of the application's, and only read by spans without a parent.
Threads and tasks that are started inside the call inherit it. Setting it costs more than all else
that is done for a token, so it is set only until a model's stream has begun; see `pulled`.
"""
_unmarked: set[int] = set()
"""Ids of the streams that are read without setting it."""


def pulled() -> Listener | None:
    """Return the interaction whose stream is being advanced right now, here or by who began us.

    A second model may begin while a stream is read that is no longer marked: its reader is on the
    stack then. Walking the stack costs as much as some tens of tokens, and is as rare as that.
    """
    listener = _pulling.get()
    if listener is None and _unmarked:
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_code in _READERS:
                named = frame.f_locals
                listener = named.get("listener") or named["self"].listener
                break
            frame = frame.f_back
    return listener


class _Observed:
    """Both kinds of stream share this. It looks like the stream that it wraps."""

    __slots__ = ()  # of its own; a `chain` takes them from its own class only

    _inner: Any
    listener: Listener | None

    @property  # type: ignore[misc]  # an ordinary object's may be set
    def __class__(self) -> type[Any]:
        # For `isinstance`, and for traces that quote what was returned.
        return cast("type[Any]", self._inner.__class__)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_inner"), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Fails as the stream itself does, before there is a second of us that has no stream.
        return self._inner.__reduce_ex__(protocol)

    def __del__(self) -> None:
        # Dropped before its end, or never read at all.
        try:
            self._end(whole=False)
        except Exception as error:  # noqa: BLE001 - at interpreter exit anything may be gone
            record_error("capture", error)

    def _end(self, failure: BaseException | None = None, *, whole: bool = True) -> None:
        listener = self.listener
        if listener is not None:
            self.listener = None  # type: ignore[misc]  # a slot of each subclass
            _unmarked.discard(id(self._inner))
            listener.finish(failure, whole=whole)


def _read(inner: Any, listener: Listener, take: Callable[[Any], None]) -> Iterator[Any]:
    """Yield the stream's items; take each, and note its end.

    It holds no reference to the `ObservedStream` that it serves: that must end when it is dropped.
    Nobody reads what it takes after the interaction's end.
    """
    has_text = False
    try:
        while not (listener.streams and has_text):
            before = _pulling.get()
            _pulling.set(listener)
            try:
                item = next(inner)
            except StopIteration:
                listener.finish()
                return
            finally:
                _pulling.set(before)
            has_text = has_text or _begins(listener, item)
            take(item)
            yield item
        _unmarked.add(id(inner))
        for item in inner:
            take(item)
            yield item
        listener.finish()
    except GeneratorExit:
        raise  # dropped; `ObservedStream` notes it
    except BaseException as error:
        listener.finish(error)
        raise
    finally:
        _unmarked.discard(id(inner))


def _begins(listener: Listener, item: Any) -> bool:
    """Return whether the stream has come to its text, and note when it did."""
    if not item:
        return False
    if type(item) is str:  # of another kind of stream whoever takes it notes this
        listener.note_first()
    return True


class ObservedStream(_Observed, chain[Any]):
    """A generator of an answer's pieces.

    A `chain` of one, because `__next__` is then C: as Python it costs more than all that is done
    for a token.
    """

    __slots__ = ("__weakref__", "_inner", "_take", "listener")

    def __new__(cls, inner: Any, listener: Listener, take: Callable[[Any], None]) -> Self:
        """Return the stream, not begun."""
        return super().__new__(cls, _read(inner, listener, take))

    def __init__(self, inner: Any, listener: Listener, take: Callable[[Any], None]) -> None:
        self._inner = inner
        self._take = take
        self.listener = listener

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
        listener = self.listener
        if listener is None:
            return advance(*given)
        before = _pulling.get()
        _pulling.set(listener)
        try:
            item = advance(*given)
        except StopIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            _pulling.set(before)
        self._take(item)
        return item


class ObservedAsyncStream(_Observed):
    """An asynchronous generator of an answer's pieces."""

    __slots__ = ("__weakref__", "_advance", "_inner", "_take", "listener")

    def __init__(self, inner: Any, listener: Listener, take: Callable[[Any], None]) -> None:
        self._inner = inner
        self._take = take
        self.listener = listener
        self._advance: Callable[[], Any] | None = None
        """The stream's own, once it is read without marking the interaction."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        # This runs for every token, and so does nothing that can be done once.
        advance = self._advance
        if advance is None or self.listener is None:
            return await self._pulled(self._inner.__anext__)
        try:
            item = await advance()
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
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
        listener = self.listener
        if listener is None:
            return await advance(*given)
        before = _pulling.get()
        _pulling.set(listener)
        try:
            item = await advance(*given)
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._end(error)
            raise
        finally:
            _pulling.set(before)
        has_text = _begins(listener, item)
        self._take(item)
        if listener.streams and has_text:
            _unmarked.add(id(self._inner))
            self._advance = self._inner.__anext__
        return item


_READERS = frozenset(
    reader.__code__
    for reader in (
        _read,
        ObservedStream._pulled,  # noqa: SLF001 - ours
        ObservedAsyncStream.__anext__,
        ObservedAsyncStream._pulled,  # noqa: SLF001 - ours
    )
)


def observe(stream: Any, listener: Listener, take: Callable[[Any], None]) -> Any | None:
    """Return the stream, observed; None if it is no stream that can be read once only.

    `take` is called with each item, and must not raise.
    """
    # OpenInference's proxy has the methods of both kinds and the class of what it stands for.
    kind = stream.__class__
    wrapped: _Observed
    if hasattr(kind, "__anext__"):
        wrapped = ObservedAsyncStream(stream, listener, take)
    elif hasattr(kind, "__next__"):
        wrapped = ObservedStream(stream, listener, take)
    else:
        return None
    if type(stream) is not kind:
        # And it advances the stream in a Context of its own, where no mark of ours is seen.
        _unmarked.add(id(stream))
    return wrapped
