"""Serves /metrics over HTTP, if the port is free."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from email.message import Message
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ragmonitor.export.server import HttpServer, Receive, Reply, json_reply
from ragmonitor.export.view.access import Access, is_loopback
from ragmonitor.runtime.guard import logger

METRICS: Final = "/metrics"
STATE: Final = "/metrics.json"
"""The path of the numbers as JSON; on loopback only under a name of loopback."""
_NOT_FOUND: Final = Reply(status=404, body=b"there is no such page\n")
_THIS_MACHINE: Final = Access()
"""Keeps out a website whose name is made to point here (DNS rebinding), as from the page."""


Pages = Callable[[str, Message], Reply | None]
"""The pages beside /metrics, which are read only: from a path with its query and a request's
headers to what to answer; None: there is no such page."""


class Endpoint:
    """The HTTP server of one registry. Opened by `open`, which may be called again and again."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        host: str,
        port: int,
        shared: bool,
        state: Callable[[], dict[str, Any]],
        pages: Pages | None = None,
        receive: Receive | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            registry: The series to serve.
            host: Address to listen on.
            port: 0: any free one.
            shared: Other processes of this application serve the same numbers, so that a taken
                port is nothing to worry about.
            state: Returns the state of the service for JSON.
            pages: The other pages; None: there are none.
            receive: Answers requests that send something; None: there are none.
        """
        self._registry = registry
        self._host = host
        self._port = port
        self._shared = shared
        self._state = state
        self._pages = pages
        self._receive = receive
        self._server: HttpServer | None = None
        self._warned = self._closed = False

    @property
    def url(self) -> str | None:
        """Where this process serves; None if it does not."""
        if self._server is None:
            return None
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._server.server_address[1]}/metrics"

    def open(self) -> None:
        """Listen if nobody else does."""
        if self._server is not None or self._closed:
            return
        try:
            server = HttpServer(self._host, self._port, self._answer, receive=self._receive)
        except OSError as error:
            self._warn(error)
            return
        thread = threading.Thread(
            target=server.serve_forever, name="ragmonitor-metrics", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the host has no thread left: a later call may find one
            server.server_close()
            raise
        self._server = server

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def forget(self) -> None:
        """Let go of the parent's sockets, which would keep its port taken after its death."""
        server, self._server = self._server, None
        self._warned = False
        if server is not None:
            server.abandon()

    def _answer(self, target: str, headers: Message) -> Reply:
        path = target.partition("?")[0].rstrip("/")
        if path == STATE:
            refusal = _THIS_MACHINE.refusal(headers) if is_loopback(self._host) else None
            return refusal or json_reply({"services": [self._state()]})
        if path != METRICS and self._pages is not None:
            return self._pages(target, headers) or _NOT_FOUND
        return self._metrics(headers) if path in ("", METRICS) else _NOT_FOUND

    def _metrics(self, headers: Message) -> Reply:
        accept = headers.get("Accept", "")
        try:
            # The media type comes back in the reply's headers.
            encode, content_type = choose_encoder(accept if accept.isprintable() else "")
        except (TypeError, ValueError):  # its version is no version
            encode, content_type = choose_encoder("")
        body = encode(self._registry)
        # Not compressed: that costs the host more than it saves.
        return Reply(status=200, content_type=content_type, body=body)

    def _warn(self, error: OSError) -> None:
        if self._warned:
            return
        self._warned = True
        place = f"{self._host}:{self._port}"
        if error.errno == errno.EADDRINUSE and self._shared:
            logger.info(
                "ragmonitor: %s is taken, by another process of this application if all is well; "
                "it serves this one's numbers too",
                place,
            )
            return
        logger.warning(
            "ragmonitor: /metrics of process %d cannot be served on %s (%s), and its numbers are "
            "missing; if several processes run this application, name a file that they share "
            "(state), else set server.port to another port, or to 0 for any free one, or mount "
            "monitor.registry in the application's own endpoint; a Monitor that is made anew needs "
            "close() on the one before",
            *(os.getpid(), place, error.strerror),
        )
