"""The helper process of an application's process: one for all its monitors."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

from ragmonitor.forks import survive_forks, without_forks

NICENESS: Final = 5
"""Where there is too little CPU for both, the application comes first: from the imports on."""

# The application's own path, but none of what its environment makes an interpreter do at start
# (`-I`): a helper must not be instrumented, nor run the application.
_BOOTSTRAP: Final = """
import contextlib, os, pickle, sys
with contextlib.suppress(OSError):
    os.nice({niceness})
from multiprocessing.connection import Connection
told = Connection({fd})
sys.path[:] = pickle.loads(told.recv_bytes())
from ragmonitor.back_half.helper import main
main(told)
"""


class HelperProcess:
    """Starts the process with the first connection, and ends it with the last."""

    def __init__(self) -> None:
        """Start nothing."""
        self._begin()
        survive_forks(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._users = 0

    @property
    def pid(self) -> int | None:
        """Its process id; None: there is none."""
        process = self._process
        return None if process is None else process.pid

    def connect(self) -> tuple[Connection, int]:
        """Return a connection to the process, which is started if need be, and its process id.

        Raises:
            OSError: It did not start.
        """
        with self._lock, without_forks():
            if self._process is None or self._process.poll() is not None:
                self._end(0.0)
                self._start()
            assert self._control is not None  # noqa: S101 - it was started
            assert self._process is not None  # noqa: S101 - likewise
            ours, theirs = socket.socketpair()
            with ours, theirs:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
                self._users += 1
                return Connection(ours.detach()), self._process.pid

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                script = _BOOTSTRAP.format(niceness=NICENESS, fd=theirs.fileno())
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    [sys.executable, "-I", "-c", script],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            control = Connection(os.dup(ours.fileno()))
            control.send_bytes(pickle.dumps(sys.path))
            control.close()
        except BaseException:  # raised again: whatever it is, no half-started process is left
            ours.close()
            self._end(0.0)
            raise
        self._control, self._users = ours, 0

    def leave(self, pid: int, within_s: float) -> int | None:
        """Say that a connection was closed; wait for the process if it was the last.

        Args:
            pid: Of the process that it led to. Another monitor may have begun the next one.
            within_s: How long to wait.

        Returns:
            The exit status of a process that has ended.
        """
        with self._lock:
            process = self._process
            if process is None or process.pid != pid:
                return None
            self._users -= 1
            return process.poll() if self._users > 0 else self._end(within_s)

    def kill(self, pid: int) -> None:
        """End the process now, whatever it does: it does not answer."""
        process = self._process
        if process is not None and process.pid == pid:
            process.kill()

    def _end(self, within_s: float) -> int | None:
        process, self._process = self._process, None
        control, self._control = self._control, None
        if control is not None:
            control.close()
        if process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return process.wait(max(0.0, within_s))
        process.kill()
        return process.wait()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's process, or it would not see the parent's end."""
        process, control = self._process, self._control
        self._begin()
        if control is not None:
            control.close()
        if process is not None:
            process.poll()  # which finds out that it is no child of ours, so that nobody warns


HELPER: Final = HelperProcess()
"""The helper of this process."""
