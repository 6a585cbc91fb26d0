"""Objectives that nobody set, learned from the first verdicts over whole days."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.stats.beta import beta_quantile
from ragmonitor.store import DAY_S

ENOUGH: Final = 1_000.0
"""Verdicts from which an objective is learned, at least."""
HEADROOM: Final = 1.25
CONFIDENCE: Final = 0.95
MIN_OBJECTIVE: Final = 0.001
NO_ROOM: Final = 0.95
"""Badness above which there is no alarm: what is usual leaves no room for worse."""
ARMED_FROM: Final = 300.0
"""Verdicts from which a spike is a spike, and not learned from."""
ARMED_AFTER_S: Final = 7_200.0
ARMED_HEADROOM: Final = 2.0
ARMED_CONFIDENCE: Final = 0.99
_RIDGE: Final = 0.01

# Number of units; sums of weight, of its square by unit, of weight times badness; of weight times
# cosine, sine, cosine squared, cosine times sine; of weight times badness times cosine and sine.
_N, _W, _WW, _X, _C, _S, _CC, _CS, _XC, _XS = range(10)


@dataclass(slots=True)
class Learning:
    """Sums over verdicts from which an objective is learned, on the scale of badness.

    It takes 1,000 verdicts and whole days, one at least: a rate that swings over the day is known
    by night no better than by noon. A curve with one wave a day is fitted, and what is learned is
    at least its peak. It does not see the week. Nothing is learned while an alarm is raised.
    """

    began_s: float = -1.0
    until_s: float = -1.0
    """When as many whole days are over as the verdicts took; -1: there are too few."""
    sums: list[float] = field(default_factory=lambda: [0.0] * 10)

    def add(self, weight: float, bad: float, before: float, at_s: float) -> None:
        """Take in the verdicts of a group in one bucket.

        Args:
            weight: The sum of their importance weights.
            bad: The sum of weight times badness.
            before: The sum of weights of the same unit so far: it counts as one answer.
            at_s: Seconds since the epoch.
        """
        if self.began_s < 0:
            self.began_s = at_s
        angle = 2 * math.pi * (at_s % DAY_S) / DAY_S
        c, s = math.cos(angle), math.sin(angle)
        amounts = (weight * c, weight * s, weight * c * c, weight * c * s, bad * c, bad * s)
        of_unit = (float(before <= 0), weight, weight * (weight + 2 * before), bad)
        self.sums = [a + b for a, b in zip(self.sums, (*of_unit, *amounts), strict=True)]
        if self.until_s < 0 and self.verdicts >= ENOUGH:
            days = max(1, math.ceil((at_s - self.began_s) / DAY_S))
            self.until_s = self.began_s + days * DAY_S

    @property
    def verdicts(self) -> float:
        """The number of verdicts that it has; those of one session within an hour count once."""
        return self.sums[_N]

    def is_done(self, at_s: float) -> bool:
        """Return whether there are verdicts and days enough."""
        return 0 <= self.until_s <= at_s

    def share(self, at_s: float) -> float:
        """Return which share there is of the verdicts and of the time that learning takes."""
        time = max(0.0, at_s - self.began_s) / DAY_S if self.began_s >= 0 else 0.0
        return min(1.0, self.verdicts / ENOUGH, time)

    def provisional(self, at_s: float) -> float | None:
        """Return what would be a spike even now: twice the 99 % upper bound; None: not known."""
        if at_s - self.began_s < ARMED_AFTER_S or self.verdicts < ARMED_FROM:
            return None
        spike = ARMED_HEADROOM * self._upper(ARMED_CONFIDENCE)
        return spike if spike < NO_ROOM else None

    def objective(self) -> float | None:
        """Return max(1.25 mean, 95 % upper bound, the day's peak + standard error); None: no room.

        The peak is that of the curve mean + a cos + b sin over the day, by least squares with a
        small ridge; the standard error is that of its height, sqrt(2 mean (1 - mean) / n). Where
        the usual badness is so high that this is above 0.95, there is no alarm: one that was held
        to a lower value would be raised by nothing.

        Source:
            Clopper & Pearson (1934), Biometrika 26(4), one-sided, at the effective sample size of
            Kish (1965), "Survey Sampling", section 11.2. The curve is the cosinor of Halberg et al.
            (1967).

        >>> learning = Learning()
        >>> for n in range(1_200):
        ...     learning.add(1.0, float(n % 10 == 0), 0.0, n * 80.0)
        >>> learning.is_done(96_000.0), round(learning.objective(), 3)
        (True, 0.125)
        """
        mean, n = self._mean()
        peak = self._peak() + math.sqrt(2 * mean * (1 - mean) / n)
        objective = max(MIN_OBJECTIVE, HEADROOM * mean, self._upper(CONFIDENCE), peak)
        return objective if objective < NO_ROOM else None

    def _mean(self) -> tuple[float, float]:
        sums = self.sums
        return sums[_X] / sums[_W], sums[_W] * sums[_W] / sums[_WW]

    def _upper(self, confidence: float) -> float:
        mean, n = self._mean()
        return beta_quantile(confidence, mean * n + 1, (1 - mean) * n)

    def _peak(self) -> float:
        """Return the highest point of the curve over the day; at most 1."""
        shares = [each / self.sums[_W] for each in self.sums]
        x, (c, s, cc, cs, xc, xs) = shares[_X], shares[_C:]
        # With the constant eliminated there are two equations left.
        aa, ab, bb = cc - c * c + _RIDGE, cs - c * s, (1 - cc) - s * s + _RIDGE
        ax, bx = xc - c * x, xs - s * x
        scale = aa * bb - ab * ab
        a, b = (bb * ax - ab * bx) / scale, (aa * bx - ab * ax) / scale
        return min(1.0, x - a * c - b * s + math.hypot(a, b))
