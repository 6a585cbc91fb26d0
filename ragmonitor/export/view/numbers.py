"""What the page shows of a snapshot of the statistics. Nothing else of the page reads one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ragmonitor.export.service_state import alarm_record, means, states, threshold_days
from ragmonitor.records import Snapshot
from ragmonitor.semconv import metrics as names


def shown(snapshot: Snapshot, *, judge: str | None) -> dict[str, Any]:
    """Return numbers, alarms, cause and spending, ready for JSON.

    Args:
        snapshot: The statistics of now.
        judge: The judge of a sample; None: there is none.
    """
    threshold = threshold_days(snapshot)
    series = {(name, labels): value for group in states(snapshot) for name, labels, value in group}
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
