"""The trace of an interaction, emitted from its finished record, and the scores that follow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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

from ragmonitor.export import span_attributes
from ragmonitor.export.batcher import Lost
from ragmonitor.export.content import PROCESS_KEY, Content, ContentPolicy, clipped
from ragmonitor.export.otel_environment import captured_content
from ragmonitor.export.providers import Providers
from ragmonitor.export.span_attributes import MAX_EXPLANATION_BYTES, Attributes
from ragmonitor.records import (
    AlarmEvent,
    Cause,
    Generation,
    Interaction,
    Report,
    Retrieval,
    SpanReference,
    Unscored,
)
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.protocols import Cost, unknown_cost
from ragmonitor.semconv import conventions as names

if TYPE_CHECKING:
    from ragmonitor.export.providers import Tracer

Step = Retrieval | Generation

_JUDGE_FAILED = (
    Cause.JUDGE_ERROR,
    Cause.JUDGE_REFUSED,
    Cause.JUDGE_TIMEOUT,
    Cause.UNREADABLE,
)


class OtelExporter:
    """Emits each interaction as spans, and late scores as carrier spans and log events.

    Every span gets its times and its parent explicitly; no context is ever attached.
    """

    def __init__(
        self,
        service: str,
        *,
        version: str = "",
        enabled: bool = True,
        content: Content | None = "all",
        hash_key: bytes | None = None,
        tracer_provider: trace.TracerProvider | None = None,
        logger_provider: _logs.LoggerProvider | None = None,
        lost: Lost | None = None,
        cost_usd: Cost = unknown_cost,
        is_repeated: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Look for no provider yet.

        Args:
            service: `service.name` of our own provider, unless `OTEL_*` variables name another.
            version: `service.version`, likewise, and of every root span; empty: it has none.
            enabled: False: emit nothing.
            content: `none` keeps questions, prompts, chunks, answers and words of them off spans
                and events; `hashed` puts keyed hashes there. None: nobody has said, so they are
                there where OpenTelemetry's own setting asks for them.
            hash_key: Of those hashes; None: random, of this process.
            tracer_provider: Instead of the application's global one.
            logger_provider: Instead of the application's global one.
            lost: Counts spans and events that did not arrive, by reason, from any thread.
            cost_usd: What an answer cost.
            is_repeated: Another process may emit the same again; its spans then have the same ids,
                unless they go to a provider that the application has set.
            clock_ns: Nanoseconds since the epoch.
        """
        self._enabled = enabled
        self._cost_usd = cost_usd
        self._named = service if is_repeated else None
        self._version = version
        key = hash_key or PROCESS_KEY
        self._policy = ContentPolicy(content=content or captured_content("TRACES"), key=key)
        self._events_policy = ContentPolicy(content=content or captured_content("LOGS"), key=key)
        self._remark = (
            "" if content or self._policy.shows else " without texts (content='all' sends them)"
        )
        self._clock_ns = clock_ns
        self._providers = Providers(
            service,
            version=version,
            tracer_provider=tracer_provider,
            logger_provider=logger_provider,
            lost=lost,
        )

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the interaction's spans, with the scores known by now.

        Where another instrumentation's span stands for the interaction, no second tree is emitted:
        the scores go out on one carrier span in its trace.

        Returns:
            The root span, or the other's; None where there is nowhere to send traces. `sampled` is
            False where the application's sampler left this trace out.
        """
        if not self._enabled:
            return None
        tracer = self._providers.tracer()
        self._begin_ids(interaction.id)
        target = interaction.target
        if target is not None:
            if tracer is not None and reports:
                self._emit_carrier(tracer, reports, target)
        elif tracer is not None:
            target = self._emit_trace(tracer, interaction, reports)
        for report in reports:
            self._emit_events(report, target or interaction.caller)
        return target

    def export(self, report: Report) -> None:
        """Emit a late report; one that stands on its root span already is not emitted again."""
        if not (self._enabled and report.late and report.decision.drawn):
            return
        tracer = self._providers.tracer()
        if tracer is not None and report.target is not None:
            self._begin_ids(f"{report.interaction.id} {report.role} {report.judge.name}")
            self._emit_carrier(tracer, (report,), report.target)
        self._emit_events(report, report.target or report.interaction.caller)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said as an evaluation's log event; days later, so without a span."""
        if self._enabled:
            self._emit_events(joined.report, joined.target)

    def alarm(self, event: AlarmEvent) -> None:
        """Emit an alarm as a log event of its own; it belongs to no trace."""
        logger = self._providers.logger() if self._enabled else None
        if logger is None:
            return
        raised = _logs.SeverityNumber.WARN if event.raised else _logs.SeverityNumber.INFO
        logger.emit(
            timestamp=int(event.at_s * 1e9),
            observed_timestamp=self._clock_ns(),
            context=_context_of(None),
            severity_number=raised,
            event_name=names.ALARM_EVENT,
            body=str(event),
            attributes=span_attributes.alarm_attributes(event, policy=self._events_policy),
        )

    @property
    def is_applications(self) -> bool:
        """Whether traces go to a provider that the application has set."""
        return self._enabled and self._providers.is_applications

    def destination(self) -> str:
        """Say where traces go, and whether the texts of answers stand in them."""
        if not self._enabled:
            return "none (export.traces)"
        place = self._providers.destination()
        return place + self._remark if place else "nowhere (set OTEL_EXPORTER_OTLP_ENDPOINT)"

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered; return whether all of it left in time."""
        return self._providers.flush(timeout_s)

    def close(self) -> None:
        """Shut down our own providers, never the application's."""
        self._providers.close()

    def _begin_ids(self, of: str) -> None:
        self._providers.ids.begin("" if self._named is None else f"{self._named} {of}")

    def _emit_trace(
        self, tracer: Tracer, interaction: Interaction, reports: Sequence[Report]
    ) -> SpanReference | None:
        root = tracer.start_span(
            span_attributes.root_name(interaction),
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
                span_attributes.root_attributes(
                    interaction,
                    reports,
                    policy=self._policy,
                    cost_usd=self._cost_usd(interaction),
                    version=self._version,
                )
            )
            if interaction.status == "error":
                self._fail(root, interaction.error, interaction.ended_ns)
            self._emit_steps(tracer, interaction, trace.set_span_in_context(root, Context()))
        root.end(end_time=max(interaction.started_ns, interaction.ended_ns))
        return target

    def _emit_steps(self, tracer: Tracer, interaction: Interaction, under: Context) -> None:
        for retrieval in interaction.retrievals:
            name = span_attributes.retrieval_name(retrieval)
            self._emit_step(tracer, name, retrieval, span_attributes.retrieval_attributes, under)
        for generation in interaction.generations:
            name = span_attributes.generation_name(generation)
            self._emit_step(tracer, name, generation, span_attributes.generation_attributes, under)

    def _emit_step(
        self,
        tracer: Tracer,
        name: str,
        step: Step,
        attributes_of: Callable[..., Attributes],
        under: Context,
    ) -> None:
        span = tracer.start_span(
            name, context=under, kind=SpanKind.CLIENT, start_time=step.started_ns
        )
        if span.is_recording():
            span.set_attributes(attributes_of(step, policy=self._policy))
            self._fail(span, step.error, step.ended_ns)
        span.end(end_time=max(step.started_ns, step.ended_ns))

    def _emit_carrier(
        self, tracer: Tracer, reports: Sequence[Report], target: SpanReference
    ) -> None:
        if not target.sampled:
            return  # in a trace that is not kept, a carrier would stand alone
        # In the target's trace, so that every viewer shows it there. The price: a trace that looks
        # longer than it was, and a carrier that a tail sampler may judge on its own.
        now_ns = self._clock_ns()
        seconds = max(r.usage.seconds if r.usage is not None else 0.0 for r in reports)
        started_ns = max(reports[0].interaction.ended_ns, now_ns - int(seconds * 1e9))
        span = tracer.start_span(
            span_attributes.carrier_name(reports),
            context=_context_of(target),
            kind=SpanKind.INTERNAL,
            start_time=started_ns,
            links=[Link(_span_context(target))],
        )
        if span.is_recording():
            failure = next((f for f in map(_failure, reports) if f is not None), None)
            span.set_attributes(span_attributes.carrier_attributes(reports, policy=self._policy))
            if failure is not None:
                span.set_attribute(names.OTEL_ERROR_TYPE, failure.cause.value)
                detail = clipped(self._policy.text(failure.detail), MAX_EXPLANATION_BYTES)
                span.set_status(Status(StatusCode.ERROR, detail or failure.cause.value))
        span.end(end_time=max(started_ns, now_ns))

    def _emit_events(self, report: Report, target: SpanReference | None) -> None:
        """Emit one log event per evaluation, for judges that read a share of the answers.

        The built-in judge's scores are attributes of every root span already. As events they would
        be several log records per answer, most of an application's logs.
        """
        if not report.decision.drawn or (report.role == "builtin" and not report.late):
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
                attributes=span_attributes.event_attributes(
                    evaluation, report, policy=self._events_policy
                ),
            )

    def _fail(self, span: trace.Span, error: str, at_ns: int) -> None:
        if error:
            description = clipped(self._policy.error(error), MAX_EXPLANATION_BYTES)
            span.set_status(Status(StatusCode.ERROR, description))
            exception = span_attributes.exception_attributes(error, self._policy)
            span.add_event(names.OTEL_EXCEPTION_EVENT, exception, timestamp=at_ns)


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
