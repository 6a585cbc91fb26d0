"""The counters, gauges and histograms of one process, and the labels they may carry."""

from __future__ import annotations

import importlib.util
import unicodedata
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    metrics,
    values,
)

from ragmonitor import conventions as names
from ragmonitor.export.texts import encodable

SCORE_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SECONDS_BUCKETS = (0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

OTHER = "other"
LABEL_VALUES_MOST = 50
LABEL_LENGTH_MOST = 120

CHUNK_BUCKETS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50)
WORK_BUCKETS = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)

TOTALS = {
    "answers": (names.ANSWERS, "Answers that had a chance to be judged."),
    "value_positive": (
        names.ESTIMATE_SUM_POSITIVE,
        "Pseudo-outcomes of the value, where they add: see docs/statistics.md.",
    ),
    "value_negative": (names.ESTIMATE_SUM_NEGATIVE, "... where they take away."),
    "scored_positive": (
        names.ESTIMATE_COUNT_POSITIVE,
        "Pseudo-outcomes of having a value, where they add: see docs/statistics.md.",
    ),
    "scored_negative": (names.ESTIMATE_COUNT_NEGATIVE, "... where they take away."),
    "value_squares": (names.ESTIMATE_SUM_SQUARES, "Squares of the value's pseudo-outcomes."),
    "scored_squares": (
        names.ESTIMATE_COUNT_SQUARES,
        "Squares of the pseudo-outcomes of having a value.",
    ),
    "difference_squares": (
        names.ESTIMATE_DIFFERENCE_SQUARES,
        "Squares of the difference of the two pseudo-outcomes.",
    ),
    "judged": (names.JUDGED_ANSWERS, "Answers that were judged and have a value."),
    "missing": (
        names.MISSING_ANSWERS,
        "Answers that were drawn and gave no verdict, each for 1 / chance.",
    ),
    "awaited": (
        names.DRAWN_ANSWERS,
        "Answers that were drawn, each for 1 / chance, as soon as the coin had fallen.",
    ),
    "drawn": (
        names.RETURNED_ANSWERS,
        "Answers that were drawn and came back, with a verdict or without, each for 1 / chance.",
    ),
    "uncovered": (names.UNCOVERED_ANSWERS, "Answers that had no chance to be judged."),
}
"""Counters of `Totals`: field, name, meaning."""

