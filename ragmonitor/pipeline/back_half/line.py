"""A monitor's line to the worker that scores its answers: a child of its own, or a shared one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from opentelemetry import context

from ragmonitor.pipeline.back_half.channel import Channel, ChannelError
from ragmonitor.pipeline.back_half.setup import UNIX
from ragmonitor.records import Status

MAX_BYTES: Final = 64 * 2**20
"""Bytes that a worker may have in hand."""


class Line:
    """A connection with what it was sent: what is open when it ends is unscored."""

    def __init__(self, sock: socket.socket, child: subprocess.Popen[bytes] | None) -> None:
        """Read nothing yet.

        Args:
            sock: The connection.
            child: The worker, where it is this process's own.
        """
        self.channel = Channel(sock)
        self.child = child
        self.open: dict[int, tuple[str, Status] | None] = {}
        """Framework and status of each record that something is owed of; None: nothing counts."""
        self.is_heard = False
        """Whether the worker has said that it works."""
        self._sent = self._bytes = 0
        self._sizes: dict[int, int] = {}

    @property
    def is_gone(self) -> bool:
        """Whether the worker has ended, or the connection has."""
        return not self.channel.is_open

    def has_room(self, records: int) -> bool:
        """Return whether one more may be sent while so many may be open."""
        return len(self._sizes) < records and self._bytes < MAX_BYTES

    def put(self, data: bytes, owed: tuple[str, Status] | None) -> None:
        """Send a record, and have it open: also if the worker has gone by then.

        Args:
            data: Its bytes.
            owed: Its framework and status; None: nothing is owed of it.
        """
        self._sent += 1
        self.open[self._sent] = owed
        self._sizes[self._sent] = len(data)
        self._bytes += len(data)
        try:
            with suppress(ChannelError):
                self.channel.send(data)
        except BaseException:  # raised again: whoever sends counts it
            self.close([self._sent])
            raise

    def close(self, numbers: Iterable[int]) -> None:
        """Note of which records the worker owes nothing more."""
        for number in numbers:
            self.open.pop(number, None)
            self._bytes -= self._sizes.pop(number, 0)

    def listen(
        self, handlers: Mapping[str, Callable[..., object]], gone: Callable[[], object]
    ) -> None:
        """Start to read what the worker says, until it is gone. Raises `RuntimeError`."""

        def work() -> None:
            context.attach(context.set_value("suppress_instrumentation", True))
            self.channel.serve({"closed": self.close, **handlers}, inline=frozenset(handlers))
            gone()

        threading.Thread(target=work, name="ragmonitor-replies", daemon=True).start()

    def end(self, within_s: float) -> int | None:
        """End the connection, and a child with it; return its exit status."""
        self.channel.close()
        if self.child is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return self.child.wait(max(0.0, within_s))
        self.child.kill()
        return self.child.wait()

    def forget(self) -> None:
        """Let go of the parent's worker, in a forked child."""
        self.channel.forget()
        if self.child is not None:
            self.child.poll()  # finds out that it is no child of ours, so that nobody warns


def line_to(address: str) -> Line:
    """Return a line to the worker that listens at `unix:/path`. Raises `OSError`."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(address.removeprefix(UNIX))
    except BaseException:  # whatever it is, the socket is closed before it goes on
        sock.close()
        raise
    return Line(sock, None)


def line_to_child(service: str) -> Line:
    """Return a line to a worker that is started. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            number = theirs.fileno()
            child = subprocess.Popen(  # noqa: S603 - ourselves
                [
                    *(sys.executable, "-P", "-m", "ragmonitor", "worker"),
                    *("--service", service, "--descriptor", str(number)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(number,),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_path())},
            )
    except BaseException:  # whatever it is, the socket is closed before it goes on
        ours.close()
        raise
    return Line(ours, child)


def _path() -> Iterator[str]:
    """Yield where modules are found, but where one lies that would instrument any interpreter."""
    for each in sys.path:
        place = Path(each)
        if not (place / "sitecustomize.py").exists() and not (place / "usercustomize.py").exists():
            yield str(place.absolute())
