"""Exponentially weighted sums over the last hour and the last day."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import add, mul, sub
from typing import Final

from ragmonitor.estimation.sums import Sums
from ragmonitor.guard import record_problem
from ragmonitor.protocols import Clock
from ragmonitor.records import SQUARES, SUMS, Moments, SeriesKey, Totals, Window

WINDOWS_S: Final[dict[Window, float]] = {"1h": 3_600.0, "24h": 86_400.0}
"""Each window's time constant: an answer of that age counts 1/e of a new one."""
SERIES_MOST: Final = 1_000
_NOTHING: Final = (0.0,) * len(SUMS)


class _Kept:
    """The sums of one series: since the beginning, as of the last tick, and by window."""

    __slots__ = ("seen", "sums", "windows")

    def __init__(self) -> None:
        self.sums = Sums()
        self.seen: Sequence[float] = _NOTHING
        """In the order of `SUMS`, as those of the windows."""
        self.windows: dict[Window, Sequence[float]] = dict.fromkeys(WINDOWS_S, _NOTHING)


class Windows:
    """The sums of every series. Answers between two ticks have the same age."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._ticked_at = clock()
        self._kept: dict[SeriesKey, _Kept] = {}

    def sums(self, key: SeriesKey) -> Sums:
        """Return the sums to add an answer to; beyond `SERIES_MOST` some that nobody reads."""
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept()
            if len(self._kept) < SERIES_MOST:
                self._kept[key] = kept
            else:
                record_problem(
                    "estimate", f"more than {SERIES_MOST} series; further ones are not estimated"
                )
        return kept.sums

    def tick(self) -> None:
        """Let what is in the windows age to now, and take in what is new."""
        now = self._clock()
        # A clock that jumps back must not make old answers count more than new ones.
        age_s = max(0.0, now - self._ticked_at)
        self._ticked_at = now
        factors = {
            window: _factors(math.exp(-age_s / time_s)) for window, time_s in WINDOWS_S.items()
        }
        # Lists and not records: this is done for every series, every few seconds.
        for kept in self._kept.values():
            now_are = kept.sums.row()
            new = list(map(sub, now_are, kept.seen))
            kept.seen = now_are
            for window, factor in factors.items():
                kept.windows[window] = list(map(add, map(mul, kept.windows[window], factor), new))

    def moments(self) -> Iterator[tuple[SeriesKey, Window, Moments]]:
        """Return the sums of each window as of the last tick."""
        for key, kept in self._kept.items():
            for window, row in kept.windows.items():
                yield key, window, _moments(row)

    def of(self, key: SeriesKey, window: Window) -> Moments | None:
        """Return one window's sums as of the last tick; None: nothing was ever added."""
        kept = self._kept.get(key)
        return None if kept is None else _moments(kept.windows[window])

    def totals(self) -> Iterator[tuple[SeriesKey, Totals]]:
        """Return what each series came to since the process began."""
        for key, kept in self._kept.items():
            yield key, kept.sums.totals()

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()


def _factors(share: float) -> Sequence[float]:
    return [share * share if name in SQUARES else share for name in SUMS]


def _moments(row: Sequence[float]) -> Moments:
    return Moments(**dict(zip(SUMS, row, strict=True)))
