"""Spans to be emitted, and the way into a provider of the application's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from opentelemetry import _logs, trace
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)

from ragmonitor.export.content import package_version
from ragmonitor.export.span_attributes import Attributes
from ragmonitor.records import SpanReference
from ragmonitor.semconv.conventions import GENAI_EVALUATION_EVENT, OTEL_EXCEPTION_EVENT, SCOPE


@dataclass(slots=True, kw_only=True)  # a frozen one takes four times as long to make
class OutgoingSpan:
    """One span with everything that is to be said of it, and the spans below it."""

    name: str
    is_call: bool = False
    """Of kind CLIENT; otherwise INTERNAL."""
    started_ns: int
    ended_ns: int
    attributes: Callable[[], Attributes]
    """Not asked for in a trace that is not sampled."""
    error: str = ""
    """The description of its failure; empty: it did not fail."""
    exception: Attributes | None = None
    """The attributes of an `exception` event at its end; None: there is no such event."""
    link: SpanReference | None = None
    children: Iterable[OutgoingSpan] = ()


class ApplicationProvider:
    """Emits through a provider of spans, or of log events, that the application has set.

    Every span gets its times and its parent explicitly; no context is ever attached.
    """

    def __init__(self, provider: Any) -> None:
        """Ask the provider for nothing yet."""
        self.provider = provider
        self._tracer: trace.Tracer | None = None

    def emit(self, span: OutgoingSpan, parent: SpanReference | None) -> SpanReference | None:
        """Emit a span and those below it; return its reference. None: the SDK is disabled."""
        if self._tracer is None:
            self._tracer = self.provider.get_tracer(SCOPE, package_version())
        return self._emit(self._tracer, span, _context_of(parent))

    def _emit(
        self, tracer: trace.Tracer, span: OutgoingSpan, context: Context
    ) -> SpanReference | None:
        made = tracer.start_span(
            span.name,
            context=context,
            kind=SpanKind.CLIENT if span.is_call else SpanKind.INTERNAL,
            start_time=span.started_ns,
            links=[] if span.link is None else [Link(_span_context(span.link))],
        )
        own = made.get_span_context()
        above = trace.get_current_span(context).get_span_context()
        if not own.is_valid or own.span_id == above.span_id:
            return None  # a disabled SDK hands back the parent
        if made.is_recording():
            made.set_attributes(span.attributes())
            if span.error:
                made.set_status(Status(StatusCode.ERROR, span.error))
            if span.exception is not None:
                made.add_event(OTEL_EXCEPTION_EVENT, span.exception, timestamp=span.ended_ns)
            under = trace.set_span_in_context(made, Context())
            for child in span.children:
                self._emit(tracer, child, under)
        made.end(end_time=span.ended_ns)
        return SpanReference(
            trace_id=trace.format_trace_id(own.trace_id),
            span_id=trace.format_span_id(own.span_id),
            sampled=own.trace_flags.sampled,
            trace_state=own.trace_state.to_header(),
        )

    def log(self, at_ns: int, attributes: Attributes, target: SpanReference | None) -> None:
        """Emit the event of an evaluation in the context of a span; None: of none."""
        self.provider.get_logger(SCOPE, package_version()).emit(
            timestamp=at_ns,
            observed_timestamp=at_ns,
            context=_context_of(target),
            severity_number=_logs.SeverityNumber.INFO,
            event_name=GENAI_EVALUATION_EVENT,
            attributes=attributes,
        )


def _span_context(reference: SpanReference) -> SpanContext:
    return SpanContext(
        int(reference.trace_id, 16),
        int(reference.span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if reference.sampled else TraceFlags.DEFAULT),
        trace_state=TraceState.from_header([reference.trace_state])
        if reference.trace_state
        else None,
    )


def _context_of(reference: SpanReference | None) -> Context:
    """Return a context in which that span, or none, is the current one.

    Never an empty context: the API takes an empty one as "whatever is current here".
    """
    span = INVALID_SPAN if reference is None else NonRecordingSpan(_span_context(reference))
    return trace.set_span_in_context(span, Context())
