"""An HTTP server that uses few threads and descriptors of its host, and little time.

Without bounds, clients could create threads and descriptors without end. So a connection is open
for `REQUEST_TIMEOUT_S` at most, from its acceptance to its last byte, whatever its client does, and
there are at most `MAX_CONNECTIONS` at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final, Literal

from ragmonitor.guard import record_error, shielded
from ragmonitor.protocols import Clock

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds from the acceptance of a connection to its end; Prometheus waits no longer either."""
MAX_CONNECTIONS: Final = 16
"""Each has a thread and a descriptor of the host."""
MAX_HEAD_BYTES: Final = 32_768
"""The request line and all headers together; with what is sent after them, if anything is."""
MAX_BODY_BYTES: Final = 16_384
"""The bytes that a request may send after its head, unless the server says more."""
"""A fork of the host waits for so long for a reply that is being computed."""
_BACKLOG: Final = 128
_MAKING_ROOM_S: Final = 0.2
_LOOK_S: Final = 0.05
"""A request that waits for others looks so often whether its client has gone."""
_MAX_LINE_BYTES: Final = 1_024
"""The length of a line between the chunks of a body, and of all lines after the last of them."""
_LINGER_S: Final = 1.0
_LINGER_BYTES: Final = 65_536
"""So much is read, at least, of what a refused client still sends."""
_LINGER_BODIES: Final = 4
_ACCEPT_AGAIN_S: Final = 0.5
_NO_ROOM: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Rejection = Literal["malformed", "too_large", "too_many", "too_slow"]
"""Why a request was not answered as asked.

`malformed`: it is no HTTP, or asks for what cannot be read; `too_large`: its head is beyond
`MAX_HEAD_BYTES`; `too_many`: there were others; `too_slow`: its client took longer than
`REQUEST_TIMEOUT_S`.
"""
_BY_STATUS: Final[dict[int, Rejection]] = {
    400: "malformed",
    411: "malformed",
    413: "too_large",
    414: "too_large",
    431: "too_large",
    501: "malformed",
    503: "too_many",
    505: "malformed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP reply."""

    status: int
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Answer = Callable[[str, Message], Reply]
"""From a request's target (path and query, as they came) and its headers to the reply."""
Receive = Callable[[str, str, Message, bytes], Reply]
"""From the method (POST or OPTIONS), target, headers and body of a request to the reply."""
Admit = Callable[[str, Message], Reply | None]
"""From target and headers of a request that sends something to a refusal, before it is read."""

_BROKEN: Final = Reply(status=500, body=b"an error of ragmonitor's; see the log\n")
_BUSY: Final = Reply(status=503, body=b"busy with other requests; try again later\n")


class BoundedServer(HTTPServer):
    """Answers requests, a bounded number at once, each for a bounded time.

    When all connections are taken, the oldest of those whose request has not come makes room for
    the new one, else the oldest of those that receive a reply; when there is none, the new one is
    closed. A client that has reset its connection is answered no more, and requests that are the
    same share a reply. So neither clients that say nothing nor clients that go away can keep a
    scrape away.
    """

    request_queue_size = _BACKLOG

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        *,
        count: Callable[[Rejection], None],
        receive: Receive | None = None,
        admit: Admit = lambda _target, _headers: None,
        max_body_bytes: int = MAX_BODY_BYTES,
        tls: ssl.SSLContext | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Listen; nothing is answered before `serve_forever`.

        Args:
            host: Address to listen on.
            port: 0: any free one.
            answer: Called for one request at a time, from threads of the server's.
            count: Counts requests that were not answered as asked, from any thread.
            receive: As `answer`, for requests that send something; None: there are none.
            admit: Asked before what a request sends is read, from any thread.
            max_body_bytes: What a request may send.
            tls: With which connections are encrypted; None: they are not.
            clock: For the deadlines.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._host = host
        self._answer = answer
        self._count = count
        self.receive = receive
        """Answers requests that send something; None: there are none."""
        self.admit = admit
        """Asked before what a request sends is read."""
        self.max_body_bytes = max_body_bytes
        """The bytes that a request may send."""
        self._tls = tls
        self._clock = clock
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._closing = threading.Lock()
        self._answering = threading.Lock()
        self._counting = threading.Lock()
        self._connections: dict[_Connection, None] = {}
        self._sharing = threading.Lock()
        self._awaited: weakref.WeakValueDictionary[tuple[Any, ...], _SharedReply] = (
            weakref.WeakValueDictionary()
        )
        """The reply to all requests that came before it was begun, by target and headers."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def abandon(self) -> None:
        """Close the parent's sockets in a forked child.

        The threads that served them stayed with the parent, and so do the locks: whoever held one
        at the fork never releases it here.
        """
        self.socket.close()
        for connection in list(self._connections):
            connection.sock.close()

    def shutdown(self) -> None:
        """Stop serving at once, unlike the library, which looks every half second."""
        with contextlib.suppress(OSError):  # macOS refuses, and waits as the library does
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        super().shutdown()

    # --- what socketserver calls, on the thread that accepts ------------------------------------

    def server_bind(self) -> None:
        """Bind, without HTTPServer's query to the name service, which may block."""
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._host, int(self.server_address[1])

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection; with no descriptor left, wait a little before the next try."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in _NO_ROOM:
                # The host has no descriptor left. Clients go on waiting, and so do we: another
                # try at once would turn this thread into a busy loop.
                self.rejected("too_many")
                time.sleep(_ACCEPT_AGAIN_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a new connection a thread, if its client is still there and there is room."""
        connection = _Connection(request, self._clock)
        if connection.has_gone():
            self.shutdown_request(request)
            return
        if not self._find_room():
            self.rejected("too_many")
            self.shutdown_request(request)
            return
        self._connections[connection] = None
        try:
            threading.Thread(
                target=self._serve,
                args=(connection, client_address),
                name="ragmonitor-request",
                daemon=True,
            ).start()
        except RuntimeError:  # the host has no thread left
            self.rejected("too_many")
            self._end(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Print nothing, unlike the library."""
        self.rejected("too_many")

    def _find_room(self) -> bool:
        if self._free.acquire(blocking=False):
            return True
        with self._closing:
            held = list(self._connections)
            if not (
                any(each.cut_short("request") for each in held)
                or any(not each.waits_for and each.has_gone() for each in held)  # it ends itself
                or any(each.cut_short("reader") for each in held)
            ):
                return False
        return self._free.acquire(timeout=_MAKING_ROOM_S)

    # --- on a connection's own thread -----------------------------------------------------------

    def _serve(self, connection: _Connection, client_address: Any) -> None:
        try:
            connection.secure(self._tls)
            # Typed as if it took sockets only.
            self.finish_request(connection, client_address)  # type: ignore[arg-type]
        except RejectedError as error:
            self.rejected(error.reason)
        except OSError:  # the client has gone
            pass
        except Exception as error:  # noqa: BLE001 - nothing of ours may reach the host's excepthook
            record_error("metrics", error)
        finally:
            self._end(connection)

    def _end(self, connection: _Connection) -> None:
        with self._closing:
            self._connections.pop(connection, None)
            self.shutdown_request(connection.sock)
        self._free.release()

    def reply(self, connection: _Connection, target: str, headers: Message) -> Reply:
        """Return what to answer to a GET request.

        Args:
            connection: Which the request came by.
            target: Path and query, as they came.
            headers: Of the request.

        Raises:
            ConnectionResetError: As `alone`.
        """
        same = (target, *headers.items())
        with self._sharing:
            shared = self._awaited.setdefault(same, _SharedReply())

        def answer() -> Reply:
            if shared.reply is None:
                with self._sharing:  # a reply is never older than the request
                    self._awaited.pop(same, None)
                shared.reply = self._answer(target, headers)
            return shared.reply

        return self.alone(connection, answer)

    def alone(self, connection: _Connection, answer: Callable[[], Reply]) -> Reply:
        """Return what to answer, one request at a time.

        Sixteen at once would take the interpreter from the host.

        Args:
            connection: Which the request came by. It waits for others half of the time it has left.
            answer: Computes the reply.

        Raises:
            ConnectionResetError: Its client has gone before that; nothing was computed.
        """
        for _ in range(math.ceil(connection.left_s / 2 / _LOOK_S)):
            connection.check()
            if self._answering.acquire(timeout=_LOOK_S):
                break
        else:
            return _BUSY
        try:
            connection.check()
            with shielded("metrics"):
                return answer()
            return _BROKEN
        finally:
            self._answering.release()

    def rejected(self, reason: Rejection) -> None:
        """Count a request that was not answered as asked."""
        with shielded("metrics"), self._counting:
            self._count(reason)


class _SharedReply:
    """The reply to requests that are the same, once it is computed."""

    reply: Reply | None = None


class RejectedError(Exception):
    """A connection is to be closed without an answer."""

    def __init__(self, reason: Rejection) -> None:
        super().__init__(reason)
        self.reason: Rejection = reason


class _Connection(io.RawIOBase):
    """A client's connection, as a file whose reading and writing end at one deadline."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        super().__init__()
        self.sock = sock
        self.read_bytes = 0
        self.max_bytes = MAX_HEAD_BYTES
        """The bytes of the request; raised once its head is known."""
        self._clock = clock
        self._deadline_s = clock() + REQUEST_TIMEOUT_S
        self.waits_for: Literal["request", "reader", ""] = "request"
        """The client's request, the client as it reads the reply, or nothing of the client's."""
        self._is_cut_short = False

    def secure(self, tls: ssl.SSLContext | None) -> None:
        """Encrypt it; the handshake comes with the first read, and so within the deadline."""
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_side=True, do_handshake_on_connect=False)

    @property
    def left_s(self) -> float:
        """The number of seconds that are left; 0 if none."""
        return max(0.0, self._deadline_s - self._clock())

    def has_gone(self) -> bool:
        """Return whether the client has reset the connection.

        One that only ends what it sends (a half-close) may well wait for its answer; a client that
        has closed looks the same until something is sent to it.
        """
        if not hasattr(select, "poll"):  # Windows
            return False
        look = select.poll()
        look.register(self.sock, 0)  # of what comes nothing is read, and no error is taken off
        return any(event & select.POLLERR for _, event in look.poll(0))

    def check(self) -> None:
        """Raise ConnectionResetError if the client has gone."""
        if self.has_gone():
            raise ConnectionResetError

    def cut_short(self, waits_for: Literal["request", "reader"]) -> bool:
        """End it if that is what it waits for; return whether it is."""
        if self.waits_for != waits_for or self._is_cut_short:
            return False
        self._is_cut_short = True
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.read_bytes >= self.max_bytes:
            raise RejectedError("too_large")
        n = 0
        with self._within_time("request"):
            n = self.sock.recv_into(buffer)
        self.read_bytes += n
        return n

    def write(self, data: Any) -> int:
        with self._within_time("reader"):
            self.sock.sendall(data)  # its time limit is for the whole, not for each piece
        return len(data)

    def linger(self, max_bytes: int) -> None:
        """Read what is still to come, within bounds, of a request that is not wanted.

        Closed with bytes unread, a connection is reset, and its client may never see the reply.
        """
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
            deadline_s = self._clock() + min(_LINGER_S, self.left_s)
            read = 0
            while read < max_bytes and (left_s := deadline_s - self._clock()) > 0:
                self.sock.settimeout(left_s)
                n = len(self.sock.recv(_LINGER_BYTES))
                if n == 0:
                    return
                read += n

    @contextlib.contextmanager
    def _within_time(self, waits_for: Literal["request", "reader"]) -> Iterator[None]:
        left_s = self.left_s
        if left_s <= 0:
            raise RejectedError("too_slow")
        self.sock.settimeout(left_s)
        self.waits_for = waits_for
        try:
            yield
        except TimeoutError:
            raise RejectedError("too_slow") from None
        except OSError:
            if not self._is_cut_short:
                raise
        self.waits_for = ""
        if self._is_cut_short:
            raise RejectedError("too_many")


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and answers it; the connection is not kept."""

    server: BoundedServer
    request: _Connection
    server_version = "ragmonitor"
    sys_version = ""

    def setup(self) -> None:
        self.rfile = io.BufferedReader(self.request)
        # Typed as if it were buffered; http.server writes a reply's head at once.
        self.wfile = self.request  # type: ignore[assignment]

    def handle(self) -> None:
        self.close_connection = True
        try:
            self.handle_one_request()
        except RejectedError as error:
            if error.reason != "too_large":
                raise
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
            self.send_error(431)

    def finish(self) -> None:
        """Leave the connection to the server, which ends it."""

    def do_GET(self) -> None:
        self._send(self.server.reply(self.request, self.path, self.headers))

    def do_POST(self) -> None:
        receive = self.server.receive
        if receive is None:
            self.send_error(501)
            return
        refusal = self.server.admit(self.path, self.headers)
        if refusal is not None:
            self._send(refusal)
            self._linger()
            return
        body = self._body()
        if body is not None:
            self._send(
                self.server.alone(
                    self.request, lambda: receive(self.command, self.path, self.headers, body)
                )
            )

    def _body(self) -> bytes | None:
        """Return what was sent after the head; None: an error was the answer."""
        max_bytes = self.server.max_body_bytes
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            # What frames the chunks is read, too; and a chunk has a byte at least.
            self.request.max_bytes += 2 * max_bytes
            return self._chunks(max_bytes)
        length = self.headers.get("Content-Length", "" if self.command == "POST" else "0")
        if not length.isdecimal() or len(length) > 9:
            self.send_error(411)
            return None
        if int(length) > max_bytes:
            self.send_error(413)
            return None
        self.request.max_bytes += int(length)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.send_error(400)
            return None
        return body

    def _chunks(self, max_bytes: int) -> bytes | None:
        """Return a body in chunks (RFC 9112, section 7.1); None: an error was the answer."""
        body = bytearray()
        while True:
            size = self.rfile.readline(_MAX_LINE_BYTES).partition(b";")[0].strip()
            if (
                not size
                or len(size) > 9
                or not all(digit in b"0123456789abcdefABCDEF" for digit in size)
            ):
                self.send_error(400)
                return None
            count = int(size, 16)
            if not count:
                break
            if len(body) + count > max_bytes:
                self.send_error(413)
                return None
            body += self.rfile.read(count)
            if self.rfile.readline(_MAX_LINE_BYTES).strip():
                self.send_error(400)
                return None
        left = _MAX_LINE_BYTES
        while left > 0 and (line := self.rfile.readline(left)).strip():
            left -= len(line)
        return bytes(body)

    do_OPTIONS = do_POST  # noqa: N815 - the library's name; of a browser that asks before it sends

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        self._account(reply.status)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        super().send_error(code, message, explain)
        self._account(code)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the library
        """Log nothing: it would go to the host's standard error."""

    def _account(self, status: int) -> None:
        reason = _BY_STATUS.get(status)
        if reason is not None:
            self.server.rejected(reason)
            self._linger()

    def _linger(self) -> None:
        self.request.linger(max(_LINGER_BYTES, _LINGER_BODIES * self.server.max_body_bytes))
