"""An OTLP/HTTP receiver: what a collector would have been sent, decoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.contract.kit_outputs import Recorder


class OtlpReceiver:
    """Reads what a recorder was sent."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.url = recorder.url("otlp")
        """For `OTEL_EXPORTER_OTLP_ENDPOINT`."""

    @property
    def trace_requests(self) -> list[ExportTraceServiceRequest]:
        """Every request with spans, in the order they came."""
        sent = self._recorder.of("otlp")
        return [
            ExportTraceServiceRequest.FromString(each.body)
            for each in sent
            if each.path == "/otlp/v1/traces"
        ]

    def spans(self) -> dict[str, Span]:
        """Return every span by name."""
        return {span.name: span for span in self._recorder.spans()}

    def log_records(self) -> list[LogRecord]:
        """Return every log record."""
        return self._recorder.events()

    def resources(self) -> list[dict[str, Any]]:
        """Return the resource attributes of every request with spans."""
        return self._recorder.resources()


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Run a receiver on a free loopback port, until the block is left."""
    with Recorder() as recorder:
        yield OtlpReceiver(recorder)
