"""Tells processes apart: an id alone is given again to another one. Linux only."""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_STARTED = 19
"""The place of the start among the fields of /proc/PID/stat after the name, from 0; see proc(5)."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this machine."""

    pid: int
    started: int
    """Ticks of the clock from the start of the system to that of the process."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return that of a process that runs; None: there is none, or it is a zombie."""
        try:
            # The name stands in parentheses, and may contain any of them.
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2]
        except OSError:
            return None
        state, *_ = values = fields.split()
        if state in ("Z", "X"):
            return None
        return cls(pid, int(values[_STARTED]))

    @property
    def runs(self) -> bool:
        """Whether it still runs."""
        return ProcessIdentity.of(self.pid) == self


def leader() -> ProcessIdentity | None:
    """Return the process that started all workers of this application; None: it cannot be known.

    It is the parent, if that runs the same interpreter, as the first process of a pre-fork server
    does. Else (a shell, an init system) it is this process itself.
    """
    parent = os.getppid()
    if _runs_the_same(parent):
        identity = ProcessIdentity.of(parent)
        if identity is not None and os.getppid() == parent:
            return identity
    return ProcessIdentity.of(os.getpid())


def _runs_the_same(parent: int) -> bool:
    """Return whether a process runs the interpreter that this one runs."""
    try:
        return Path(f"/proc/{parent}/exe").samefile("/proc/self/exe")
    except PermissionError:
        # Of another user, as the first process of a server is whose workers give up root: its
        # children have its command line.
        with suppress(OSError):
            lines = {Path(f"/proc/{each}/cmdline").read_bytes() for each in (parent, "self")}
            return len(lines) == 1
    except OSError:  # it has ended
        pass
    return False


def peer_of(one: socket.socket) -> tuple[int, int]:
    """Return the process id and the user of the other end of a Unix socket."""
    if sys.platform != "linux":
        raise OSError("the other end of a socket is told on Linux only")
    form = "3i"
    credentials = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    pid, user, _ = struct.unpack(form, credentials)
    return pid, user


def is_supported() -> bool:
    """Return whether processes can be identified here."""
    return sys.platform == "linux" and ProcessIdentity.of(os.getpid()) is not None
