"""Serves /metrics over HTTP, if the port is free."""

from __future__ import annotations

import errno
import gzip
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from email.message import Message
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ragmonitor.export.content import compact_json
from ragmonitor.export.server import BoundedServer, Receive, Rejection, Reply
from ragmonitor.export.view.access import Access, is_loopback
from ragmonitor.forks import survive_forks
from ragmonitor.guard import logger, shielded

METRICS: Final = "/metrics"
STATE: Final = "/metrics.json"
"""The path of the numbers as JSON; on loopback only under a name of loopback."""
_MALFORMED: Final = Reply(status=400, body=b"this request cannot be read\n")
_NOT_FOUND: Final = Reply(status=404, body=b"there is no such page\n")
_ANOTHER_NAME: Final = Reply(
    status=403, body=b"this is for this machine only: ask http://localhost or http://127.0.0.1\n"
)
_THIS_MACHINE: Final = Access()
"""Keeps out a website whose name is made to point here (DNS rebinding), as from the page."""
_BROKEN: Final = Reply(status=500, body=b"an error of ragmonitor's; see the log\n")


class Pages(Protocol):
    """The pages beside /metrics. They are read only."""

    def reply(self, target: str, headers: Message) -> Reply | None:
        """Return what to answer to a path with its query; None: there is no such page."""
        ...

    def after_fork_in_child(self) -> None:
        """Drop the parent process's state."""
        ...


class _Sharing:
    """The open endpoints of this process, and their lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.endpoints: weakref.WeakSet[Endpoint] = weakref.WeakSet()

    def after_fork_in_child(self) -> None:
        """Take a new lock: some thread of the parent's may have held the old one."""
        self.lock = threading.Lock()


