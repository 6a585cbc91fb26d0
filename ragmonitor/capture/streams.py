"""Streams pass through to the application unchanged, and their pieces are noted on the way.

A generator stays a generator, with `close` and what it returns; nothing is read before the
application reads it, and nothing that it does not read. What is sent or thrown into a generator
does not reach the application's own.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from typing import Any


class Listener:
    """Notes the pieces of a stream; this one notes nothing. Its methods do not raise."""

    def enter(self) -> None:
        """Note that the application's code is about to go on, in this thread or task."""

    def exit(self) -> None:
        """Note that the code has come to its next piece, or to its end."""

    def take(self, item: Any) -> None:
        """Note one piece."""

    def give(self, result: Any) -> Any:
        """Note what a function returned; return what is passed on to the application."""
        return result

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that nothing more comes; only the first call counts.

        Args:
            failure: What ended it; None: it was read to its end, or dropped.
            whole: It was read to its end.
        """


@contextmanager
def entered(listener: Any) -> Iterator[None]:
    """Let the application's code go on."""
    listener.enter()
    try:
        yield
    finally:
        listener.exit()


@contextmanager
def ending(listener: Any) -> Iterator[None]:
    """Note what ends the application's code, and let it pass."""
    try:
        yield
    except BaseException as error:
        listener.end(error)
        raise


def _pieces(inner: Any, listener: Listener) -> Generator[Any, Any, Any]:
    with ending(listener):
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
                with entered(listener):
                    inner.close()
            raise


async def _apieces(inner: Any, listener: Listener) -> AsyncGenerator[Any, Any]:
    with ending(listener):
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
        except BaseException:  # likewise
            if hasattr(inner, "aclose"):
                with entered(listener):
                    await inner.aclose()
            raise


def read(iterator: Any, listener: Listener, *, waits: bool | None = None) -> Any:
    """Return the pieces of an iterator, unchanged, and note them.

    Args:
        iterator: What is read.
        listener: What notes them.
        waits: Whether it is read asynchronously; None: its class tells.
    """
    if waits is None:
        # OpenInference's proxy has the methods of both kinds and the class of what it stands for.
        waits = hasattr(iterator.__class__, "__anext__")
    pieces = _apieces(iterator, listener) if waits else _pieces(iterator, listener)
    # One that was never begun runs nothing when it is dropped.
    weakref.finalize(pieces, listener.end).atexit = False
    return pieces
