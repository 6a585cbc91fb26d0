"""Runs an encoder in a process of its own: reading never holds the application's GIL."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from ragmonitor.errors import RagMonitorError
from ragmonitor.records import Interaction

STARTING_S = 30.0
STOPPING_S = 2.0
NICENESS = 5
"""Where there is too little CPU for both, the application comes first."""

# The application's own path, but none of what its environment makes an interpreter do at start
# (`-I`): a helper must not be instrumented, nor run the application.
_BOOTSTRAP = (
    "import pickle, sys; from multiprocessing.connection import Connection; "
    "asked = Connection(0, writable=False); sys.path[:] = pickle.loads(asked.recv_bytes()); "
    "from ragmonitor.judges.encoder_helper import serve_batches; "
    "serve_batches(asked, Connection({write}, readable=False))"
)


class HelperError(Exception):
    """The helper process did not start, died, or did not reply."""


class Helper:
    """A running helper process, seen from the application."""

    def __init__(self) -> None:
        """Start it, while nobody forks; `load` follows.

        Raises:
            HelperError: It did not start.
        """
        read, write = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-I", "-c", _BOOTSTRAP.format(write=write)],
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


def serve_batches(asked: Connection, replies: Connection) -> None:
    """Read several answers at a time, by a `BatchJudge`, until the other side is gone."""
    # A terminal's Ctrl-C is the application's business; it may want its last answers read.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(EOFError, OSError):
        judge = pickle.loads(asked.recv_bytes())  # noqa: S301 - our parent's
        try:
            _read(judge, ((), 0.0))
        except RagMonitorError as error:
            replies.send_bytes(pickle.dumps(error))
            return
        replies.send_bytes(pickle.dumps("ready"))
        while True:
            batch = pickle.loads(asked.recv_bytes())  # noqa: S301 - our parent's
            replies.send_bytes(_pickled(judge, batch))


def _read(judge: Any, batch: tuple[Sequence[Interaction], float]) -> object:
    interactions, within_s = batch
    return list(judge.read_batch(interactions, within_s=within_s))


def _pickled(judge: object, batch: tuple[Sequence[Interaction], float]) -> bytes:
    try:
        return pickle.dumps(_read(judge, batch))
    except RagMonitorError as error:
        return pickle.dumps(error)
    except Exception as error:  # noqa: BLE001 - the worker counts it, as if it had been raised there
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
