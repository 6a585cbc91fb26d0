"""The monitor's own counters, read back: what a dashboard would say of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ragmonitor.metrics import DROPPED, EVALUATIONS, INTERACTIONS, INTERNAL_ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over all label sets of one monitor."""

    by_framework: dict[str, int]
    """Captured interactions."""
    scored: int
    """Scores, over all evaluators and judges."""
    unscored: dict[str, int]
    """Missing scores by cause."""
    dropped: dict[str, int]
    """What was dropped, by reason."""
    errors: dict[str, int]
    """Our own errors in this process, by stage."""

    @property
    def captured(self) -> int:
        """Interactions of all frameworks."""
        return sum(self.by_framework.values())

    @property
    def evaluations(self) -> int:
        """Scored and unscored together."""
        return self.scored + sum(self.unscored.values())


def read_counts(registry: CollectorRegistry) -> Counts:
    """Return what the registry says now; flush the monitor first."""
    frameworks: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    wanted = {
        f"{INTERACTIONS}_total": (frameworks, "framework"),
        f"{EVALUATIONS}_total": (outcomes, "outcome"),
        f"{DROPPED}_total": (dropped, "reason"),
        f"{INTERNAL_ERRORS}_total": (errors, "stage"),
    }
    for family in registry.collect():
        for sample in family.samples:
            if sample.name in wanted:
                counter, label = wanted[sample.name]
                counter[sample.labels.get(label, "")] += int(sample.value)
    scored = outcomes.pop("scored", 0)
    return Counts(
        by_framework=_filled(frameworks),
        scored=scored,
        unscored=_filled(outcomes),
        dropped=_filled(dropped),
        errors=_filled(errors),
    )


def _filled(counter: Counter[str]) -> dict[str, int]:
    return {key: n for key, n in sorted(counter.items()) if n}
