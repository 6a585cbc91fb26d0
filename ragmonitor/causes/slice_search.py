"""Searches the newest answers for slices that got worse, and for shifts of the mix."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice
from types import MappingProxyType
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
from ragmonitor.causes.mix import shifts
from ragmonitor.causes.slice_names import RECORDED, SHARED, Slice
from ragmonitor.estimation.signals import HALLUCINATION
from ragmonitor.records import Estimate, Example

MIN_ANSWERS: Final = 10
"""Answers below which a slice is not looked at."""
MIN_JUDGED: Final = 5
"""Judged answers since the rise began, within a slice and outside of it, likewise."""
MAX_SLICES: Final = 400
"""The largest ones are looked at."""
MAX_TESTED: Final = 25
"""Slices, and as many pairs, whose evidence is worked out: those with the largest excess."""
MAX_PAIRED: Final = 4_000
"""Judged answers since the rise began that pairs are searched in; the newest."""
MAX_LISTED: Final = 20
PAIRS_WEIGHT: Final = 0.25
"""The share of the false discoveries that pairs may have: there are many more of them."""
ADDS_FROM: Final = 5.0
"""The e-value from which on a pair is worse than what is left of each of its slices. Below it the
pair is a part of a slice that is bad as a whole, drawn by chance."""
SHOWN_EXAMPLES: Final = 10

Hypothesis = tuple[Slice, ...]
"""One slice, or a pair of them."""
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
        title: Callable[[Slice], str] = lambda _: "",
    ) -> None:
        self._signal = signal
        self._since_s = since_s
        self._is_flipped = is_flipped
        self._max_weight = max_weight
        self._proven = proven or {}
        """E-values of slices whose own alarm says that they got worse."""
        self._title = title
        """Returns what a topic of questions is about."""
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
        self.parts: dict[Hypothesis, PartSums] = {
            (each,): self._sums(members) for each, members in self._index.items()
        }

    def _sums(self, rows: Iterable[_Row]) -> PartSums:
        sums = PartSums()
        for row in rows:
            sums.add(row.adds)
        return sums

    # --- slices ---------------------------------------------------------------------------------

    def slices(self, examples: Examples) -> Iterator[CandidateCause]:
        """Yield the slices, and pairs, with the strongest evidence first."""
        singles: list[Hypothesis] = [
            each for each in self.parts if self._is_testable(self.parts[each].judged[1])
        ]
        pairs, number_of_pairs = self._pairs(singles)
        tested: list[Hypothesis] = sorted(singles, key=self._excess, reverse=True)[:MAX_TESTED]
        tested = [each for each in (*tested, *pairs) if self._excess(each) > 0]
        logs = self._evidence(tested)
        hypotheses = len(singles) + number_of_pairs
        weights = [
            (PAIRS_WEIGHT if len(each) > 1 else 1 - PAIRS_WEIGHT)
            * hypotheses
            / (number_of_pairs if len(each) > 1 else len(singles))
            for each in tested
        ]
        e_values = [math.exp(min(700.0, log)) for log in logs]
        found = {tested[at] for at in discovered(e_values, weights, hypotheses)}
        evidence = dict(zip(tested, e_values, strict=True))
        listed = [
            each for each in tested if evidence[each] >= LISTED_FROM and self._adds(each, evidence)
        ]
        listed.sort(key=lambda each: (each in found, evidence[each], _is_own(each)), reverse=True)
        different: dict[tuple[float, ...], Hypothesis] = {}
        for each in listed:  # of two that are the same answers one
            different.setdefault((*self.parts[each].sums,), each)
        listed = list(different.values())
        only_in: dict[Hypothesis, Hypothesis] = {
            (one,): pair for pair in listed if pair in found and pair[1:] for one in pair
        }
        listed.sort(key=lambda each: (each in found, each not in only_in), reverse=True)
        yield from self.alarmed(examples, only_in)
        for each in listed[:MAX_LISTED]:
            if not each[1:] and each[0] in self._proven:
                continue
            pair = only_in.get(each, ())
            yield self._slice(each, evidence[each], each in found, examples, only_in=pair)

    def alarmed(
        self, examples: Examples, only_in: Mapping[Hypothesis, Hypothesis] = MappingProxyType({})
    ) -> Iterator[CandidateCause]:
        """Yield the slices whose own alarm says that they got worse, strongest evidence first.

        Args:
            examples: Bad answers.
            only_in: By slice, the pair whose answers alone are why it is worse.
        """
        for one in sorted(self._proven, key=self._proven.__getitem__, reverse=True):
            each = (one,)
            if each in self.parts:
                pair = only_in.get(each, ())
                yield self._slice(each, self._proven[one], True, examples, only_in=pair)

    def _is_testable(self, judged: int) -> bool:
        return min(judged, self.everything.judged[1] - judged) >= MIN_JUDGED

    def _excess(self, each: Hypothesis) -> float:
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

    def _pairs(self, singles: Sequence[Hypothesis]) -> tuple[list[Hypothesis], int]:
        """Return the pairs that stand out from both of their slices, and how many there are."""
        usable = {each for (each,) in singles if each[0] not in SHARED}
        counts: dict[Hypothesis, list[float]] = {}
        newest = [row for row in self._rows if row.since and row.value is not None][-MAX_PAIRED:]
        for row in newest:
            known = [each for each in row.slices if each in usable]
            pairs: Iterable[Hypothesis] = combinations(known, 2)
            for pair in pairs:
                entry = counts.setdefault(pair, [0, 0.0])
                entry[0] += 1
                entry[1] += row.value or 0.0
        counts = {pair: entry for pair, entry in counts.items() if self._is_testable(int(entry[0]))}

        def excess(pair: Hypothesis) -> float:
            n, bad = counts[pair]
            rates = [self.parts[(each,)].periods()[1].rate or 0.0 for each in pair]
            return (bad / n - max(rates)) * math.sqrt(n)

        best = [pair for pair in sorted(counts, key=excess, reverse=True) if excess(pair) > 0]
        best = best[:MAX_TESTED]
        for pair in best:
            self.parts[pair] = self._sums(self._members(pair))
        return [pair for pair in best if self._is_testable(self.parts[pair].judged[1])], len(counts)

    def _members(self, each: Hypothesis) -> Sequence[_Row]:
        """Return the answers of a slice, or of a pair."""
        first, *others = sorted((self._index[one] for one in each), key=len)
        if not others:
            return first
        return [row for row in first if each[0] in row.slices and each[1] in row.slices]

    def _evidence(self, tested: Sequence[Hypothesis]) -> list[float]:
        """Return the log e-value of each: it is worse than the others since, and than it was.

        The lesser of both e-values, which is one of the null hypothesis that either is not so.
        Without enough answers before, it is that of the first.
        """
        total = _samples(self._rows)
        found = []
        for each in tested:
            inside = _samples(self._members(each))
            found.append(self._log_got_worse(*inside, total[1] - inside[1]))
        return found

    def _log_got_worse(self, before: Sample, since: Sample, others: Sample) -> float:
        """Return the log e-value that answers are worse than others since, and than they were."""
        log = log_worse(since, others, self._max_weight)
        if _is_compared(before):
            log = min(log, log_worse(since, before, self._max_weight))
        return log

    def _adds(self, each: Hypothesis, evidence: Mapping[Hypothesis, float]) -> bool:
        """Return whether a hypothesis says more than its parts do.

        A pair has to beat both, and to be worse than what is left of each of them, which has to be
        fine: where it got worse as well, the slice alone explains as much as the pair, and more.
        """
        if len(each) == 1:
            return True
        if any(evidence[each] <= evidence.get((one,), 0.0) for one in each):
            return False
        everything, pair = _samples(self._rows), _samples(self._members(each))
        for one in each:
            whole = _samples(self._index[one])
            before, rest = whole[0] - pair[0], whole[1] - pair[1]
            if log_worse(pair[1], rest, self._max_weight) < math.log(ADDS_FROM):
                return False
            if self._log_got_worse(before, rest, everything[1] - whole[1]) >= math.log(LISTED_FROM):
                return False
        return True

    def _slice(
        self,
        each: Hypothesis,
        e_value: float,
        is_discovery: bool,
        examples: Examples,
        *,
        only_in: Hypothesis = (),
    ) -> CandidateCause:
        sums = self.parts[each]
        share = share_of_rise(self.everything, [sums], self._rate_part(sums.is_new))
        size = 100 * sums.periods()[1].scored / self.everything.periods()[1].scored
        judged, pair = sums.judged[1], _name(only_in)
        return CandidateCause(
            kind="slice",
            name=_name(each),
            title=self._titled(each),
            only_in=pair,
            signal=self._signal,
            now=self._estimate(sums, since=True),
            before=self._estimate(sums, since=False),
            explained=None if share is None else share.value,
            explained_lower=None if share is None else share.lower,
            explained_upper=None if share is None else share.upper,
            e_value=e_value,
            is_discovery=is_discovery,
            is_compared=_is_compared(_samples(self._members(each))[0]),
            since_s=self._since_s,
            detail=f"{size:.1f} % of the answers since, {judged} of them judged."
            + (f" Worse by the answers of {pair} alone." if pair else ""),
            detail_zh=f"占此后回答的 {size:.1f} %，其中 {judged} 条已评审。"
            + (f"变差仅因其中 {pair} 的回答。" if pair else ""),
            examples=self._shown(each, examples),
        )

    def _titled(self, each: Hypothesis) -> str:
        """Return what the topic among the slices is about; empty: there is none."""
        return next(filter(None, map(self._title, each)), "")

    def _shown(self, each: Hypothesis, examples: Examples) -> tuple[Example, ...]:
        """Return the newest bad answers of a slice or a pair, of the time since."""
        shown = (
            example
            for slices, example in reversed(examples)
            if example.at_s >= self._since_s and all(one in slices for one in each)
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

    # --- the mix --------------------------------------------------------------------------------

    def mixes(self, examples: Examples) -> Iterator[CandidateCause]:
        """Yield shifts of the mix, the one that explains most first."""
        singles = {each[0]: sums for each, sums in self.parts.items() if len(each) == 1}
        for shift in shifts(self.everything, singles):
            sums = singles[shift.value]
            yield CandidateCause(
                kind="mix",
                name="=".join(shift.value),
                title=self._title(shift.value),
                signal=self._signal,
                now=self._estimate(sums, since=True),
                before=self._estimate(sums, since=False),
                explained=shift.share.value,
                explained_lower=shift.share.lower,
                explained_upper=shift.share.upper,
                is_discovery=shift.is_discovery,
                since_s=self._since_s,
                detail=shift.detail,
                detail_zh=shift.detail_zh,
                examples=self._shown((shift.value,), examples),
            )


def _name(each: Hypothesis) -> str:
    """Return what a slice or a pair is called."""
    return ", ".join("=".join(one) for one in each)


def _is_own(each: Hypothesis) -> bool:
    """Return whether a slice is by attributes of the application's."""
    return all(dimension not in RECORDED for dimension, _ in each)


def _is_compared(before: Sample) -> bool:
    """Return whether verdicts before the rise are enough to compare those since with."""
    return len(before) >= MIN_BEFORE


def _samples(rows: Iterable[_Row]) -> tuple[Sample, Sample]:
    """Return the verdicts before and since that count as evidence."""
    samples = Sample(), Sample()
    for row in rows:
        if row.cell is not None:
            samples[row.since].cells[row.cell] += 1
    return samples
