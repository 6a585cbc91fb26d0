"""A socket between a monitor and its worker: records one way, messages and requests both ways.

A frame is its length in four bytes, and bytes of `ragmonitor.runtime.wire`. A message is a number,
a name and arguments: the number is 0, or that of a request, or the negative one of a reply.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from ragmonitor.runtime import wire
from ragmonitor.runtime.apart import EXECUTOR
from ragmonitor.runtime.guard import contained, record_problem

HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 2 * wire.MAX_BYTES
LOOK_MS: Final = 50.0
# It waits by itself, and an application may have SIGPIPE end it.
_FLAGS: Final = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


class ChannelError(Exception):
    """The other side is gone, or could not do what was requested."""


class Channel:
    """One end. Any thread may send; `serve` reads on the calling thread."""

    def __init__(self, sock: socket.socket) -> None:
        """Read nothing yet."""
        self._socket = sock
        self._identity = self._found()
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._awaited: dict[int, Future[Any]] = {}
        self._is_served = False
        self.is_open = True

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._socket.fileno())
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_own(self) -> None:
        """Raise `ChannelError` unless the descriptor is still that of our socket.

        An application may close all descriptors, as daemons do, and open a file of its own under
        the same number.
        """
        if self._found() != self._identity:
            if self.is_open:
                self.is_open = False
                self._socket.detach()
                record_problem("worker", "the application has closed the socket of its worker")
            raise ChannelError("the socket was closed")

    def send(self, data: bytes, *, within_s: float = threading.TIMEOUT_MAX) -> None:
        """Send bytes of `wire`; waits while the other side does not read.

        Args:
            data: The bytes.
            within_s: How long it may take to begin: half of a frame is worse than none.

        Raises:
            ChannelError: The other side is gone, or did not read in time.
        """
        deadline = time.monotonic() + within_s
        frame = memoryview(len(data).to_bytes(HEADER_BYTES) + data)
        if not self._sending.acquire(timeout=max(0.0, within_s)):
            raise ChannelError("the other side does not read")
        try:
            left = frame
            while left:
                if len(left) == len(frame) and time.monotonic() > deadline:
                    raise ChannelError("the other side does not read")
                left = left[self._sent(left) :]
        finally:
            self._sending.release()

    def _sent(self, left: memoryview) -> int:
        """Return how many bytes were sent, after a look at whether it takes some."""
        try:
            self._require_own()
            return self._socket.send(left, _FLAGS)
        except BlockingIOError:
            writable = select.poll()
            writable.register(self._socket.fileno(), select.POLLOUT)
            writable.poll(LOOK_MS)
            return 0
        except ChannelError:
            raise
        except BaseException as error:
            self.close()  # the other side may have half of a frame
            if not isinstance(error, OSError):
                raise
            raise ChannelError(f"the other side is gone: {error}") from error

    def tell(self, name: str, *args: object, within_s: float = threading.TIMEOUT_MAX) -> None:
        """Send a message. Raises as `send`."""
        self.send(wire.encode_message((0, name, args)), within_s=within_s)

    def request(
        self, name: str, *args: object, within_s: float = threading.TIMEOUT_MAX
    ) -> Future[Any]:
        """Send a request; the future has the reply, or a `ChannelError`. Raises as `send`."""
        number, future = next(self._numbers), Future[Any]()
        self._awaited[number] = future
        try:
            self.send(wire.encode_message((number, name, args)), within_s=within_s)
        except ChannelError:
            self._awaited.pop(number, None)
            raise
        if not self.is_open:  # nobody looks for futures any more
            self._fail(number)
        return future

    def first(self) -> Any:
        """Return the arguments of the first message; None: there came none. Raises `WireError`."""
        header = self._read(HEADER_BYTES)
        data = None if header is None else self._read(int.from_bytes(header))
        return None if data is None else wire.decode_message(data)[2]

    def serve(
        self,
        handlers: Mapping[str, Callable[..., object]],
        take: Callable[[bytes], object] = lambda _data: None,
        *,
        inline: frozenset[str] = frozenset(),
    ) -> None:
        """Read until the other side is gone; then every open request fails.

        Args:
            handlers: Of messages and requests, by name.
            take: Takes bytes that are no message.
            inline: Names of requests that are answered on this thread; others may wait, and get a
                thread each.
        """
        self._is_served = True
        try:
            while (header := self._read(HEADER_BYTES)) is not None:
                length = int.from_bytes(header)
                if length > MAX_FRAME_BYTES or (data := self._read(length)) is None:
                    return
                with contained("worker"):
                    if not wire.is_kind(data, b"m"):
                        take(data)
                        continue
                    number, name, args = wire.decode_message(data)
                    if number < 0:
                        self._reply(-number, name, args)
                    elif number and name not in inline:
                        EXECUTOR.submit(self._call, handlers, number, name, args)
                    else:
                        self._call(handlers, number, name, args)
        finally:
            self.close()
            with self._sending:
                self._socket.close()
            for number in tuple(self._awaited):
                self._fail(number)

    def _read(self, length: int) -> bytes | None:
        """Return so many bytes; None: the other side is gone."""
        read = bytearray(length)
        left = memoryview(read)
        while left:
            try:
                self._require_own()
                n = self._socket.recv_into(left)
            except (OSError, ChannelError):
                return None
            if n == 0:
                return None
            left = left[n:]
        return bytes(read)

    def _call(self, handlers: Mapping[str, Any], number: int, name: str, args: Any) -> None:
        reply: tuple[str, object] = "error", f"{name} failed on the other side"
        with contained("worker"):
            reply = "", handlers[name](*args)
        if number:
            with contextlib.suppress(ChannelError):
                self.send(wire.encode_message((-number, *reply)))

    def _reply(self, number: int, failure: str, content: Any) -> None:
        future = self._awaited.pop(number, None)
        if future is not None and failure:
            future.set_exception(ChannelError(content))
        elif future is not None:
            future.set_result(content)

    def _fail(self, number: int) -> None:
        future = self._awaited.pop(number, None)
        if future is not None:
            future.set_exception(ChannelError("the other side is gone"))

    def close(self) -> None:
        """End the connection; the other side sees it at once, and who waits here goes on."""
        self.is_open = False
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._is_served:  # else who reads closes it
            self._socket.close()

    def forget(self) -> None:
        """Close a forked child's copy of this end; the connection stays the parent's."""
        if self._found() == self._identity:
            self._socket.close()
        self.is_open = False
