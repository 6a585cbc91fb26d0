"""Runs calls that may block, each on a daemon thread of its own.

The interpreter waits at its end for each thread of an ordinary executor, and so does
`asyncio.run`: one call that hangs, of a judge, an evaluator, a name server, would hold the
application's exit. These threads are daemons. Every blocking call of ours goes this way; on a loop
that has `EXECUTOR` for its default, `asyncio.to_thread` and look-ups of names do too.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class CallEndedError(RuntimeError):
    """A call raised something that is no `Exception`; passed on, it would end its waiter."""


class _Future(Future[R]):
    """A future that stays silent when its loop is closed; the library would log that."""

    def add_done_callback(self, fn: Callable[[Future[R]], object]) -> None:
        def call(future: Future[R]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                fn(future)

        super().add_done_callback(call)


class _Executor(ThreadPoolExecutor):
    """Starts a thread for each call. It is a pool by name, since loops take no other executor."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start the call. Raises `RuntimeError`: the system has no further thread for it."""
        future: Future[R] = _Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - handed over to the waiting thread
                future.set_exception(_as_exception(error))
            else:
                future.set_result(result)

        threading.Thread(target=run, name="ragmonitor-call", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing; later calls are still run."""


EXECUTOR = _Executor(1)
"""All loops and forked children may share it: it holds no state."""


async def apart(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return the function's result without blocking the loop; it sees the caller's context.

    A caller that is cancelled goes on at once, and the call to its end.

    Raises:
        CallEndedError: It raised something that is no `Exception`; others are raised as they are.
        RuntimeError: The system has no further thread.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(EXECUTOR, lambda: context.run(function, *args, **kwargs))


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on a loop of its own, as `asyncio.run`, with `EXECUTOR` for its calls.

    A thread that runs a loop already waits for another one.
    """
    if is_on_a_loop():
        return EXECUTOR.submit(lambda: run(work)).result()

    async def main() -> R:
        asyncio.get_running_loop().set_default_executor(EXECUTOR)
        return await work

    whole = main()
    try:
        # A loop that lacks a descriptor half way prints to the application's stderr, at its end.
        ours, theirs = socket.socketpair()
        with ours, theirs:
            os.close(os.dup(ours.fileno()))
        return asyncio.run(whole)
    finally:
        # Where no loop could be made: nobody is to say that they were never awaited.
        whole.close()
        work.close()


def is_on_a_loop() -> bool:
    """Return whether this thread runs an event loop now."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def within(timeout_s: float, function: Callable[[], Any]) -> bool:
    """Return whether the function returned in time; its exceptions are raised here.

    A late call goes on by itself. When the interpreter shuts down and starts no more threads, the
    function is called on this thread, without a limit.
    """
    try:
        future = EXECUTOR.submit(function)
    except RuntimeError:
        function()
        return True
    try:
        future.result(max(0.0, timeout_s))
    except TimeoutError:
        if future.done():
            raise
        return False
    return True


def _as_exception(error: BaseException) -> Exception:
    """Return the error as one that a future may carry and a task may raise."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    ended = CallEndedError(f"{type(error).__name__}: {error}")
    ended.__cause__ = error
    return ended
