"""The standard library's HTTP server behind one limit of connections and time.

A connection is open for `REQUEST_TIMEOUT_S` at most, whatever its client does, and there are at
most `MAX_CONNECTIONS` at once: clients cannot take threads and descriptors of the host without end.
Where all are taken, the oldest that has shown no request, and no right to one, makes room.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Final, Literal

from ragmonitor.export.content import compact_json
from ragmonitor.runtime.guard import shielded

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds from the acceptance of a connection to its end; Prometheus waits no longer either."""
MAX_CONNECTIONS: Final = 16
"""Each has a thread and a descriptor of the host."""
MAX_BODY_BYTES: Final = 16_384
"""The bytes that a request may send after its head, unless the server says more."""
_MAX_LINE_BYTES: Final = 1_024
"""The length of a line between the chunks of a body."""
_LINGER_BYTES: Final = 65_536

Rejection = Literal["malformed", "too_large", "too_many", "too_slow"]
"""Why a request was not answered as asked."""
_BY_STATUS: Final[dict[int, Rejection]] = {
    **dict.fromkeys((400, 411, 501, 505), "malformed"),
    **dict.fromkeys((413, 414, 431), "too_large"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An HTTP reply."""

    status: int
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(value: Any, *, status: int = 200) -> Reply:
    """Return a value as JSON; a lone surrogate, which UTF-8 lacks, as JSON's own escape for it."""
    body = compact_json(value).encode("utf-8", "backslashreplace")
    return Reply(status=status, content_type="application/json", body=body)


Answer = Callable[[str, Message], Reply]
"""From a request's target (path and query, as they came) and its headers to the reply."""
Receive = Callable[[str, Message, bytes], Reply]
"""From target, headers and body of a POST to the reply."""
Admit = Callable[[str, Message], Reply | None]
"""From target and headers of a request that sends something to a refusal, before it is read."""


class HttpServer(ThreadingTCPServer):
    """Answers requests, a bounded number at once, each for a bounded time.

    Not the library's `HTTPServer`: that asks the name service for its own name, which may block.
    """

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        answer: Answer,
        *,
        count: Callable[[Rejection], None] = lambda _: None,
        receive: Receive | None = None,
        admit: Admit = lambda _target, _headers: None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        """Listen; nothing is answered before `serve_forever`.

        Args:
            host: Address to listen on.
            port: 0: any free one.
            answer: Called from threads of the server's, for several requests at once.
            count: Counts requests that were not answered as asked, from any thread.
            receive: As `answer`, for requests that send something; None: there are none.
            admit: Asked before what a request sends is read, from any thread.
            max_body_bytes: What a request may send.

        Raises:
            OSError: The address cannot be listened on.
        """
        self.answer, self.receive, self.admit = answer, receive, admit
        self.count = count
        self.max_body_bytes = max_body_bytes
        self.connections: dict[socket.socket, float] = {}
        """The open ones, the oldest first, and when each began."""
        self.at_work: set[socket.socket] = set()
        """Those whose request is admitted: the others make room for newcomers."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def abandon(self) -> None:
        """Close the parent's sockets in a forked child; their threads stayed with the parent."""
        self.socket.close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                os.close(connection.detach())  # a file of the thread's keeps a socket open

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread; of too many the oldest without a request is closed."""
        self.connections[request] = time.monotonic()
        if len(self.connections) > MAX_CONNECTIONS:
            silent = (each for each in list(self.connections) if each not in self.at_work)
            self._end(next(silent), "too_many")
        if request in self.connections:
            super().process_request(request, client_address)
        else:
            super().shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection: it is answered, or the host has no thread left."""
        self.connections.pop(request, None)
        self.at_work.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End the connections whose time is over; the library calls this twice a second."""
        for connection, began_s in list(self.connections.items()):
            if time.monotonic() - began_s > REQUEST_TIMEOUT_S:
                self._end(connection, "too_slow")

    def _end(self, connection: socket.socket, why: Rejection) -> None:
        self.connections.pop(connection, None)
        self.count(why)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # its thread wakes

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing, unlike the library: the client has gone, or there is no thread."""

    def computed(self, answer: Callable[[], Reply]) -> Reply:
        """Return a reply, or that there is none by an error of ours."""
        with shielded("metrics"):
            return answer()
        return Reply(status=500, body=b"an error of ragmonitor's; see the log\n")


class _Handler(BaseHTTPRequestHandler):
    """Reads one request and answers it; the connection is not kept."""

    server: HttpServer
    timeout = REQUEST_TIMEOUT_S
    server_version = "ragmonitor"
    sys_version = ""

    def do_GET(self) -> None:
        self.server.at_work.add(self.connection)
        self._send(self.server.computed(lambda: self.server.answer(self.path, self.headers)))

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
        self.server.at_work.add(self.connection)
        body = self._body()
        if body is not None:
            self._send(self.server.computed(lambda: receive(self.path, self.headers, body)))

    def _body(self) -> bytes | None:
        """Return what was sent after the head; None: an error was the answer."""
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            return self._chunks()
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9:
            self.send_error(411)
        elif int(length) > self.server.max_body_bytes:
            self.send_error(413)
        else:
            body = self.rfile.read(int(length))
            if len(body) == int(length):
                return body
            self.send_error(400)
        return None

    def _chunks(self) -> bytes | None:
        """Return a body in chunks (RFC 9112, section 7.1); None: an error was the answer."""
        body = bytearray()
        while True:
            line = self.rfile.readline(_MAX_LINE_BYTES).partition(b";")[0].strip()
            if not line or len(line) > 9 or not set(line) <= set(b"0123456789abcdefABCDEF"):
                self.send_error(400)
                return None
            size = int(line, 16)
            if len(body) + size > self.server.max_body_bytes:
                self.send_error(413)
                return None
            body += self.rfile.read(size)
            if self.rfile.readline(_MAX_LINE_BYTES).strip():  # also of what follows the last chunk
                self.send_error(400)
                return None
            if not size:
                return bytes(body)

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
            self.server.count(reason)
            self._linger()

    def _linger(self) -> None:
        """Read what is still to come of a request that is not wanted, within bounds.

        Closed with bytes unread, a connection is reset, and its client may never see the reply.
        """
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            left = max(_LINGER_BYTES, 4 * self.server.max_body_bytes)
            while left > 0 and (some := self.connection.recv(_LINGER_BYTES)):
                left -= len(some)
