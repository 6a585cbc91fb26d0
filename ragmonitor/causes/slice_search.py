"""Searches the newest answers for slices that got worse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from ragmonitor.causes.answer_log import Row
from ragmonitor.causes.bands import banded
from ragmonitor.causes.betting import Cell, Sample, cell_of, log_worse
from ragmonitor.causes.candidates import LISTED_FROM, CandidateCause
from ragmonitor.causes.decomposition import (
    MIN_BEFORE,
    Contribution,
    PartSums,
    Periods,
    contribution,
    rate_part,
    rise,
    share_of_rise,
)
from ragmonitor.causes.discoveries import discovered
from ragmonitor.causes.slice_names import RECORDED, Slice
from ragmonitor.records import Estimate, Example
from ragmonitor.stats.signals import HALLUCINATION

MIN_ANSWERS: Final = 10
"""Answers below which a slice is not looked at."""
MIN_JUDGED: Final = 5
"""Judged answers since the rise began, within a slice and outside of it, likewise."""
MAX_SLICES: Final = 400
"""The largest ones are looked at."""
MAX_TESTED: Final = 25
"""Slices whose evidence is worked out: those with the largest excess."""
MAX_LISTED: Final = 20
SHOWN_EXAMPLES: Final = 10

Examples = Sequence[tuple[tuple[Slice, ...], Example]]
"""Bad answers with the slices that each is in, the newest last."""


class _Row(NamedTuple):
    """An answer as one signal has it."""

    row: Row
    slices: tuple[Slice, ...]
    since: bool
    value: float | None
    """Badness, 0 to 1."""
    cell: Cell | None
    """The place where its verdict counts as evidence; None: it does not."""
    adds: Contribution


class SliceSearch:
    """One look at what is kept, for one signal and one time."""

    def __init__(
        self,
        rows: Iterable[Row],
        signal: str,
        since_s: float,
        *,
        is_flipped: bool,
        max_weight: float,
        proven: Mapping[Slice, float] | None = None,
    ) -> None:
        self._signal = signal
        self._since_s = since_s
        self._is_flipped = is_flipped
        self._max_weight = max_weight
        self._proven = proven or {}
        """E-values of slices whose own alarm says that they got worse."""
        self._is_predicted = signal == HALLUCINATION
        self._met: set[tuple[int, bool]] = set()
        self._rows = [self._row(row, slices) for row, slices in banded(list(rows))]
        self._index: dict[Slice, list[_Row]] = {}
        self._sum_up()

    def _row(self, row: Row, slices: tuple[Slice, ...]) -> _Row:
        value, since = self._badness(row), row.at_s >= self._since_s
        predicted = row.expected if self._is_predicted else (0.0, 0.0)
        adds = contribution(row, since=since, value=value, predicted=predicted)
        return _Row(row, slices, since, value, self._cell(row, value), adds)

    def _badness(self, row: Row) -> float | None:
        value = row.value(self._signal)
        return 1 - value if value is not None and self._is_flipped else value

    def _cell(self, row: Row, value: float | None) -> Cell | None:
        """Return where a verdict counts; one of each session and period, since they are alike."""
        if value is None or row.importance <= 0:
            return None
        if row.in_session:
            key = row.cluster, row.at_s >= self._since_s
            if key in self._met:
                return None
            self._met.add(key)
        return cell_of(value, row.importance, self._max_weight)

    @property
    def is_possible(self) -> bool:
        """Whether there are judged answers before and since, and the signal is worse."""
        return min(self.everything.judged) >= MIN_JUDGED and rise(self.everything.periods()) > 0

    def _sum_up(self) -> None:
        """Sum up all answers, and those of the largest slices."""
        counts = Counter(each for row in self._rows for each in row.slices)
        self._index = {each: [] for each in self._proven if each in counts}
        for each, count in counts.most_common(MAX_SLICES):
            if count >= MIN_ANSWERS:
                self._index[each] = []
        for row in self._rows:
            for each in row.slices:
                if each in self._index:
                    self._index[each].append(row)
        self.everything = self._sums(self._rows)
        self.parts = {each: self._sums(members) for each, members in self._index.items()}

    def _sums(self, rows: Iterable[_Row]) -> PartSums:
        sums = PartSums()
        for row in rows:
            sums.add(row.adds)
        return sums

    # --- slices ---------------------------------------------------------------------------------

    def slices(self, examples: Examples) -> Iterator[CandidateCause]:
        """Yield the slices with the strongest evidence first."""
        testable = [each for each in self.parts if self._is_testable(each)]
        tested = sorted(testable, key=self._excess, reverse=True)[:MAX_TESTED]
        tested = [each for each in tested if self._excess(each) > 0]
        e_values = [math.exp(min(700.0, log)) for log in self._evidence(tested)]
        found = {tested[at] for at in discovered(e_values, len(testable))}
        evidence = dict(zip(tested, e_values, strict=True))
        listed = [each for each in tested if evidence[each] >= LISTED_FROM]
        listed.sort(key=lambda each: (each in found, evidence[each], _is_own(each)), reverse=True)
        different: dict[tuple[float, ...], Slice] = {}
        for each in listed:  # of two that are the same answers one
            different.setdefault((*self.parts[each].sums,), each)
        listed = list(different.values())
        yield from self.alarmed(examples)
        for each in listed[:MAX_LISTED]:
            if each not in self._proven:
                yield self._slice(each, evidence[each], each in found, examples)

    def alarmed(self, examples: Examples) -> Iterator[CandidateCause]:
        """Yield the slices whose own alarm says that they got worse, strongest evidence first."""
        for each in sorted(self._proven, key=self._proven.__getitem__, reverse=True):
            if each in self.parts:
                yield self._slice(each, self._proven[each], True, examples)

    def _is_testable(self, each: Slice) -> bool:
        judged = self.parts[each].judged[1]
        return min(judged, self.everything.judged[1] - judged) >= MIN_JUDGED

    def _excess(self, each: Slice) -> float:
        """Return by how much a slice is worse than the rest, in standard errors; 0: it is not."""
        sums = self.parts[each]
        inside, total = sums.periods()[1], self.everything.periods()[1]
        rate = inside.rate
        rest = total.scored - inside.scored
        if rate is None or rest <= 0:
            return 0.0
        other = min(1.0, max(0.0, (total.bad - inside.bad) / rest))
        usual = max(0.01, total.rate or 0.0)
        return (rate - other) * math.sqrt(sums.judged[1] / usual)

    def _evidence(self, tested: Sequence[Slice]) -> list[float]:
        """Return the log e-value of each: it is worse than the others since, and than it was.

        The lesser of both e-values, which is one of the null hypothesis that either is not so.
        Without enough answers before, it is that of the first.
        """
        total = _samples(self._rows)
        found = []
        for each in tested:
            inside = _samples(self._index[each])
            found.append(self._log_got_worse(*inside, total[1] - inside[1]))
        return found

    def _log_got_worse(self, before: Sample, since: Sample, others: Sample) -> float:
        """Return the log e-value that answers are worse than others since, and than they were."""
        log = log_worse(since, others, self._max_weight)
        if len(before) >= MIN_BEFORE:
            log = min(log, log_worse(since, before, self._max_weight))
        return log

    def _slice(
        self,
        each: Slice,
        e_value: float,
        is_discovery: bool,
        examples: Examples,
    ) -> CandidateCause:
        sums = self.parts[each]
        share = share_of_rise(self.everything, [sums], self._rate_part(sums.is_new))
        size = 100 * sums.periods()[1].scored / self.everything.periods()[1].scored
        return CandidateCause(
            kind="slice",
            name="=".join(each),
            signal=self._signal,
            now=self._estimate(sums, since=True),
            before=self._estimate(sums, since=False),
            explained=None if share is None else share.value,
            explained_lower=None if share is None else share.lower,
            explained_upper=None if share is None else share.upper,
            e_value=e_value,
            is_discovery=is_discovery,
            is_compared=len(_samples(self._index[each])[0]) >= MIN_BEFORE,
            since_s=self._since_s,
            detail=f"{size:.1f} % of the answers since, {sums.judged[1]} of them judged.",
            detail_zh=f"占此后回答的 {size:.1f} %，其中 {sums.judged[1]} 条已评审。",
            examples=self._shown(each, examples),
        )

    def _shown(self, each: Slice, examples: Examples) -> tuple[Example, ...]:
        """Return the newest bad answers of a slice, of the time since."""
        shown = (
            example
            for slices, example in reversed(examples)
            if example.at_s >= self._since_s and each in slices
        )
        return tuple(islice(shown, SHOWN_EXAMPLES)) if self._signal == HALLUCINATION else ()

    @staticmethod
    def _rate_part(is_new: bool) -> Callable[[Periods, Sequence[Periods]], float]:
        return lambda everything, parts: rate_part(everything, parts[0], is_new=is_new)

    def _estimate(self, sums: PartSums, *, since: bool) -> Estimate | None:
        """Return a mean on the signal's own scale."""
        found = sums.estimate(since)
        if found is None or not self._is_flipped:
            return found
        return replace(found, mean=1 - found.mean, lower=1 - found.upper, upper=1 - found.lower)


def _is_own(each: Slice) -> bool:
    """Return whether a slice is by an attribute of the application's."""
    return each[0] not in RECORDED


def _samples(rows: Iterable[_Row]) -> tuple[Sample, Sample]:
    """Return the verdicts before and since that count as evidence."""
    samples = Sample(), Sample()
    for row in rows:
        if row.cell is not None:
            samples[row.since].cells[row.cell] += 1
    return samples
