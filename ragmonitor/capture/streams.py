"""Streams pass through to the application unchanged, and their pieces are noted on the way.

A generator stays a generator, a coroutine a coroutine, with `close` and what they return; nothing
is read before the application reads it, and nothing that it does not read. What is sent or thrown
into a generator does not reach the application's own.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any


class Listener:
    """Notes the pieces of a stream; this one notes nothing. Its methods do not raise."""

    reads_streams = True
    """Whether a generator that a function returned is read for it, or given to it as it is."""

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


@contextmanager
def _ending(listener: Listener) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        listener.end(None if isinstance(error, GeneratorExit) else error)
        raise


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
        with _ending(listener):
            inner = function(*args, **kwargs)
            try:
                while True:
                    listener.enter()
                    try:
                        item = next(inner)
                    except StopIteration as ended:
                        listener.end(whole=True)
                        return ended.value
                    finally:
                        listener.exit()
                    listener.take(item)
                    yield item
            except BaseException:  # also one that closes us; it goes on as it came
                if hasattr(inner, "close"):
                    with _entered(listener):
                        inner.close()
                raise

    return pieces


def _areading(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """Return an asynchronous generator function; as `_reading`."""

    async def pieces(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        listener = begin(args, kwargs) or Listener()
        with _ending(listener):
            inner = function(*args, **kwargs)
            try:
                while True:
                    listener.enter()
                    try:
                        item = await anext(inner)
                    except StopAsyncIteration:
                        listener.end(whole=True)
                        return
                    finally:
                        listener.exit()
                    listener.take(item)
                    yield item
            except BaseException:  # also one that closes us; it goes on as it came
                if hasattr(inner, "aclose"):
                    with _entered(listener):
                        await inner.aclose()
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
    if listener.reads_streams and (
        kind in (GeneratorType, AsyncGeneratorType)
        or (kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__"))
    ):
        return read(result, listener)
    listener.give(result)
    return result


async def _awaited(coming: Any, listener: Listener) -> Any:
    with _ending(listener), _entered(listener):
        result = await coming
    return observed(result, listener)


def listened(
    function: Callable[..., Any], begin: Begin, *, reads_streams: bool
) -> Callable[..., Any]:
    """Return the function, each call of which is listened to; of the same kind as the function.

    What the function does, returns and raises stays as it is. `reads_streams` is the listeners'.
    """
    # Of an object that is called, its class says what the call is.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method is what is wanted

    def plain(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs)
        if listener is None:
            return function(*args, **kwargs)
        with _ending(listener), _entered(listener):
            result = function(*args, **kwargs)
        return observed(result, listener)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        listener = begin(args, kwargs) or Listener()
        return await _awaited(function(*args, **kwargs), listener)

    def is_any(kind: Callable[[Any], bool]) -> bool:
        return kind(function) or kind(call)

    wrapped: Callable[..., Any] = plain
    if is_any(inspect.iscoroutinefunction):
        wrapped = coroutine
    elif reads_streams and is_any(inspect.isasyncgenfunction):
        wrapped = _areading(function, begin)
    elif reads_streams and is_any(inspect.isgeneratorfunction):
        wrapped = _reading(function, begin)
    return functools.wraps(function)(wrapped)