READINGS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    names.ARRIVALS: ("livesum", "Answers per second, lately.", ()),
    names.SAMPLING_RATE: (
        "livemostrecent",
        "Chance to be judged of an answer as uncertain as most.",
        ("judge",),
    ),
    names.MAX_SAMPLING_RATE: (
        "livemostrecent",
        "What the chance is while the budget bears it: the setting judge_rate.",
        ("judge",),
    ),
    names.SAMPLING_BOOST: ("livemax", "What the chance is raised by on suspicion.", ("judge",)),
    names.EXPECTED_COST: (
        "livemostrecent",
        "What one reading costs, in the budget's unit.",
        ("judge", "unit"),
    ),
    names.BUDGET_LEVEL: ("livemostrecent", "What may be spent at once now.", ("unit", "per")),
    names.BUDGET_LIMIT: ("livemostrecent", "What may be spent in this time.", ("unit", "per")),
    names.EARLY_WARNING_EVIDENCE_SECONDS: (
        "livemax",
        "Evidence of the built-in judge's score alone; it raises the sampling and never an alarm.",
        (),
    ),
    names.ALARM_THRESHOLD_SECONDS: (
        "livemostrecent",
        "Evidence at which an alarm is raised: the least days between false ones, on average.",
        (),
    ),
    names.ALARM_LATE_VERDICTS: (
        "livesum",
        "Verdicts that came too late after their draw to bet, since the process began.",
        (),
    ),
    names.BUILTIN_AUROC: (
        "livemostrecent",
        "Chance that the built-in judge's risk is higher for a bad answer than for a good one.",
        ("judge",),
    ),
    names.CALIBRATION_RESIDUAL: (
        "livemostrecent",
        "Verdicts less what was predicted of them, on the riskiest fifth of answers.",
        ("judge",),
    ),
    names.JUDGE_FLIP_RATE: (
        "livemostrecent",
        "Share of answers read twice on which the judge disagrees with itself.",
        ("judge",),
    ),
    names.ALARM_CAUSE: (
        "livemostrecent",
        "Whether the judge or the application explains the active alarm: 1 for what is known.",
        ("judge", "cause"),
    ),
    names.ALARM_CAUSE_REREAD: (
        "livemostrecent",
        "Old answers, found fine before, that the judge has read again since the alarm.",
        ("judge",),
    ),
    names.ALARM_CAUSE_FLIPPED: (
        "livemostrecent",
        "Of these, how many it finds hallucinated now.",
        ("judge",),
    ),
    names.ANCHORS: ("livemostrecent", "Frozen answers that the judge reads again.", ("judge",)),
    names.ANCHOR_FLIP_RATE: (
        "livemostrecent",
        "Share of frozen answers on which the judge's verdict has changed.",
        ("judge",),
    ),
    names.CORRECTED_RATE: (
        "livemostrecent",
        "Hallucination rate of the last day as people's labels correct it.",
        ("judge",),
    ),
    names.CORRECTED_RATE + "_lower": (
        "livemostrecent",
        "Lower end of its 95 % interval.",
        ("judge",),
    ),
    names.CORRECTED_RATE + "_upper": (
        "livemostrecent",
        "Upper end of its 95 % interval.",
        ("judge",),
    ),
    names.HUMAN_LABELS: ("livemostrecent", "People's labels of the last 30 days.", ()),
    names.REFERENCE_RATIO: (
        "livemostrecent",
        "Share collected of what later questions are compared with; 1: it is frozen.",
        (),
    ),
    names.REFERENCE_INFO: (
        "livemostrecent",
        "The frozen reference that questions are compared with.",
        ("version",),
    ),
    names.QUESTION_PSI: (
        "livemostrecent",
        "Population stability index of topics against the reference, less what chance gives.",
        (),
    ),
}
"""Plain gauges: how processes' values come together, meaning, labels but for the service."""


_ALARM = ("signal", "judge", "kind")


class Labels:
    """Keeps the values of each label readable and few: a series lives for as long as its process.

    Every value of every label passes here, wherever it comes from (see `Family`).
    """

    def __init__(self, most: int = LABEL_VALUES_MOST) -> None:
        self._most = most
        self._seen: dict[str, set[str]] = {}

    def value(self, label: str, value: object) -> str:
        """Return the value, cleaned, or `other` if this label has had too many different ones.

        Args:
            label: Its name, or whatever else the bound is for.
            value: Usually text; of anything else its `str`.
        """
        seen = self._seen.setdefault(label, set())
        if isinstance(value, str) and value in seen:  # only clean ones are there
            return value
        clean = cleaned(value)
        if clean in seen:
            return clean
        if len(seen) >= self._most:
            return OTHER
        seen.add(clean)
        return clean

    def part(self, dimension: object, group: object) -> tuple[str, str]:
        """Return the labels of a part of the traffic; each dimension has a bound of its own."""
        if not dimension:
            return "", ""
        clean = self.value("dimension", dimension)
        return clean, self.value(f"group of {clean}", group)


def cleaned(value: object) -> str:
    """Return text that fits into a label: of bounded length, encodable, without control characters.

    A lone surrogate fails the encoding of a whole scrape, and what a zero byte does to a parser is
    its own affair.
    """
    text = encodable(value if isinstance(value, str) else str(value))[:LABEL_LENGTH_MOST]
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c) in _CONTROLS else c for c in text)


_CONTROLS = ("Cc", "Zl", "Zp")

Instrument = TypeVar("Instrument", bound=Counter | Gauge | Histogram | Summary)


class Family(Generic[Instrument]):
    """The series of one name. No value of a label gets into one but through `Labels`."""

    def __init__(self, instrument: Instrument, names: Sequence[str], labels: Labels) -> None:
        self._instrument = instrument
        self._names = tuple(names)
        self._labels = labels
        self._part_at = self._names.index("dimension") if "dimension" in self._names else None

    def labels(self, *values: object) -> Instrument:
        """Return the series with these values, in the order of the labels' names."""
        # Typed as if it were any of the four.
        return self._instrument.labels(*self._cleaned(values))  # type: ignore[return-value]

    def remove(self, *values: object) -> None:
        """Forget the series with these values.

        Raises:
            KeyError: There is none.
        """
        self._instrument.remove(*self._cleaned(values))

    def _cleaned(self, values: tuple[object, ...]) -> list[str]:
        clean = [
            str(value) if name in _OURS else self._labels.value(name, value)
            for name, value in zip(self._names, values, strict=True)
            if name not in _PART
        ]
        if self._part_at is not None:
            at = self._part_at
            clean[at:at] = self._labels.part(*values[at : at + len(_PART)])
        return clean


