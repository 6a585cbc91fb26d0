"""What the page shows of a snapshot of the statistics. Nothing else of the page reads one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragmonitor.export.service_state import alarm_record, means, threshold_days
from ragmonitor.export.view.history import Column, Interval
from ragmonitor.records import GaugeValue, Snapshot
from ragmonitor.semconv import metrics as names


def intervals(snapshot: Snapshot) -> dict[Column, Interval]:
    """Return the means of the last hour over all answers, with their intervals."""
    return {
        (each.key.signal, each.key.judge): (
            each.estimate.mean,
            each.estimate.lower,
            each.estimate.upper,
        )
        for each in snapshot.means
        if each.window == "1h" and each.estimate is not None and not each.key.dimension
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
        "numbers": [each for each in means(snapshot) if not each["dimension"]],
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
            "asked": gauges.value(names.MAX_SAMPLING_RATE, judge=judge),
            "missing": gauges.value(names.MISSING_RATIO, judge=judge),
        },
        "budget": [
            labels | {"limit": limit, "left": gauges.value(names.BUDGET_LEVEL, **labels)}
            for labels, limit in gauges.all(names.BUDGET_LIMIT)
        ],
        "people_agree": gauges.interval(names.FEEDBACK_AGREEMENT, judge=judge),
    }


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

    def interval(self, name: str, **labels: str | None) -> dict[str, float | None] | None:
        """Return a mean and the ends of its interval; None: it is not known."""
        ends = {
            bound: self.value(name, **labels, bound=bound) for bound in ("mean", "lower", "upper")
        }
        return None if ends["upper"] is None else ends
