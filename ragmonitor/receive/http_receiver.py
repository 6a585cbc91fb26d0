"""OTLP over HTTP: POST /v1/traces, as protobuf or JSON.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import threading
from dataclasses import replace
from email.message import Message
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message as Protobuf
from google.rpc.status_pb2 import Status

from ragmonitor.export.server import HttpServer, Reply
from ragmonitor.export.view.access import Access
from ragmonitor.receive import otlp_bodies
from ragmonitor.receive.open_traces import QUIET_S, FullError, OpenTraces
from ragmonitor.receive.otlp_bodies import JSON, PROTOBUF, UnreadableBodyError, media_type

PATH: Final = "/v1/traces"
_STOPPING_S: Final = 2.0


class HttpReceiver:
    """Listens for spans on one address, until it is closed."""

    protocol = "OTLP over HTTP"

    def __init__(
        self,
        traces: OpenTraces,
        host: str,
        port: int,
        access: Access,
    ) -> None:
        """Listen.

        Args:
            traces: Takes the requests.
            host: Address to listen on.
            port: 0: any free one.
            access: Knows the token that senders must show, if there is one.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._traces = traces
        self._access = access
        self._server = HttpServer(
            host,
            port,
            lambda _target, _headers: _said(404, f"spans are sent by POST to {PATH}", JSON),
            count=traces.count,
            receive=self._receive,
            admit=self._admit,
            max_body_bytes=otlp_bodies.MAX_BYTES,
        )
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}"
        """The address at which it listens, as OTEL_EXPORTER_OTLP_ENDPOINT wants it."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ragmonitor-otlp-http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; what is being answered gets its answer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_STOPPING_S)

    def _admit(self, target: str, headers: Message) -> Reply | None:
        """Return why a request is not even read; None: it is."""
        kind = headers.get("Content-Type", "")
        scheme, _, shown = headers.get("Authorization", "").partition(" ")
        # The page's cookie is none: a browser shows it to every port of the host.
        is_bearer = scheme.lower() == "bearer" and self._access.is_token(shown.strip())
        if self._access.needs_token and not is_bearer:
            self._traces.count("unauthorized")
            return _said(401, "a bearer token is needed", kind, ("WWW-Authenticate", "Bearer"))
        if not self._access.needs_token and "Origin" in headers:
            # A browser, which a website that gives its name the address 127.0.0.1 (DNS rebinding)
            # would make send spans of its own invention. Exporters have no origin.
            self._traces.count("unauthorized")
            return _said(403, "websites send spans only with server.token", kind)
        if target.partition("?")[0] != PATH:
            return _said(404, f"spans are sent to {PATH}, and nothing else is taken", kind)
        return None

    def _receive(self, _target: str, headers: Message, body: bytes) -> Reply:
        kind = headers.get("Content-Type", "")
        try:
            packing = headers.get("Content-Encoding", "")
            request = otlp_bodies.request_of(body, content_type=kind, encoding=packing)
            return _reply(200, self._traces.take(request), kind)
        except UnreadableBodyError as error:
            if error.status == 415:  # the server counts the others by their status
                self._traces.count("malformed")
            return _said(error.status, str(error), kind)
        except FullError as error:
            return _said(429, str(error), kind, ("Retry-After", f"{QUIET_S:.0f}"))


def _reply(status: int, message: Protobuf, content_type: str) -> Reply:
    """Return a reply in the kind of the request."""
    if media_type(content_type) == JSON:
        body = json_format.MessageToJson(message, indent=None).encode()
        return Reply(status=status, content_type=JSON, body=body)
    return Reply(status=status, content_type=PROTOBUF, body=message.SerializeToString())


def _said(status: int, why: str, content_type: str, *headers: tuple[str, str]) -> Reply:
    return replace(_reply(status, Status(message=why), content_type), headers=headers)
