"""Our own provider of spans and log events, for applications that have set none.

It makes OTLP's messages at once, and posts them in batches over HTTP. OpenTelemetry's SDK takes
three times as long for the same: it checks, copies and locks what many threads may change.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from google.protobuf.message import DecodeError
from opentelemetry import _logs, trace
from opentelemetry.context import Context
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, SpanFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Status as OtlpStatus
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from ragmonitor.export.batcher import Batcher, DeliveryError, Limits, Lost
from ragmonitor.export.content import package_version
from ragmonitor.export.otel_environment import (
    Signal,
    is_compressed,
    otlp_server,
    otlp_url,
    sampling,
)
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv.conventions import SCOPE

NewId = Callable[[int], int]
"""Returns an id of so many bytes that are not all 0."""

LIMITS: Final = Limits(max_items=4_096, max_bytes=32 * 2**20, max_batch_items=256)
_KINDS: Final = {
    SpanKind.INTERNAL: Span.SpanKind.SPAN_KIND_INTERNAL,
    SpanKind.CLIENT: Span.SpanKind.SPAN_KIND_CLIENT,
}
_CODES: Final = {
    StatusCode.UNSET: OtlpStatus.STATUS_CODE_UNSET,
    StatusCode.OK: OtlpStatus.STATUS_CODE_OK,
    StatusCode.ERROR: OtlpStatus.STATUS_CODE_ERROR,
}
_SEVERITIES: Final = {
    _logs.SeverityNumber.INFO: SeverityNumber.SEVERITY_NUMBER_INFO,
    _logs.SeverityNumber.WARN: SeverityNumber.SEVERITY_NUMBER_WARN,
}


class Outbox:
    """Posts the messages of one signal, and counts those that do not arrive."""

    def __init__(self, signal: Signal, resource: Mapping[str, str], lost: Lost | None) -> None:
        """Connect to nothing yet.

        Args:
            signal: It is sent where the environment says.
            resource: The attributes of the service.
            lost: Counts what does not arrive, by reason, from any thread.
        """
        self._is_traces = signal == "TRACES"
        self._url = otlp_url(signal)
        self._server = otlp_server(signal)
        self._compressed = gzip.compress if is_compressed(signal) else bytes
        self._resource = Resource()
        _fill(self._resource.attributes, resource)
        self._scope = InstrumentationScope(name=SCOPE, version=package_version())
        self.batches: Batcher[Any] = Batcher("OTLP", self._post, lost=lost, limits=LIMITS)

    def tracer(self, new_id: NewId) -> OtlpTracer:
        """Return what makes spans, with these ids."""
        return OtlpTracer(self, new_id)

    def logger(self) -> OtlpLogger:
        """Return what makes log events."""
        return OtlpLogger(self)

    def put(self, message: Any) -> None:
        """Take a span or a log record, or count it as lost if there is no room."""
        self.batches.put(message, message.ByteSize())

    def _post(self, batch: Sequence[Any], timeout_s: float) -> None:
        of, scope = self._resource, self._scope
        request: Any
        taken: Any
        if self._is_traces:
            taken = ExportTraceServiceResponse()
            spans = [ScopeSpans(scope=scope, spans=batch)]
            request = ExportTraceServiceRequest(
                resource_spans=[ResourceSpans(resource=of, scope_spans=spans)]
            )
        else:
            taken = ExportLogsServiceResponse()
            records = [ScopeLogs(scope=scope, log_records=batch)]
            request = ExportLogsServiceRequest(
                resource_logs=[ResourceLogs(resource=of, scope_logs=records)]
            )
        body = self._compressed(request.SerializeToString())
        reply = self._server.ask(self._url, body, timeout_s=timeout_s)
        with suppress(DecodeError):  # of a server that answers otherwise, and took all
            part = taken.FromString(reply.data).partial_success
            refused = part.rejected_spans if self._is_traces else part.rejected_log_records
            if refused > 0:
                raise DeliveryError(
                    f"OTLP at {shown(self._url)} refused {refused} of {len(batch)}",
                    lost=min(refused, len(batch)),
                )

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        self.batches.close()
        self._server.close()


class OtlpTracer:
    """Makes spans, as far as `OtelExporter` asks a tracer for them."""

    def __init__(self, outbox: Outbox, new_id: NewId) -> None:
        """Sample as the environment says; by default as the caller's trace was.

        Args:
            outbox: Takes the spans that have ended.
            new_id: Makes the ids of spans and traces.
        """
        self._outbox = outbox
        self._new_id = new_id
        self._follows_caller, self._rate = sampling()

    def start_span(
        self,
        name: str,
        context: Context,
        kind: SpanKind,
        start_time: int,
        links: Sequence[trace.Link] = (),
    ) -> trace.Span:
        """Return a span under the one in the context; one that is not sampled records nothing."""
        parent = trace.get_current_span(context).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else self._new_id(16)
        if self._follows_caller and parent.is_valid:
            is_sampled = parent.trace_flags.sampled
        else:
            is_sampled = trace_id % 2**64 < self._rate * 2**64
        flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
        own = SpanContext(
            trace_id,
            self._new_id(8),
            is_remote=False,
            trace_flags=flags,
            trace_state=parent.trace_state if parent.is_valid else None,
        )
        if not is_sampled:
            return NonRecordingSpan(own)
        message = Span(
            trace_id=_trace_bytes(own),
            span_id=_span_bytes(own),
            trace_state=own.trace_state.to_header(),
            parent_span_id=_span_bytes(parent) if parent.is_valid else b"",
            name=encodable(name),
            kind=_KINDS[kind],
            start_time_unix_nano=start_time,
            flags=flags | SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
            links=[
                Span.Link(trace_id=_trace_bytes(each.context), span_id=_span_bytes(each.context))
                for each in links
            ],
        )
        return _RecordingSpan(own, message, self._outbox)


class _RecordingSpan(NonRecordingSpan):
    """A span that is written as OTLP's message."""

    def __init__(self, context: SpanContext, message: Span, outbox: Outbox) -> None:
        super().__init__(context)
        self._message = message
        self._outbox = outbox

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        _fill(self._message.attributes, attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        _fill(self._message.attributes, {key: value})

    def set_status(self, status: Any, description: str | None = None) -> None:
        given = status if isinstance(status, Status) else Status(status, description)
        self._message.status.code = _CODES[given.status_code]
        self._message.status.message = encodable(given.description or "")

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        event = self._message.events.add(name=name, time_unix_nano=timestamp)
        _fill(event.attributes, attributes or {})

    def end(self, end_time: int | None = None) -> None:
        self._message.end_time_unix_nano = end_time or self._message.start_time_unix_nano
        self._outbox.put(self._message)


class OtlpLogger:
    """Makes log events, as far as `OtelExporter` asks a logger for them."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def emit(
        self,
        *,
        timestamp: int,
        observed_timestamp: int,
        context: Context,
        severity_number: _logs.SeverityNumber,
        event_name: str,
        attributes: Mapping[str, Any],
        body: str = "",
    ) -> None:
        """Send one log event in the context of a span."""
        span = trace.get_current_span(context).get_span_context()
        record = LogRecord(
            time_unix_nano=timestamp,
            observed_time_unix_nano=observed_timestamp,
            severity_number=_SEVERITIES[severity_number],
            event_name=event_name,
            trace_id=_trace_bytes(span) if span.is_valid else b"",
            span_id=_span_bytes(span) if span.is_valid else b"",
            flags=span.trace_flags,
        )
        if body:
            record.body.string_value = encodable(body)
        _fill(record.attributes, attributes)
        self._outbox.put(record)


def _fill(target: Any, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a message's."""
    for key, value in attributes.items():
        pair = target.add()
        pair.key = key
        _put(pair.value, value)


def _put(target: Any, value: Any) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int):
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    else:
        for each in value:
            _put(target.array_value.values.add(), each)


def _trace_bytes(context: SpanContext) -> bytes:
    return context.trace_id.to_bytes(16, "big")


def _span_bytes(context: SpanContext) -> bytes:
    return context.span_id.to_bytes(8, "big")
