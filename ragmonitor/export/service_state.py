"""The current state as series, and as one record for JSON: the page shows it, commands read it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from ragmonitor.export.instruments import State
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    Snapshot,
    WindowedMean,
)
from ragmonitor.semconv import metrics as names

DAY_S: Final = 86_400.0
_MEANS: Final = {
    "hallucination": names.HALLUCINATION_RATE,
    "refusal": names.REFUSAL_RATE,
    "empty_retrieval": names.EMPTY_RETRIEVAL_RATIO,
    "weak_retrieval": names.WEAK_RETRIEVAL_RATIO,
}
"""The series of the mean of each signal that has one of its own."""


def states(snapshot: Snapshot) -> Iterator[Iterator[State]]:
    """Yield the numbers of a snapshot for /metrics, in a group for each of its entries."""
    yield from map(_of_mean, snapshot.means)
    yield from map(_of_alarm, snapshot.alarms)
    for gauge in snapshot.gauges:
        yield iter([(gauge.name, tuple(value for _, value in gauge.labels), gauge.value)])


def _of_mean(mean: WindowedMean) -> Iterator[State]:
    key, estimate, by_judge = mean.key, mean.estimate, (mean.key.judge, mean.window)
    if key.dimension:
        if estimate is not None:
            part = (*by_judge, key.dimension, key.group)
            yield names.GROUP_HALLUCINATION_RATE, part, estimate.mean
            yield names.GROUP_HALLUCINATION_BOUND, (*part, "lower"), estimate.lower
            yield names.GROUP_HALLUCINATION_BOUND, (*part, "upper"), estimate.upper
        return
    if estimate is not None:
        name = root = _MEANS.get(key.signal, "")
        labels: tuple[str, ...] = by_judge
        if not name:
            name, root = names.SCORE_MEAN, names.SCORE_HISTOGRAM
            labels = (key.signal, *by_judge)
        elif "judge" not in names.TABLE[name].labels:
            labels = (mean.window,)
        yield name, labels, estimate.mean
        if f"{root}_lower" in names.TABLE:
            yield f"{root}_lower", labels, estimate.lower
            yield f"{root}_upper", labels, estimate.upper
    if key.signal == "hallucination":
        yield names.UNCOVERED_RATIO, by_judge, mean.uncovered
    if key.signal == "refusal" and mean.window == "24h":
        yield names.MISSING_RATIO, (key.judge,), mean.missing


def _of_alarm(state: AlarmState) -> Iterator[State]:
    labels, span = alarm_labels(state), state.span
    yield names.ALARMS_RAISED, labels, 0.0  # 0 is a number too
    for name, side, value in (
        (names.ALARM_EVIDENCE_SECONDS, (), state.evidence_s),
        (names.ALARM_ACTIVE, (), state.active),
        (names.ALARM_OBJECTIVE, (), state.objective),
        (names.ALARM_SINCE, (), state.since_s),
        (names.ALARM_RISE_START, (), None if span is None else span.since_s),
        (names.ALARM_RISE_MEAN, ("since",), None if span is None else span.mean),
        (names.ALARM_RISE_MEAN, ("before",), None if span is None else span.before),
    ):
        if value is not None:
            yield name, (*labels, *side), value


def alarm_labels(alarm: AlarmState | AlarmEvent) -> tuple[str, str, str]:
    """Return the labels of an alarm's series: signals, whose names are few, without slices."""
    return alarm.signal.partition("{")[0], alarm.judge, alarm.kind


def service_state(scraped: Iterable[Metric], snapshot: Snapshot, service: str) -> dict[str, Any]:
    """Return the numbers of now for JSON: those of /metrics, and no texts.

    Args:
        scraped: The families to scrape.
        snapshot: Of this process.
        service: Series of others are left out.
    """
    return statistics(snapshot) | {
        "service": service,
        "records": dict(snapshot.records),
        "series": [
            {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
            for family in scraped
            if family.type in ("counter", "gauge")
            for sample in family.samples
            # NaN stands for what is not known any more; JSON has no number for it.
            if sample.labels.get("service") == service and math.isfinite(sample.value)
        ],
    }


def page_state(snapshot: Snapshot, *, judge: str | None) -> dict[str, Any]:
    """Return what the page shows of the statistics, ready for JSON.

    Args:
        snapshot: The statistics of now.
        judge: The judge of a sample; None: there is none.
    """
    shown = statistics(snapshot)
    series = {(name, labels): value for group in states(snapshot) for name, labels, value in group}
    return shown | {
        "numbers": [each for each in shown["numbers"] if not each["dimension"]],
        "cause": None if snapshot.cause is None else asdict(snapshot.cause),
        "marks": snapshot.records.get("events", ()),
        "views": list(snapshot.views),
        "sampling": {
            "per_second": series.get((names.ARRIVALS, ())),
            "rate": series.get((names.SAMPLING_RATE, (judge,))),
            "asked": series.get((names.MAX_SAMPLING_RATE, (judge,))),
            "missing": series.get((names.MISSING_RATIO, (judge,))),
        },
        "budget": [
            {"unit": labels[0], "per": labels[1], "limit": limit}
            for (name, labels), limit in series.items()
            if name == names.BUDGET_LIMIT
        ],
    }


def statistics(snapshot: Snapshot) -> dict[str, Any]:
    """Return each known mean with its interval and what it rests on, and where evidence stands.

    Evidence is in days, and in shares of the threshold, at which an alarm is raised; without a
    threshold there are no alarms.
    """
    gauges = (each for each in snapshot.gauges if each.name == names.ALARM_THRESHOLD_SECONDS)
    threshold_s = next((gauge.value for gauge in gauges), None)
    return {
        "numbers": [
            asdict(each.key)
            | {
                "window": each.window,
                "scored": round(each.judged),
                "mean": round(each.estimate.mean, 5),
                "lower": round(each.estimate.lower, 5),
                "upper": round(each.estimate.upper, 5),
                "effective_n": round(each.estimate.effective_n, 1),
                "coverage": round(each.estimate.coverage, 5),
            }
            for each in snapshot.means
            if each.estimate is not None
        ],
        "alarms": [
            asdict(each)
            | {
                "evidence_days": each.evidence_s / DAY_S,
                "evidence": each.evidence_s / threshold_s if threshold_s else 0.0,
            }
            for each in snapshot.alarms
        ],
        "threshold_days": threshold_s and threshold_s / DAY_S,
    }