_PART = ("dimension", "group")
"""Labels that stand together; the values of the second are counted for each of the first."""
_OURS = ("sum",)
"""Labels whose values are all named in our code: more than an application's may be, and none of
them may become `other`."""


@cache
def _in_memory() -> Any:
    """Return the library's metrics, with values in this process's memory whatever it was told.

    With `PROMETHEUS_MULTIPROC_DIR` every value of the library is in a file. So this is a second
    copy of its module, for us alone; the application's own metrics stay where they are.
    """
    if not getattr(values.ValueClass, "_multiprocess", False):
        return metrics
    found = importlib.util.find_spec(metrics.__name__)
    if found is None or found.loader is None:
        return metrics
    copy = importlib.util.module_from_spec(found)
    found.loader.exec_module(copy)
    vars(copy)["values"] = SimpleNamespace(ValueClass=values.MutexValue)
    # It would warn, on standard error, of what holds for files only.
    vars(copy)["warnings"] = SimpleNamespace(warn=lambda *_, **__: None)
    return copy


class Instruments:
    """What is counted, on a registry of its own that nobody scrapes.

    Gauges add up over processes, but for those that say otherwise.
    """

    def __init__(self, labels: Labels, *, shared: bool = False) -> None:
        """Begin at zero.

        Args:
            labels: What every value of a label passes through.
            shared: Whether to count in files that other processes read too, where the library has
                been told to.
        """
        self._labels = labels
        self._kinds: Any = metrics if shared else _in_memory()
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
        self.score = self._histogram(
            names.SCORE_HISTOGRAM,
            "Scores of the answers that were read, not weighted by their chance to be.",
            "evaluator",
            "judge",
            buckets=SCORE_BUCKETS,
        )
        self.judge_calls = self._counter(names.JUDGE_CALLS, "Calls of a judge's model.", "judge")
        self.judge_tokens = self._counter(
            names.JUDGE_TOKENS, "Tokens that a judge's model used.", "judge", "direction"
        )
        self.judge_cost_usd = self._counter(
            names.JUDGE_COST_USD, "What a judge's model cost, in US dollars.", "judge"
        )
        self.judge_seconds = self._histogram(
            names.JUDGE_SECONDS,
            "Duration of one reading over all its calls, by outcome: ok, or why it gave nothing.",
            "judge",
            "outcome",
            buckets=SECONDS_BUCKETS,
        )
        self.dropped = self._counter(
            names.DROPPED, "Interactions, runs and sent scores given up.", "reason"
        )
        self.internal_errors = self._counter(
            names.INTERNAL_ERRORS, "Errors of the monitoring itself.", "stage"
        )
        self.requests_rejected = self._counter(
            names.REQUESTS_REJECTED,
            "Requests to this endpoint that were not answered as asked, and why.",
            "reason",
        )
        self.worker_restarts = self._counter(
            names.WORKER_RESTARTS, "Times that an error ended the worker's run, which began again."
        )
        self.worker_seen = self._gauge(
            names.WORKER_SEEN,
            "When the worker last showed the state of now, in seconds since the epoch; of several "
            "processes the one that is furthest behind.",
            mode="livemin",
        )
        self.queue_depth = self._gauge(names.QUEUE_DEPTH, "Interactions that wait to be scored.")
        self.open_runs = self._gauge(names.OPEN_RUNS, "Framework runs that have not ended.")
        self.last_score = self._gauge(
            names.LAST_SCORE_TIMESTAMP,
            "When a judge last gave a score, in seconds since the epoch.",
            "judge",
            mode="max",
        )
        self.moments = self._gauge(
            names.MOMENTS,
            "Additive sums of a window.",
            "signal",
            "judge",
            "window",
            "dimension",
            "group",
            "sum",
        )
        self.breaker_state = self._shared(
            names.JUDGE_BREAKER_STATE,
            "Whether a judge's provider is asked: 0 yes, 1 one reading tries, 2 it is left alone.",
            "judge",
        )
        self.pairs = self._gauge(
            names.PAIRS,
            "Decaying sums over answers that two judges read.",
            "evaluator",
            "judge",
            "second_judge",
            "sum",
        )
        self.totals = {
            field: self._counter(name, text, "signal", "judge")
            for field, (name, text) in TOTALS.items()
        }
        self.evidence = self._shared(
            names.ALARM_EVIDENCE_SECONDS,
            "While all keeps to what is tolerated, alarms of all signals together reach this level "
            "at most once in so many days; held while the alarm is active.",
            *_ALARM,
        )
        self.alarm_active = self._shared(
            names.ALARM_ACTIVE, "Whether the alarm is raised and not cleared.", *_ALARM
        )
        self.alarm_since = self._shared(
            names.ALARM_SINCE, "When the active alarm was raised.", *_ALARM
        )
        self.alarm_tolerate = self._shared(
            names.ALARM_OBJECTIVE, "The mean that is still accepted.", *_ALARM
        )
        self.alarm_learned = self._shared(
            names.ALARM_LEARNED_RATIO,
            "Share of the verdicts there that learning what is tolerated needs.",
            *_ALARM,
        )
        self.alarm_objectives = self._shared(
            names.ALARM_OBJECTIVES,
            "Different objectives that processes of one state_dir say; the strictest holds.",
            *_ALARM,
        )
        self.alarms_raised = self._counter(names.ALARMS_RAISED, "Alarms raised.", *_ALARM)
        self.anchor_checks = self._counter(
            names.ANCHOR_CHECKS,
            "Frozen answers read again, by outcome.",
            "judge",
            "outcome",
        )
        self.readings = {
            name: self._gauge(name, text, *names_of, mode=mode)
            for name, (mode, text, names_of) in READINGS.items()
        }
        self.judge_info = self._shared(names.JUDGE_INFO, "Who judges.", "judge", "version", "kind")
        self.service_info = self._shared(
            names.SERVICE_INFO, "The monitored application.", "version"
        )
        self.interaction_seconds = self._histogram(
            names.INTERACTION_SECONDS,
            "From the question to the last token.",
            "framework",
            buckets=SECONDS_BUCKETS,
        )
        self.chunks = self._histogram(
            names.RETRIEVED_CHUNKS, "Chunks that the model was shown.", buckets=CHUNK_BUCKETS
        )
        self.top_score = Family(
            self._kinds.Summary(
                names.RETRIEVAL_TOP_SCORE,
                "Score of the first chunk, on the retriever's own scale.",
                _SERVICE,
                registry=self.registry,
            ),
            _SERVICE,
            labels,
        )
        self.worker_seconds = self._histogram(
            names.WORKER_SECONDS,
            "What one interaction costs behind the request, by stage.",
            "stage",
            buckets=WORK_BUCKETS,
        )

    def _counter(self, name: str, documentation: str, *labels: str) -> Family[Counter]:
        own = (*_SERVICE, *labels)
        counter = self._kinds.Counter(name, documentation, own, registry=self.registry)
        return Family(counter, own, self._labels)

    def _gauge(
        self, name: str, documentation: str, *labels: str, mode: str = "livesum"
    ) -> Family[Gauge]:
        own = (*_SERVICE, *labels)
        gauge = self._kinds.Gauge(
            name,
            documentation,
            own,
            multiprocess_mode=mode,
            registry=self.registry,
        )
        return Family(gauge, own, self._labels)

    def _shared(self, name: str, documentation: str, *labels: str) -> Family[Gauge]:
        """Return a gauge of what processes know in common."""
        return self._gauge(name, documentation, *labels, mode="livemax")

    def _histogram(
        self, name: str, documentation: str, *labels: str, buckets: Sequence[float]
    ) -> Family[Histogram]:
        own = (*_SERVICE, *labels)
        histogram = self._kinds.Histogram(
            name, documentation, own, buckets=buckets, registry=self.registry
        )
        return Family(histogram, own, self._labels)


_SERVICE = ("service",)
