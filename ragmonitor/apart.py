"""Calls that may block, on threads that nobody waits for.

The interpreter waits at its end for each thread of an ordinary executor, and so does
`asyncio.run`: one call that hangs, of a judge, an evaluator, a name server, would hold the
application's exit. These threads are daemons. Every blocking call of ours goes this way; on a loop
that has `EXECUTOR` for its default, `asyncio.to_thread` and look-ups of names do too.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class CallEndedError(RuntimeError):
    """A call ended with what is no `Exception`, which would have ended who waits for it."""


class _Future(Future[R]):
    """Says nothing where whoever waited is gone: the library would log that, to the host."""

    def add_done_callback(self, fn: Callable[[Future[R]], object]) -> None:
        def call(future: Future[R]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                fn(future)

        super().add_done_callback(call)


class _Executor(ThreadPoolExecutor):
    """A thread for each call. A pool in name only: loops take no other kind of executor."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Start the call. Raises `RuntimeError`: the system has no further thread for it."""
        future: Future[R] = _Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                found = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - handed over to who waits
                future.set_exception(_bearable(error))
            else:
                future.set_result(found)

        threading.Thread(target=run, name="ragmonitor-call", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nothing; the next call gets its thread all the same."""


EXECUTOR = _Executor(1)
"""Holds nothing, so that all loops and forked children may share it."""


async def apart(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what the function returns, without blocking the loop; it sees the caller's context.

    A caller that is cancelled goes on at once, and the call to its end.

    Raises:
        CallEndedError: It raised what is no `Exception`; everything else is raised as it is.
        RuntimeError: The system has no further thread.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(EXECUTOR, lambda: context.run(function, *args, **kwargs))


def run(work: Coroutine[Any, Any, R]) -> R:
    """Return what comes of it on a loop of its own, as `asyncio.run`, whose calls are such ones."""

    async def main() -> R:
        asyncio.get_running_loop().set_default_executor(EXECUTOR)
        return await work

    return asyncio.run(main())


def call_apart(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what the function returns; for a caller that may block but is on a loop already."""
    return EXECUTOR.submit(function, *args, **kwargs).result()


def within(timeout_s: float, function: Callable[[], Any]) -> bool:
    """Return whether the function came to its end in time; what it raises is raised here.

    A call that is late goes on without anybody. Where the interpreter is going down and starts no
    more threads, it is made here, and takes its time.
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


def _bearable(error: BaseException) -> Exception:
    """Return the error as one that a future may carry and a task may raise."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    ended = CallEndedError(f"{type(error).__name__}: {error}")
    ended.__cause__ = error
    return ended
