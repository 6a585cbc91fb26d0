"""Streams pass through to the application unchanged, and their pieces are noted on the way.

A generator stays a generator, a coroutine a coroutine, with `send`, `throw`, `close` and what they
return; nothing is read before the application reads it, and nothing that it does not read.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType
from typing import Any, Final

from ragmonitor.guard import record_error

MAX_PIECES: Final = 1_000_000
"""Pieces of one stream that are kept."""
MAX_CHARACTERS: Final = 16_000_000
"""Characters of one stream that are kept."""


class Listener:
    """Notes the pieces of a stream; this one notes nothing. Its methods do not raise."""

    def enter(self) -> None:
        """Note that the application's code is about to go on, in this thread or task."""

    def exit(self) -> None:
        """Note that the code has come to its next piece, or to its end."""

    def take(self, item: Any) -> None:
        """Note one piece."""

    def give(self, result: Any) -> Any:
        """Note a result that is there at once, and return it."""
        return result

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that nothing more comes; only the first call counts.

        Args:
            failure: What ended it; None: it was read to its end, or closed.
            whole: It was read to its end.
        """


class KeptPieces:
    """Keeps the first pieces of one stream, up to its bounds."""

    __slots__ = ("_characters", "_max_pieces", "complete", "pieces")

    def __init__(self, max_pieces: int) -> None:
        self._max_pieces = max_pieces
        self.pieces: list[Any] = []
        self.complete = True
        self._characters = MAX_CHARACTERS

    def add(self, piece: Any, characters: int = 0) -> None:
        """Keep one more, as long as there is room."""
        self._characters -= characters
        if self._characters < 0 or len(self.pieces) >= self._max_pieces:
            self.complete = False
        else:
            self.pieces.append(piece)


class _Step:
    """One step of the application's code between two pieces: entered, left, and its failure noted.

    An end of the kind `exhausted` is the stream's own, and no failure.
    """

    __slots__ = ("_exhausted", "_listener")

    def __init__(self, listener: Listener, exhausted: type[BaseException] | tuple[()] = ()) -> None:
        self._listener = listener
        self._exhausted = exhausted

    def __enter__(self) -> None:
        self._listener.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, self._exhausted):
                self._listener.end(whole=True)
            elif error is not None:
                self._listener.end(error)
        finally:
            self._listener.exit()


class ObservedIterator(Iterator[Any]):
    """An iterator on its way to the application."""

    def __init__(self, inner: Any, listener: Listener) -> None:
        self._inner = inner
        self._listener = listener

    def __next__(self) -> Any:
        return self._advanced(self._inner.__next__)

    def send(self, value: Any) -> Any:
        """Pass a value into the generator."""
        return self._advanced(self._inner.send, value)

    def throw(self, *raised: Any) -> Any:
        """Raise within the generator."""
        return self._advanced(self._inner.throw, *raised)

    def close(self) -> None:
        """Close it: the application saw what was read by now."""
        close = getattr(self._inner, "close", None)
        try:
            if close is not None:
                with _Step(self._listener):
                    close()
        finally:
            self._listener.end()

    def _advanced(self, advance: Callable[..., Any], *values: Any) -> Any:
        with _Step(self._listener, StopIteration):
            item = advance(*values)
        self._listener.take(item)
        return item

    def __del__(self) -> None:
        _end(self._listener)


class ObservedAsyncIterator(AsyncIterator[Any]):
    """An asynchronous iterator on its way to the application; as `ObservedIterator`."""

    def __init__(self, inner: Any, listener: Listener) -> None:
        self._inner = inner
        self._listener = listener

    async def __anext__(self) -> Any:
        return await self._advanced(self._inner.__anext__)

    async def asend(self, value: Any) -> Any:
        """Pass a value into the generator."""
        return await self._advanced(self._inner.asend, value)

    async def athrow(self, *raised: Any) -> Any:
        """Raise within the generator."""
        return await self._advanced(self._inner.athrow, *raised)

    async def aclose(self) -> None:
        """Close it: the application saw what was read by now."""
        close = getattr(self._inner, "aclose", None)
        try:
            if close is not None:
                with _Step(self._listener):
                    await close()
        finally:
            self._listener.end()

    async def _advanced(self, advance: Callable[..., Any], *values: Any) -> Any:
        with _Step(self._listener, StopAsyncIteration):
            item = await advance(*values)
        self._listener.take(item)
        return item

    def __del__(self) -> None:
        _end(self._listener)


def _end(listener: Listener) -> None:
    # Dropped before its end, or never read at all. At interpreter exit anything may be gone.
    try:
        listener.end()
    except Exception as error:  # noqa: BLE001 - nobody could catch it here
        record_error("capture", error)


Begin = Callable[[tuple[Any, ...], Mapping[str, Any]], "Listener | None"]
"""From a call's arguments to its listener; None: it has none. Does not raise."""


def listened(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """Return the function, each call of which is listened to; of the same kind as the function.

    What the function does, returns and raises stays as it is.
    """
    # Of an object that is called, its class says what the call is.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method is what is wanted

    def plain(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs)
        if listener is None:
            return function(*args, **kwargs)
        with _Step(listener):
            result = function(*args, **kwargs)
        return observed(result, listener)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs)
        if listener is None:
            return await function(*args, **kwargs)
        return await _awaited(function(*args, **kwargs), listener)

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        listener = begin(args, kwargs) or Listener()
        return (yield from ObservedIterator(function(*args, **kwargs), listener))

    wrapped: Callable[..., Any] = plain
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        wrapped = _asynchronous_generator(function, begin)
    elif inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(call):
        wrapped = generator
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        wrapped = coroutine
    return functools.wraps(function)(wrapped)


def _asynchronous_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def pieces(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        listener = begin(args, kwargs) or Listener()
        stream = ObservedAsyncIterator(function(*args, **kwargs), listener)
        advance: Callable[[Any], Any] = stream.asend
        value: Any = None
        while True:
            try:
                item = await advance(value)
            except StopAsyncIteration:
                return
            try:
                value = yield item
                advance = stream.asend
            except GeneratorExit:
                await stream.aclose()
                raise
            except BaseException as error:  # noqa: BLE001 - goes into the inner generator
                value, advance = error, stream.athrow

    return pieces


async def _awaited(coming: Awaitable[Any], listener: Listener) -> Any:
    with _Step(listener):
        result = await coming
    return observed(result, listener)


def observed(result: Any, listener: Listener) -> Any:
    """Return a function's result in the form that is passed to the application.

    A generator, or an iterator of Python's own, which can be read once only, is observed, and so is
    the result of a coroutine. Anything else is returned as it is: a cursor or a client's stream is
    more than an iterator, and nothing could stand in its place.
    """
    kind = type(result)
    if kind is CoroutineType:
        return _awaited(result, listener)
    if kind is AsyncGeneratorType:
        return _asynchronous_generator(lambda: result, lambda _args, _named: listener)()
    if kind is GeneratorType or (
        kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")
    ):
        return _passed_on(ObservedIterator(result, listener))
    return listener.give(result)


def _passed_on(stream: ObservedIterator) -> Generator[Any, Any, Any]:
    # `yield from` passes values, exceptions, the closing and the returned value on.
    return (yield from stream)
