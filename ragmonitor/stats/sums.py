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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Final, NamedTuple

from ragmonitor.store import HOUR_S, MEAN_S, Increments, Rows

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
    chance: float = 1.0
    """Inclusion probability, above 0 and up to 1; 0: it could not be drawn."""
    rate: float = 1.0
    """The common rate that chances of the moment are relative to."""
    is_drawn: bool = False
    bucket: int = -1
    """The bucket of bets that the store put its draw into; -1: the one of now."""
    session: str = ""
    slices: tuple[str, ...] = ()
    expected: Mapping[str, Outcome] = field(default_factory=dict)
    """By signal, of each that is watched, from past verdicts only; `NOTHING`: it is not known."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What the built-in judge says of each signal, 0 to 1, where it says anything."""
    teaches: bool = True
    """Whether its verdicts are learned from."""
    bets: bool = True
    """Whether it counts in alarms and comparisons, and not in means alone."""

    @property
    def group(self) -> int:
        """The group that it belongs to."""
        return group_of(self.session or self.id)

    @property
    def importance_weight(self) -> float:
        """The common rate over the chance, at most `MAX_WEIGHT`."""
        return min(MAX_WEIGHT, self.rate / self.chance)


def group_of(name: str) -> int:
    """Return the group of a session, or of an answer without one."""
    return zlib.crc32(name.encode("utf-8", "replace")) % BET_GROUPS


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

    __slots__ = ("_higher_is_better", "_increments", "_series", "_sliced", "_versions")

    def __init__(
        self,
        higher_is_better: Collection[str] = (),
        sliced: Collection[str] | None = None,
        versions: Collection[str] = (),
    ) -> None:
        """Begin empty.

        Args:
            higher_is_better: The signals whose badness is 1 less their value.
            sliced: The signals that slices have series of; None: all.
            versions: Dimensions whose slices have series of every signal.
        """
        self._sliced = sliced
        self._versions = tuple(f"{each}=" for each in versions)
        self._increments: Increments = {}
        self._series: dict[tuple[str, tuple[str, ...]], list[tuple[str, str]]] = {}
        self._higher_is_better = frozenset(higher_is_better)

    def take(self) -> Increments:
        """Return what was added up, and begin anew."""
        taken, self._increments, self._series = self._increments, {}, {}
        return taken

    def note(self, answer: Answer, verdicts: Mapping[str, Outcome | None] | None = None) -> None:
        """Take in an answer.

        Args:
            answer: One that is new.
            verdicts: None: it is not drawn, or they are on their way.
        """
        self._add(answer, verdicts, is_new=True)

    def settle(self, answer: Answer, verdicts: Mapping[str, Outcome | None]) -> None:
        """Put verdicts in the place of an open draw; one that failed stays lost."""
        self._add(answer, verdicts, is_new=False)

    def _add(
        self, answer: Answer, verdicts: Mapping[str, Outcome | None] | None, *, is_new: bool
    ) -> None:
        chance, drawn, group = answer.chance, answer.is_drawn, answer.group
        place = HEAD + 3 * (group % VARIANCE_GROUPS)
        rows, cells = self._buckets(answer)
        weight = 1 / chance if drawn else 0.0
        bets = answer.importance_weight if drawn else 0.0
        opened = bets * ((verdicts is None) - (not is_new))
        # Written out: this runs for every signal of every answer.
        for signal, (applies, mean) in answer.expected.items():
            is_higher_better = signal in self._higher_is_better
            expected, known = applies * mean, float(applies > 0)
            # What is expected of the answer says, over all answers, whether it has got worse.
            bad = known * (1 - mean if is_higher_better else mean)
            risk = (answer.rate * (applies or 1.0), bad, known, 0.0)
            verdict = None if verdicts is None else verdicts.get(signal)
            scored, value = verdict or NOTHING
            stake = scored * bets
            lost = (verdict is None) - (not is_new)
            failed = bets if verdict is None and verdicts is not None else 0.0
            bet = (stake, stake * (1 - value if is_higher_better else value), opened, failed)
            for series, everybody in self._series_of(answer, signal):
                row = rows.get(series)
                if row is None:
                    row = rows[series] = [0.0] * WIDTH
                if is_new:
                    row[ANSWERS] += 1
                    if chance <= 0:
                        row[UNCOVERED] += 1
                        continue
                    row[EXPECTED] += expected
                    row[EXPECTED2] += expected * expected
                    row[SPREAD] += expected * (1 - mean) / chance
                    row[DRAWN] += weight
                    row[DRAWN2] += weight * weight
                    row[place] += expected * (1 - weight)
                    row[place + 1] += applies * (1 - weight)
                    if answer.bets:
                        _add(cells, everybody, risk)
                if not drawn:
                    continue
                if answer.bets:
                    _add(cells, f"{series}@{group}", bet)
                row[LOST] += lost
                row[place + 2] += lost * weight
                if verdict is not None:
                    row[JUDGED] += scored
                    row[HITS] += scored * value
                    row[SQUARES] += scored * value * value
                    row[place] += weight * scored * value
                    row[place + 1] += weight * scored
            if drawn and verdict is not None and answer.teaches:
                self._learn(answer, signal, verdict, weight, answer.features.get(signal))

    def _buckets(self, answer: Answer) -> tuple[Rows, Rows]:
        """Return the bucket of means and the bucket of bets that an answer adds to."""
        means = f"r{int(answer.at_s // MEAN_S) * MEAN_S}"
        bets = "b" if answer.bucket < 0 else f"b{answer.bucket}"
        increments = self._increments
        return increments.setdefault(means, {}), increments.setdefault(bets, {})

    def _series_of(self, answer: Answer, signal: str) -> list[tuple[str, str]]:
        """Return the series of an answer's signal, each with the field of all its answers."""
        key = signal, answer.slices
        known = self._series.get(key)
        if known is None:
            slices = answer.slices
            if self._sliced is not None and signal not in self._sliced:
                slices = tuple(each for each in slices if each.startswith(self._versions))
            series = [signal, *(f"{signal}|{each}" for each in slices)]
            known = self._series[key] = [(each, f"{each}@{ALL}") for each in series]
        return known

    def _learn(
        self, answer: Answer, signal: str, verdict: Outcome, weight: float, feature: float | None
    ) -> None:
        """Add a verdict to those from which predictions are learned."""
        rows = self._increments.setdefault(f"p{int(answer.at_s // HOUR_S) * HOUR_S}", {})
        row = rows.get(signal)
        if row is None:
            row = rows[signal] = [0.0] * LEARNED_WIDTH
        applies, value = verdict
        at = 3 * (BINS if feature is None else bin_of(feature))
        for place, each in ((at, weight), (3 * (BINS + 1), 1.0)):
            row[place] += each
            row[place + 1] += each * applies
            row[place + 2] += each * applies * value


