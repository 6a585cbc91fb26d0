"""Sums over the last hour and the last day: sliding windows, cut where their time is over."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ragmonitor.estimation.sums import Sums, moments_of, row_difference
from ragmonitor.guard import record_problem
from ragmonitor.protocols import Clock
from ragmonitor.records import Moments, SeriesKey, Totals, Window


class Span(NamedTuple):
    """How long a window is, and in how many steps it slides."""

    length_s: float
    slots: int

    @property
    def slot_s(self) -> float:
        """Seconds between two steps: a window holds up to so much more than its length."""
        return self.length_s / self.slots


SPANS: Final[dict[Window, Span]] = {"1h": Span(3_600.0, 30), "24h": Span(86_400.0, 48)}
"""An hour's window holds the last 60 to 62 minutes, a day's the last 24 to 24.5 hours."""
MAX_SERIES: Final = 1_000


class _Kept:
    """The sums of one series: since the beginning, as of the last tick, and as of each step."""

    __slots__ = ("marks", "seen", "sums")

    def __init__(self) -> None:
        self.sums = Sums()
        self.seen: array[float] = _row(self.sums)
        """As of the last tick."""
        self.marks: dict[Window, deque[array[float]]] = {
            window: deque(maxlen=span.slots + 1) for window, span in SPANS.items()
        }
        """As of the last steps of each window, oldest first. Equal ones are one object."""

    def since(self, window: Window) -> list[float]:
        """Return what came within a window, up to the last tick."""
        marks = self.marks[window]
        # Until the window has been full once, all of it is younger.
        is_full = len(marks) == marks.maxlen
        return row_difference(self.seen, marks[0] if is_full else ())


class Windows:
    """The sums of every series. Answers between two ticks have the same age.

    Of each series its sums since the beginning are kept as they stood at each step of a window;
    what came within the window is the difference to the oldest. So a window forgets an answer
    altogether once its time is over, and one without an answer holds nothing at all.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._ticked_at = clock()
        self._age_s = 0.0
        """How long the windows have been going; a clock that is put back does not count."""
        self._kept: dict[SeriesKey, _Kept] = {}

    def sums(self, key: SeriesKey) -> Sums:
        """Return the sums to add an answer to; beyond `MAX_SERIES` some that nobody reads."""
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept()
            if len(self._kept) < MAX_SERIES:
                self._kept[key] = kept
            else:
                record_problem(
                    "estimate", f"more than {MAX_SERIES} series; further ones are not estimated"
                )
        return kept.sums

    def tick(self) -> None:
        """Let what is in the windows age to now, and take in what is new."""
        now = self._clock()
        # A clock that jumps back must not make old answers count more than new ones.
        before, self._age_s = self._age_s, self._age_s + max(0.0, now - self._ticked_at)
        self._ticked_at = now
        steps = {
            window: min(span.slots + 1, int(self._age_s / span.slot_s) - int(before / span.slot_s))
            for window, span in SPANS.items()
        }
        for kept in self._kept.values():
            # As of the last tick: what came since is as young as now, or a tick older.
            for window, count in steps.items():
                for _ in range(count):
                    kept.marks[window].append(kept.seen)
            row = _row(kept.sums)
            if row != kept.seen:
                kept.seen = row

    def moments(self) -> Iterator[tuple[SeriesKey, Window, Moments]]:
        """Return the sums of each window as of the last tick."""
        for key, kept in self._kept.items():
            for window in SPANS:
                yield key, window, moments_of(kept.since(window))

    def of(self, key: SeriesKey, window: Window) -> Moments | None:
        """Return one window's sums as of the last tick; None: nothing was ever added."""
        kept = self._kept.get(key)
        return None if kept is None else moments_of(kept.since(window))

    def totals(self) -> Iterator[tuple[SeriesKey, Totals]]:
        """Return what each series came to since the process began."""
        for key, kept in self._kept.items():
            yield key, kept.sums.totals()

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()


def _row(sums: Sums) -> array[float]:
    return array("d", sums.row())
