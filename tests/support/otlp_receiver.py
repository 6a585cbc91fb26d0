"""An OTLP/HTTP receiver: what a collector would have been sent, decoded."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class OtlpReceiver:
    """Keeps every request, in the order they came."""

    def __init__(self, url: str) -> None:
        self.url = url
        """For `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        self.trace_requests: list[ExportTraceServiceRequest] = []
        self.log_requests: list[ExportLogsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.refuses = 0
        """Spans of each request that the reply says were not taken."""

    def spans(self) -> dict[str, Span]:
        """Return every span by name."""
        return {
            span.name: span
            for request in self.trace_requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        }

    def log_records(self) -> list[LogRecord]:
        """Return every log record."""
        return [
            record
            for request in self.log_requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def resources(self) -> list[dict[str, Any]]:
        """Return the resource attributes of every request with spans."""
        return [
            plain(resource.resource.attributes)
            for request in self.trace_requests
            for resource in request.resource_spans
        ]


def plain(attributes: Any) -> dict[str, Any]:
    """Return protobuf attributes as a dictionary."""
    pairs: list[KeyValue] = list(attributes)
    return {pair.key: _plain_value(pair.value) for pair in pairs}


def _plain_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain_value(inner) for inner in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Run a receiver on a free loopback port, until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            reply: bytes
            if self.path == "/v1/traces":
                receiver.trace_requests.append(ExportTraceServiceRequest.FromString(body))
                taken = ExportTraceServiceResponse()
                if receiver.refuses:
                    taken.partial_success.rejected_spans = receiver.refuses
                reply = taken.SerializeToString()
            elif self.path == "/v1/logs":
                receiver.log_requests.append(ExportLogsServiceRequest.FromString(body))
                reply = ExportLogsServiceResponse().SerializeToString()
            else:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = OtlpReceiver(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
