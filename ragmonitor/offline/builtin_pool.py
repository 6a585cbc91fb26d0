"""The built-in judge in several processes, for files of many rows."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

import msgspec

from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import JudgeError, WireError
from ragmonitor.runtime.wire import decode, encode

AHEAD: Final = 4
"""Answers that are handed over for each process: while it reads one the next is there."""
MIN_ROWS: Final = 500
"""Rows that are read before any process is started: starting takes as long."""


class BuiltinPool(BuiltinJudge):
    """Reads as the built-in judge does, in processes of its own after the first rows.

    Bytes go to them and come back. They ignore Ctrl-C, and end with their parent. An answer that
    cannot be sent is read here, and so are all once one of them has died, or none can be started.
    """

    def __init__(self, workers: int) -> None:
        """Start nothing yet.

        Args:
            workers: How many processes.
        """
        super().__init__()
        self._workers = workers
        self._rows = 0
        self._pool: ProcessPoolExecutor | None = None

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the assessment of an answer. Raises `JudgeError` as `read`."""
        self._rows += 1
        if self._rows <= MIN_ROWS:
            return self.read(interaction)
        try:
            if self._pool is None:
                self._pool = self._started()
            loop = asyncio.get_running_loop()
            cause, reply = await loop.run_in_executor(self._pool, _read, encode(interaction))
        except (WireError, BrokenProcessPool, OSError):
            return self.read(interaction)
        if cause:
            raise JudgeError(self.identity.name, reply.decode(), cause=Cause(cause))
        return msgspec.msgpack.decode(reply, type=Assessment)

    def _started(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            self._workers, multiprocessing.get_context("spawn"), _end_with_parent
        )
        # Each call starts a process, which inherits that Ctrl-C is ignored.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for _ in range(self._workers):
            pool.submit(os.getpid)
        signal.signal(signal.SIGINT, handler)
        return pool

    async def close(self) -> None:
        """End the processes once they have read what they are at."""
        if self._pool is not None:
            await apart(self._pool.shutdown, cancel_futures=True)


# --- in the process -------------------------------------------------------------------------------

_judge: Final = BuiltinJudge()


def _end_with_parent() -> None:
    """End the process with its parent, which a queue that is waited at does not tell of."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _read(interaction: bytes) -> tuple[str, bytes]:
    """Return no cause and the assessment, or why there is none and what the judge says."""
    try:
        return "", msgspec.msgpack.encode(_judge.read(decode(interaction)))
    except JudgeError as error:
        return error.cause.value, error.problem.encode()