BINS: Final = 32
"""The bins of what the built-in judge says; answers of which it says nothing are one more. They are
narrowest at 0 and 1, where such values crowd."""
LEARNED_WIDTH: Final = 3 * (BINS + 2)
"""Of each bin the sums of 1 / pi of verdicts, of those that apply, and of their values; then the
same of all verdicts, each counting for one."""


def bin_of(feature: float) -> int:
    """Return the bin of a value from 0 to 1.

    >>> bin_of(0.0), bin_of(0.03), bin_of(0.5), bin_of(1.0)
    (0, 3, 16, 31)
    """
    share = 2 / math.pi * math.asin(math.sqrt(min(1.0, max(0.0, feature))))
    return min(BINS - 1, int(share * BINS))


def _add(rows: Rows, field: str, amounts: Sequence[float]) -> None:
    row = rows.get(field)
    rows[field] = list(amounts) if row is None else [*map(add, row, amounts)]


def totals(increments: Increments) -> Rows:
    """Return what increments add to counters, by series.

    That is the number of answers, of those uncovered, of those judged, and the sums of values and
    of what applies by their sign: pseudo-outcomes may be negative, and counters only rise.
    """
    found: Rows = {}
    for name, rows in increments.items():
        for series, row in rows.items() if name[0] == "r" else ():
            sums = (math.fsum(row[HEAD::3]), math.fsum(row[HEAD + 1 :: 3]))
            signed = [max(0.0, sign * each) for each in sums for sign in (1, -1)]
            _add(found, series, (row[ANSWERS], row[UNCOVERED], row[JUDGED], *signed))
    return found
