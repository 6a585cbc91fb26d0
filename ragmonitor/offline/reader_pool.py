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
from ragmonitor.runtime.errors import RagMonitorError, SettingsError
from ragmonitor.runtime.guard import is_asked_to_end

AHEAD: Final = 4
"""Answers that are handed over for each process: while it reads one the next is there."""


class AnswerReader(Protocol):
    """Reads answers in a process of the pool; it is made there, once."""

    async def prepare(self) -> None:
        """Load what it needs. Raises `RagMonitorError`."""
        ...

    async def read(self, interaction: Interaction) -> Reading:
        """Return what the judge found."""
        ...


class ReaderError(RagMonitorError):
    """A process gave no reading of an answer."""


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
        self._make = make
        self._executor: ProcessPoolExecutor | None = None

    async def start(self) -> None:
        """Start the processes, and wait until they can read; if they run already, do nothing.

        Raises:
            SettingsError: One cannot read; it says why.
        """
        if self._executor is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(self.n, context, _begin, (self._make,))
        loop = asyncio.get_running_loop()
        try:
            # Each first call starts a process.
            ready = (loop.run_in_executor(self._executor, _problem) for _ in range(self.n))
            problems = await asyncio.gather(*ready)
        except BrokenProcessPool as error:
            raise SettingsError(f"a worker process has ended: {error}") from error
        for problem in filter(None, problems):
            raise SettingsError(f"a worker process: {problem}")

    async def read(self, interaction: Interaction) -> Reading:
        """Return what one of the processes found in an answer.

        Raises:
            ReaderError: It gave no reading.
            RagMonitorError: A process has ended, and the pool with it.
        """
        loop = asyncio.get_running_loop()
        try:
            reading = await loop.run_in_executor(self._executor, _read, interaction)
        except BrokenProcessPool as error:
            raise RagMonitorError(
                "a worker process has ended; was memory short? Fewer --workers take less, and "
                "--resume goes on from here"
            ) from error
        except Exception as error:  # what an evaluator returned may be of any type
            raise ReaderError(f"{type(error).__name__}: {error}") from error
        if isinstance(reading, ReaderError):
            raise reading
        return reading

    async def close(self) -> None:
        """End the processes once they have read what they are at."""
        executor, self._executor = self._executor, None
        if executor is not None:
            await apart(executor.shutdown, cancel_futures=True)


# --- in the process -------------------------------------------------------------------------------

_runner = asyncio.Runner()
_readers: list[AnswerReader] = []
_problems: list[str] = []


def _begin(make: Callable[[], AnswerReader]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        reader = make()
        _runner.run(reader.prepare())
    except RagMonitorError as error:
        _problems.append(str(error))
        return
    _readers.append(reader)


def _end_with_parent() -> None:
    """End the process with its parent, which a queue that is waited at does not tell of."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _problem() -> str:
    """Return why this process cannot read; empty: it can."""
    return "; ".join(_problems)


def _read(interaction: Interaction) -> Reading | ReaderError:
    try:
        return _runner.run(_readers[0].read(interaction))
    except BaseException as error:  # a judge and evaluators are anybody's code
        if is_asked_to_end(error):
            raise
        return ReaderError(f"{type(error).__name__}: {error}")
