"""Counters, the score histogram, and windowed means with intervals, for Prometheus to scrape.

The windowed gauges are derived at each scrape, from sums that add up over processes: a mean of
means would be wrong, and so would an interval. So `registry` and the endpoint serve what
`final_families` makes of the instruments, and never the instruments themselves.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from ragmonitor import guard, metrics
from ragmonitor.export.amounts import amounts
from ragmonitor.export.content import package_version
from ragmonitor.export.endpoint import Endpoint, Pages
from ragmonitor.export.families import ScrapeSums, described, final_families
from ragmonitor.export.instruments import MAX_LABEL_LENGTH, Instruments, Labels, cleaned
from ragmonitor.export.processes import shared_folder
from ragmonitor.export.server import Receive, Rejection
from ragmonitor.export.service_state import service_state
from ragmonitor.patterns import lazy_pattern
from ragmonitor.protocols import BreakerState, Clock, Cost, Exporter, Summarise, unknown_cost
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    Elsewhere,
    Evaluation,
    GaugeValue,
    Interaction,
    JudgeUsage,
    Moments,
    Report,
    Scored,
    SeriesKey,
    Snapshot,
    SpanReference,
    Status,
    Totals,
    Unscored,
    Window,
    evaluator_name,
)

PAIRS_DECAY_S = 86_400.0
"""The time constant of the agreement of two judges: few answers are scored twice."""
_HEXADECIMAL = lazy_pattern("[0-9a-fA-F]{1,32}")
_EQUAL_WITHIN = 1e-9
_SERIES = guard.shielded("metrics")
"""Around each series, so that one that cannot be shown does not take the others along."""
_BREAKER_LEVELS = {"closed": 0, "half_open": 1, "open": 2}
_TOTALS = {
    "answers": metrics.ANSWERS,
    "value_positive": metrics.ESTIMATE_SUM_POSITIVE,
    "value_negative": metrics.ESTIMATE_SUM_NEGATIVE,
    "scored_positive": metrics.ESTIMATE_COUNT_POSITIVE,
    "scored_negative": metrics.ESTIMATE_COUNT_NEGATIVE,
    "judged": metrics.JUDGED_ANSWERS,
}
"""The counter of each field of `Totals`."""


class PrometheusExporter(Exporter):
    """Counts, and serves the counts.

    `interaction`, `evaluations` and `dropped` may be called from any thread; the rest from the
    worker's.
    """

    def __init__(
        self,
        service: str,
        *,
        summarise: Summarise,
        version: str = "",
        serve: bool = True,
        host: str = "127.0.0.1",
        port: int = 9464,
        registry: CollectorRegistry | None = None,
        pages: Pages | None = None,
        receive: Receive | None = None,
        cost_usd: Cost = unknown_cost,
        page_url: str = "",
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Count from now on; the endpoint opens with the first `refresh`.

        Args:
            service: The `service` label of every series.
            summarise: From a window's sums to its mean and interval.
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
            clock: For decay.
            now: Seconds since the epoch.
        """
        self._service = cleaned(service)
        self._summarise = summarise
        self._cost_usd = cost_usd
        # An address that is cut is a dead link.
        self._page_url = page_url if len(page_url) <= MAX_LABEL_LENGTH else ""
        self._version = version
        self._clock = clock
        self._now = now
        self._folder = shared_folder(os.environ)
        self._count_notes: Callable[[], None] = _count_nothing
        self.registry = CollectorRegistry()
        """Every series, ready to be mounted in an application's own endpoint."""
        collector = Scrape(self._families)
        self._begin()
        self.registry.register(collector)
        if registry is not None:
            registry.register(collector)
        self._endpoint = Endpoint(
            self.registry,
            service=service,
            host=host,
            port=port,
            shared=self._folder is not None,
            rejected=self._count_rejected,
            state=self.state,
            pages=pages,
            receive=receive,
        )
        self._pages = pages
        if pages is not None and self._folder is not None:
            pages.shared_by(self._folder.living)
        self._serve = serve
        self.elsewhere: Elsewhere | None = None
        """Where the service's numbers are; None: here."""

    def _begin(self) -> None:
        self._totals: dict[SeriesKey, Totals] = {}
        self._snapshot = Snapshot()
        self._plain: dict[tuple[str, tuple[str, ...]], float] = {}
        """Counters that come as plain numbers, as they were last shown."""
        self._transient: set[tuple[str, tuple[str, ...]]] = set()
        """Gauges that are removed once they are not shown anew."""
        self._identities: dict[str, tuple[str, str]] = {}
        self._labels = Labels()
        self._instruments = Instruments(
            self._service, self._labels, shared=self._folder is not None
        )
        self._sums = ScrapeSums()
        self._paired_s = self._clock()
        # Errors before us, or of the process that forked us, are not ours to count.
        self._errors_seen = Counter(guard.errors)

    @property
    def url(self) -> str | None:
        """Where this process serves /metrics; None if it does not."""
        return self._endpoint.url

    @property
    def is_shared(self) -> bool:
        """Whether the series are those of all processes that share a folder."""
        return self._folder is not None

    @property
    def has_pages(self) -> bool:
        """Whether this process serves this monitor's other pages."""
        return self._endpoint.has_pages

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

    def stood_in(self, judge: str, cause: str) -> None:
        """Count an answer that the built-in rules scored in place of a judge that could not."""
        self._instruments.counter(metrics.BUILTIN_STAND_INS, self._judge(judge), cause).inc()

    def checked(self, of: str, outcome: str, n: int = 1) -> None:
        """Count what was decided of answers, or of sentences, before they were seen."""
        self._instruments.counter(metrics.CHECKS, of, outcome).inc(n)

    def kept_apart(self) -> None:
        """Count an interaction of the application that a golden question caused."""
        self._instruments.counter(metrics.PROBE_INTERACTIONS).inc()

    def restarted(self) -> None:
        """Count that the worker's thread began again after an error that ended its work."""
        self._instruments.counter(metrics.WORKER_RESTARTS).inc()

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
        if exemplar is not None and self._folder is not None:
            for each in scored:
                self._keep_exemplar(each, exemplar)
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
        if chunks and chunks[0].score is not None and math.isfinite(chunks[0].score):
            histogram(metrics.RETRIEVAL_TOP_SCORE).observe(chunks[0].score)
        for name, labels, amount in amounts(interaction, self._cost_usd(interaction)):
            histogram(name, *labels).observe(amount)

    def worked(self, stage: str, seconds: float) -> None:
        """Observe the time of one stage behind the request."""
        self._instruments.histogram(metrics.WORKER_SECONDS, stage).observe(seconds)

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
            if self._folder is None:
                self._instruments.remove(name, *labels)
            else:
                self._instruments.gauge(name, *labels).set(math.nan)
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
        if known is not None and self._folder is None:
            self._instruments.remove(metrics.JUDGE_INFO, judge, *known)
        self._identities[judge] = identity
        self._instruments.gauge(metrics.JUDGE_INFO, judge, *identity).set(1)

    def _count_rejected(self, reason: Rejection) -> None:
        self._instruments.counter(metrics.REQUESTS_REJECTED, reason).inc()

    def _count(self, evaluation: Evaluation, n: int = 1) -> None:
        outcome = evaluation.cause.value if isinstance(evaluation, Unscored) else "scored"
        evaluator = evaluator_name(evaluation.evaluator)
        self._instruments.counter(
            metrics.EVALUATIONS, evaluator, evaluation.judge.name, outcome
        ).inc(n)

    def _keep_exemplar(self, scored: Scored, exemplar: dict[str, str]) -> None:
        """Keep an exemplar for the scrapes of other processes, whose files hold none."""
        labels = {
            "service": self._service,
            "evaluator": self._evaluator(scored.evaluator),
            "judge": self._judge(scored.judge.name),
        }
        bound = next((b for b in metrics.SCORE_BUCKETS if scored.score <= b), math.inf)
        key = (frozenset(labels.items()), bound)
        self._sums.exemplars[key] = Exemplar(exemplar, scored.score, self._now())

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
        open_runs: int,
        errors: Mapping[str, int],
    ) -> None:
        """Show the current state, open the endpoint, and remove the files of ended processes."""
        self._snapshot = snapshot
        self._show_state(snapshot, queue_depth=queue_depth, open_runs=open_runs)
        for stage, count in dict(errors).items():
            new = count - self._errors_seen[stage]
            if new > 0:
                self._errors_seen[stage] = count
                self._instruments.counter(metrics.INTERNAL_ERRORS, stage).inc(new)
        if self._folder is not None:
            with _SERIES:
                self._folder.write(self._sums)
                self._folder.remove_dead()
        if self._serve:
            self._endpoint.open()

    def _show_state(self, snapshot: Snapshot, *, queue_depth: int, open_runs: int) -> None:
        instruments = self._instruments
        instruments.gauge(metrics.QUEUE_DEPTH).set(queue_depth)
        instruments.gauge(metrics.OPEN_RUNS).set(open_runs)
        instruments.gauge(metrics.WORKER_SEEN).set(self._now())
        instruments.gauge(metrics.SERVICE_INFO, self._version).set(1)
        if self._page_url:
            instruments.gauge(metrics.PAGE_INFO, self._page_url).set(1)
        self._show_moments(snapshot.moments)
        self._show_totals(snapshot.totals)
        self._show_alarms(snapshot.alarms)
        self._show_gauges(snapshot.gauges)

    def _show_moments(self, moments: Iterable[tuple[SeriesKey, Window, Moments]]) -> None:
        means: dict[tuple[str, ...], Moments] = {}
        for key, window, moment in moments:
            with _SERIES:
                part = self._labels.part(key.dimension, key.group)
                labels = (self._service, *self._series(key), window, *part)
                means[labels] = means.get(labels, Moments()) + moment
        self._sums.means = means

    def _show_totals(self, totals: Iterable[tuple[SeriesKey, Totals]]) -> None:
        for key, total in totals:
            if key.dimension:
                continue
            counted = self._totals.get(key, _NOTHING)
            if counted is total:
                continue
            self._totals[key] = total
            with _SERIES:
                for field, name in _TOTALS.items():
                    more = getattr(total, field) - getattr(counted, field)
                    # Differences of large sums may fall short of 0 by a rounding error.
                    self._instruments.counter(name, key.signal, key.judge).inc(max(0.0, more))

    def _show_alarms(self, states: Iterable[AlarmState]) -> None:
        for state in states:
            with _SERIES:
                # Slices come and go; those with evidence are plain gauges.
                if state.kind != "slice":
                    self._show_alarm(state)

    def _show_alarm(self, state: AlarmState) -> None:
        instruments, labels = self._instruments, _alarm(state)
        instruments.gauge(metrics.ALARM_EVIDENCE_SECONDS, *labels).set(state.evidence_s)
        instruments.gauge(metrics.ALARM_ACTIVE, *labels).set(state.active)
        instruments.gauge(metrics.ALARM_LEARNED_RATIO, *labels).set(state.learned)
        instruments.gauge(metrics.ALARM_OBJECTIVES, *labels).set(state.objectives)
        instruments.counter(metrics.ALARMS_RAISED, *labels)  # 0 is a number too
        if state.objective is not None:
            instruments.gauge(metrics.ALARM_OBJECTIVE, *labels).set(state.objective)
        span = state.span
        # A mean of 0 is one that was measured.
        shown = (
            (metrics.ALARM_SINCE, state.since_s, 0.0),
            (metrics.ALARM_RISE_START, None if span is None else span.since_s, 0.0),
            (metrics.ALARM_RISE_ANSWERS, None if span is None else span.scored, 0.0),
            (metrics.ALARM_RISE_MEAN, None if span is None else span.mean, math.nan),
            (metrics.ALARM_RISE_MEAN_BEFORE, None if span is None else span.before, math.nan),
        )
        for name, value, unknown in shown:
            if value is None and self._folder is None:
                instruments.remove(name, *labels)
            else:
                instruments.gauge(name, *labels).set(unknown if value is None else value)

    def _series(self, key: SeriesKey) -> tuple[str, str]:
        return self._labels.value("signal", key.signal), self._judge(key.judge)

    def close(self) -> None:
        """Stop serving; a process that lives on no longer adds to its peers' gauges."""
        self._endpoint.close()
        if self._folder is not None:
            self._show_state(Snapshot(), queue_depth=0, open_runs=0)
            with _SERIES:
                self._folder.write(ScrapeSums())
            # A worker that has ended is not one that hangs, and a file forgets no series.
            self._instruments.gauge(metrics.WORKER_SEEN).set(math.inf)
        else:
            self._instruments.remove(metrics.WORKER_SEEN)

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child."""
        self._endpoint.forget()

    # --- being scraped --------------------------------------------------------------------------

    def _families(self) -> list[Metric]:
        with guard.shielded("count"):
            self._count_notes()
        return self._scraped(self._sums_of_all())

    def _counted(self) -> list[Metric]:
        counted = list(self._instruments.registry.collect())
        if self._folder is None:
            return counted
        # The folder holds the application's own families too; those are its to serve.
        shared = {family.name: family for family in self._folder.counted()}
        return [shared[own.name] for own in counted if own.name in shared]

    def _scraped(self, sums: ScrapeSums) -> list[Metric]:
        return final_families(
            self._counted(),
            sums,
            summarise=self._summarise,
            service=self._service,
            version=package_version(),
        )

    def _sums_of_all(self) -> ScrapeSums:
        return self._sums if self._folder is None else self._folder.read()

    def state(self) -> dict[str, Any]:
        """Return the numbers of now for JSON: those of /metrics, and no texts."""
        with guard.shielded("count"):
            self._count_notes()
        sums = self._sums_of_all()
        return {
            "version": package_version(),
            "processes": 1 if self._folder is None else self._folder.living(),
            "elsewhere": None if self.elsewhere is None else asdict(self.elsewhere),
        } | service_state(
            sums,
            self._scraped(sums),
            self._snapshot,
            service=self._service,
            summarise=self._summarise,
        )

    def _evaluator(self, identity: str) -> str:
        return self._labels.value("evaluator", evaluator_name(identity))

    def _judge(self, name: str) -> str:
        return self._labels.value("judge", name)


_NOTHING = Totals()
_UNUSED = JudgeUsage()


def _alarm(alarm: AlarmState | AlarmEvent) -> tuple[str, str, str]:
    # A label's values are few, and slices are not.
    return alarm.signal.partition("{")[0], alarm.judge, alarm.kind


def _count_nothing() -> None:
    """Stand in until there is something to count."""


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