class _Together(Collector):
    """The series of several registries, each family once: a family may not come twice."""

    def __init__(self, registries: Sequence[CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for registry in self._registries:
            for family in registry.collect():
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples.extend(family.samples)
        return families.values()


class Endpoint:
    """The HTTP server of one registry. Opened by `open`, which may be called again and again.

    Endpoints of one process share an address: the first one serves the series of the others too.
    Of one service there is one, the newest: two would be the same series twice.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        service: str,
        host: str,
        port: int,
        shared: bool,
        rejected: Callable[[Rejection], None],
        state: Callable[[], dict[str, Any]],
        pages: Pages | None = None,
        receive: Receive | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            registry: The series to serve.
            service: Whose series these are.
            host: Address to listen on.
            port: 0: any free one.
            shared: Other processes of this application serve the same numbers, so that a taken
                port is nothing to worry about.
            rejected: Counts requests that were not answered as asked, from any thread.
            state: Returns the state of the service for JSON.
            pages: The other pages; None: there are none.
            receive: Answers requests that send something; None: there are none.
        """
        self.registry = registry
        self.service = service
        self._host = host
        self._port = port
        self._shared = shared
        self._rejected = rejected
        self.state = state
        self._pages = pages
        self._receive = receive
        self._server: BoundedServer | None = None
        self._thread: threading.Thread | None = None
        self._warned = False
        self.at: Endpoint | None = None
        """The endpoint that serves this one's series at the same address; None: no other."""
        self._is_replaced = False
        self.number = next(_numbers)
        """Newer ones have higher numbers, whichever of them is opened first."""
        self.guests: tuple[Endpoint, ...] = ()
        """The endpoints whose series are served with this one's."""

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        return self._host, self._port

    @property
    def has_pages(self) -> bool:
        """Whether the other pages are served too: at a shared address they are the first one's."""
        return self._server is not None

    @property
    def url(self) -> str | None:
        """Where this process serves; None if it does not."""
        server = self._server
        if server is None:
            return None if self.at is None else self.at.url
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{server.server_address[1]}/metrics"

    def open(self) -> bool:
        """Listen if nobody else does; return whether this process serves."""
        if self._server is not None:
            if self._thread is not None and self._thread.is_alive():
                return True
            self._server.server_close()
            self._server = None
        with _sharing.lock:
            return self._open()

    def _open(self) -> bool:
        if self._is_replaced:
            return False
        if self.at is not None and self.at.url is not None:
            return True
        self.at = None
        if self._share():
            return True
        if self._is_replaced:
            return False
        try:
            server = BoundedServer(
                self._host,
                self._port,
                self._answer,
                count=self._rejected,
                receive=self._receive,
            )
        except OSError as error:
            self._warn(error)
            return False
        thread = threading.Thread(
            target=server.serve_forever, name="ragmonitor-metrics", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the host has no thread left: a later call may find one
            server.server_close()
            raise
        self._server, self._thread = server, thread
        _sharing.endpoints.add(self)
        return True

    def _share(self) -> bool:
        """Have another endpoint of this process serve this one, or take the place of one."""
        others = [
            each
            for each in _sharing.endpoints
            if each is not self and each.place == self.place and self._port and each.url is not None
        ]
        for other in others:
            if other.service == self.service:
                older = min(self, other, key=lambda each: each.number)
                older.make_way()
        if self._is_replaced:
            return False
        first = next((each for each in others if each.has_pages), None)
        if first is None:
            return False
        self.at = first
        first.guests = (*first.guests, self)
        _sharing.endpoints.add(self)
        logger.info(
            "ragmonitor: %s:%d serves %s and %s together; the page is that of %s, give the other "
            "one a server.port of its own to see its page",
            self._host,
            self._port,
            first.service,
            self.service,
            first.service,
        )
        return True

    def make_way(self) -> None:
        """Leave the address to another Monitor of the service."""
        self._is_replaced = True
        self._leave()
        logger.warning(
            "ragmonitor: a second Monitor of this process, of the same service %s, has taken over "
            "%s:%d; what the first one counts from now on is not served. Call close() on a Monitor "
            "before making the next one",
            self.service,
            self._host,
            self._port,
        )

    def close(self) -> None:
        """Stop listening."""
        with _sharing.lock:
            self._is_replaced = True
            self._leave()

    def _leave(self) -> None:
        _sharing.endpoints.discard(self)
        if self.at is not None:
            self.at.guests = tuple(each for each in self.at.guests if each is not self)
            self.at = None
        self.guests = ()  # they look for another address at their next refresh
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's sockets, which would keep its port taken after its death."""
        server, self._server = self._server, None
        self.at = None
        self._warned = False
        if server is not None:
            server.abandon()

    def _answer(self, target: str, headers: Message) -> Reply:
        try:
            parsed = urlsplit(target)
        except ValueError:
            return _MALFORMED
        path = parsed.path.rstrip("/")
        if path == STATE:
            refusal = _THIS_MACHINE.refusal(headers) if is_loopback(self._host) else None
            return self._states() if refusal is None else _ANOTHER_NAME
        if path != METRICS and self._pages is not None:
            reply: Reply | None = _BROKEN
            with shielded("view"):
                reply = self._pages.reply(target, headers)
            return reply or _NOT_FOUND
        return self._metrics(parsed.query, headers) if path in ("", METRICS) else _NOT_FOUND

    def _metrics(self, query: str, headers: Message) -> Reply:
        accept = headers.get("Accept", "")
        try:
            # The media type comes back in the reply's headers.
            encode, content_type = choose_encoder(accept if accept.isprintable() else "")
        except (TypeError, ValueError):  # its version is no version
            encode, content_type = choose_encoder("")
        names = parse_qs(query).get("name[]")
        registry = self._together()
        body = encode(registry.restricted_registry(names) if names else registry)
        if not gzip_accepted(headers.get("Accept-Encoding", "")):
            return Reply(status=200, content_type=content_type, body=body)
        return Reply(
            status=200,
            content_type=content_type,
            body=gzip.compress(body),
            headers=(("Content-Encoding", "gzip"),),
        )

    def _states(self) -> Reply:
        guests = (each for each in self.guests if each.at is self)
        services = [each.state() for each in (self, *guests)]
        body = compact_json({"services": services}).encode("utf-8", "backslashreplace")
        return Reply(status=200, content_type="application/json", body=body)

    def _together(self) -> CollectorRegistry:
        guests = [each.registry for each in self.guests if each.at is self]
        if not guests:
            return self.registry
        together = CollectorRegistry()
        together.register(_Together([self.registry, *guests]))
        return together

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
                "are missing; if several processes run this application, name a file that they "
                "share (state), else set server.port to another port, or to 0 for any free one",
                place,
                os.getpid(),
            )


_numbers = itertools.count()
_sharing = _Sharing()
survive_forks(_sharing)
