"""The numbers of now as one record for JSON: the page shows it, and commands read it.

It holds what /metrics holds, names and numbers, and never a text of an interaction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from prometheus_client.metrics_core import Metric

from ragmonitor import metrics as names
from ragmonitor.export.families import ScrapeSums
from ragmonitor.protocols import Summarise
from ragmonitor.records import AlarmState, Estimate, Snapshot

DAY_S = 86_400.0


def service_state(
    sums: ScrapeSums,
    scraped: Iterable[Metric],
    snapshot: Snapshot,
    *,
    service: str,
    summarise: Summarise,
) -> dict[str, Any]:
    """Return the state of one service.

    Args:
        sums: Those of the processes that share a folder.
        scraped: The families to scrape.
        snapshot: Of this process; the alarms are taken from it.
        service: Series of others are left out.
        summarise: From a window's sums to its mean and interval.
    """
    return {
        "service": service,
        "numbers": list(_numbers(sums, service, summarise)),
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


def _numbers(sums: ScrapeSums, service: str, summarise: Summarise) -> Iterator[dict[str, Any]]:
    """Yield the windowed means of a service, those of its parts included."""
    for (owner, *key), moments in sums.means.items():
        estimate = summarise(moments) if owner == service else None
        if estimate is not None:
            labels = zip(("signal", "judge", "window", "dimension", "group"), key, strict=True)
            yield dict(labels) | estimate_record(estimate)


def estimate_record(estimate: Estimate) -> dict[str, float]:
    """Return a mean, its interval and what they rest on."""
    return {
        name: round(value, 1 if name == "effective_n" else 5)
        for name, value in asdict(estimate).items()
    }


def alarm_record(state: AlarmState) -> dict[str, Any]:
    """Return where the evidence of one signal stands."""
    record = asdict(state)
    del record["objectives"]
    return record | {"evidence_days": record.pop("evidence_s") / DAY_S}


def threshold_days(snapshot: Snapshot) -> float | None:
    """Return the evidence at which alarms are raised; None: there are no alarms."""
    gauges = (each for each in snapshot.gauges if each.name == names.ALARM_THRESHOLD_SECONDS)
    return next((gauge.value / DAY_S for gauge in gauges), None)
