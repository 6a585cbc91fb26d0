"""The trace of an interaction, emitted from its finished record, and the scores that follow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

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

from ragmonitor import conventions as names
from ragmonitor.export import spans
from ragmonitor.export.providers import Providers
from ragmonitor.export.texts import Content
from ragmonitor.records import Cause, Interaction, Report, SpanReference, Unscored

_JUDGE_FAILED = (Cause.JUDGE_ERROR, Cause.JUDGE_TIMEOUT, Cause.UNREADABLE)


class OtelExporter:
    """Emits each interaction as spans, late scores as carrier spans and log events.

    Every span gets its times and its parent explicitly; no context is ever attached.
    """

    def __init__(
        self,
        service: str,
        *,
        enabled: bool = True,
        content: Content = "all",
        tracer_provider: trace.TracerProvider | None = None,
        logger_provider: _logs.LoggerProvider | None = None,
        text_most: int = spans.TEXT_MOST,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Look for no provider yet.

        Args:
            service: `service.name` of our own provider, unless `OTEL_*` variables name another.
            enabled: False: emit nothing.
            content: `none` keeps questions, chunks, answers and words of them off the spans.
            tracer_provider: Instead of the application's global one.
            logger_provider: Instead of the application's global one.
            text_most: Characters after which a text is cut.
            clock_ns: Nanoseconds since the epoch.
        """
        self._enabled = enabled
        self._content: Content = content
        self._text_most = text_most
        self._clock_ns = clock_ns
        self._providers = Providers(
            service, tracer_provider=tracer_provider, logger_provider=logger_provider
        )

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the interaction's spans, with the scores known by now.

        Returns:
            The root span; None where there is nowhere to send traces. `sampled` is False where the
            application's sampler left this trace out.
        """
        if not self._enabled:
            return None
        tracer = self._providers.tracer()
        target = None if tracer is None else self._emit_trace(tracer, interaction, reports)
        for report in reports:
            self._emit_events(report, target or interaction.caller)
        return target

    def export(self, report: Report) -> None:
        """Emit a late report; one that stands on its root span already is not emitted again."""
        if not (self._enabled and report.late and report.chance.drawn):
            return
        tracer = self._providers.tracer()
        if tracer is not None and report.target is not None:
            self._emit_carrier(tracer, report, report.target)
        self._emit_events(report, report.target or report.interaction.caller)

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered; return whether all of it left in time."""
        return self._providers.flush(timeout_s)

    def close(self) -> None:
        """Shut down our own providers, never the application's."""
        self._providers.close()

    def _emit_trace(
        self, tracer: trace.Tracer, interaction: Interaction, reports: Sequence[Report]
    ) -> SpanReference | None:
        root = tracer.start_span(
            spans.root_name(interaction),
            context=_context_of(interaction.caller),
            kind=SpanKind.INTERNAL,
            start_time=interaction.started_ns,
        )
        target = _reference_to(root.get_span_context())
        if target is None or (
            interaction.caller is not None and target.span_id == interaction.caller.span_id
        ):
            return None  # a disabled SDK hands back its parent
        if root.is_recording():
            root.set_attributes(
                spans.root_attributes(
                    interaction, reports, content=self._content, text_most=self._text_most
                )
            )
            if interaction.status == "error":
                self._fail(root, interaction.error)
            self._emit_steps(tracer, interaction, trace.set_span_in_context(root, Context()))
        root.end(end_time=max(interaction.started_ns, interaction.ended_ns))
        return target

    def _emit_steps(self, tracer: trace.Tracer, interaction: Interaction, under: Context) -> None:
        for retrieval in interaction.retrievals:
            span = tracer.start_span(
                spans.retrieval_name(retrieval),
                context=under,
                kind=SpanKind.CLIENT,
                start_time=retrieval.started_ns,
                attributes=spans.retrieval_attributes(
                    retrieval, content=self._content, text_most=self._text_most
                ),
            )
            self._fail(span, retrieval.error)
            span.end(end_time=max(retrieval.started_ns, retrieval.ended_ns))
        for generation in interaction.generations:
            span = tracer.start_span(
                spans.generation_name(generation),
                context=under,
                kind=SpanKind.CLIENT,
                start_time=generation.started_ns,
                attributes=spans.generation_attributes(
                    generation, content=self._content, text_most=self._text_most
                ),
            )
            self._fail(span, generation.error)
            span.end(end_time=max(generation.started_ns, generation.ended_ns))

    def _emit_carrier(self, tracer: trace.Tracer, report: Report, target: SpanReference) -> None:
        # In the target's trace, so that every viewer shows it there. The price: a trace that looks
        # longer than it was, and a carrier that a tail sampler may judge on its own.
        now_ns = self._clock_ns()
        seconds = report.usage.seconds if report.usage is not None else 0.0
        started_ns = max(report.interaction.ended_ns, now_ns - int(seconds * 1e9))
        span = tracer.start_span(
            spans.carrier_name(report),
            context=_context_of(target),
            kind=SpanKind.INTERNAL,
            start_time=started_ns,
            links=[Link(_span_context(target))],
            attributes=spans.carrier_attributes(report, content=self._content),
        )
        failure = _failure(report)
        if failure is not None:
            span.set_attribute(names.OTEL_ERROR_TYPE, failure.cause.value)
            detail = failure.detail if self._content == "all" else ""
            span.set_status(Status(StatusCode.ERROR, detail or failure.cause.value))
        span.end(end_time=max(started_ns, now_ns))

    def _emit_events(self, report: Report, target: SpanReference | None) -> None:
        """Emit one log event per evaluation, for judges that read a share of the answers.

        The embedded judge's scores are attributes of every root span already; as events they would
        be several log records per answer, the application's bulk of logs in many a backend.
        """
        if not report.chance.drawn or (report.judge.kind == "CODE" and not report.late):
            return
        logger = self._providers.logger()
        if logger is None:
            return
        context = _context_of(target)
        now_ns = self._clock_ns()
        for evaluation in report.evaluations:
            logger.emit(
                timestamp=now_ns,
                observed_timestamp=now_ns,
                context=context,
                severity_number=_logs.SeverityNumber.INFO,
                event_name=names.GENAI_EVALUATION_EVENT,
                attributes=spans.event_attributes(evaluation, report, content=self._content),
            )

    def _fail(self, span: trace.Span, error: str) -> None:
        if error:
            description = spans.status_description(error, self._content)
            span.set_status(Status(StatusCode.ERROR, description))


def _failure(report: Report) -> Unscored | None:
    if report.assessment is not None:
        return None
    for evaluation in report.evaluations:
        if isinstance(evaluation, Unscored) and evaluation.cause in _JUDGE_FAILED:
            return evaluation
    return None


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


def _reference_to(context: SpanContext) -> SpanReference | None:
    if not context.is_valid:
        return None
    return SpanReference(
        trace_id=trace.format_trace_id(context.trace_id),
        span_id=trace.format_span_id(context.span_id),
        sampled=context.trace_flags.sampled,
        trace_state=context.trace_state.to_header(),
    )
