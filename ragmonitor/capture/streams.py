"""Streams pass through to the application unchanged, and their pieces are noted on the way.

A generator stays a generator, a coroutine a coroutine, with `send`, `throw`, `close` and what they
return; nothing is read before the application reads it, and nothing that it does not read.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final

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

    def give(self, result: Any) -> None:
        """Note a result that is there at once."""

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that nothing more comes; only the first call counts.

        Args:
            failure: What ended it; None: it was read to its end, or closed.
            whole: It was read to its end.
        """


@dataclass(slots=True)
class KeptPieces:
    """Keeps the first pieces of one stream, up to its bounds."""

    max_pieces: int
    pieces: list[Any] = field(default_factory=list)
    complete: bool = True
    _characters: int = 0

    def add(self, piece: Any, characters: int = 0) -> None:
        """Keep one more, as long as there is room."""
        self._characters += characters
        if self._characters > MAX_CHARACTERS or len(self.pieces) >= self.max_pieces:
            self.complete = False
        else:
            self.pieces.append(piece)


@contextmanager
def _entered(listener: Listener) -> Iterator[None]:
    listener.enter()
    try:
        yield
    finally:
        listener.exit()


Begin = Callable[[tuple[Any, ...], Mapping[str, Any]], "Listener | None"]
"""From a call's arguments to its listener; None: it has none. Does not raise."""


def _reading(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """Return a generator function that reads the iterator which the function returns."""

    def pieces(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        listener = begin(args, kwargs) or Listener()
        try:
            inner = function(*args, **kwargs)
            advance: Callable[..., Any] = inner.__next__
            given: tuple[Any, ...] = ()
            enter, leave, take = listener.enter, listener.exit, listener.take
            while True:
                enter()
                try:
                    item = advance(*given)
                except StopIteration as ended:
                    listener.end(whole=True)
                    return ended.value
                finally:
                    leave()
                take(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    if hasattr(inner, "close"):
                        with _entered(listener):
                            inner.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - goes into the inner generator
                    advance, given = inner.throw, (error,)
                else:
                    if sent is not None:
                        advance, given = inner.send, (sent,)
                    elif given:
                        advance, given = inner.__next__, ()
        except GeneratorExit:
            listener.end()
            raise
        except BaseException as error:
            listener.end(error)
            raise

    return pieces


def _areading(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """Return an asynchronous generator function; as `_reading`."""

    async def pieces(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        listener = begin(args, kwargs) or Listener()
        try:
            inner = function(*args, **kwargs)
            advance: Callable[..., Any] = inner.__anext__
            given: tuple[Any, ...] = ()
            while True:
                listener.enter()
                try:
                    item = await advance(*given)
                except StopAsyncIteration:
                    listener.end(whole=True)
                    return
                finally:
                    listener.exit()
                listener.take(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    if hasattr(inner, "aclose"):
                        with _entered(listener):
                            await inner.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - goes into the inner generator
                    advance, given = inner.athrow, (error,)
                else:
                    advance, given = (
                        (inner.__anext__, ()) if sent is None else (inner.asend, (sent,))
                    )
        except GeneratorExit:
            listener.end()
            raise
        except BaseException as error:
            listener.end(error)
            raise

    return pieces


def read(iterator: Any, listener: Listener) -> Any:
    """Return the pieces of an iterator, synchronous or not, unchanged, and note them."""
    # OpenInference's proxy has the methods of both kinds and the class of what it stands for.
    wrap = _areading if hasattr(iterator.__class__, "__anext__") else _reading
    pieces = wrap(lambda: iterator, lambda _args, _named: listener)()
    # One that was never begun runs nothing when it is dropped.
    weakref.finalize(pieces, listener.end).atexit = False
    return pieces


def observed(result: Any, listener: Listener) -> Any:
    """Return a function's result in the form that is passed to the application.

    A generator, or an iterator of Python's own, which can be read once only, is observed, and so is
    the result of a coroutine. Anything else is returned as it is: a cursor or a client's stream is
    more than an iterator, and nothing could stand in its place.
    """
    kind = type(result)
    if kind is CoroutineType:
        return _awaited(result, listener)
    if kind in (GeneratorType, AsyncGeneratorType) or (
        kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")
    ):
        return read(result, listener)
    listener.give(result)
    return result


async def _awaited(coming: Any, listener: Listener) -> Any:
    try:
        with _entered(listener):
            result = await coming
    except BaseException as error:
        listener.end(error)
        raise
    return observed(result, listener)


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
        try:
            with _entered(listener):
                result = function(*args, **kwargs)
        except BaseException as error:
            listener.end(error)
            raise
        return observed(result, listener)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs) or Listener()
        return await _awaited(function(*args, **kwargs), listener)

    wrapped: Callable[..., Any] = plain
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        wrapped = _areading(function, begin)
    elif inspect.isgeneratorfunction(function) or inspect.isgeneratorfunction(call):
        wrapped = _reading(function, begin)
    elif inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        wrapped = coroutine
    return functools.wraps(function)(wrapped)
