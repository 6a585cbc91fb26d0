"""One end of the socket between a monitor and a worker: messages, and questions with replies.

A frame is its length in four bytes, and a message of `ragmonitor.runtime.wire`.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from ragmonitor.runtime import wire
from ragmonitor.runtime.guard import contained, record_problem

HEADER_BYTES: Final = 4
# An application may have SIGPIPE end it.
_FLAGS: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class ChannelError(Exception):
    """The other side is gone."""


class Channel:
    """One end of the socket. Any thread may send; one listens."""

    def __init__(self, sock: socket.socket) -> None:
        """Read nothing yet."""
        sock.settimeout(None)
        self._socket = sock
        self._identity = self._found()
        self._sending = threading.RLock()  # what is logged on the way may be sent, too
        self._numbers = itertools.count(1)
        self.asked: dict[int, Future[Any]] = {}
        """The questions that nobody has replied to, by number."""
        self._is_heard = False
        self.is_open = True

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._socket.fileno())
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _is_ours(self) -> bool:
        """Return whether the number is still that of the socket."""
        return self._found() == self._identity

    # --- to the other side ----------------------------------------------------------------------

    def tell(self, name: str, *args: object) -> None:
        """Send a message; waits while the other side does not read. Raises `ChannelError`.

        An application may close all descriptors, as daemons do, and open a file of its own under
        the same number: nothing is written there.
        """
        data = wire.encode_message(name, *args)
        with self._sending:
            if not self._is_ours():
                self.forget()
                raise ChannelError("the socket was closed")
            try:
                self._socket.sendall(len(data).to_bytes(HEADER_BYTES) + data, _FLAGS)
            except BaseException as error:
                self.close()  # the other side may have half of a frame
                if not isinstance(error, OSError):
                    raise
                raise ChannelError(f"the other side is gone: {error}") from error

    def ask(self, name: str, *args: object) -> Future[Any]:
        """Send a question, and return where the reply will be; None: the other side has gone."""
        number, reply = next(self._numbers), Future[Any]()
        self.asked[number] = reply
        try:
            self.tell(name, number, *args)
        except ChannelError:
            self.replied(number, None)
        except BaseException:  # raised again: nobody waits for a reply
            self.asked.pop(number, None)
            raise
        return reply

    def replied(self, number: int, value: object) -> None:
        """Take a reply, the first one."""
        if (reply := self.asked.pop(number, None)) is not None:
            reply.set_result(value)

    def reply(self, number: int, value: object) -> None:
        """Reply to a question, if anybody is there."""
        with suppress(ChannelError):
            self.tell("reply", number, value)

    # --- from the other side --------------------------------------------------------------------

    def listen(self, handle: Callable[..., object]) -> None:
        """Have `handle` called with each message's name and arguments, until nobody is there."""
        self._is_heard = True
        try:
            while (header := self._read(HEADER_BYTES)) is not None:
                length = int.from_bytes(header)
                if length > wire.MAX_MESSAGE_BYTES or (data := self._read(length)) is None:
                    return
                with contained("worker"):
                    name, args = wire.decode_message(data)
                    if name == "reply":
                        self.replied(*args)
                    else:
                        handle(name, *args)
        finally:
            self.close()
            with self._sending:
                self.forget()

    def _read(self, length: int) -> bytes | None:
        """Return so many bytes; None: the other side is gone."""
        data = bytearray()
        with suppress(OSError):
            # A signal, or a stop of the process, may cut short even a read of all.
            while self._is_ours() and (
                more := self._socket.recv(length - len(data), socket.MSG_WAITALL)
            ):
                data += more
                if len(data) == length:
                    return bytes(data)
        return None

    def close(self) -> None:
        """End the connection; the other side sees it at once, and who waits here goes on."""
        self.is_open = False
        if self._is_ours():
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if not self._is_heard:  # else who listens lets go of it
            self.forget()
        for number in tuple(self.asked):
            self.replied(number, None)

    def forget(self) -> None:
        """Let go of the socket, unless its number is another descriptor's; it may be shared."""
        self.is_open = False
        if self._is_ours():
            self._socket.close()
        elif self._socket.detach() >= 0:
            record_problem("worker", "the application has closed the socket of its worker")
