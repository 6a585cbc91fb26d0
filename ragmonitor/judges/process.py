"""Runs a built-in judge in a process of its own: reading never holds the application's GIL.

On the worker's thread a reading of some milliseconds competes with the application's event loop
for the interpreter's lock, and CPython takes it away only every 5 ms. Here the thread waits for a
pipe instead, without the lock. See docs/performance.md for what that is worth and what it costs.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Literal

from ragmonitor.capabilities import CapableJudge, as_judge
from ragmonitor.errors import RagMonitorError
from ragmonitor.forks import survive_forks
from ragmonitor.guard import logger, record_error
from ragmonitor.protocols import Judge
from ragmonitor.records import Assessment, Chunk, Interaction, JudgeIdentity

MAX_STARTS = 4
"""After so many helpers that died, reading stays in the application's process."""
READING_S = 30.0
"""Time for one reading; a helper that takes longer is ended."""
STARTING_S = 30.0
STOPPING_S = 2.0
NICENESS = 5
"""Where there is too little CPU for both, the application comes first."""

# The application's own path, but none of what its environment makes an interpreter do at start
# (`-I`): a helper must not be instrumented, nor run the application.
_BOOTSTRAP = (
    "import pickle, sys; from multiprocessing.connection import Connection; "
    "asked = Connection(0, writable=False); sys.path[:] = pickle.loads(asked.recv_bytes()); "
    "from ragmonitor.judges.process import {serve}; "
    "{serve}(asked, Connection({write}, readable=False))"
)


class HelperError(Exception):
    """The helper process did not start, died, or did not reply."""


class ProcessJudge:
    """Has a built-in judge read in a helper process. POSIX only.

    The helper starts with the first reading. When it dies, the reading is done here and now and
    the error is counted; another helper is started for the next, up to `MAX_STARTS` of them.
    It ends with `stop`, with the process that started it, and not before; a forked child has its
    own.
    """

    def __init__(self, inner: Judge, *, reading_s: float = READING_S) -> None:
        """Start nothing yet.

        Args:
            inner: The judge that reads; it is pickled to the helper.
            reading_s: After which a reading fails and its helper is ended.
        """
        self._inner = as_judge(inner)
        self._reading_s = reading_s
        self._lock = threading.Lock()
        self._helper: Helper | None = None
        self._starts = 0
        self._stopped = False
        survive_forks(self)

    @property
    def identity(self) -> JudgeIdentity:
        """The inner judge's: where it reads changes no verdict."""
        return self._inner.identity

    @property
    def helper_pid(self) -> int | None:
        """Process id of the helper; None: there is none at the moment."""
        helper = self._helper
        return None if helper is None else helper.pid

    def read(self, interaction: Interaction) -> Assessment:
        """Return what the inner judge finds. Raises what it raises, and `TimeoutError`."""
        if self._stopped or (self._starts >= MAX_STARTS and self._helper is None):
            return self._inner.read(interaction)
        try:
            with self._lock:
                return self._ask(interaction)
        except HelperError as error:
            record_error("judge", error)
            if self._starts >= MAX_STARTS:
                logger.warning("ragmonitor: no more helper processes; scoring goes on without one")
        return self._inner.read(interaction)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what `read` returns."""
        return self.read(interaction)

    def stop(self) -> None:
        """End the helper; readings from now on are done here."""
        self._stopped = True
        if self._lock.acquire(timeout=STOPPING_S):
            try:
                self._end()
            finally:
                self._lock.release()
        elif (helper := self._helper) is not None:
            helper.kill()  # who waits for its reply sees its end, and cleans up

    def _ask(self, interaction: Interaction) -> Assessment:
        if self._helper is None:
            self._starts += 1
            self._helper = Helper()
            try:
                self._helper.load(self._inner)
            except (HelperError, RagMonitorError):
                self._helper = None
                raise
        try:
            reply = self._helper.ask(texts_of(interaction), self._reading_s)
            if not isinstance(reply, (Assessment, Exception)):
                raise HelperError(f"the helper process replied {type(reply).__name__}")
        except (HelperError, TimeoutError):
            self._end()
            raise
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _end(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.end()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's helper, or it would not see the parent's end."""
        self._lock = threading.Lock()
        self._starts = 0
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.forget()


