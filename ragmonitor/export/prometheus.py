"""Counters, the score histogram, and windowed means with intervals, for Prometheus to scrape.

`registry` and the endpoint serve what `final_families` makes of the instruments, and never the
instruments themselves: counters are those of all processes that share a store.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ragmonitor.export.amounts import amounts
from ragmonitor.export.content import package_version
from ragmonitor.export.endpoint import Endpoint, Pages
from ragmonitor.export.families import described, final_families
from ragmonitor.export.instruments import MAX_LABEL_LENGTH, Instruments, Labels, cleaned
from ragmonitor.export.server import Receive
from ragmonitor.export.service_state import service_state
from ragmonitor.export.shared_counters import SharedCounters
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    Evaluation,
    GaugeValue,
    Interaction,
    JudgeUsage,
    Report,
    Scored,
    SeriesKey,
    Snapshot,
    SpanReference,
    Status,
    Totals,
    Unscored,
    WindowedMean,
    evaluator_name,
)
from ragmonitor.runtime import guard
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.runtime.protocols import BreakerState, Cost, Exporter, unknown_cost
from ragmonitor.semconv import metrics
from ragmonitor.store import Store

_HEXADECIMAL = lazy_pattern("[0-9a-fA-F]{1,32}")
_SERIES = guard.shielded("metrics")
"""Around each series, so that one that cannot be shown does not take the others along."""
_BREAKER_LEVELS = {"closed": 0, "half_open": 1, "open": 2}
_TOTALS = {
    "answers": (metrics.ANSWERS,),
    "value_positive": (metrics.ESTIMATE, "value", "positive"),
    "value_negative": (metrics.ESTIMATE, "value", "negative"),
    "scored_positive": (metrics.ESTIMATE, "applies", "positive"),
    "scored_negative": (metrics.ESTIMATE, "applies", "negative"),
    "judged": (metrics.JUDGED_ANSWERS,),
}
"""The counter of each field of `Totals`, with its labels after signal and judge."""


class PrometheusExporter(Exporter):
    """Counts, and serves the counts.

    `interaction`, `evaluations` and `dropped` may be called from any thread; the rest from the
    worker's.
    """

    def __init__(
        self,
        service: str,
        *,
        version: str = "",
        serve: bool = True,
        host: str = "127.0.0.1",
        port: int = 7247,
        registry: CollectorRegistry | None = None,
        pages: Pages | None = None,
        receive: Receive | None = None,
        cost_usd: Cost = unknown_cost,
        page_url: str = "",
        shared: Store | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Count from now on; the endpoint opens with the first `refresh`.

        Args:
            service: The `service` label of every series.
            version: The service's own version.
            serve: Whether to serve /metrics.
            host: Address to listen on.
            port: 0: any free one.
            registry: Where the series are registered too, beside our own `registry`.
            pages: What is served beside /metrics; None: nothing.
            receive: Answers requests that send something; None: there are none.
            cost_usd: What an answer cost.
            page_url: The folder of the page for people, with a slash at its end; empty: there is
                no page, or its address is not known.
            shared: Where the processes of a machine add up their counters; None: each has its own.
            now: Seconds since the epoch.
        """
        self._service = cleaned(service)
        self._cost_usd = cost_usd
        # An address that is cut is a dead link.
        self._page_url = page_url if len(page_url) <= MAX_LABEL_LENGTH else ""
        self._version = version
        self._now = now
        self._shared = None if shared is None else SharedCounters(shared)
        self._count_notes: Callable[[], None] = lambda: None
        self.registry = CollectorRegistry()
        """Every series, ready to be mounted in an application's own endpoint."""
        collector = Scrape(self._families)
        self._begin()
        self.registry.register(collector)
        if registry is not None:
            registry.register(collector)
        self._endpoint = Endpoint(
            self.registry,
            host=host,
            port=port,
            shared=shared is not None,
            state=self.state,
            pages=pages,
            receive=receive,
        )
        self._pages = pages
        self._serve = serve
        self.is_elsewhere = False
        """Whether the service's numbers are kept by a worker elsewhere."""

    def _begin(self) -> None:
        self._totals: dict[SeriesKey, Totals] = {}
        self._snapshot = Snapshot()
        self._plain: dict[tuple[str, tuple[str, ...]], float] = {}
        """Counters that come as plain numbers, as they were last shown."""
        self._transient: set[tuple[str, tuple[str, ...]]] = set()
        """Gauges that are removed once they are not shown anew."""
        self._identities: dict[str, tuple[str, str]] = {}
        self._labels = Labels()
        self._instruments = Instruments(self._service, self._labels)
        self._means: dict[tuple[str, ...], WindowedMean] = {}
        # Errors before us, or of the process that forked us, are not ours to count.
        self._errors_seen = Counter(guard.errors)

    @property
    def url(self) -> str | None:
        """Where this process serves /metrics; None if it does not."""
        return self._endpoint.url

    @property
    def is_shared(self) -> bool:
        """Whether the series are those of all processes that share a store."""
        return self._shared is not None

    # --- counting -------------------------------------------------------------------------------

    def count_first(self, count: Callable[[], None]) -> None:
        """Have `count` called before each scrape, to count what was only noted."""
        self._count_notes = count

    def interaction(self, framework: str, status: Status, n: int = 1) -> None:
        """Count captured interactions."""
        self._instruments.counter(metrics.INTERACTIONS, framework, status).inc(n)

    def evaluations(self, evaluations: Sequence[Evaluation], n: int = 1) -> None:
        """Count outcomes of `n` interactions of which there is no report."""
        for evaluation in evaluations:
            self._count(evaluation, n)

    def checked(self, of: str, outcome: str, n: int = 1) -> None:
        """Count what was decided of answers, or of sentences, before they were seen."""
        self._instruments.counter(metrics.CHECKS, of, outcome).inc(n)

    def restarted(self) -> None:
        """Count that the worker's thread began again after an error that ended its work."""
        self._instruments.counter(metrics.INTERNAL_ERRORS, "worker_restart").inc()

    def dropped(self, reason: str, n: int = 1) -> None:
        """Count interactions or runs that were given up."""
        self._instruments.counter(metrics.DROPPED, reason).inc(n)

    def breaker(self, judge: str, state: BreakerState) -> None:
        """Show the state of the circuit breaker of a judge's provider."""
        level = _BREAKER_LEVELS[state]
        self._instruments.gauge(metrics.JUDGE_BREAKER_STATE, self._judge(judge)).set(level)

    def export(self, report: Report) -> None:
        """Count one report: its outcomes, scores, and what its judge used."""
        # All of them first: what fails below must not break captured = scored + unscored.
        for evaluation in report.evaluations:
            self._count(evaluation)
        self.observe(report)

    def observe(self, report: Report) -> None:
        """Count one report but for its outcomes, which `evaluations` counts for many at once."""
        judge = self._judge(report.judge.name)
        exemplar = _exemplar(report.target)
        scored = [each for each in report.evaluations if isinstance(each, Scored)]
        histogram = self._instruments.histogram
        for each in scored:
            name = evaluator_name(each.evaluator)
            histogram(metrics.SCORE_HISTOGRAM, name, each.judge.name).observe(each.score, exemplar)
        for name in {each.judge.name for each in scored}:
            self._instruments.gauge(metrics.LAST_SCORE_TIMESTAMP, name).set(self._now())
        if report.diagnosis is not None:
            diagnosis = report.diagnosis.value
            self._instruments.counter(metrics.DIAGNOSES, judge, diagnosis).inc()
        with _SERIES:
            self.charged(report)
        self._identify(judge, report)

    def charged(self, report: Report) -> None:
        """Count the cost of judging one answer."""
        usage = report.usage
        if usage is None and report.assessment is not None:
            usage = report.assessment.usage
        if usage is not None and usage != _UNUSED:
            self._charge(self._judge(report.judge.name), usage, _outcome(report))

    def answered(self, interaction: Interaction, target: SpanReference | None) -> None:
        """Observe an interaction's time, chunks and retrieval scores."""
        histogram, chunks = self._instruments.histogram, interaction.chunks
        histogram(metrics.INTERACTION_SECONDS, interaction.framework).observe(
            interaction.latency_s, _exemplar(target)
        )
        histogram(metrics.RETRIEVED_CHUNKS).observe(len(chunks))
        for name, labels, amount in amounts(interaction, self._cost_usd(interaction)):
            histogram(name, *labels).observe(amount)

    def _show_gauges(self, gauges: Iterable[GaugeValue]) -> None:
        """Show plain gauges, until they are shown anew; of a counter the increase is counted."""
        shown: set[tuple[str, tuple[str, ...]]] = set()
        for gauge in gauges:
            with _SERIES:
                labels = tuple(value for _, value in gauge.labels)
                key = gauge.name, labels
                metric = metrics.TABLE[gauge.name]
                if metric.kind == "counter":
                    before = self._plain.get(key, 0.0)
                    self._plain[key] = gauge.value
                    more = gauge.value - (before if before <= gauge.value else 0.0)
                    self._instruments.counter(gauge.name, *labels).inc(more)
                    continue
                self._instruments.gauge(gauge.name, *labels).set(gauge.value)
                if metric.transient:
                    shown.add(key)
        for name, labels in self._transient - shown:
            # What is not compared or asked any more has no number.
            self._instruments.remove(name, *labels)
        self._transient = shown

    def alarm(self, event: AlarmEvent) -> None:
        """Count an alarm that was raised."""
        if event.raised:
            self._instruments.counter(metrics.ALARMS_RAISED, *_alarm(event)).inc()

    def _identify(self, judge: str, report: Report) -> None:
        identity = (report.judge.version, report.judge.kind)
        known = self._identities.get(judge)
        if known == identity:
            return
        if known is not None:
            self._instruments.remove(metrics.JUDGE_INFO, judge, *known)
        self._identities[judge] = identity
        self._instruments.gauge(metrics.JUDGE_INFO, judge, *identity).set(1)

    def _count(self, evaluation: Evaluation, n: int = 1) -> None:
        outcome = evaluation.cause.value if isinstance(evaluation, Unscored) else "scored"
        evaluator = evaluator_name(evaluation.evaluator)
        self._instruments.counter(
            metrics.EVALUATIONS, evaluator, evaluation.judge.name, outcome
        ).inc(n)

    def _charge(self, judge: str, usage: JudgeUsage, outcome: str) -> None:
        instruments = self._instruments
        instruments.counter(metrics.JUDGE_CALLS, judge).inc(usage.calls)
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            instruments.counter(metrics.JUDGE_TOKENS, judge, direction).inc(tokens)
        instruments.counter(metrics.JUDGE_COST_USD, judge).inc(usage.cost_usd)
        instruments.histogram(metrics.JUDGE_SECONDS, judge, outcome).observe(usage.seconds)

    # --- the current state -----------------------------------------------------------------------

    def refresh(
        self,
        *,
        snapshot: Snapshot,
        queue_depth: int,
        errors: Mapping[str, int],
    ) -> None:
        """Show the current state, add what was counted to the store, and open the endpoint."""
        self._snapshot = snapshot
        self._show_state(snapshot, queue_depth=queue_depth)
        for stage, count in dict(errors).items():
            new = count - self._errors_seen[stage]
            if new > 0:
                self._errors_seen[stage] = count
                self._instruments.counter(metrics.INTERNAL_ERRORS, stage).inc(new)
        self._share()
        if self._serve:
            self._endpoint.open()

    def _share(self) -> None:
        if self._shared is not None:
            self._shared.add([*self._instruments.collect()])

    def _show_state(self, snapshot: Snapshot, *, queue_depth: int) -> None:
        instruments = self._instruments
        instruments.gauge(metrics.QUEUE_DEPTH).set(queue_depth)
        instruments.gauge(metrics.WORKER_SEEN).set(self._now())
        instruments.gauge(metrics.SERVICE_INFO, self._version).set(1)
        if self._page_url:
            instruments.gauge(metrics.PAGE_INFO, self._page_url).set(1)
        self._show_means(snapshot.means)
        self._show_totals(snapshot.totals)
        self._show_alarms(snapshot.alarms)
        self._show_gauges(snapshot.gauges)

    def _show_means(self, windowed: Iterable[WindowedMean]) -> None:
        means: dict[tuple[str, ...], WindowedMean] = {}
        for mean in windowed:
            with _SERIES:
                part = self._labels.part(mean.key.dimension, mean.key.group)
                means[self._service, *self._series(mean.key), mean.window, *part] = mean
        self._means = means

    def _show_totals(self, totals: Iterable[tuple[SeriesKey, Totals]]) -> None:
        for key, total in totals:
            if key.dimension:
                continue
            counted = self._totals.get(key, _NOTHING)
            if counted is total:
                continue
            self._totals[key] = total
            with _SERIES:
                for field, (name, *labels) in _TOTALS.items():
                    more = getattr(total, field) - getattr(counted, field)
                    # Differences of large sums may fall short of 0 by a rounding error.
                    counter = self._instruments.counter(name, key.signal, key.judge, *labels)
                    counter.inc(max(0.0, more))

    def _show_alarms(self, states: Iterable[AlarmState]) -> None:
        for state in states:
            with _SERIES:
                self._show_alarm(state)

    def _show_alarm(self, state: AlarmState) -> None:
        instruments, labels = self._instruments, _alarm(state)
        instruments.gauge(metrics.ALARM_EVIDENCE_SECONDS, *labels).set(state.evidence_s)
        instruments.gauge(metrics.ALARM_ACTIVE, *labels).set(state.active)
        instruments.gauge(metrics.ALARM_LEARNED_RATIO, *labels).set(state.learned)
        instruments.counter(metrics.ALARMS_RAISED, *labels)  # 0 is a number too
        if state.objective is not None:
            instruments.gauge(metrics.ALARM_OBJECTIVE, *labels).set(state.objective)
        span = state.span
        shown = (
            (metrics.ALARM_SINCE, (), state.since_s),
            (metrics.ALARM_RISE_START, (), None if span is None else span.since_s),
            (metrics.ALARM_RISE_MEAN, ("since",), None if span is None else span.mean),
            (metrics.ALARM_RISE_MEAN, ("before",), None if span is None else span.before),
        )
        for name, side, value in shown:
            if value is None:
                instruments.remove(name, *labels, *side)
            else:
                instruments.gauge(name, *labels, *side).set(value)

    def _series(self, key: SeriesKey) -> tuple[str, str]:
        return self._labels.value("signal", key.signal), self._judge(key.judge)

    def close(self) -> None:
        """Stop serving, once the last counts are in the store."""
        with guard.shielded("count"):
            self._count_notes()
        self._share()
        self._endpoint.close()
        self._instruments.remove(metrics.WORKER_SEEN)

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child."""
        self._endpoint.forget()

    # --- being scraped --------------------------------------------------------------------------

    def _families(self) -> list[Metric]:
        with guard.shielded("count"):
            self._count_notes()
        return self._scraped()

    def _counted(self) -> list[Metric]:
        counted = list(self._instruments.collect())
        return counted if self._shared is None else self._shared.totals(counted)

    def _scraped(self) -> list[Metric]:
        return final_families(
            self._counted(),
            self._means,
            service=self._service,
            version=package_version(),
        )

    def state(self) -> dict[str, Any]:
        """Return the numbers of now for JSON: those of /metrics, and no texts."""
        with guard.shielded("count"):
            self._count_notes()
        return {
            "version": package_version(),
            "is_shared": self.is_shared,
            "is_elsewhere": self.is_elsewhere,
        } | service_state(self._means, self._scraped(), self._snapshot, service=self._service)

    def _judge(self, name: str) -> str:
        return self._labels.value("judge", name)


_NOTHING = Totals()
_UNUSED = JudgeUsage()


def _alarm(alarm: AlarmState | AlarmEvent) -> tuple[str, str, str]:
    return alarm.signal, alarm.judge, alarm.kind


def _exemplar(target: SpanReference | None) -> dict[str, str] | None:
    # A trace that was not sampled is in no backend: no link is better than a dead one.
    if target is None or not target.sampled:
        return None
    ids = {"trace_id": target.trace_id, "span_id": target.span_id}
    # The library raises over long ones, and a scrape fails over those that are no text.
    return ids if all(map(_HEXADECIMAL.fullmatch, ids.values())) else None


class Scrape(Collector):
    """The collector that registries hold; the instruments behind it may change."""

    def __init__(self, collect: Callable[[], list[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Return every series as of now; none where that fails."""
        with _SERIES:  # the registry may be the application's, with series of its own
            return self._collect()
        return ()

    def describe(self) -> Iterable[Metric]:
        """Return the names, so that no registry asks for the series when it is set up."""
        return described()


def _outcome(report: Report) -> str:
    if report.assessment is not None:
        usage = report.usage or report.assessment.usage
        return "cached" if usage.cache_hits and not usage.calls else "ok"
    causes = [e.cause.value for e in report.evaluations if isinstance(e, Unscored)]
    return causes[0] if causes else "judge_error"
