"""Serves /metrics over HTTP, if the port is to be had."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

from prometheus_client import MetricsHandler
from prometheus_client.registry import Collector

from ragmonitor.guard import logger, record_error, shielded

REQUEST_TIMEOUT_S = 10.0
"""A client that connects and says nothing is let go after this."""
METRICS = "/metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a browser is answered."""

    status: int
    content_type: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Pages(Protocol):
    """What is served beside /metrics. Read only: there is nothing but GET."""

    def reply(self, target: str, headers: Message) -> Reply | None:
        """Return what to answer to a path with its query; None: there is no such page."""
        ...

    def shared_by(self, processes: Callable[[], int]) -> None:
        """Learn how to find out how many processes this application has."""
        ...

    def after_fork_in_child(self) -> None:
        """Let go of what belongs to the parent process."""
        ...


class Endpoint:
    """The HTTP server of one registry. Opened by `open`, which may be called again and again."""

    def __init__(
        self,
        registry: Collector,
        *,
        host: str,
        port: int,
        shared: bool,
        pages: Pages | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            registry: What is served.
            host: Address to listen on.
            port: 0: any free one.
            shared: Other processes of this application serve the same numbers, so that a taken
                port is nothing to worry about.
            pages: What else is served; None: nothing.
        """
        self._registry = registry
        self._host = host
        self._port = port
        self._shared = shared
        self._pages = pages
        self._server: _Server | None = None
        self._warned = False

    @property
    def url(self) -> str | None:
        """Where this process serves; None if it does not."""
        server = self._server
        if server is None:
            return None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{server.server_address[1]}/metrics"

    def open(self) -> bool:
        """Listen if nobody else does; return whether this process serves."""
        if self._server is not None:
            return True
        try:
            server = _Server(
                self._host, self._port, _Handler.factory(self._registry), pages=self._pages
            )
        except OSError as error:
            self._warn(error)
            return False
        self._server = server
        threading.Thread(
            target=server.serve_forever, name="ragmonitor-metrics", daemon=True
        ).start()
        return True

    def close(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's socket, which would keep its port taken after its death."""
        server, self._server = self._server, None
        self._warned = False
        if server is not None:
            server.socket.close()  # the thread that served it stayed with the parent

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        place = f"{self._host}:{self._port}"
        if error.errno != errno.EADDRINUSE:
            logger.warning("ragmonitor: /metrics cannot be served on %s: %s", place, error)
        elif self._shared:
            logger.info(
                "ragmonitor: %s is taken, by another process of this application if all is well; "
                "it serves this one's numbers too",
                place,
            )
        else:
            logger.warning(
                "ragmonitor: %s is taken, so /metrics of process %d is not served and its numbers "
                "are missing; if several processes run this application, set "
                "PROMETHEUS_MULTIPROC_DIR to an empty folder that they share, else set "
                "prometheus_port to another port, or to 0 for any free one",
                place,
                os.getpid(),
            )


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        host: str,
        port: int,
        handler: type[BaseHTTPRequestHandler],
        *,
        pages: Pages | None,
    ) -> None:
        self._host = host
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service for our own name and may wait for it.
        if self.allow_reuse_address:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self._host, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exc_info()[1]
        if isinstance(error, Exception) and not isinstance(error, ConnectionError | TimeoutError):
            record_error("metrics", error)


class _Handler(MetricsHandler):
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        path = urlsplit(self.path).path.rstrip("/")
        pages = getattr(self.server, "pages", None)
        if path != METRICS and pages is not None:
            self._show(pages)
        elif path in ("", METRICS):
            super().do_GET()
        else:
            self.send_error(404)

    def _show(self, pages: Pages) -> None:
        reply: Reply | None = Reply(status=500, body=b"an error of ragmonitor's; see the log\n")
        with shielded("view"):
            reply = pages.reply(self.path, self.headers)
        if reply is None:
            self.send_error(404)
            return
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
