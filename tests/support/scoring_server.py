"""Phoenix's and Langfuse's scoring APIs on loopback, as documented and no more lenient.

```python
with FakePhoenix(api_key="k") as phoenix:
    phoenix.fail(Fault(429, {"Retry-After": "1"}), Fault(hangs=True))  # the next two; then it works
    ...
    assert len(phoenix.annotations) == 3
```
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

HANG_MOST_S = 30.0
"""A hanging reply is let go after this long even if nobody releases it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it came."""

    at_s: float
    """On `time.monotonic`."""
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """One reply instead of the true one."""

    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    """No reply until the server is released."""


class ScoringServer:
    """What both have in common: requests are kept, and faults come when scripted."""

    def __init__(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Listen on a port; 0: any free one. With `tls` connections are encrypted."""
        self.requests: list[Received] = []
        self._faults: deque[Fault] = deque()
        self._always: Fault | None = None
        self._released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fail(self, *faults: Fault) -> None:
        """Give these replies next, once each."""
        self._faults.extend(faults)

    def always(self, fault: Fault | None) -> None:
        """Give this reply from now on; None: the true one again."""
        self._always = fault

    def release(self) -> None:
        """Let go of every request that hangs, and hang no more."""
        self._released.set()

    def reply(self, request: Received) -> tuple[int, Any]:
        """Return the true status and body."""
        raise NotImplementedError

    def _answered(self, request: Received) -> tuple[int, Mapping[str, str], Any]:
        self.requests.append(request)
        fault = self._faults.popleft() if self._faults else self._always
        if fault is None:
            status, body = self.reply(request)
            return status, {}, body
        if fault.hangs:
            self._released.wait(HANG_MOST_S)
        return fault.status, fault.headers, {"detail": "as scripted"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(size)
                if len(body) < size:  # whoever sent it is gone in the middle of it
                    self.close_connection = True
                    return
                request = Received(
                    at_s=time.monotonic(),
                    method=self.command,
                    path=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=body,
                )
                status, headers, answer = owner._answered(request)
                data = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:  # it was not waited for
                    self.close_connection = True

            do_GET = do_POST  # noqa: N815 - their names there

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
                """Say nothing."""

        return Handler


class _Strict(BaseModel):
    """Refuses what the documentation does not name, and converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)


# Phoenix


class _AnnotationResult(_Strict):
    label: str | None = None
    score: float | None = None
    explanation: str | None = None


class _SpanAnnotation(_Strict):
    name: str = Field(min_length=1)
    annotator_kind: Literal["LLM", "CODE", "HUMAN"]
    result: _AnnotationResult
    metadata: dict[str, Any] | None = None
    identifier: str = ""
    span_id: str = Field(pattern="^[0-9a-f]{16}$")

    @model_validator(mode="after")
    def _something_to_show(self) -> Self:
        shown = (self.result.label, self.result.score, self.result.explanation)
        assert any(each is not None for each in shown)
        assert self.name != "note", "reserved"
        return self


class _AnnotateSpans(_Strict):
    data: list[_SpanAnnotation]


class FakePhoenix(ScoringServer):
    """`POST /v1/span_annotations`, asynchronous: an unknown span is none of its business."""

    def __init__(
        self, *, api_key: str | None = None, port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        """Ask for a key, or for none."""
        super().__init__(port=port, tls=tls)
        self._api_key = api_key
        self.annotations: dict[tuple[str, str, str], dict[str, Any]] = {}
        """By (span, name, identifier): what comes again under these is an update."""

    def reply(self, request: Received) -> tuple[int, Any]:
        """Return the true status and body."""
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return 401, {"detail": "Invalid token"}
        if (request.method, request.path) == ("GET", "/v1/projects?limit=1"):
            return 200, {"data": [], "next_cursor": None}
        if (request.method, request.path) != ("POST", "/v1/span_annotations"):
            return 404, {"detail": "Not Found"}
        if request.headers.get("content-type") != "application/json":
            return 415, {"detail": "Unsupported Media Type"}
        try:
            body = _AnnotateSpans.model_validate_json(request.body)
        except ValidationError as error:
            return 422, {"detail": error.errors(include_context=False)}
        for each in body.data:
            kept = each.model_dump(exclude_none=True)
            self.annotations[each.span_id, each.name, each.identifier] = kept
        return 200, {"data": []}


# Langfuse


class _Score(_Strict):
    model_config = ConfigDict(alias_generator=to_camel)

    id: str = Field(min_length=1, max_length=800)
    trace_id: str = Field(pattern="^[0-9a-f]{32}$")
    observation_id: str = Field(pattern="^[0-9a-f]{16}$")
    name: str = Field(min_length=1)
    value: float
    data_type: Literal["NUMERIC"]
    comment: str | None = None
    metadata: dict[str, Any] | None = None


class _ScoreEvent(_Strict):
    id: str
    timestamp: AwareDatetime
    type: Literal["score-create"]
    body: _Score

    @model_validator(mode="after")
    def _a_uuid(self) -> Self:
        assert UUID(self.id).version == 4
        return self


class FakeLangfuse(ScoringServer):
    """`POST /api/public/ingestion`: 207 with what was wrong in its body, events seen once."""

    def __init__(self, public_key: str, secret_key: str, *, port: int = 0) -> None:
        """Ask for these keys."""
        super().__init__(port=port)
        keys = base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()
        self._authorization = f"Basic {keys}"
        self.scores: dict[str, dict[str, Any]] = {}
        """By id: what comes again under it, in a new event, is an update."""
        self.seen: set[str] = set()
        """Ids of events that were taken."""
        self.refuse: Callable[[dict[str, Any]], int | None] = lambda _: None
        """From a score to the status that it is refused with."""

    def reply(self, request: Received) -> tuple[int, Any]:
        """Return the true status and body."""
        if request.headers.get("authorization") != self._authorization:
            return 401, {"error": "UnauthorizedError", "message": "Invalid credentials"}
        if (request.method, request.path) == ("GET", "/api/public/projects"):
            return 200, {"data": [{"id": "p", "name": "shop"}]}
        if (request.method, request.path) != ("POST", "/api/public/ingestion"):
            return 404, {"message": "Not Found"}
        batch = json.loads(request.body).get("batch")
        if not isinstance(batch, list):
            return 400, {"message": "Invalid request data"}
        told: dict[str, list[dict[str, Any]]] = {"successes": [], "errors": []}
        for event in batch:
            status, message = self._taken(event)
            entry: dict[str, Any] = {"id": event.get("id", "unknown"), "status": status}
            if status == 201:
                told["successes"].append(entry)
            else:
                told["errors"].append(entry | {"message": message, "error": message})
        return 207, told

    def _taken(self, event: dict[str, Any]) -> tuple[int, str]:
        try:
            known = _ScoreEvent.model_validate_json(json.dumps(event))
        except ValidationError as error:
            return 400, str(error)
        status = self.refuse(event["body"])
        if status is not None:
            return status, "as scripted"
        if known.id not in self.seen:
            self.seen.add(known.id)
            self.scores[known.body.id] = known.body.model_dump(by_alias=True, exclude_none=True)
        return 201, ""
