"""Sums of versions' answers, added up for many answers at once."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import add, mul
from typing import Final, NamedTuple

from ragmonitor.causes.arms import MAX_SIGNALS

LATENCY: Final = "latency_seconds"
COST: Final = "cost_usd"
AMOUNTS: Final = (LATENCY, COST)
"""Compared beside the signals; no shares, and nothing alarms on them."""
MAX_SESSIONS: Final = 4_000
_MAX_ORDERS: Final = 64
_NO_ANSWERS: Final = (0.0, 0.0, 0.0, 0.0)

_Vector = Sequence[float]
_Column = tuple[float, ...]


class Row(NamedTuple):
    """The values that one answer adds: of latency, of cost, and of each signal, in this order."""

    at_s: float
    session: str
    signals: tuple[str, ...]
    outcomes: _Vector
    """All pseudo-outcomes of the value, as `estimation.sums` has them, and then all of being
    scored, which are 0 for a cost that is not known."""
    judged: _Vector | None
    """1 for what a verdict says applies, and for what is measured; else 0. None: as scored, since
    a judge scores every answer."""
    drawn: float
    """1 / inclusion probability; 0: no verdict."""
    missing: tuple[str, ...] = ()
    """Signals of a drawn answer of which there is no verdict."""
    is_covered: bool = True
    """It had a chance to be judged; else nothing is known of its signals."""


class VersionSums:
    """Adds up answers, and remembers what each session has come to: its answers vary together.

    Signals have one order, that in which they were met, so that sums are those of columns.
    """

    def __init__(self) -> None:
        """Begin without a signal."""
        self._signals: tuple[str, ...] = ()
        self._orders: dict[tuple[str, ...], list[int]] = {}
        """The place of each column of ours in a row, or past its end, by the signals of the row."""
        self._sessions: OrderedDict[tuple[str, str, str], _Vector] = OrderedDict()

    def add_up(self, by: str, value: str, rows: Sequence[Row]) -> Iterator[tuple[str, list[float]]]:
        """Yield each signal with what answers of one version add to its sums.

        Args:
            by: The attribute.
            value: Its value, the version.
            rows: The answers, at least one.

        Returns:
            Sums in the order of `FIELDS`.
        """
        counts = self._counts(rows)
        if len(rows) == 1:
            yield from self._of_one(by, value, rows[0], counts)
            return
        ordered = [row if row.signals == self._signals else self._ordered(row) for row in rows]
        columns = list(zip(*[row.outcomes for row in ordered], strict=True))
        signals = (*AMOUNTS, *self._signals)
        sums = list(map(sum, columns))
        y, d = sums[: len(signals)], sums[len(signals) :]
        of_judged = [row.judged for row in ordered if row.judged is not None]
        judged = list(map(sum, zip(*of_judged, strict=True))) if of_judged else d
        squares = self._squares(by, value, ordered, columns)
        for signal, n, *of_signal, products in zip(signals, judged, y, d, squares, strict=True):
            answers, uncovered, drawn, missing = counts.get(signal) or (n, 0.0, n, 0.0)
            if answers or uncovered:
                yield signal, [answers, uncovered, n, drawn, missing, *of_signal, *products]

    def _of_one(
        self, by: str, value: str, row: Row, counts: Mapping[str, Sequence[float]]
    ) -> Iterator[tuple[str, list[float]]]:
        """Yield the same for one answer, without columns: most ticks have one, or none."""
        if row.signals != self._signals:
            row = self._ordered(row)
        outcomes = row.outcomes
        twice = self._remember((by, value, row.session), outcomes) if row.session else outcomes
        signals = (*AMOUNTS, *self._signals)
        k = len(signals)
        for at, signal in enumerate(signals):
            y, d, y_twice, d_twice = outcomes[at], outcomes[k + at], twice[at], twice[k + at]
            n = d if row.judged is None else row.judged[at]
            answers, uncovered, drawn, missing = counts.get(signal) or (n, 0.0, n, 0.0)
            if answers or uncovered:
                products = y * y_twice, (y * d_twice + y_twice * d) / 2, d * d_twice
                yield signal, [answers, uncovered, n, drawn, missing, y, d, *products]

    def _counts(self, rows: Sequence[Row]) -> dict[str, tuple[float, float, float, float]]:
        """Return of each signal its answers, those not covered, and weights: drawn, missing."""
        layouts: defaultdict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0] * 3)
        for row in rows:
            of_layout = layouts[row.signals]
            of_layout[not row.is_covered] += 1
            of_layout[2] += row.drawn
        counts: dict[str, tuple[float, float, float, float]] = {}
        for signals, (answers, uncovered, drawn) in layouts.items():
            for signal in signals:
                a, u, d, missing = counts.get(signal, _NO_ANSWERS)
                counts[signal] = a + answers, u + uncovered, d + drawn, missing
        for row in rows:
            for signal in row.missing:
                a, u, d, missing = counts[signal]
                counts[signal] = a, u, d, missing + row.drawn
        new = [signal for signal in counts if signal not in self._signals]
        if new and len(self._signals) < MAX_SIGNALS:
            self._signals = (*self._signals, *new)[:MAX_SIGNALS]
            self._orders.clear()
        return counts

    def _ordered(self, row: Row) -> Row:
        """Return a row with our columns in our order, 0 where it has none."""
        order = self._orders.get(row.signals)
        if order is None:
            if len(self._orders) >= _MAX_ORDERS:
                self._orders.clear()
            own = (*AMOUNTS, *row.signals)
            at = {signal: place for place, signal in enumerate(own)}
            order = [at.get(signal, len(own)) for signal in (*AMOUNTS, *self._signals)]
            self._orders[row.signals] = order
        k = len(row.outcomes) // 2
        values, scored = (*row.outcomes[:k], 0.0), (*row.outcomes[k:], 0.0)
        judged = None if row.judged is None else (*row.judged, 0.0)
        return row._replace(
            outcomes=[each[at] for each in (values, scored) for at in order],
            judged=judged and [judged[at] for at in order],
        )

    def _squares(
        self, by: str, value: str, rows: Sequence[Row], columns: Sequence[_Column]
    ) -> Iterator[tuple[float, float, float]]:
        """Yield of each signal what is added to the products of its sessions' sums.

        A session's sums y and d that were b and c and have become y and d add to yy, yd and dd
        (y - b) (y + b), ((y - b) (d + c) + (d - c) (y + b)) / 2, and (d - c) (d + c).
        """
        grown: dict[str | int, _Vector] = {}
        """The sums by session; an answer without one is alone."""
        for at, row in enumerate(rows):
            session = row.session or at
            known = grown.get(session)
            grown[session] = row.outcomes if known is None else list(map(add, known, row.outcomes))
        if len(grown) < len(rows):
            columns = list(zip(*grown.values(), strict=True))
        twice = [
            self._remember((by, value, session), added) if isinstance(session, str) else added
            for session, added in grown.items()
        ]
        columns_twice = list(zip(*twice, strict=True))
        k = len(columns) // 2
        for y, d, y_twice, d_twice in zip(
            columns[:k], columns[k:], columns_twice[:k], columns_twice[k:], strict=True
        ):
            yd = (_dot(y, d_twice) + _dot(y_twice, d)) / 2
            yield _dot(y, y_twice), yd, _dot(d, d_twice)

    def _remember(self, key: tuple[str, str, str], added: _Vector) -> _Vector:
        """Add to what a session has come to, and return what it was and what it is, added up."""
        sessions = self._sessions
        known = sessions.pop(key, None)
        if known is None:
            sessions[key] = added
            if len(sessions) > MAX_SESSIONS:
                sessions.popitem(last=False)
            return added
        if len(known) < len(added):  # signals were met since then
            k, lacking = len(known) // 2, (0.0,) * ((len(added) - len(known)) // 2)
            known = (*known[:k], *lacking, *known[k:], *lacking)
        sessions[key] = now = list(map(add, known, added))
        return list(map(add, known, now))


def _dot(left: _Column, right: _Column) -> float:
    total: float = sum(map(mul, left, right))
    return total
