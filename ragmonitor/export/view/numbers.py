"""What the page shows of a snapshot of the statistics. Nothing else of the page reads one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ragmonitor.export.service_state import alarm_record, estimate_record, threshold_days
from ragmonitor.export.view.history import Column, Interval
from ragmonitor.records import Estimate, GaugeValue, SeriesKey, Snapshot, Window
from ragmonitor.semconv import metrics as names


def _means(snapshot: Snapshot) -> Iterator[tuple[SeriesKey, Window, Estimate, float]]:
    """Yield each known mean over all answers: whose, of which window, its interval, of how many."""
    for each in snapshot.means:
        if each.estimate is not None and not each.key.dimension:
            yield each.key, each.window, each.estimate, each.judged


def intervals(snapshot: Snapshot) -> dict[Column, Interval]:
    """Return the means of the last hour over all answers, with their intervals."""
    return {
        (key.signal, key.judge): (estimate.mean, estimate.lower, estimate.upper)
        for key, window, estimate, _ in _means(snapshot)
        if window == "1h"
    }


def shown(snapshot: Snapshot, *, judge: str | None) -> dict[str, Any]:
    """Return numbers, alarms, cause and spending, ready for JSON.

    Args:
        snapshot: The statistics of now.
        judge: The judge of a sample; None: there is none.
    """
    threshold = threshold_days(snapshot)
    gauges = _Gauges(snapshot.gauges)
    return {
        "numbers": _numbers(snapshot),
        "alarms": [
            alarm_record(each)
            # Evidence in shares of the threshold: 1 raises the alarm.
            | {"evidence": each.evidence_s / 86_400 / threshold if threshold else 0.0}
            for each in snapshot.alarms
        ],
        "threshold_days": threshold,
        "cause": None if snapshot.cause is None else asdict(snapshot.cause),
        "marks": snapshot.records.get("events", ()),
        "views": list(snapshot.views),
        "sampling": {
            "per_second": gauges.value(names.ARRIVALS),
            "rate": gauges.value(names.SAMPLING_RATE, judge=judge),
            "missing": gauges.value(names.MISSING_RATIO, judge=judge),
        },
        "budget": [
            labels | {"limit": limit, "left": gauges.value(names.BUDGET_LEVEL, **labels)}
            for labels, limit in gauges.all(names.BUDGET_LIMIT)
        ],
    }


def _numbers(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {"signal": key.signal, "judge": key.judge, "window": window, "scored": round(scored)}
        | estimate_record(estimate)
        for key, window, estimate, scored in _means(snapshot)
    ]


class _Gauges:
    """Finds gauges by name and labels."""

    def __init__(self, gauges: tuple[GaugeValue, ...]) -> None:
        self._by_name: dict[str, list[tuple[dict[str, str], float]]] = {}
        for each in gauges:
            self._by_name.setdefault(each.name, []).append((dict(each.labels), each.value))

    def all(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and values of every gauge of a name."""
        return self._by_name.get(name, [])

    def value(self, name: str, **labels: str | None) -> float | None:
        """Return the value of the gauge with these labels; None: there is none."""
        wanted = labels.items()
        return next((value for has, value in self.all(name) if has.items() >= wanted), None)
