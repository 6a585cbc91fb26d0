"""What Prometheus scrapes: counters, the score histogram, and windowed means with intervals.

The windowed gauges are derived when they are scraped, from sums that add up over processes: a mean
of means would be wrong, and so would be an interval. What is scraped is therefore never the
instruments themselves but what `final_families` makes of them, on `registry` as on our endpoint.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from ragmonitor import guard
from ragmonitor.export.endpoint import Endpoint
from ragmonitor.export.families import LabelPairs, described, final_families
from ragmonitor.export.instruments import SCORE_BUCKETS, Instruments, Labels
from ragmonitor.export.processes import shared_folder
from ragmonitor.export.texts import package_version
from ragmonitor.protocols import BreakerState, Clock, Summarise
from ragmonitor.records import (
    EstimateKey,
    Evaluation,
    JudgeUsage,
    Moments,
    Report,
    Scored,
    SpanReference,
    Status,
    Unscored,
    evaluator_name,
)

COVERAGE_DECAY_S = 3600.0
"""The uncovered ratio forgets with this time constant."""
PAIRS_DECAY_S = 86_400.0
"""The agreement of two judges likewise: few answers are read twice."""
_EQUAL_WITHIN = 1e-9
_BREAKER_LEVELS = {"closed": 0, "half_open": 1, "open": 2}


class PrometheusExporter:
    """Counts, and serves what it counted.

    `interaction`, `evaluations` and `dropped` may be called from any thread; the rest from the
    worker's.
    """

    def __init__(
        self,
        service: str,
        *,
        summarise: Summarise,
        serve: bool = True,
        host: str = "127.0.0.1",
        port: int = 9464,
        registry: CollectorRegistry | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Count from now on; the endpoint opens with the first `refresh`.

        Args:
            service: The `service` label of every series.
            summarise: From a window's sums to its mean and interval.
            serve: Whether to serve /metrics.
            host: Address to listen on.
            port: 0: any free one.
            registry: Where the series are registered too, beside our own `registry`.
            clock: For decay.
            now: Seconds since the epoch.
        """
        self._service = service
        self._summarise = summarise
        self._clock = clock
        self._now = now
        self._folder = shared_folder(os.environ)
        self.registry = CollectorRegistry()
        """Every series, ready to be mounted in an application's own endpoint."""
        collector = _Scrape(self._families, self._described)
        self._begin()
        self.registry.register(collector)
        if registry is not None:
            registry.register(collector)
        self._endpoint = Endpoint(
            self.registry, host=host, port=port, shared=self._folder is not None
        )
        self._serve = serve

    def _begin(self) -> None:
        self._instruments = Instruments()
        self._labels = Labels()
        self._exemplars: dict[tuple[LabelPairs, float], Exemplar] = {}
        self._coverage: dict[str, _Coverage] = {}
        self._pairs: dict[tuple[str, str, str], _Pairs] = {}
        self._shown: set[tuple[str, str, str]] = set()
        # Errors before us, or of the process that forked us, are not ours to count.
        self._errors_seen = Counter(guard.errors)

    @property
    def url(self) -> str | None:
        """Where this process serves /metrics; None if it does not."""
        return self._endpoint.url

    # --- counting -------------------------------------------------------------------------------

    def interaction(self, framework: str, status: Status) -> None:
        """Count one captured interaction."""
        framework = self._labels.value("framework", framework)
        self._instruments.interactions.labels(self._service, framework, status).inc()

    def evaluations(self, evaluations: Sequence[Evaluation]) -> None:
        """Count outcomes of an interaction of which there is no report."""
        for evaluation in evaluations:
            self._count(evaluation)

    def dropped(self, reason: str, n: int = 1) -> None:
        """Count interactions or runs that were given up."""
        reason = self._labels.value("reason", reason)
        self._instruments.dropped.labels(self._service, reason).inc(n)

    def breaker(self, judge: str, state: BreakerState) -> None:
        """Show whether a judge's provider is asked."""
        level = _BREAKER_LEVELS[state]
        self._instruments.breaker_state.labels(self._service, self._judge(judge)).set(level)

    def compared(self, first: Report, second: Report) -> None:
        """Take note of how far two judges agree; evaluations that both scored count."""
        judges = (self._judge(first.judge.name), self._judge(second.judge.name))
        scores = {e.evaluator: e.score for e in first.evaluations if isinstance(e, Scored)}
        for other in second.evaluations:
            if not isinstance(other, Scored) or other.evaluator not in scores:
                continue
            key = (self._evaluator(other.evaluator), *judges)
            pairs = self._pairs.setdefault(key, _Pairs(self._clock()))
            pairs.decay(self._clock())
            pairs.add(
                abs(other.score - scores[other.evaluator]),
                weight=1 / max(second.chance.probability, 1e-9),
            )

    def export(self, report: Report) -> None:
        """Count one report: its outcomes, scores, and what its judge used."""
        judge = self._judge(report.judge.name)
        for evaluation in report.evaluations:
            self._count(evaluation)
            if isinstance(evaluation, Scored):
                self._observe(evaluation, report.target)
        if report.diagnosis is not None:
            diagnosis = report.diagnosis.value
            self._instruments.diagnoses.labels(self._service, judge, diagnosis).inc()
        usage = report.usage
        if usage is None and report.assessment is not None:
            usage = report.assessment.usage
        if usage is not None and usage != JudgeUsage():
            self._charge(judge, usage, _outcome(report))
        if report.judge.kind != "CODE":
            self._cover(judge, uncovered=report.chance.probability <= 0)

    def _count(self, evaluation: Evaluation) -> None:
        outcome = evaluation.cause.value if isinstance(evaluation, Unscored) else "scored"
        self._instruments.evaluations.labels(
            self._service,
            self._evaluator(evaluation.evaluator),
            self._judge(evaluation.judge.name),
            outcome,
        ).inc()

    def _observe(self, scored: Scored, target: SpanReference | None) -> None:
        evaluator = self._evaluator(scored.evaluator)
        judge = self._judge(scored.judge.name)
        # A trace that was not sampled is nowhere to be found: no link is better than a dead one.
        exemplar = (
            {"trace_id": target.trace_id, "span_id": target.span_id}
            if target is not None and target.sampled
            else None
        )
        score = self._instruments.score.labels(self._service, evaluator, judge)
        score.observe(scored.score, exemplar)
        self._instruments.last_score.labels(self._service, judge).set(self._now())
        if exemplar is not None and self._folder is not None:
            labels = {"service": self._service, "evaluator": evaluator, "judge": judge}
            bound = next((b for b in SCORE_BUCKETS if scored.score <= b), math.inf)
            key = (frozenset(labels.items()), bound)
            self._exemplars[key] = Exemplar(exemplar, scored.score, self._now())

    def _charge(self, judge: str, usage: JudgeUsage, outcome: str) -> None:
        instruments, service = self._instruments, self._service
        instruments.judge_calls.labels(service, judge).inc(usage.calls)
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            instruments.judge_tokens.labels(service, judge, direction).inc(tokens)
        instruments.judge_cost_usd.labels(service, judge).inc(usage.cost_usd)
        instruments.judge_seconds.labels(service, judge, outcome).observe(usage.seconds)

    def _cover(self, judge: str, *, uncovered: bool) -> None:
        coverage = self._coverage.setdefault(judge, _Coverage(self._clock()))
        coverage.decay(self._clock())
        coverage.answers += 1
        coverage.uncovered += uncovered

    # --- the state of now -----------------------------------------------------------------------

    def refresh(
        self,
        *,
        moments: Iterable[tuple[EstimateKey, Moments]],
        queue_depth: int,
        open_runs: int,
        errors: Mapping[str, int],
    ) -> None:
        """Take the state of now, and see to the endpoint and to other processes' remains."""
        self._show_state(moments, queue_depth=queue_depth, open_runs=open_runs)
        for stage, count in dict(errors).items():
            new = count - self._errors_seen[stage]
            if new > 0:
                self._errors_seen[stage] = count
                label = self._labels.value("stage", stage)
                self._instruments.internal_errors.labels(self._service, label).inc(new)
        if self._folder is not None:
            with guard.shielded("metrics"):
                self._folder.write_exemplars(self._exemplars)
                self._folder.bury_the_dead()
        if self._serve:
            self._endpoint.open()

    def _show_state(
        self, moments: Iterable[tuple[EstimateKey, Moments]], *, queue_depth: int, open_runs: int
    ) -> None:
        instruments, service = self._instruments, self._service
        instruments.queue_depth.labels(service).set(queue_depth)
        instruments.open_runs.labels(service).set(open_runs)
        self._show_moments(moments)
        for judge, coverage in self._coverage.items():
            coverage.decay(self._clock())
            instruments.coverage.labels(service, judge, "answers").set(coverage.answers)
            instruments.coverage.labels(service, judge, "uncovered").set(coverage.uncovered)
        for key, pairs in self._pairs.items():
            pairs.decay(self._clock())
            for name, value in pairs.sums.items():
                instruments.pairs.labels(service, *key, name).set(value)

    def _show_moments(self, moments: Iterable[tuple[EstimateKey, Moments]]) -> None:
        sums: dict[tuple[str, str, str], Moments] = dict.fromkeys(self._shown, Moments())
        for key, found in moments:
            signal = self._labels.value("signal", evaluator_name(key.signal))
            labels = (signal, self._judge(key.judge), key.window)
            sums[labels] = sums.get(labels, Moments()) + found
        self._shown = set(sums)
        for (signal, judge, window), total in sums.items():
            for name, value in asdict(total).items():
                self._instruments.moments.labels(self._service, signal, judge, window, name).set(
                    value
                )

    def flush(self, timeout_s: float) -> bool:  # noqa: ARG002 - of the protocol
        """Have nothing to send: it is fetched."""
        return True

    def close(self) -> None:
        """Stop serving; a process that lives on no longer adds to its peers' gauges."""
        self._endpoint.close()
        if self._folder is not None:
            for coverage in self._coverage.values():
                coverage.answers = coverage.uncovered = 0.0
            for pairs in self._pairs.values():
                pairs.sums = dict.fromkeys(pairs.sums, 0.0)
            self._show_state((), queue_depth=0, open_runs=0)

    def after_fork_in_child(self) -> None:
        """Let go of the parent's socket, and begin to count from zero."""
        self._endpoint.after_fork_in_child()
        if self._folder is not None:
            self._folder.after_fork_in_child()
        self._begin()

    # --- being scraped --------------------------------------------------------------------------

    def _families(self) -> list[Metric]:
        counted: Iterable[Metric] = self._instruments.registry.collect()
        exemplars: Mapping[tuple[LabelPairs, float], Exemplar] = {}
        if self._folder is not None:
            # The folder holds the application's own families too; those are its to serve.
            found = {family.name: family for family in self._folder.counted()}
            counted = [found[own.name] for own in counted if own.name in found]
            exemplars = self._folder.read_exemplars()
        return final_families(
            counted,
            exemplars=exemplars,
            summarise=self._summarise,
            service=self._service,
            version=package_version(),
        )

    def _described(self) -> list[Metric]:
        return described(self._instruments.registry.collect())

    def _evaluator(self, identity: str) -> str:
        return self._labels.value("evaluator", evaluator_name(identity))

    def _judge(self, name: str) -> str:
        return self._labels.value("judge", name)


