"""Processes that read answers, for `ragmonitor score --workers`."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final, Protocol

from ragmonitor.pipeline.judging import Reading
from ragmonitor.records import Interaction
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import RagMonitorError

AHEAD: Final = 4
"""Answers that are handed over for each process: while it reads one the next is there."""


class AnswerReader(Protocol):
    """A scorer that reads answers in a process of the pool; it is made there, once."""

    async def prepare(self) -> None:
        """Load what it needs."""
        ...

    async def read(self, interaction: Interaction) -> Reading:
        """Return what the judge found."""
        ...


class ReaderPool:
    """A fixed number of processes, each with a judge of its own that reads one answer at a time.

    They are spawned, not forked, ignore Ctrl-C, which is the caller's business, and end when the
    caller does, also by `kill -9`. One that ends early ends the run.
    """

    def __init__(self, make: Callable[[], AnswerReader], n: int) -> None:
        """Start none yet.

        Args:
            make: Called once in each process; it is pickled.
            n: How many processes.
        """
        self.n = n
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(n, context, _begin, (make,))

    async def read(self, interaction: Interaction) -> Reading:
        """Return what one of the processes found in an answer.

        Raises:
            RagMonitorError: A process has ended, and the pool with it.
        """
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, _read, interaction)
        except BrokenProcessPool as error:
            raise RagMonitorError(
                "a worker process has ended; was memory short? Fewer --workers take less, and "
                "--resume goes on from here"
            ) from error

    async def close(self) -> None:
        """End the processes once they have read what they are at."""
        await apart(self._executor.shutdown, cancel_futures=True)


# --- in the process -------------------------------------------------------------------------------

_runner = asyncio.Runner()
_readers: list[AnswerReader] = []


def _begin(make: Callable[[], AnswerReader]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    reader = make()
    _runner.run(reader.prepare())
    _readers.append(reader)


def _end_with_parent() -> None:
    """End the process with its parent, which a queue that is waited at does not tell of."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _read(interaction: Interaction) -> Reading:
    return _runner.run(_readers[0].read(interaction))
