"""The counters, gauges and histograms of one process, and the labels they may carry."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ragmonitor import conventions as names
from ragmonitor.export.texts import encodable

SCORE_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SECONDS_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

OTHER = "other"
LABEL_VALUES_MOST = 50
LABEL_LENGTH_MOST = 120

MOMENT_SUMS = ("weight", "weight_squared", "value", "value_squared")


class Labels:
    """Keeps the values of each label few: a series lives for as long as its process."""

    def __init__(self, most: int = LABEL_VALUES_MOST) -> None:
        self._most = most
        self._seen: dict[str, set[str]] = {}

    def value(self, label: str, value: str) -> str:
        """Return the value, or `other` if this label has had too many different ones."""
        value = encodable(value)[:LABEL_LENGTH_MOST]
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) >= self._most:
            return OTHER
        seen.add(value)
        return value


class Instruments:
    """What is counted, on a registry of its own that nobody scrapes.

    Gauges add up over processes, but for the time of the last score, where the latest counts, and
    the state of a breaker, where the worst does.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.interactions = self._counter(
            names.INTERACTIONS, "Captured interactions.", "framework", "status"
        )
        self.evaluations = self._counter(
            names.EVALUATIONS,
            "Evaluations by outcome: scored, or why there is no score.",
            "evaluator",
            "judge",
            "outcome",
        )
        self.diagnoses = self._counter(
            names.DIAGNOSES,
            "Answers by what went wrong, not weighted by their chance to be read.",
            "judge",
            "diagnosis",
        )
        self.score = Histogram(
            names.SCORE_HISTOGRAM,
            "Scores of the answers that were read, not weighted by their chance to be.",
            ("service", "evaluator", "judge"),
            buckets=SCORE_BUCKETS,
            registry=self.registry,
        )
        self.judge_calls = self._counter(names.JUDGE_CALLS, "Calls of a judge's model.", "judge")
        self.judge_tokens = self._counter(
            names.JUDGE_TOKENS, "Tokens that a judge's model used.", "judge", "direction"
        )
        self.judge_cost_usd = self._counter(
            names.JUDGE_COST_USD, "What a judge's model cost, in US dollars.", "judge"
        )
        self.judge_seconds = Histogram(
            names.JUDGE_SECONDS,
            "Duration of one reading over all its calls, by outcome: ok, or why it gave nothing.",
            ("service", "judge", "outcome"),
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.dropped = self._counter(
            names.DROPPED, "Interactions, runs and sent scores given up.", "reason"
        )
        self.internal_errors = self._counter(
            names.INTERNAL_ERRORS, "Errors of the monitoring itself.", "stage"
        )
        self.queue_depth = self._gauge(names.QUEUE_DEPTH, "Interactions that wait to be scored.")
        self.open_runs = self._gauge(names.OPEN_RUNS, "Framework runs that have not ended.")
        self.last_score = Gauge(
            names.LAST_SCORE_TIMESTAMP,
            "When a judge last gave a score, in seconds since the epoch.",
            ("service", "judge"),
            multiprocess_mode="max",
            registry=self.registry,
        )
        self.moments = self._gauge(
            names.MOMENTS, "Additive sums of a window.", "signal", "judge", "window", "sum"
        )
        self.breaker_state = Gauge(
            names.JUDGE_BREAKER_STATE,
            "Whether a judge's provider is asked: 0 yes, 1 one reading tries, 2 it is left alone.",
            ("service", "judge"),
            multiprocess_mode="livemax",
            registry=self.registry,
        )
        self.pairs = self._gauge(
            names.PAIRS,
            "Decaying sums over answers that two judges read.",
            "evaluator",
            "judge",
            "second_judge",
            "sum",
        )
        self.coverage = self._gauge(names.COVERAGE, "Decaying counts of answers.", "judge", "count")

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, ("service", *labels), registry=self.registry)

    def _gauge(self, name: str, documentation: str, *labels: str) -> Gauge:
        return Gauge(
            name,
            documentation,
            ("service", *labels),
            multiprocess_mode="livesum",
            registry=self.registry,
        )