class _Scrape(Collector):
    """What registries hold of us, for as long as they like; the instruments may change under it."""

    def __init__(
        self, collect: Callable[[], list[Metric]], describe: Callable[[], list[Metric]]
    ) -> None:
        self._collect = collect
        self._describe = describe

    def collect(self) -> Iterable[Metric]:
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        return self._describe()


class _Coverage:
    """Counts of answers, older ones for less."""

    def __init__(self, now_s: float) -> None:
        self.answers = 0.0
        self.uncovered = 0.0
        self._at_s = now_s

    def decay(self, now_s: float) -> None:
        """Let both counts age to now."""
        factor = math.exp(-max(0.0, now_s - self._at_s) / COVERAGE_DECAY_S)
        self.answers *= factor
        self.uncovered *= factor
        self._at_s = now_s


class _Pairs:
    """Sums over answers that two judges scored, older ones for less."""

    def __init__(self, now_s: float) -> None:
        self.sums = {"weight": 0.0, "equal": 0.0, "difference": 0.0}
        self._at_s = now_s

    def add(self, difference: float, *, weight: float) -> None:
        """Take one answer."""
        self.sums["weight"] += weight
        self.sums["equal"] += weight * (difference < _EQUAL_WITHIN)
        self.sums["difference"] += weight * difference

    def decay(self, now_s: float) -> None:
        """Let the sums age to now."""
        factor = math.exp(-max(0.0, now_s - self._at_s) / PAIRS_DECAY_S)
        self.sums = {name: value * factor for name, value in self.sums.items()}
        self._at_s = now_s


def _outcome(report: Report) -> str:
    if report.assessment is not None:
        usage = report.usage or report.assessment.usage
        return "cached" if usage.cache_hits and not usage.calls else "ok"
    causes = [e.cause.value for e in report.evaluations if isinstance(e, Unscored)]
    return causes[0] if causes else "judge_error"
