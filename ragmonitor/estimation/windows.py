"""Sums over the last hour and the last day: sliding windows, cut where their time is over."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from ragmonitor.estimation.sums import Sums, moments_of, row_difference
from ragmonitor.guard import record_problem
from ragmonitor.protocols import Clock
from ragmonitor.records import Moments, SeriesKey, Totals, Window


class Span(NamedTuple):
    """The length of a window, and the number of steps in which it slides."""

    length_s: float
    slots: int

    @property
    def slot_s(self) -> float:
        """Seconds between two steps: a window holds up to so much more than its length."""
        return self.length_s / self.slots


SPANS: Final[dict[Window, Span]] = {"1h": Span(3_600.0, 30), "24h": Span(86_400.0, 48)}
"""An hour's window holds the last 60 to 62 minutes, a day's the last 24 to 24.5 hours."""
MAX_SERIES: Final = 1_000
_NUMBERS: Final = [name for name in Sums.__slots__ if name != "groups"]
_numbers_of: Final = attrgetter(*_NUMBERS)


class Summed(Protocol):
    """Sums that only grow, as a row of numbers whose differences are those of a span of time."""

    def row(self) -> Sequence[float]:
        """Return the sums since the beginning; a later row may be longer."""
        ...


S = TypeVar("S", bound=Summed)


class _Kept(Generic[S]):
    """The sums of one series: since the beginning, as of the last tick, and as of each step."""

    __slots__ = ("marks", "seen", "sums")

    def __init__(self, sums: S) -> None:
        self.sums = sums
        self.seen: array[float] = _row(self.sums)
        """The sums as of the last tick."""
        self.marks: dict[Window, deque[array[float]]] = {
            window: deque(maxlen=span.slots + 1) for window, span in SPANS.items()
        }
        """The sums as of the last steps of each window, oldest first. Equal ones are one object."""

    def since(self, window: Window) -> list[float]:
        """Return what came within a window, up to the last tick."""
        marks = self.marks[window]
        # Until the window has been full once, all of it is younger.
        is_full = len(marks) == marks.maxlen
        return row_difference(self.seen, marks[0] if is_full else ())


class SlidingSums(Generic[S]):
    """The sums of every series. Answers between two ticks have the same age.

    Of each series its sums since the beginning are kept as they stood at each step of a window;
    what came within the window is the difference to the oldest. So a window forgets an answer
    altogether once its time is over, and one without an answer holds nothing at all.
    """

    def __init__(self, make: Callable[[], S], *, clock: Clock) -> None:
        """Begin without a series; `make` returns the empty sums of one."""
        self._make = make
        self._clock = clock
        self._ticked_at = clock()
        self._age_s = 0.0
        """The time for which the windows have been going; a clock that is put back does not
        count."""
        self._kept: dict[Hashable, _Kept[S]] = {}

    def sums(self, key: Hashable) -> S:
        """Return the sums to add an answer to; beyond `MAX_SERIES` some that nobody reads."""
        kept = self._kept.get(key)
        if kept is None:
            kept = _Kept(self._make())
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

    def rows(self) -> Iterator[tuple[Hashable, Window, list[float]]]:
        """Return the sums of each window as of the last tick."""
        for key, kept in self._kept.items():
            for window in SPANS:
                yield key, window, kept.since(window)

    def row(self, key: Hashable, window: Window) -> list[float] | None:
        """Return one window's sums as of the last tick; None: nothing was ever added."""
        kept = self._kept.get(key)
        return None if kept is None else kept.since(window)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()


class Windows(SlidingSums[Sums]):
    """The sums of every signal, by `SeriesKey`."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(Sums, clock=clock)

    def moments(self) -> Iterator[tuple[SeriesKey, Window, Moments]]:
        """Return the sums of each window as of the last tick."""
        for key, window, row in self.rows():
            if isinstance(key, SeriesKey):
                yield key, window, moments_of(row)

    def of(self, key: SeriesKey, window: Window) -> Moments | None:
        """Return one window's sums as of the last tick; None: nothing was ever added."""
        row = self.row(key, window)
        return None if row is None else moments_of(row)

    def totals(self) -> Iterator[tuple[SeriesKey, Totals]]:
        """Return what each series came to since the process began."""
        for key, kept in self._kept.items():
            if isinstance(key, SeriesKey):
                yield key, kept.sums.totals()

    def dump(self) -> dict[str, Any]:
        """Return what `load` takes: every series and its windows, as plain values."""
        numbers: dict[int, int] = {}
        rows: list[list[float]] = []

        def number(row: array[float]) -> int:
            if id(row) not in numbers:  # rows that are one object are there once
                numbers[id(row)] = len(rows)
                rows.append(list(row))
            return numbers[id(row)]

        series = [
            {
                "key": [key.signal, key.judge, key.dimension, key.group],
                "sums": [*_numbers_of(kept.sums), [*kept.sums.groups]],
                "seen": number(kept.seen),
                "marks": {window: [number(row) for row in kept.marks[window]] for window in SPANS},
            }
            for key, kept in self._kept.items()
            if isinstance(key, SeriesKey)
        ]
        return {"age_s": self._age_s, "rows": rows, "series": series}

    def load(self, dumped: Mapping[str, Any], elapsed_s: float) -> None:
        """Go on where another process stood.

        Args:
            dumped: What its `dump` returned.
            elapsed_s: How long ago that was.

        Raises:
            ValueError, TypeError, KeyError, IndexError: It is no such thing; nothing was changed.
        """
        rows = [array("d", row) for row in dumped["rows"]]
        found: dict[Hashable, _Kept[Sums]] = {}
        for each in dumped["series"][:MAX_SERIES]:
            *numbers, groups = each["sums"]
            sums = Sums(groups=list(map(float, groups)))
            for name, number in zip(_NUMBERS, numbers, strict=True):
                setattr(sums, name, float(number))
            kept = _Kept(sums)
            kept.seen = rows[each["seen"]]
            for window in SPANS:
                kept.marks[window].extend(rows[at] for at in each["marks"][window])
            signal, judge, dimension, group = map(str, each["key"])
            key = SeriesKey(signal=signal, judge=judge, dimension=dimension, group=group)
            found[key] = kept
        self._age_s = float(dumped["age_s"])
        self._kept = found
        self._ticked_at = self._clock() - max(0.0, elapsed_s)


def _row(sums: Summed) -> array[float]:
    return array("d", sums.row())
