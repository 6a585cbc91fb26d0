"""What one answer adds to the sums, from which everything is estimated.

A *series* is a signal, or a signal of one slice: `hallucination`, `hallucination|tenant=a`. Nothing
in a bucket means anything that addition would destroy, so that threads, processes and machines add
theirs in any order, and a verdict that comes late replaces what its open draw had added.

Each answer belongs to a *group*, by the hash of its session or, without one, of its own id. Answers
of different groups are independent; nothing is assumed of those within one. `BET_GROUPS` carry
bets, and each `VARIANCE_GROUPS`-th of them together a share of the variance.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ragmonitor.store import HOUR_S, MEAN_S, TOTALS, Increments, Rows

BET_GROUPS: Final = 4_096
"""With few groups a bucket's bets would share one, and add up where they should multiply."""
VARIANCE_GROUPS: Final = 32
MAX_WEIGHT: Final = 2.0
"""The largest importance weight f / pi: no chance is below half of the common rate f."""

# A series in a bucket of means; behind these, value, scored and lost of each variance group.
ANSWERS, JUDGED, HITS, SQUARES, LOST, UNCOVERED, DRAWN, DRAWN2 = range(8)
EXPECTED, EXPECTED2, SPREAD = range(8, 11)
HEAD: Final = 11
WIDTH: Final = HEAD + 3 * VARIANCE_GROUPS
# A group of a series in a bucket of bets: importance weights of verdicts, of what is bad of them,
# of draws whose verdict is on its way, and of draws whose verdict failed.
WEIGHT, BAD, OPEN, MISSED = range(4)
# All answers of a series in a bucket of bets, drawn or not: sum of their common rates, times the
# chance that the signal applies; sum and number of the badness that is expected of them.
RATE, RISK, RISKS = range(3)
ALL: Final = "-"
"""The place of the group in the field of all answers: `hallucination@-`."""

TOTAL_FIELDS: Final = (
    *("answers", "uncovered", "drawn", "verdicts", "failed"),
    *("value_up", "value_down", "scored_up", "scored_down"),
)
"""Fields of a series' totals. Pseudo-outcomes may be negative, and counters only rise."""


class Outcome(NamedTuple):
    """A verdict, or what is expected of one: whether the signal applies, and its value if so."""

    scored: float
    value: float


NOTHING: Final = Outcome(0.0, 0.0)


@dataclass(slots=True, kw_only=True)
class Answer:
    """What the sums need of an answer. All but verdicts is known before the draw."""

    id: str
    at_s: float
    """When it was given, in seconds since the epoch."""
    chance: float
    """Inclusion probability, above 0 and up to 1; 0: it could not be drawn."""
    rate: float
    """The common rate that chances of the moment are relative to."""
    is_drawn: bool = False
    bucket: int = -1
    """The bucket of bets that the store put its draw into; -1: the one of now."""
    session: str = ""
    slices: Sequence[str] = ()
    expected: Mapping[str, Outcome] = field(default_factory=dict)
    """By signal, of each that is watched, from past verdicts only; `NOTHING`: it is not known."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What the built-in judge says of each signal, 0 to 1, where it says anything."""

    @property
    def group(self) -> int:
        """The group that it belongs to."""
        name = (self.session or self.id).encode("utf-8", "replace")
        return zlib.crc32(name) % BET_GROUPS

    @property
    def importance_weight(self) -> float:
        """The common rate over the chance, at most `MAX_WEIGHT`."""
        return min(MAX_WEIGHT, self.rate / self.chance)


