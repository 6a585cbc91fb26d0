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


_NO_LISTENER: Final = Listener()


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


class _Observed:
    """Offers what both kinds of observed iterator share: everything else that the original has."""

    def __init__(self, inner: Any, listener: Listener, shown: Any = None) -> None:
        self._inner = inner
        self._listener = listener
        self._shown = inner if shown is None else shown
        """The object that the iterator was taken from: this one has its attributes."""
        self.closed_with: Any = None
        """The value that the generator returned when it was closed (Python 3.13 passes it on)."""

    def _closer(self, name: str) -> Callable[[], Any] | None:
        close: Any = getattr(self._shown, name, None) or getattr(self._inner, name, None)
        return close  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(object.__getattribute__(self, "_shown"), name)

    def __del__(self) -> None:
        _end(self._listener)


class ObservedIterator(_Observed, Iterator[Any]):
    """An iterator on its way to the application, with everything that the original offers."""

    def __next__(self) -> Any:
        return self._advanced(self._inner.__next__)

    def send(self, value: Any) -> Any:
        """Pass a value into the generator."""
        return self._advanced(self._inner.send, value)

    def throw(self, *raised: Any) -> Any:
        """Raise within the generator."""
        return self._advanced(self._inner.throw, *raised)

    def close(self) -> Any:
        """Close it: the application saw what was read by now."""
        try:
            close = self._closer("close")
            if close is not None:
                with _Step(self._listener):
                    self.closed_with = close()
        finally:
            self._listener.end()
        return self.closed_with

    def _advanced(self, advance: Callable[..., Any], *values: Any) -> Any:
        with _Step(self._listener, StopIteration):
            item = advance(*values)
        self._listener.take(item)
        return item


class ObservedAsyncIterator(_Observed, AsyncIterator[Any]):
    """An asynchronous iterator on its way to the application; as `ObservedIterator`."""

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
        try:
            close = self._closer("aclose")
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
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        wrap = _asynchronous_generator
    elif inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(call):
        wrap = _generator
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        wrap = _coroutine
    else:
        wrap = _plain
    return functools.wraps(function)(wrap(function, begin))


def _plain(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs)
        if listener is None:
            return function(*args, **kwargs)
        return observed(_called(function, listener, args, kwargs), listener)

    return called


def _called(
    function: Callable[..., Any],
    listener: Listener,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    with _Step(listener):
        return function(*args, **kwargs)


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs)
        if listener is None:
            return await function(*args, **kwargs)
        return await _observed_coroutine(_called(function, listener, args, kwargs), listener)

    return awaited


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def pieces(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        listener = begin(args, kwargs)
        if listener is None:
            return (yield from function(*args, **kwargs))
        stream = ObservedIterator(_called(function, listener, args, kwargs), listener)
        return (yield from _passed_on(stream))

    return pieces


def _asynchronous_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def pieces(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        listener = begin(args, kwargs) or _NO_LISTENER
        stream = ObservedAsyncIterator(_called(function, listener, args, kwargs), listener)
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


def _passed_on(stream: ObservedIterator) -> Generator[Any, Any, Any]:
    """Return a generator that is read as the stream's own would be."""
    # `yield from` passes values, exceptions, the closing and the returned value on.
    try:
        return (yield from stream)
    except GeneratorExit:
        if stream.closed_with is None:
            raise
        return stream.closed_with


class _Unawaited:
    """Ends the listener of a coroutine that is never awaited."""

    def __init__(self, listener: Listener) -> None:
        self.listener: Listener | None = listener

    def __del__(self) -> None:
        if self.listener is not None:
            _end(self.listener)


async def _observed_coroutine(
    inner: Awaitable[Any], listener: Listener, unawaited: _Unawaited | None = None
) -> Any:
    if unawaited is not None:
        unawaited.listener = None
    with _Step(listener):
        result = await inner
    return observed(result, listener)


def observed(result: Any, listener: Listener) -> Any:
    """Return a function's result in the form that is passed to the application.

    A stream, which can be read once only, is observed. Anything else is returned as it is.
    """
    kind = type(result)
    stream: Any
    if kind is GeneratorType:
        stream = _named(_passed_on(ObservedIterator(result, listener)), result)
    elif kind is AsyncGeneratorType:
        relay = _asynchronous_generator(lambda: result, lambda _given, _named: listener)
        stream = _named(relay(), result)
    elif kind is CoroutineType:
        stream = _named(_observed_coroutine(result, listener, _Unawaited(listener)), result)
    elif hasattr(kind, "__next__") and _is_only(kind, _ITERATOR):
        stream = ObservedIterator(result, listener)
    elif hasattr(kind, "__anext__") and _is_only(kind, _ASYNC_ITERATOR):
        stream = ObservedAsyncIterator(result, listener)
    else:
        return listener.give(result)
    return stream


def _named(stream: Any, inner: Any) -> Any:
    stream.__name__, stream.__qualname__ = inner.__name__, inner.__qualname__
    return stream


_ANY = frozenset(
    (
        *dir(type("_", (), {})),
        *("__slots__", "__annotations__", "__del__", "__class_getitem__", "__getattr__"),
        *("__length_hint__", "__setstate__", "__copy__", "__deepcopy__", "__abstractmethods__"),
        *("__orig_bases__", "__parameters__", "__type_params__", "__final__"),
        *("__static_attributes__", "__firstlineno__", "__annotate__", "__annotate_func__"),
        *("__annotations_cache__", "__match_args__"),
    )
)
_ITERATOR = frozenset(("__iter__", "__next__"))
_ASYNC_ITERATOR = frozenset(("__aiter__", "__anext__"))


def _is_only(kind: type, methods: frozenset[str]) -> bool:
    """Return whether this is an iterator and nothing else.

    A cursor or a file is more: it may be measured, indexed or entered. Python looks these methods
    up on the type, so an observing iterator could not stand in its place.
    """
    return all(
        name in _ANY or name in methods
        for name in dir(kind)
        if name.startswith("__") and name.endswith("__")
    )
