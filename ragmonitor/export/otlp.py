"""Our own sender of spans and log events, for applications that have set no provider.

It makes OTLP's messages at once, and posts them in batches over HTTP. OpenTelemetry's SDK takes
three times as long for the same: it checks, copies and locks what many threads may change.
"""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from google.protobuf.message import DecodeError
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
from opentelemetry.proto.trace.v1.trace_pb2 import (
    ResourceSpans,
    ScopeSpans,
    Span,
    SpanFlags,
    Status,
)

from ragmonitor.export.batcher import Batcher, DeliveryError, Lost
from ragmonitor.export.content import package_version
from ragmonitor.export.otel_environment import (
    Signal,
    is_compressed,
    otlp_server,
    otlp_url,
)
from ragmonitor.export.span_attributes import Attributes
from ragmonitor.export.spans import OutgoingSpan
from ragmonitor.records import SpanReference
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv.conventions import GENAI_EVALUATION_EVENT, OTEL_EXCEPTION_EVENT, SCOPE

_SAMPLED: Final = 1
"""The flag of W3C trace context."""


class OtlpSender:
    """Posts the spans or the log events of this process, and counts those that do not arrive."""

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
        self.batches = Batcher("OTLP", self._post, lost)

    def emit(self, span: OutgoingSpan, parent: SpanReference | None) -> SpanReference:
        """Send a span and those below it, unless their trace is not sampled; return its reference.

        A trace is sampled unless its caller was not.
        """
        trace_id = secrets.token_hex(16) if parent is None else parent.trace_id
        own = SpanReference(
            trace_id=trace_id,
            span_id=secrets.token_hex(8),
            sampled=parent is None or parent.sampled,
            trace_state="" if parent is None else parent.trace_state,
        )
        if not own.sampled:
            return own
        message = Span(
            trace_id=bytes.fromhex(trace_id),
            span_id=bytes.fromhex(own.span_id),
            trace_state=own.trace_state,
            parent_span_id=b"" if parent is None else bytes.fromhex(parent.span_id),
            name=encodable(span.name),
            kind=Span.SPAN_KIND_CLIENT if span.is_call else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=span.started_ns,
            end_time_unix_nano=span.ended_ns,
            flags=_SAMPLED | SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK,
        )
        _fill(message.attributes, span.attributes())
        if span.link is not None:
            message.links.add(
                trace_id=bytes.fromhex(span.link.trace_id),
                span_id=bytes.fromhex(span.link.span_id),
            )
        if span.error:
            message.status.code = Status.STATUS_CODE_ERROR
            message.status.message = encodable(span.error)
        if span.exception is not None:
            event = message.events.add(name=OTEL_EXCEPTION_EVENT, time_unix_nano=span.ended_ns)
            _fill(event.attributes, span.exception)
        for child in span.children:
            self.emit(child, own)
        self.batches.put(message, message.ByteSize())
        return own

    def log(self, at_ns: int, attributes: Attributes, target: SpanReference | None) -> None:
        """Send the event of an evaluation in the context of a span; None: of none."""
        record = LogRecord(
            time_unix_nano=at_ns,
            observed_time_unix_nano=at_ns,
            severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
            event_name=GENAI_EVALUATION_EVENT,
        )
        if target is not None:
            record.trace_id = bytes.fromhex(target.trace_id)
            record.span_id = bytes.fromhex(target.span_id)
            record.flags = _SAMPLED if target.sampled else 0
        _fill(record.attributes, attributes)
        self.batches.put(record, record.ByteSize())

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


def _fill(target: Any, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a message's."""
    for key, value in attributes.items():
        pair = target.add()
        pair.key = key
        if isinstance(value, str):  # as nearly always
            pair.value.string_value = value
        else:
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
