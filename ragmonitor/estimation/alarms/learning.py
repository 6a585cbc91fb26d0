"""Objectives that nobody set, learned from the first verdicts over whole days."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import AfterValidator, FiniteFloat

from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.estimation.detector import DAY_S, MIN_OBJECTIVE, SPENT

LEARNED_FROM: Final = 1_000
"""Verdicts from which `objective` is learned, at least, where it is not given."""
LEARNED_HEADROOM: Final = 1.25
LEARNED_CONFIDENCE: Final = 0.95
MAX_LEARNED: Final = 0.95

ARMED_FROM: Final = 300
"""Verdicts from which a spike is a spike, and not learned from."""
ARMED_AFTER_S: Final = 7_200.0
ARMED_CONFIDENCE: Final = 0.99
ARMED_HEADROOM: Final = 2.0
COMMITTED_EACH_S: Final = 3_600.0
"""An objective that was learned is thrown away again if an alarm is raised within so long."""
AGAIN_FROM: Final = 4
"""The limit of a slice is learned again from so many times as many verdicts."""
_RIDGE: Final = 0.01


def _sums_of_verdicts(sums: list[float]) -> list[float]:
    if len(sums) != 10 or min(sums[:_C]) < 0:
        raise ValueError("what was learned has another shape")
    return sums


Sums = Annotated[list[FiniteFloat], AfterValidator(_sums_of_verdicts)]
"""The sums of `Learning.kept`, in a state on disk."""

_N, _W, _WW, _X, _C, _S, _CC, _CS, _XC, _XS = range(10)


@dataclass(slots=True)
class Learning:
    """Sums over the verdicts from which `objective` is learned, on the scale of badness.

    It takes 1,000 verdicts and whole days, one at least: a rate that swings over the day is known
    by night no better than by noon. A curve with one wave a day is fitted, and what is learned is
    at least its peak. It does not see the week.
    """

    began_s: float | None = None
    committed_s: float | None = None
    until_s: float | None = None
    """The time when as many whole days are over as the verdicts took; None: there are too few."""
    kept: list[float] = field(default_factory=lambda: [0.0] * 10)
    """Number; sums of weight, its square, and weight times value; of weight times cosine, sine,
    cosine squared, cosine times sine; of weight times value times cosine and sine."""
    fresh: list[float] = field(default_factory=lambda: [0.0] * 10)
    """The sums of the last hour, which an alarm would make worthless."""

    def add(self, x: float, weight: float, before: float, at_s: float) -> None:
        """Take in one verdict.

        Args:
            x: The worse the higher.
            weight: Its importance weight.
            before: The sum of the importance weights of its session so far.
            at_s: Seconds since the epoch.
        """
        if self.began_s is not None and at_s < self.began_s - DAY_S:
            # A clock that was put right: nobody knows at what hours the verdicts so far came.
            self.committed_s = self.until_s = None
            self.began_s, self.kept, self.fresh = at_s, [0.0] * 10, [0.0] * 10
        if self.began_s is None:
            self.began_s = at_s
        if self.committed_s is None or abs(at_s - self.committed_s) >= COMMITTED_EACH_S:
            self.committed_s = at_s
            self.kept = _sum(self.kept, self.fresh)
            self.fresh = [0.0] * 10
        angle = 2 * math.pi * (at_s % DAY_S) / DAY_S
        c, s = math.cos(angle), math.sin(angle)
        # The weight is the moment's rate over the inclusion probability. Within a moment it
        # undoes unequal probabilities, as their inverse would. Between moments it counts a
        # verdict for one whether it was drawn at a high rate or a low one; that is the mean on
        # which the updates will run, being weighted alike, and its effective number stays near that
        # of the verdicts, where inverse probabilities would let a quiet night outweigh a busy day.
        # The verdicts of a session count as one for how much is known, as if they all agreed.
        fresh, wc, ws, wx = self.fresh, weight * c, weight * s, weight * x
        fresh[_N] += not before
        fresh[_W] += weight
        fresh[_WW] += weight * (weight + 2 * before)
        fresh[_X] += wx
        fresh[_C] += wc
        fresh[_S] += ws
        fresh[_CC] += wc * c
        fresh[_CS] += wc * s
        fresh[_XC] += wx * c
        fresh[_XS] += wx * s
        if self.until_s is None and self.kept[_N] + fresh[_N] >= LEARNED_FROM:
            days = math.ceil((at_s - self.began_s) / DAY_S)
            self.until_s = self.began_s + max(1, days) * DAY_S

    def count(self, verdicts: int) -> None:
        """Note of how many verdicts a slice's limit was learned, whose sums are not kept here."""
        self.kept[_N] = verdicts

    def forget_fresh(self) -> None:
        """Throw away what was learned within the hour: an alarm has been raised."""
        self.fresh = [0.0] * 10

    @property
    def is_sound(self) -> bool:
        """Whether it rests on no session that updates no more, as an older file's may."""
        return max(self.kept[_WW], self.fresh[_WW]) < SPENT

    @property
    def verdicts(self) -> int:
        """The number of verdicts that it has; those of one session within an hour count once."""
        return int(self.kept[_N] + self.fresh[_N])

    @property
    def days(self) -> int:
        """The number of whole days that it covers, or will; 0: not known yet."""
        if self.began_s is None or self.until_s is None:
            return 0
        return round((self.until_s - self.began_s) / DAY_S)

    def share(self, now_s: float) -> float:
        """Return how much of what it needs it has, 0 to 1."""
        if self.began_s is None:
            return 0.0
        until_s = self.began_s + DAY_S if self.until_s is None else self.until_s
        days = max(0.0, now_s - self.began_s) / (until_s - self.began_s)
        return min(1.0, self.verdicts / LEARNED_FROM, days)

    def is_done(self, at_s: float) -> bool:
        """Return whether there are verdicts and days enough."""
        return self.until_s is not None and self.verdicts >= LEARNED_FROM and at_s >= self.until_s

    def provisional(self, at_s: float) -> float | None:
        """Return what would be a spike even now: twice the 99 % upper bound; None: not known."""
        began_s = self.began_s
        if began_s is None or at_s - began_s < ARMED_AFTER_S or self.verdicts < ARMED_FROM:
            return None
        return min(MAX_LEARNED, ARMED_HEADROOM * self._upper(ARMED_CONFIDENCE))

    def objective(self) -> float:
        """Return max(1.25 mean, 95 % upper bound, the day's peak + standard error), at most 0.95.

        The peak is that of the curve mean + a cos + b sin over the day, by least squares with a
        small ridge; the standard error is that of its height, sqrt(2 mean (1 - mean) / n). Of
        simulated services whose rate swings by half or more over the day 0 to 3 of 100 then have
        more than one false alarm in 30 days, where it had been 14 to 64 with the mean alone.

        Source:
            Clopper & Pearson (1934), Biometrika 26(4), one-sided, at the effective sample size of
            Kish (1965), "Survey Sampling", section 11.2. For values between 0 and 1 it is wider
            than need be. The curve is the cosinor of Halberg et al. (1967).
        """
        mean, n = self._mean()
        peak = self._peak() + math.sqrt(2 * mean * (1 - mean) / n)
        least = max(LEARNED_HEADROOM * mean, self._upper(LEARNED_CONFIDENCE), peak)
        return min(MAX_LEARNED, max(MIN_OBJECTIVE, least))

    def _mean(self) -> tuple[float, float]:
        sums = _sum(self.kept, self.fresh)
        return sums[_X] / sums[_W], sums[_W] ** 2 / sums[_WW]

    def _upper(self, confidence: float) -> float:
        mean, n = self._mean()
        return beta_quantile(confidence, mean * n + 1, (1 - mean) * n)

    def _peak(self) -> float:
        """Return the highest point of the curve over the day; at most 1."""
        sums = _sum(self.kept, self.fresh)
        w, x, c, s, cc, cs, xc, xs = (
            sums[place] / sums[_W] for place in (_W, _X, _C, _S, _CC, _CS, _XC, _XS)
        )
        # With the constant eliminated there are two equations left.
        aa, ab, bb = cc - c * c + _RIDGE, cs - c * s, (w - cc) - s * s + _RIDGE
        ax, bx = xc - c * x, xs - s * x
        scale = aa * bb - ab * ab
        a, b = (bb * ax - ab * bx) / scale, (aa * bx - ab * ax) / scale
        return min(1.0, x - a * c - b * s + math.hypot(a, b))


def _sum(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(first, second, strict=True)]
