"""The means and intervals since the start, of a day at most, in bounded memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final

Column = tuple[str, str]
"""Signal and judge."""
Interval = tuple[float, float, float]
"""Mean, lower and upper end."""

MAX_COLUMNS: Final = 60
"""Names come from an application's own evaluators and judges; each column costs 9 kB."""
MAX_POINTS: Final = 720
FIRST_EVERY_S: Final = 4.0
"""Seconds between two points: whenever there are too many, every other goes, and this doubles."""
LAST_EVERY_S: Final = 128.0


class History:
    """Points in time, each with an interval per column; from a day on the oldest go."""

    def __init__(self) -> None:
        self._columns: dict[Column, int] = {}
        self._points: list[tuple[float, array[float]]] = []
        self._every_s = FIRST_EVERY_S
        self._last_s = -math.inf

    def add(self, values: Mapping[Column, Interval], at_s: float) -> None:
        """Keep a point where one is due.

        Args:
            values: By column.
            at_s: Seconds since the epoch.
        """
        # A little early is in time, or a refresh a little early would be left out.
        if abs(at_s - self._last_s) < 0.9 * self._every_s:
            return
        self._last_s = at_s
        for column in values:
            if len(self._columns) < MAX_COLUMNS:
                self._columns.setdefault(column, len(self._columns))
        numbers = array("f", [math.nan] * (3 * len(self._columns)))
        for column, interval in values.items():
            if (at := self._columns.get(column)) is not None:
                numbers[3 * at : 3 * at + 3] = array("f", interval)
        self._points.append((at_s, numbers))
        if len(self._points) > MAX_POINTS and self._every_s < LAST_EVERY_S:
            self._every_s *= 2
            del self._points[1::2]
        del self._points[:-MAX_POINTS]

    def chart(self, signal: str, judge: str) -> dict[str, list[float | None]]:
        """Return times, means and both ends of the intervals of one column; None: a gap."""
        at = 3 * self._columns.get((signal, judge), 10**6)
        parts = {
            name: [_short(n[at + k]) if at + k < len(n) else None for _, n in self._points]
            for k, name in enumerate(("mean", "lower", "upper"))
        }
        return {"times": [round(time, 1) for time, _ in self._points], **parts}


def _short(number: float) -> float | None:
    """Return the number as its 32 bits hold it, in few digits; None: a gap."""
    return float(f"{number:.4g}") if math.isfinite(number) else None
