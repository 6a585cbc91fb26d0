"""The connection between an application and its helper process: messages, requests and replies."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import pickle
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

from ragmonitor import wire
from ragmonitor.apart import EXECUTOR
from ragmonitor.guard import contained
from ragmonitor.records import Interaction, Report

Handler = Callable[..., object]

Kind = Literal["message", "request", "reply", "error"]


class LinkError(Exception):
    """The other process is gone, or could not do what was requested."""


class Link:
    """One end of a connection on which both sides may send messages and requests.

    `serve` reads on the calling thread and calls the handlers there, in the order of what comes;
    those of `apart` get a thread of their own, so that they may wait. What is sent may be pickled:
    the other side is a process that this one started, or the one that started it.
    """

    def __init__(
        self,
        connection: Connection,
        handlers: Mapping[str, Handler],
        *,
        apart: frozenset[str] = frozenset(),
    ) -> None:
        """Read nothing yet.

        Args:
            connection: Both ways.
            handlers: By name of a message or request.
            apart: Names of those that may take long.
        """
        self._connection = connection
        self._handlers = handlers
        self._apart = apart
        self._sending = threading.Lock()
        self._closing = threading.Lock()
        self._is_served = False
        self._numbers = itertools.count()
        self._awaited: dict[int, Future[Any]] = {}
        self._is_open = True

    def send(self, name: str, *args: object) -> None:
        """Send a message; waits while the other side does not read. Raises `LinkError`."""
        self._send("message", 0, name, args)

    def request(self, name: str, *args: object) -> Future[Any]:
        """Send a request; the future has the reply, or a `LinkError`. Raises `LinkError`."""
        number, future = next(self._numbers), Future[Any]()
        self._awaited[number] = future
        try:
            self._send("request", number, name, args)
        except LinkError:
            self._awaited.pop(number, None)
            raise
        if not self._is_open:  # it was closed meanwhile, and nobody looks for futures any more
            self._fail(number)
        return future

    def _send(self, kind: Kind, number: int, name: str, content: object) -> None:
        data = _pickled((kind, number, name, content))
        try:
            with self._sending:
                self._connection.send_bytes(data)
        except (OSError, ValueError) as error:
            raise LinkError(f"the other process is gone: {error}") from error

    def serve(self) -> None:
        """Read and handle until the other side is gone; then every open request fails."""
        with self._closing:
            self._is_served = self._is_open
        try:
            while self._is_served:
                try:
                    data = self._connection.recv_bytes()
                except (EOFError, OSError):
                    return
                with contained("worker"):
                    self._handle(*pickle.loads(data))  # noqa: S301 - our own process's
        finally:
            self._is_open = False
            for number in tuple(self._awaited):
                self._fail(number)
            with self._sending, self._closing:
                self._connection.close()

    def _fail(self, number: int) -> None:
        future = self._awaited.pop(number, None)
        if future is not None:
            future.set_exception(LinkError("the other process is gone"))

    def _handle(self, kind: Kind, number: int, name: str, content: Any) -> None:
        if kind in ("reply", "error"):
            future = self._awaited.pop(number, None)
            if future is None:
                return
            if kind == "reply":
                future.set_result(content)
            else:
                future.set_exception(LinkError(content))
        elif name in self._apart:
            EXECUTOR.submit(self._call, kind, number, name, content)
        else:
            self._call(kind, number, name, content)

    def _call(self, kind: Kind, number: int, name: str, content: Any) -> None:
        answer: tuple[Kind, object] = ("error", f"{name} failed in the other process")
        with contained("worker"):
            answer = ("reply", self._handlers[name](*content))
        if kind == "request":
            with contextlib.suppress(LinkError):
                self._send(answer[0], number, name, answer[1])

    def close(self) -> None:
        """End the connection; the other side sees it at once."""
        with self._closing:
            # A thread that waits for what comes keeps a socket open whose descriptor is closed.
            with (
                contextlib.suppress(OSError),
                socket.socket(fileno=os.dup(self._connection.fileno())) as held,
            ):
                held.shutdown(socket.SHUT_RDWR)
            self._is_open = False
            is_ours = not self._is_served
        if is_ours:
            self._connection.close()
        # Else who serves closes the descriptor: the next that is opened, whatever of the
        # application's, has its number, and they may be about to read from it or to write to it.

    def forget(self) -> None:
        """Close this process's copy of this end, in a forked child; the connection stays."""
        self._is_open = False
        with contextlib.suppress(OSError):
            self._connection.close()


_AS_BYTES: Final[Mapping[type, tuple[Callable[[Any], bytes], Callable[[bytes], object]]]] = {
    Interaction: (wire.encode, wire.decode),
    Report: (wire.encode_report, wire.decode_report),
}


class _Pickler(pickle.Pickler):
    """Writes records as bytes of `wire`, in a quarter of the time that pickle takes over them."""

    def reducer_override(self, value: object) -> Any:
        """Return how a record is read again; of anything else pickle knows better."""
        functions = _AS_BYTES.get(type(value))
        if functions is None:
            return NotImplemented
        encode, decode = functions
        data = encode(value)
        # A longer one would lose what pickle keeps.
        return NotImplemented if wire.was_cut(data) else (decode, (data,))


def _pickled(message: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getvalue()
