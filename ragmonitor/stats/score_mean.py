"""The mean of scores that were all given, each with its weight, and its interval."""

from __future__ import annotations

from dataclasses import dataclass

from ragmonitor.records import Estimate
from ragmonitor.stats.beta import clopper_pearson
from ragmonitor.stats.interval import design_effect


@dataclass(slots=True)
class ScoreMean:
    """Sums over scores from 0 to 1; independent of each other, and 1 / chance their weight.

    >>> mean = ScoreMean()
    >>> for score in (1.0, 0.0, 1.0, 1.0):
    ...     mean.add(score)
    >>> found = mean.estimate
    >>> found.mean, round(found.lower, 2), round(found.upper, 2)
    (0.75, 0.19, 0.99)
    """

    count: float = 0.0
    total: float = 0.0
    squares: float = 0.0
    weight: float = 0.0
    weight2: float = 0.0
    value: float = 0.0
    """Sum of weight times score, and with the next two those of squares of weights."""
    value_weight2: float = 0.0
    value2_weight2: float = 0.0

    def add(self, score: float, weight: float = 1.0) -> None:
        """Take in one score."""
        self.count += 1
        self.total += score
        self.squares += score * score
        self.weight += weight
        self.weight2 += weight * weight
        self.value += weight * score
        self.value_weight2 += weight * weight * score
        self.value2_weight2 += (weight * score) ** 2

    @property
    def estimate(self) -> Estimate | None:
        """The mean with its 95 % interval; None: there was no score.

        The interval is Clopper and Pearson's at an effective number: the scores' number divided by
        a design effect, which is drawn towards the one of unequal weights alone, as in
        `stats.interval`.
        """
        if self.count < 1 or self.weight <= 0:
            return None
        n = self.count
        mean = min(1.0, max(0.0, self.value / self.weight))
        off = self.value2_weight2 - 2 * mean * self.value_weight2 + mean**2 * self.weight2
        kish = self.weight2 * n / self.weight**2
        effect = design_effect(
            n=n,
            hits=self.total,
            squares=self.squares,
            mean=mean,
            variance=off / self.weight**2,
            kish=kish,
            implied=kish,
        )
        lower, upper = clopper_pearson(mean * n / effect, n / effect)
        return Estimate(
            mean=mean,
            lower=min(mean, lower),
            upper=max(mean, upper),
            effective_n=n / effect,
            judged=n,
        )
