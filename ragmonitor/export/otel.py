"""The trace of an interaction, emitted from its finished record, and the scores that follow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ragmonitor.export import otel_environment as environment
from ragmonitor.export import span_attributes
from ragmonitor.export.batcher import Lost
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy, clipped
from ragmonitor.export.providers import Destination
from ragmonitor.export.span_attributes import MAX_EXPLANATION_BYTES, Attributes
from ragmonitor.export.spans import OutgoingSpan
from ragmonitor.records import (
    FAILURES,
    Generation,
    Interaction,
    Report,
    Retrieval,
    SpanReference,
    Unscored,
)
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.prices import Prices
from ragmonitor.semconv import conventions as names
from ragmonitor.settings import Settings


class OtelExporter:
    """Emits each interaction as spans, and late scores as carrier spans and log events."""

    def __init__(self, settings: Settings, lost: Lost | None = None) -> None:
        """Look for no provider yet.

        Args:
            settings: The settings. Where they do not say which texts may be shown, OpenTelemetry's
                own setting does; where `OTEL_*` variables name the service, they go before.
            lost: Counts spans and events that did not arrive, by reason, from any thread.
        """
        self._enabled = settings.export.traces
        self._cost_usd = Prices(settings.estimation.prices).cost_usd
        self._version = settings.service_version
        content, key = settings.content.policy, settings.content.key or PROCESS_KEY
        captured = environment.captured_content
        self._policy = ContentPolicy(content=content or captured("TRACES"), key=key)
        self._events_policy = ContentPolicy(content=content or captured("LOGS"), key=key)
        self._remark = (
            "" if content or self._policy.shows else " without texts (content='all' sends them)"
        )
        resource = partial(environment.resource, settings.service, self._version)
        self._traces = Destination("TRACES", resource, lost)
        self._events = Destination("LOGS", resource, lost)

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
        target = interaction.target
        if target is None:
            emitter = self._traces.find()
            if emitter is not None:
                target = emitter.emit(self._root(interaction, reports), interaction.caller)
        elif reports:
            self._emit_carrier(reports, target)
        for report in reports:
            self._emit_events(report, target or interaction.caller)
        return target

    def export(self, report: Report) -> None:
        """Emit a late report; one that stands on its root span already is not emitted again."""
        if not (self._enabled and report.late and report.decision.drawn):
            return
        if report.target is not None:
            self._emit_carrier((report,), report.target)
        self._emit_events(report, report.target or report.interaction.caller)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said as an evaluation's log event; days later, so without a span."""
        if self._enabled:
            self._emit_events(joined.report, joined.target)

    @property
    def is_applications(self) -> bool:
        """Whether traces or log events go to a provider that the application has set."""
        providers = (self._traces.provider(), self._events.provider())
        return self._enabled and any(each is not None for each in providers)

    def destination(self) -> str:
        """Say where traces go, and whether the texts of answers stand in them."""
        if not self._enabled:
            return "none (export.traces)"
        if self._traces.provider() is not None:
            return f"the application's tracer provider{self._remark}"
        if environment.otlp_protocol("TRACES") != environment.HTTP:
            return "nowhere (set OTEL_EXPORTER_OTLP_ENDPOINT)"
        return shown(environment.otlp_address("TRACES")) + self._remark

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered; return whether all of it left in time."""
        deadline = time.monotonic() + timeout_s
        flushed = [
            each.flush(max(0.1, deadline - time.monotonic()))
            for each in (self._traces, self._events)
        ]
        return all(flushed)

    def close(self) -> None:
        """Shut down what is ours, never the application's providers."""
        self._traces.close()
        self._events.close()

    def _root(self, interaction: Interaction, reports: Sequence[Report]) -> OutgoingSpan:
        attributes = partial(
            span_attributes.root_attributes,
            interaction,
            reports,
            self._policy,
            cost_usd=self._cost_usd(interaction),
            version=self._version,
        )
        name = f"{names.GENAI_OPERATION_WORKFLOW} {interaction.name}"
        error = interaction.error if interaction.status == "error" else ""
        return self._span(name, interaction, attributes, error, self._steps(interaction))

    def _steps(self, interaction: Interaction) -> Iterator[OutgoingSpan]:
        for retrieval in interaction.retrievals:
            name = f"{names.GENAI_OPERATION_RETRIEVAL} {retrieval.name}"
            found = partial(span_attributes.retrieval_attributes, retrieval, self._policy)
            yield self._span(name, retrieval, found, retrieval.error)
        for call in interaction.generations:
            name = f"{names.GENAI_OPERATION_CHAT} {call.model}"
            made = partial(span_attributes.generation_attributes, call, self._policy)
            yield self._span(name, call, made, call.error)

    def _span(
        self,
        name: str,
        step: Interaction | Retrieval | Generation,
        attributes: Callable[[], Attributes],
        error: str,
        children: Iterable[OutgoingSpan] = (),
    ) -> OutgoingSpan:
        return OutgoingSpan(
            name=name.rstrip(),
            is_call=not isinstance(step, Interaction),
            started_ns=step.started_ns,
            ended_ns=max(step.started_ns, step.ended_ns),
            attributes=attributes,
            error=clipped(self._policy.error(error), MAX_EXPLANATION_BYTES),
            exception=span_attributes.exception_attributes(error, self._policy) if error else None,
            children=children,
        )

    def _emit_carrier(self, reports: Sequence[Report], target: SpanReference) -> None:
        emitter = self._traces.find()
        if emitter is None or not target.sampled:
            return  # in a trace that is not kept, a carrier would stand alone
        # In the target's trace, so that every viewer shows it there. The price: a trace that looks
        # longer than it was, and a carrier that a tail sampler may judge on its own.
        now_ns = time.time_ns()
        seconds = max(r.usage.seconds if r.usage is not None else 0.0 for r in reports)
        started_ns = max(reports[0].interaction.ended_ns, now_ns - int(seconds * 1e9))
        failure = next((f for f in map(_failure, reports) if f is not None), None)
        attributes = span_attributes.carrier_attributes(reports, self._policy)
        error = ""
        if failure is not None:
            attributes[names.OTEL_ERROR_TYPE] = failure.cause.value
            detail = clipped(self._policy.text(failure.detail), MAX_EXPLANATION_BYTES)
            error = detail or failure.cause.value
        emitter.emit(
            OutgoingSpan(
                name=span_attributes.carrier_name(reports),
                started_ns=started_ns,
                ended_ns=max(started_ns, now_ns),
                attributes=lambda: attributes,
                error=error,
                link=target,
            ),
            target,
        )

    def _emit_events(self, report: Report, target: SpanReference | None) -> None:
        """Emit one log event per evaluation, for judges that read a share of the answers.

        The built-in judge's scores are attributes of every root span already. As events they would
        be several log records per answer, most of an application's logs.
        """
        if not report.decision.drawn or (report.role == "builtin" and not report.late):
            return
        emitter = self._events.find()
        if emitter is None:
            return
        now_ns = time.time_ns()
        for evaluation in report.evaluations:
            policy = self._events_policy
            attributes = span_attributes.event_attributes(evaluation, report, policy)
            emitter.log(now_ns, attributes, target)


def _failure(report: Report) -> Unscored | None:
    if report.assessment is not None:
        return None
    for evaluation in report.evaluations:
        if isinstance(evaluation, Unscored) and evaluation.cause in FAILURES:
            return evaluation
    return None
