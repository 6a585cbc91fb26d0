"""The last hours in bounded memory: points, finer for what is recent, and sums over slots."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragmonitor.records import Report

Column = tuple[str, str, str]
"""Signal, judge, and which number of it: `mean`, `lower`, `upper`, `evidence`."""

MAX_COLUMNS: Final = 160
"""Names come from an application's own evaluators and judges; each costs 6 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The span of time that is kept, and how finely."""

    name: str
    every_s: float
    points: int


RESOLUTIONS: Final = (
    Resolution(name="20m", every_s=4.0, points=300),
    Resolution(name="2h", every_s=20.0, points=360),
    Resolution(name="24h", every_s=120.0, points=720),
)


class History:
    """Points in time, each with a number per column; the oldest give way to the newest."""

    def __init__(self, resolutions: Sequence[Resolution] = RESOLUTIONS) -> None:
        self._rings = [_Ring(resolution) for resolution in resolutions]

    def due(self, clock_s: float) -> bool:
        """Return whether a point is wanted now, by a clock that never goes back."""
        return any(ring.due(clock_s) for ring in self._rings)

    def add(
        self, values: Mapping[Column, float], *, clock_s: float, at_s: float, revision: int
    ) -> None:
        """Take a point wherever one is due.

        Args:
            values: By column; what is missing or not finite is a gap.
            clock_s: Seconds of a clock that never goes back.
            at_s: Seconds since the epoch, to be shown.
            revision: Rises from point to point; see `since`.
        """
        for ring in self._rings:
            if ring.due(clock_s):
                ring.add(values, clock_s=clock_s, at_s=at_s, revision=revision)

    def since(self, revision: int, max_points: int) -> tuple[dict[str, Any], int | None]:
        """Return the points after a revision, ready for JSON, and up to which, if not all.

        Where that is not all, some points beyond it are among them; a later request knows them by
        their revisions.

        Args:
            revision: 0: from the beginning.
            max_points: Per resolution.
        """
        points: dict[str, Any] = {}
        reached: list[int] = []
        for ring in self._rings:
            positions = list(ring.since(revision))
            if len(positions) > max_points:
                positions = positions[:max_points]
                reached.append(ring.revisions[positions[-1]])
            points[ring.resolution.name] = ring.points(positions)
        return points, min(reached, default=None)


class _Ring:
    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution
        self.revisions = array("Q", bytes(8 * resolution.points))
        self._times = array("d", bytes(8 * resolution.points))
        self._columns: dict[Column, array[float]] = {}
        self._next = 0
        self._filled = 0
        self._last_s = -math.inf

    def due(self, clock_s: float) -> bool:
        # A little early is in time, or a refresh a little early would be left out.
        return clock_s - self._last_s >= 0.9 * self.resolution.every_s

    def add(
        self, values: Mapping[Column, float], *, clock_s: float, at_s: float, revision: int
    ) -> None:
        here = self._next
        for column in values:
            if column not in self._columns and len(self._columns) < MAX_COLUMNS:
                self._columns[column] = array("f", [math.nan] * self.resolution.points)
        for column, numbers in self._columns.items():
            numbers[here] = values.get(column, math.nan)
        self._times[here] = at_s
        self.revisions[here] = revision
        self._last_s = clock_s
        self._next = (here + 1) % self.resolution.points
        self._filled = min(self._filled + 1, self.resolution.points)

    def since(self, revision: int) -> Iterator[int]:
        """Yield the positions of later points, oldest first."""
        size = self.resolution.points
        for n in range(self._filled):
            position = (self._next - self._filled + n) % size
            if self.revisions[position] > revision:
                yield position

    def points(self, positions: Sequence[int]) -> dict[str, Any]:
        series: dict[str, dict[str, dict[str, list[float | None]]]] = {}
        for (signal, judge, part), numbers in self._columns.items() if positions else ():
            column = [_short(numbers[position]) for position in positions]
            series.setdefault(signal, {}).setdefault(judge, {})[part] = column
        return {
            "every_s": self.resolution.every_s,
            "points": self.resolution.points,
            "revisions": [self.revisions[position] for position in positions],
            "times": [round(self._times[position], 1) for position in positions],
            "series": series,
        }


def _short(number: float) -> float | None:
    """Return the number as its 32 bits hold it, in few digits; None: a gap."""
    return float(f"{number:.4g}") if math.isfinite(number) else None


SLOT_S: Final = 300.0
WINDOWS_S: Final = {"hour": 3_600.0, "day": 86_400.0}


class SlotSums:
    """Sums over slots of five minutes, for a day: bounded, and as exact as people need."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Begin with nothing; `now` is in seconds since the epoch."""
        self._now = now
        self._slots: deque[tuple[float, dict[str, float]]] = deque(
            maxlen=int(WINDOWS_S["day"] / SLOT_S) + 1
        )

    def add(self, **amounts: float) -> None:
        """Add amounts by unit; those of 0 are left out."""
        for unit, amount in amounts.items():
            if amount:
                slot = self._slot()
                slot[unit] = slot.get(unit, 0.0) + amount

    def sums(self) -> dict[str, dict[str, float]]:
        """Return the sums by window and unit."""
        now_s = self._now()
        sums: dict[str, dict[str, float]] = {window: {} for window in WINDOWS_S}
        for began_s, slot in self._slots:
            for window, length_s in WINDOWS_S.items():
                if began_s > now_s - length_s:
                    for unit, amount in slot.items():
                        sums[window][unit] = sums[window].get(unit, 0.0) + amount
        return sums

    def _slot(self) -> dict[str, float]:
        began_s = self._now() // SLOT_S * SLOT_S
        # A clock that was put back goes on in the slot that is open.
        if not self._slots or self._slots[-1][0] < began_s:
            self._slots.append((began_s, {}))
        return self._slots[-1][1]


def spending(report: Report) -> dict[str, float]:
    """Return what judging one answer used, with a verdict or without."""
    usage = report.usage
    if usage is None and report.assessment is not None:
        usage = report.assessment.usage
    if usage is None:
        return {}
    tokens = usage.input_tokens + usage.output_tokens
    return {"usd": usage.cost_usd, "tokens": tokens, "calls": usage.calls}
