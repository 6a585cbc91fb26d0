"""Evidence that answers of one kind are worse than the others of the same time."""

from __future__ import annotations

from functools import lru_cache
from math import exp, log1p, log2
from typing import Final

LIFE_S: Final = 172_800.0
"""Evidence is of the last two days at most, and of the last day at least."""
MAX_IMPORTANCE_WEIGHT: Final = 2.0
"""Of a sampled answer, as `SamplingDecision.importance_weight` has it."""
_MAX_LOSS: Final = 0.9
"""Share of the evidence that one answer may take away at most."""
_HALF_S: Final = LIFE_S / 2
_MEMORY: Final = 0.1
"""Weight of the newest answer in the rate that is betted on."""
_REST_MEMORY: Final = 0.005
_TYPICAL_MEMORY: Final = 0.05
_MAX_E: Final = 1e12
MAX_WAITING: Final = 8
"""Answers of a kind in one block, the newest ones: of a kind that nearly all answers are of."""


@lru_cache(maxsize=4_096)
def _begins_at(block: int) -> float:
    """Return the share of the evidence that begins at a block, from 0 on."""
    return _begins_from(block) - _begins_from(block + 1)


@lru_cache(maxsize=4_096)
def _begins_from(block: int) -> float:
    """Return the share of the evidence that begins at a block or later."""
    return 1 / log2(block + 2)


class Others:
    """Sums over all answers, from which follows what came between two answers of one kind."""

    __slots__ = ("rate", "sampled", "seen", "seen_bad", "typical")

    def __init__(self) -> None:
        self.sampled = 0.0
        """Sampling rates of all answers, judged or not."""
        self.seen = 0.0
        """Importance weights of the judged ones, each 0 to 1."""
        self.seen_bad = 0.0
        """Those of the bad ones."""
        self.rate = 0.05
        """About the share of bad answers of late."""
        self.typical = 1.0
        """About the importance weight of the judged ones of late."""

    def add(self, rate: float, weight: float, bad: float) -> None:
        """Take in one answer, after every kind that it is of.

        Args:
            rate: The common sampling rate as it was decided, 0 to 1.
            weight: rate / inclusion probability, over its maximum; 0: no verdict.
            bad: 0 (good) to 1.
        """
        self.sampled += rate
        if weight:
            self.seen += weight
            self.seen_bad += weight * bad
            rate_now = self.rate + _REST_MEMORY * weight * (bad - self.rate)
            self.rate = min(0.9, max(0.01, rate_now))
            self.typical += _TYPICAL_MEMORY * (weight - self.typical)