class Ledger:
    """Increments of a worker, added up until they go to the store.

    With the chance pi, the prediction m = P(scored) E(value) and the verdict (d, y), the sums are
    of pseudo-outcomes m + 1[drawn] / pi (d y - m), whose expectation is that of d y whatever the
    prediction is worth: augmented inverse probability weighting. While a verdict is on its way, and
    where it failed, d and y count as 0 and 1 / pi as lost.

    Source:
        Robins, Rotnitzky & Zhao (1994), JASA 89(427); Zrnic & Candes, "Active Statistical
        Inference" (2024), section 4, arXiv:2403.03208.

    >>> ledger = Ledger()
    >>> answer = Answer(id="a", at_s=0.0, chance=0.5, rate=0.5, is_drawn=True,
    ...                 expected={"refusal": NOTHING})
    >>> ledger.note(answer)
    >>> ledger.settle(answer, {"refusal": Outcome(1.0, 1.0)})
    >>> sums = ledger.take()
    >>> sums["r0"]["refusal"][JUDGED], sums["b"][f"refusal@{answer.group}"]
    (1.0, [1.0, 1.0, 0.0, 0.0])
    """

    __slots__ = ("_higher_is_better", "_increments")

    def __init__(self, higher_is_better: Collection[str] = ()) -> None:
        """Begin empty.

        Args:
            higher_is_better: The signals whose badness is 1 less their value.
        """
        self._increments: Increments = {}
        self._higher_is_better = frozenset(higher_is_better)

    def take(self) -> Increments:
        """Return what was added up, and begin anew."""
        taken, self._increments = self._increments, {}
        return taken

    def note(self, answer: Answer) -> None:
        """Take in an answer: one that is not drawn, or whose verdict is on its way."""
        chance, drawn = answer.chance, answer.is_drawn
        weight = 1 / chance if drawn else 0.0
        for signal, (applies, mean) in answer.expected.items():
            expected = applies * mean
            value = Outcome(applies * (1 - weight), expected * (1 - weight))
            if chance > 0:
                head = [1.0, 0.0, 0.0, 0.0, float(drawn), 0.0, weight, weight * weight]
                head += [expected, expected * expected, expected * (1 - mean) / chance]
            else:
                head, value = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], NOTHING
            self._mean(answer, signal, head, value, weight)
            self._total(answer, signal, [1.0, float(chance <= 0), float(drawn), 0.0, 0.0], value)
            if chance > 0:
                # What is expected of the answer says, over all answers, whether it has got worse.
                known = float(applies > 0)
                risk = known * self._badness(signal, mean)
                self._bet(answer, signal, ALL, (answer.rate * (applies or 1.0), risk, known, 0.0))
            if drawn:
                opened = (0.0, 0.0, answer.importance_weight, 0.0)
                self._bet(answer, signal, str(answer.group), opened)

    def settle(self, answer: Answer, verdicts: Mapping[str, Outcome | None]) -> None:
        """Put verdicts in the place of an open draw; one that failed stays lost."""
        weight, bets = 1 / answer.chance, answer.importance_weight
        group = str(answer.group)
        for signal in answer.expected:
            verdict = verdicts.get(signal)
            if verdict is None:
                self._bet(answer, signal, group, (0.0, 0.0, -bets, bets))
                self._total(answer, signal, [0.0, 0.0, 0.0, 0.0, 1.0], NOTHING)
                continue
            applies, found = verdict
            head = [0.0, applies, applies * found, applies * found * found, -1.0]
            value = Outcome(weight * applies, weight * applies * found)
            self._mean(answer, signal, head, value, -weight)
            self._total(answer, signal, [0.0, 0.0, 0.0, 1.0, 0.0], value)
            bad = applies * bets * self._badness(signal, found)
            self._bet(answer, signal, group, (applies * bets, bad, -bets, 0.0))
            self._learn(answer, signal, verdict, weight)

    def _badness(self, signal: str, value: float) -> float:
        return 1 - value if signal in self._higher_is_better else value

    def _mean(
        self, answer: Answer, signal: str, head: Sequence[float], value: Outcome, lost: float
    ) -> None:
        rows = self._increments.setdefault(f"r{int(answer.at_s // MEAN_S) * MEAN_S}", {})
        place = HEAD + 3 * (answer.group % VARIANCE_GROUPS)
        for series in _series(answer, signal):
            row = rows.get(series)
            if row is None:
                row = rows[series] = [0.0] * WIDTH
            for at, amount in enumerate(head):
                row[at] += amount
            row[place] += value.value
            row[place + 1] += value.scored
            row[place + 2] += lost

    def _bet(self, answer: Answer, signal: str, group: str, amounts: Sequence[float]) -> None:
        name = "b" if answer.bucket < 0 else f"b{answer.bucket}"
        cells = self._increments.setdefault(name, {})
        for series in _series(answer, signal):
            _add(cells, f"{series}@{group}", amounts)

    def _total(self, answer: Answer, signal: str, head: Sequence[float], value: Outcome) -> None:
        rows = self._increments.setdefault(TOTALS, {})
        scored, of_value = value
        signed = (max(0.0, of_value), max(0.0, -of_value), max(0.0, scored), max(0.0, -scored))
        for series in _series(answer, signal):
            _add(rows, series, (*head, *signed))

    def _learn(self, answer: Answer, signal: str, verdict: Outcome, weight: float) -> None:
        """Add a verdict to those from which predictions are learned."""
        rows = self._increments.setdefault(f"p{int(answer.at_s // HOUR_S) * HOUR_S}", {})
        row = rows.get(signal)
        if row is None:
            row = rows[signal] = [0.0] * LEARNED_WIDTH
        applies, value = verdict
        feature = answer.features.get(signal)
        at = 4 * (BINS if feature is None else bin_of(feature))
        amounts = (weight, weight * applies, weight * applies * value)
        for add, amount in enumerate((*amounts, weight * applies * (feature or 0.0))):
            row[at + add] += amount
        for add, amount in enumerate((1.0, applies, applies * value), start=4 * (BINS + 1)):
            row[add] += amount


BINS: Final = 32
"""The bins of what the built-in judge says; answers of which it says nothing are one more. They are
narrowest at 0 and 1, where such values crowd."""
LEARNED_WIDTH: Final = 4 * (BINS + 1) + 3
"""Of each bin the sums of 1 / pi of verdicts, of those that apply, of their values, and of what the
built-in judge had said; then three numbers of verdicts, each counting for one."""


def bin_of(feature: float) -> int:
    """Return the bin of a value from 0 to 1.

    >>> bin_of(0.0), bin_of(0.03), bin_of(0.5), bin_of(1.0)
    (0, 3, 16, 31)
    """
    share = 2 / math.pi * math.asin(math.sqrt(min(1.0, max(0.0, feature))))
    return min(BINS - 1, int(share * BINS))


def _series(answer: Answer, signal: str) -> Iterator[str]:
    yield signal
    for each in answer.slices:
        yield f"{signal}|{each}"


def _add(rows: Rows, field: str, amounts: Sequence[float]) -> None:
    row = rows.get(field)
    if row is None:
        rows[field] = list(amounts)
    else:
        for at, amount in enumerate(amounts):
            row[at] += amount
