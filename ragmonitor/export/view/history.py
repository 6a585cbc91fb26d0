"""The last day's means and intervals in bounded memory, finer for what is recent."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Mapping
from typing import Final

Column = tuple[str, str]
"""Signal and judge."""
Interval = tuple[float, float, float]
"""Mean, lower and upper end."""

MAX_COLUMNS: Final = 60
"""Names come from an application's own evaluators and judges; each column costs 16 kB."""


SPANS: Final = {"20m": (4.0, 300), "2h": (20.0, 360), "24h": (120.0, 720)}
"""Seconds between two points, and how many points are kept."""


class History:
    """Points in time, each with an interval per column; the oldest give way to the newest."""

    def __init__(self) -> None:
        self._columns: dict[Column, int] = {}
        self._points: dict[str, deque[tuple[float, array[float]]]] = {
            name: deque(maxlen=points) for name, (_, points) in SPANS.items()
        }
        self._last_s = dict.fromkeys(SPANS, -math.inf)

    def add(self, values: Mapping[Column, Interval], *, clock_s: float, at_s: float) -> None:
        """Keep a point in each span where one is due.

        Args:
            values: By column.
            clock_s: Seconds of a clock that never goes back.
            at_s: Seconds since the epoch, to be shown.
        """
        # A little early is in time, or a refresh a little early would be left out.
        due = [n for n, (every_s, _) in SPANS.items() if clock_s - self._last_s[n] >= 0.9 * every_s]
        if not due:
            return
        for column in values:
            if len(self._columns) < MAX_COLUMNS:
                self._columns.setdefault(column, len(self._columns))
        numbers = array("f", [math.nan] * (3 * len(self._columns)))
        for column, interval in values.items():
            if (at := self._columns.get(column)) is not None:
                numbers[3 * at : 3 * at + 3] = array("f", interval)
        for name in due:
            self._points[name].append((at_s, numbers))
            self._last_s[name] = clock_s

    def chart(self, signal: str, judge: str, span: str) -> dict[str, list[float | None]]:
        """Return times, means and both ends of the intervals of one column; None: a gap."""
        points = list(self._points[span])
        at = 3 * self._columns.get((signal, judge), 10**6)
        parts = {
            name: [_short(n[at + k]) if at + k < len(n) else None for _, n in points]
            for k, name in enumerate(("mean", "lower", "upper"))
        }
        return {"times": [round(time, 1) for time, _ in points], **parts}


def _short(number: float) -> float | None:
    """Return the number as its 32 bits hold it, in few digits; None: a gap."""
    return float(f"{number:.4g}") if math.isfinite(number) else None
