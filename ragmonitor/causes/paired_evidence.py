"""Evidence that answers of one kind are worse than the others of the same time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import exp, log1p, log2
from typing import Final

LIFE_S: Final = 172_800.0
"""Evidence is of the last two days at most, and of the last day at least."""
MAX_IMPORTANCE_WEIGHT: Final = 2.0
"""The largest weight of a sampled answer, as `SamplingDecision.importance_weight` has it."""
_MAX_LOSS: Final = 0.9
"""Share of the evidence that one answer may take away at most."""
_HALF_S: Final = LIFE_S / 2
_MEMORY: Final = 0.1
"""Weight of the newest answer in the rate that is betted on."""
_REST_MEMORY: Final = 0.005
_TYPICAL_MEMORY: Final = 0.05
_MAX_E: Final = 1e12
_FIRST_TARGET: Final = 0.3
_LEAST_TARGET: Final = 0.15
_MOST_TARGET: Final = 0.95
MAX_WAITING: Final = 8
"""Answers of a kind in one block, the newest ones: of a kind that nearly all answers are of."""


_TABLE_SIZE: Final = 8_192


def _begins_at(block: int) -> float:
    """Return the share of the evidence that begins at a block, from 0 on."""
    return _begins_from(block) - _begins_from(block + 1)


def _begins_from(block: int) -> float:
    """Return the share of the evidence that begins at a block or later."""
    return 1 / log2(block + 2)


@lru_cache(maxsize=1)
def _first_shares() -> tuple[float, ...]:
    """Return `_begins_at` of the first `_TABLE_SIZE` blocks."""
    return tuple(map(_begins_at, range(_TABLE_SIZE)))


# fmt: off
PairedAnswer = tuple[
    str, float, float, float, float, float, float, float, float, float, float, float, float, float,
    float,
]
# fmt: on
"""One answer as evidence, beside the sums over all answers: its session if it was judged; when it
was given, its sampling rate, weight and badness, as `Others.add` has them; `sampled`, `seen` and
`seen_bad` of `Others`, each before it and with it; `typical` and `rate` before it; the least share
of bad answers that a kind is betted on to have after it, and the stake on that. A plain tuple: one
is made of every answer."""


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

    def add(
        self, rate: float, weight: float, bad: float, at_s: float, session: str = ""
    ) -> PairedAnswer:
        """Take in one answer, and return it beside the sums before it.

        Args:
            rate: The common sampling rate as it was decided, 0 to 1.
            weight: rate / inclusion probability, over its maximum; 0: no verdict.
            bad: 0 (good) to 1.
            at_s: When it was given, in seconds since the epoch.
            session: Empty: it has none.
        """
        m, typical, sampled = self.rate, self.typical, self.sampled
        seen, seen_bad = self.seen, self.seen_bad
        # On twice the others' rate at least: a kind that was good may turn bad.
        target = 2.0 * m if 2.0 * m > _LEAST_TARGET else _LEAST_TARGET  # noqa: FURB136 - as `_stake`
        stake = _stake(target, m, typical)
        sampled_with, seen_with, bad_with = sampled + rate, seen + weight, seen_bad + weight * bad
        self.sampled, self.seen, self.seen_bad = sampled_with, seen_with, bad_with
        if weight:
            rate_now = m + _REST_MEMORY * weight * (bad - m)
            self.rate = 0.01 if rate_now < 0.01 else 0.9 if rate_now > 0.9 else rate_now  # noqa: FURB136
            self.typical = typical + _TYPICAL_MEMORY * (weight - typical)
        else:
            session = ""
        # fmt: off
        return (session, at_s, rate, weight, bad, sampled, sampled_with, seen, seen_with, seen_bad,
                bad_with, typical, m, target, stake)
        # fmt: on


def _stake(target: float, m: float, typical: float) -> float:
    """Return what a block bets on a share of bad answers, where that of the others is `m`."""
    # Without calls of `min`, which take as long as all the rest: this runs for every answer.
    most = target if target < _MOST_TARGET else _MOST_TARGET  # noqa: FURB136
    stake = (most - m) / (1.0 - m) / typical  # the target is above m
    # An answer that is drawn with the common rate has half of the greatest weight.
    return (stake if stake < _MAX_LOSS else _MAX_LOSS) / m  # noqa: FURB136


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
        *("_session", "_waiting"),
        *("_old", "_old_blocks", "_young", "_young_blocks"),
    )

    def __init__(self, others: Others, at_s: float) -> None:
        """Begin without evidence.

        Args:
            others: The sums over all answers, before the first of this kind.
            at_s: Seconds since the epoch.
        """
        self._bad = _FIRST_TARGET
        """The share of bad answers of this kind that is betted on."""
        self._old = self._young = 0.0
        """The evidence of two lives, of which the younger one began half a life later."""
        self._old_blocks = self._young_blocks = 0
        self._until_s = (at_s // _HALF_S + 1) * _HALF_S
        """The time when the older life ends."""
        self._sampled, self._seen, self._seen_bad = others.sampled, others.seen, others.seen_bad
        self._session = ""
        """The session of the newest judged answer."""
        self._waiting: tuple[tuple[float, float, float], ...] = ()
        """Sampling rates, weights and badness of the answers of the block so far."""
        self._m = others.rate
        target = max(_LEAST_TARGET, 2 * self._m, self._bad)
        self._stake = _stake(target, self._m, others.typical)

    def add(self, answers: Iterable[PairedAnswer]) -> None:  # noqa: PLR0915 - see the comment
        """Take in answers of this kind, in the order in which `Others.add` returned them.

        Judged answers of a session that come in a row count for one: they are alike.
        """
        # Written out, in local variables, and with 1.0 rather than 1, which takes Python twice as
        # long beside a float: this runs for every document of every answer.
        own, m, stake, waiting = self._bad, self._m, self._stake, self._waiting
        last, last_seen, last_bad = self._sampled, self._seen, self._seen_bad
        old, young, until_s = self._old, self._young, self._until_s
        old_blocks, young_blocks, shares = self._old_blocks, self._young_blocks, _first_shares()
        last_session = self._session
        # fmt: off
        for (session, at_s, rate, weight, bad, sampled, sampled_with, seen, seen_with, seen_bad,
             bad_with, typical, others, usual, bet) in answers:
            # fmt: on
            if not rate:  # it could not be judged, and says nothing
                continue
            if session:
                if session == last_session:
                    continue
                last_session = session
            between, last = sampled - last, sampled_with
            if weight:
                own += _MEMORY * weight * (bad - own)
            if between <= 0.0:
                waiting = (*waiting[1 - MAX_WAITING :], (rate, weight, bad))
                last_seen, last_bad = last_seen + weight, last_bad + weight * bad
                continue
            if at_s >= until_s:
                old, old_blocks, until_s = self._next_life(at_s, until_s, young, young_blocks)
                young, young_blocks = 0.0, 0
            bad_between = seen_bad - last_bad
            good_between = seen - last_seen - bad_between
            # What this answer adds is no part of the next block.
            last_seen, last_bad = seen_with, bad_with
            if weight or good_between or bad_between or waiting:
                ratio = rate / between
                if waiting:
                    waiting = waiting[1 - MAX_WAITING :]
                    ratio = (rate + sum([each for each, _, _ in waiting])) / between
                of_others = stake * ratio
                if of_others * (1.0 - m) > _MAX_LOSS:
                    of_others = _MAX_LOSS / (1.0 - m)
                    stake = of_others / ratio
                # log(1 + k x) >= k log(1 + x) for a weight k up to 1: sums are all that is needed.
                evidence = good_between * log1p(of_others * m)
                if bad_between:
                    evidence += bad_between * log1p(-of_others * (1.0 - m))
                factor = exp(evidence) * (1.0 + weight * stake * (bad - m))
                if waiting:
                    for _, weight_before, bad_before in waiting:
                        factor *= 1.0 + weight_before * stake * (bad_before - m)
                    waiting = ()
            else:
                factor = 1.0
            if old_blocks < _TABLE_SIZE:  # the younger life has no more blocks
                old = (old + shares[old_blocks]) * factor
                young = (young + shares[young_blocks]) * factor
            else:
                old = (old + _begins_at(old_blocks)) * factor
                young = (young + _begins_at(young_blocks)) * factor
            old_blocks, young_blocks = old_blocks + 1, young_blocks + 1
            if old + young > _MAX_E:
                old, young = min(_MAX_E, old), min(_MAX_E, young)
            m, stake = others, bet if own <= usual else _stake(own, others, typical)
        self._bad, self._m, self._stake, self._waiting = own, m, stake, waiting
        self._sampled, self._seen, self._seen_bad = last, last_seen, last_bad
        self._old, self._young, self._until_s = old, young, until_s
        self._old_blocks, self._young_blocks = old_blocks, young_blocks
        self._session = last_session

    @staticmethod
    def _next_life(
        at_s: float, until_s: float, young: float, young_blocks: int
    ) -> tuple[float, int, float]:
        """Return what the older life becomes as it ends: the younger one, if that goes on."""
        is_next = at_s < until_s + _HALF_S
        next_s = (at_s // _HALF_S + 1) * _HALF_S
        return (young, young_blocks, next_s) if is_next else (0.0, 0, next_s)

    def e_value(self, at_s: float) -> float:
        """Return the evidence now: an e-value, 1 where nothing is known."""
        if at_s >= self._until_s:
            self._old, self._old_blocks, self._until_s = self._next_life(
                at_s, self._until_s, self._young, self._young_blocks
            )
            self._young, self._young_blocks = 0.0, 0
        old = self._old + _begins_from(self._old_blocks)
        return (old + self._young + _begins_from(self._young_blocks)) / 2