class PairedEvidence:
    """An e-process against "answers of this kind are bad no more often than the others".

    Answers of the kind make a block with the others since those before. Each bets that it is bad
    more often than m, and the others together bet as much that they are bad less often than m:

        1 + k l (y - m)   for an answer of the kind,   1 - k l S / R (y - m)   for each other,

    with k its importance weight if it was judged, else 0, S the sum of the sampling rates of the
    kind's answers and R that of the others'. Over draws and verdicts the mean of the product is at
    most exp(0) = 1 whatever m is, as long as both kinds are bad equally often within the block: the
    rate may change from block to block, and so may the sampling. m and l come from what was known
    before the block. A block ends with the first answer of the kind after another one.

    When the kind became worse is not known. So the evidence is the mean over all blocks at which it
    may have begun, that of block t with weight 1 / log2(t + 2) - 1 / log2(t + 3): they sum up to
    1, and fall off hardly faster than 1 / t, so that a kind that was good for long is found too.

    Source:
        Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024),
        JRSS-B 86(1), section 4, for the bets; Turner, Ly and Gruenwald, "Generic E-variables for
        exact sequential k-sample tests" (2024), section 2, for blocks of two kinds; Shin, Ramdas
        and Rinaldo, "E-detectors" (2024), section 2, for mixtures over the beginning.
    """

    __slots__ = (
        *("_bad", "_m", "_sampled", "_stake", "_seen", "_seen_bad", "_until_s"),
        "_waiting",
        *("_old", "_old_blocks", "_young", "_young_blocks"),
    )

    def __init__(self, others: Others, at_s: float) -> None:
        """Begin without evidence.

        Args:
            others: The sums over all answers, before the first of this kind.
            at_s: Seconds since the epoch.
        """
        self._bad = 0.3
        """The share of bad answers of this kind that is betted on."""
        self._old = self._young = 0.0
        """The evidence of two lives, of which the younger one began half a life later."""
        self._old_blocks = self._young_blocks = 0
        self._until_s = (at_s // _HALF_S + 1) * _HALF_S
        """When the older life ends."""
        self._sampled, self._seen, self._seen_bad = others.sampled, others.seen, others.seen_bad
        self._waiting: tuple[tuple[float, float, float], ...] = ()
        """Sampling rates, weights and badness of the answers of the block so far."""
        self._choose(others)

    def add(self, others: Others, rate: float, weight: float, bad: float, at_s: float) -> None:
        """Take in one answer of this kind; arguments as of `Others.add`, which comes afterwards."""
        # Written out, and no attribute read twice: this runs for every document of every answer.
        sampled = others.sampled
        between = sampled - self._sampled
        self._sampled = sampled + rate
        if weight:
            self._bad += _MEMORY * weight * (bad - self._bad)
        if rate <= 0:
            return
        if between <= 0:
            self._waiting = (*self._waiting[1 - MAX_WAITING :], (rate, weight, bad))
            self._seen += weight
            self._seen_bad += weight * bad
            return
        if at_s >= self._until_s:
            self._renew(at_s)
        m, stake, waiting = self._m, self._stake, self._waiting
        of_kind = rate
        if waiting:
            waiting = waiting[1 - MAX_WAITING :]
            of_kind += sum([each for each, _, _ in waiting])
            self._waiting = ()
        ratio = of_kind / between
        of_others = stake * ratio
        if of_others * (1 - m) > _MAX_LOSS:
            of_others = _MAX_LOSS / (1 - m)
            stake = of_others / ratio
        seen, seen_bad = others.seen, others.seen_bad
        bad_between = seen_bad - self._seen_bad
        # log(1 + k x) >= k log(1 + x) for a weight k up to 1: sums are all that is needed.
        evidence = (seen - self._seen - bad_between) * log1p(of_others * m)
        if bad_between:
            evidence += bad_between * log1p(-of_others * (1 - m))
        factor = exp(evidence) * (1 + weight * stake * (bad - m))
        for _, weight_before, bad_before in waiting:
            factor *= 1 + weight_before * stake * (bad_before - m)
        blocks = self._old_blocks
        self._old = (self._old + _begins_at(blocks)) * factor
        self._old_blocks = blocks + 1
        blocks = self._young_blocks
        self._young = (self._young + _begins_at(blocks)) * factor
        self._young_blocks = blocks + 1
        if self._old > _MAX_E or self._young > _MAX_E:
            self._old, self._young = min(_MAX_E, self._old), min(_MAX_E, self._young)
        # `others` does not hold this answer yet: what it adds is no part of the next block.
        self._seen, self._seen_bad = seen + weight, seen_bad + weight * bad
        self._choose(others)

    def _choose(self, others: Others) -> None:
        """Choose what the next block bets, by the verdicts so far."""
        self._m = rate = others.rate
        # On twice the others' rate at least: a kind that was good may turn bad.
        target = min(0.95, max(0.15, 2 * rate, self._bad))
        stake = max(0.0, target - rate) / (1 - rate)
        # An answer that is drawn with the common rate has half of the greatest weight.
        self._stake = min(_MAX_LOSS, stake / others.typical) / rate

    def _renew(self, at_s: float) -> None:
        """Let the older life end: the younger one takes its place."""
        is_next = at_s < self._until_s + _HALF_S
        self._old, self._old_blocks = (self._young, self._young_blocks) if is_next else (0.0, 0)
        self._young, self._young_blocks = 0.0, 0
        self._until_s = (at_s // _HALF_S + 1) * _HALF_S

    def e_value(self, at_s: float) -> float:
        """Return the evidence now: an e-value, 1 where nothing is known."""
        if at_s >= self._until_s:
            self._renew(at_s)
        old = self._old + _begins_from(self._old_blocks)
        return (old + self._young + _begins_from(self._young_blocks)) / 2
