"""The numbers of now as one record for JSON: the page shows it, and commands read it.

It holds what /metrics holds, names and numbers, and never a text of an interaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from prometheus_client.metrics_core import Metric

from ragmonitor.export.families import Means
from ragmonitor.records import AlarmState, Estimate, Snapshot
from ragmonitor.semconv import metrics as names

DAY_S = 86_400.0


def service_state(
    means: Means,
    scraped: Iterable[Metric],
    snapshot: Snapshot,
    *,
    service: str,
) -> dict[str, Any]:
    """Return the state of one service.

    Args:
        means: Of the windows.
        scraped: The families to scrape.
        snapshot: Of this process; the alarms are taken from it.
        service: Series of others are left out.
    """
    return {
        "service": service,
        "numbers": list(_numbers(means)),
        "alarms": [alarm_record(state) for state in snapshot.alarms],
        "threshold_days": threshold_days(snapshot),
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


def _numbers(means: Means) -> Iterator[dict[str, Any]]:
    """Yield the windowed means of a service, those of its parts included."""
    for (_, *key), mean in means.items():
        if mean.estimate is not None:
            labels = zip(("signal", "judge", "window", "dimension", "group"), key, strict=True)
            yield dict(labels) | estimate_record(mean.estimate)


def estimate_record(estimate: Estimate) -> dict[str, float]:
    """Return a mean, its interval and what they rest on."""
    return {
        name: round(value, 1 if name == "effective_n" else 5)
        for name, value in estimate._asdict().items()
    }


def alarm_record(state: AlarmState) -> dict[str, Any]:
    """Return where the evidence of one signal stands."""
    record = asdict(state)
    return record | {"evidence_days": record.pop("evidence_s") / DAY_S}


def threshold_days(snapshot: Snapshot) -> float | None:
    """Return the evidence at which alarms are raised; None: there are no alarms."""
    gauges = (each for each in snapshot.gauges if each.name == names.ALARM_THRESHOLD_SECONDS)
    return next((gauge.value / DAY_S for gauge in gauges), None)