class Helper:
    """A running helper process, seen from the application."""

    def __init__(self, serve: Literal["serve", "serve_batches"] = "serve") -> None:
        """Start it; `load` follows.

        Args:
            serve: The function of this module that is the helper's whole life.

        Raises:
            HelperError: It did not start.
        """
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-I", "-c", _BOOTSTRAP.format(write=write, serve=serve)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(write,),
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            os.close(read)
            raise HelperError(f"the helper process did not start: {error}") from error
        finally:
            os.close(write)
        self._replies = Connection(read, writable=False)
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - it is a pipe
        self._asked = Connection(os.dup(stdin.fileno()), readable=False)
        stdin.close()

    def load(self, inner: object, *, starting_s: float = STARTING_S) -> None:
        """Send it its judge, and wait until that can read; one that cannot is ended.

        Args:
            inner: The judge, which is pickled.
            starting_s: After which it is given up.

        Raises:
            HelperError: It did not start.
            RagMonitorError: The judge cannot read: it said why.
        """
        try:
            self._asked.send_bytes(pickle.dumps(sys.path))
            self._asked.send_bytes(pickle.dumps(inner))
            reply = self._reply(starting_s)
            if isinstance(reply, RagMonitorError):
                raise reply
            if reply != "ready":
                raise HelperError("the helper process cannot read")
        except (OSError, EOFError, pickle.PickleError, TimeoutError) as error:
            self.end()
            raise HelperError(f"the helper process did not start: {error!r}") from error
        except (HelperError, RagMonitorError):
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, asked: object, within_s: float) -> object:
        """Return what it found, or the error that its judge raised.

        Raises:
            HelperError: It died.
            TimeoutError: It did not reply in time.
        """
        try:
            self._asked.send_bytes(pickle.dumps(asked))
            return self._reply(within_s)
        except (OSError, EOFError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise HelperError(f"the helper process died: {error!r}") from error

    def _reply(self, within_s: float) -> object:
        if not self._replies.poll(within_s):
            raise TimeoutError(f"no reply of the helper process within {within_s:g} s")
        return pickle.loads(self._replies.recv_bytes())  # noqa: S301 - our own child's

    def end(self) -> None:
        """Close its pipes, at which it ends; wait for it, so that it is no zombie."""
        self._close()
        try:
            self._process.wait(STOPPING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """End it now, whatever it is reading."""
        self._process.kill()

    def forget(self) -> None:
        """Close this process's copies of its pipes; it is not our child."""
        self._close()
        self._process.poll()  # which finds that out, so that nobody warns of it later

    def _close(self) -> None:
        for pipe in (self._asked, self._replies):
            with contextlib.suppress(OSError):
                pipe.close()


def texts_of(interaction: Interaction) -> Interaction:
    """Return what a reading needs: metadata may be of any type, and need not be picklable."""
    return Interaction(
        id=interaction.id,
        query=interaction.query,
        chunks=tuple([replace(chunk, metadata={}) for chunk in interaction.chunks]),
        answer=interaction.answer,
        reference=interaction.reference,
        framework=interaction.framework,
        started_ns=interaction.started_ns,
        ended_ns=interaction.ended_ns,
        status=interaction.status,
    )


def serve(asked: Connection, replies: Connection) -> None:
    """Read one answer at a time, by a built-in judge, until the other side is gone."""

    def read(judge: CapableJudge, interaction: Interaction) -> Assessment:
        return judge.read(interaction)

    _serve(asked, replies, read, _WARM_UP)


def serve_batches(asked: Connection, replies: Connection) -> None:
    """Read several answers at a time, by a `BatchJudge`, until the other side is gone."""

    def read(judge: Any, batch: tuple[Sequence[Interaction], float]) -> object:
        interactions, within_s = batch
        return list(judge.read_batch(interactions, within_s=within_s))

    _serve(asked, replies, read, ((), 0.0))


def _serve(
    asked: Connection, replies: Connection, read: Callable[[Any, Any], object], first: object
) -> None:
    """Read what is asked until the other side is gone; the helper's whole life."""
    # A terminal's Ctrl-C is the application's business; it may want its last answers read.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(EOFError, OSError):
        judge = pickle.loads(asked.recv_bytes())  # noqa: S301 - our parent's
        try:
            read(judge, first)
        except RagMonitorError as error:
            replies.send_bytes(pickle.dumps(error))
            return
        replies.send_bytes(pickle.dumps("ready"))
        while True:
            next_asked = pickle.loads(asked.recv_bytes())  # noqa: S301 - our parent's
            replies.send_bytes(_pickled(read, judge, next_asked))


def _pickled(read: Callable[[Any, Any], object], judge: object, asked: object) -> bytes:
    try:
        return pickle.dumps(read(judge, asked))
    except RagMonitorError as error:
        return pickle.dumps(error)
    except Exception as error:  # noqa: BLE001 - the worker counts it, as if it had been raised there
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))


_WARM_UP = Interaction(
    id="",
    query="How tall is the tower?",
    chunks=(Chunk(text="The tower is 300 metres tall."),),
    answer="It is 300 metres tall.",
    framework="python",
    started_ns=0,
    ended_ns=0,
)
"""Its tables of words are read with it, and not with the first answer."""
