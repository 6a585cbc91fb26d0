"""Handles Ctrl-C while a model is asked: replies under way are paid for, so they are awaited."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Final

from ragmonitor.cli.terminal import say

INTERRUPTED: Final = 130
"""The exit code of a process that ended by SIGINT."""


@contextlib.contextmanager
def interruptible(stopping: asyncio.Event) -> Iterator[None]:
    """Have Ctrl-C set an event, and a second one cancel the current task.

    Args:
        stopping: Once it is set nothing further is begun; what is under way is waited for.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def interrupt() -> None:
        if stopping.is_set() and task is not None:
            task.cancel()
        else:
            say("interrupted: replies under way are waited for; Ctrl-C again to give them up")
        stopping.set()

    is_set = False
    # On Windows, and beside the main thread, there is no such way: Python's own stays.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, interrupt)
        is_set = True
    try:
        yield
    finally:
        if is_set:
            loop.remove_signal_handler(signal.SIGINT)
