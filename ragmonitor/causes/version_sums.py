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

_Vector = Sequence[float]
_Column = tuple[float, ...]


class Row(NamedTuple):
    """What one answer adds: of latency, of cost, and of each signal, in this order."""

    at_s: float
    session: str
    signals: tuple[str, ...]
    outcomes: _Vector
    """All pseudo-outcomes of the value, as `estimation.sums` has them, and then all of being
    scored, which are 0 for a cost that is not known."""
    judged: _Vector
    """1 for what a verdict says applies, and for what is measured; else 0."""
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
        """By the signals of a row: where each column of ours stands in it, or past its end."""
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
        judged = map(sum, zip(*[row.judged for row in ordered], strict=True))
        columns = list(zip(*[row.outcomes for row in ordered], strict=True))
        squares = self._squares(by, value, ordered, columns)
        signals = (*AMOUNTS, *self._signals)
        y, d = columns[: len(signals)], columns[len(signals) :]
        for signal, n, *of_signal in zip(signals, judged, y, d, squares, strict=True):
            answers, uncovered, drawn, missing = counts.get(signal) or (n, 0.0, n, 0.0)
            if answers or uncovered:
                y_sum, d_sum = sum(of_signal[0]), sum(of_signal[1])
                yield signal, [answers, uncovered, n, drawn, missing, y_sum, d_sum, *of_signal[2]]

    def _of_one(
        self, by: str, value: str, row: Row, counts: Mapping[str, Sequence[float]]
    ) -> Iterator[tuple[str, list[float]]]:
        """Yield the same for one answer, without columns: most ticks have one, or none."""
        if row.signals != self._signals:
            row = self._ordered(row)
        outcomes = row.outcomes
        known = self._remember((by, value, row.session), outcomes) if row.session else None
        signals = (*AMOUNTS, *self._signals)
        k = len(signals)
        for at, signal in enumerate(signals):
            n, y, d = row.judged[at], outcomes[at], outcomes[k + at]
            answers, uncovered, drawn, missing = counts.get(signal) or (n, 0.0, n, 0.0)
            if answers or uncovered:
                yy, yd, dd = y * y, y * d, d * d
                if known is not None:
                    y_known, d_known = known[at], known[k + at]
                    yy += 2 * (y_known * y)
                    yd += y_known * d + d_known * y
                    dd += 2 * (d_known * d)
                yield signal, [answers, uncovered, n, drawn, missing, y, d, yy, yd, dd]

    def _counts(self, rows: Sequence[Row]) -> dict[str, list[float]]:
        """Return of each signal its answers, those not covered, and weights: drawn, missing."""
        layouts: defaultdict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0] * 3)
        for row in rows:
            of_layout = layouts[row.signals]
            of_layout[not row.is_covered] += 1
            of_layout[2] += row.drawn
        counts: dict[str, list[float]] = {}
        for signals, (answers, uncovered, drawn) in layouts.items():
            for signal in signals:
                of_signal = counts.setdefault(signal, [0.0] * 4)
                of_signal[0] += answers
                of_signal[1] += uncovered
                of_signal[2] += drawn
        for row in rows:
            for signal in row.missing:
                counts[signal][3] += row.drawn
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
        judged = (*row.judged, 0.0)
        return row._replace(
            outcomes=[each[at] for each in (values, scored) for at in order],
            judged=[judged[at] for at in order],
        )

    def _squares(
        self, by: str, value: str, rows: Sequence[Row], columns: Sequence[_Column]
    ) -> Iterator[tuple[float, float, float]]:
        """Yield of each signal what is added to the squares of its sessions' sums.

        A session's sum b that grows by s adds s (s + 2 b) to its square.
        """
        of_sessions: dict[str, _Vector] = {}
        alone = []
        for row in rows:
            session = row.session
            if not session:
                alone.append(row.outcomes)
            elif session in of_sessions:
                of_sessions[session] = list(map(add, of_sessions[session], row.outcomes))
            else:
                of_sessions[session] = row.outcomes
        if len(alone) + len(of_sessions) < len(rows):
            columns = list(zip(*alone, *of_sessions.values(), strict=True))
        before, grown = [], []
        for session, outcomes in of_sessions.items():
            known = self._remember((by, value, session), outcomes)
            if known is not None:
                before.append(known)
                grown.append(outcomes)
        k = len(columns) // 2
        known_columns, new = list(zip(*before, strict=True)), list(zip(*grown, strict=True))
        for at, (y, d) in enumerate(zip(columns[:k], columns[k:], strict=True)):
            yy, yd, dd = _dot(y, y), _dot(y, d), _dot(d, d)
            if new:
                by_, bd, sy, sd = known_columns[at], known_columns[k + at], new[at], new[k + at]
                yy += 2 * _dot(by_, sy)
                yd += _dot(by_, sd) + _dot(bd, sy)
                dd += 2 * _dot(bd, sd)
            yield yy, yd, dd

    def _remember(self, key: tuple[str, str, str], added: _Vector) -> _Vector | None:
        """Add to what a session has come to, and return what it was; None: it is new."""
        sessions = self._sessions
        known = sessions.pop(key, None)
        if known is None:
            sessions[key] = added
            if len(sessions) > MAX_SESSIONS:
                sessions.popitem(last=False)
            return None
        if len(known) < len(added):  # signals were met since then
            k, lacking = len(known) // 2, (0.0,) * ((len(added) - len(known)) // 2)
            known = (*known[:k], *lacking, *known[k:], *lacking)
        sessions[key] = list(map(add, known, added))
        return known


def _dot(left: _Column, right: _Column) -> float:
    total: float = sum(map(mul, left, right))
    return total
