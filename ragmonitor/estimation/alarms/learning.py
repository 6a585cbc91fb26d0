"""What is tolerated, where nobody said: learned from the first verdicts."""

from __future__ import annotations

from dataclasses import dataclass

from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.estimation.detector import TOLERATE_LEAST, Block

LEARNED_FROM = 1_000
"""Verdicts from which `tolerate` is learned, where it is not given."""
LEARNED_HEADROOM = 1.25
LEARNED_CONFIDENCE = 0.95
LEARNED_MOST = 0.95


@dataclass(slots=True, kw_only=True)
class Learning:
    """Sums over the verdicts from which `tolerate` is learned, on the scale of badness."""

    verdicts: int = 0
    """Those of one session within an hour count once."""
    weight: float = 0.0
    weight_squared: float = 0.0
    weighted: float = 0.0

    def add(self, x: float, weight: float, block: Block | None) -> None:
        """Take in one verdict, the worse the higher `x`, and into its session's block."""
        # Weighted by the stake, which is the moment's rate over the answer's chance. Within a
        # moment that undoes the unequal chances, as 1/chance would. Between moments it counts a
        # verdict for one whether it was drawn at a high rate or a low one; that is the mean on
        # which the bets will run, being staked alike, and its effective number stays near that of
        # the verdicts, where weights of 1/chance would let one quiet night outweigh a busy day.
        # The verdicts of a session count as one for how much is known, as if they all agreed.
        before = 0.0 if block is None else block.staked
        self.verdicts += not before
        self.weight += weight
        self.weight_squared += weight * (weight + 2 * before)
        self.weighted += weight * x
        if block is not None:
            block.add(x, weight)

    @property
    def share(self) -> float:
        """How much of what it needs it has, 0 to 1."""
        return min(1.0, self.verdicts / LEARNED_FROM)

    def tolerate(self) -> float:
        """Return max(1.25 mean, 95 % upper bound), at most 0.95.

        Source:
            Clopper & Pearson (1934), Biometrika 26(4), one-sided, at the effective sample size of
            Kish (1965), "Survey Sampling", section 11.2. For values between 0 and 1 it is wider
            than need be.
        """
        mean = self.weighted / self.weight
        n = self.weight**2 / self.weight_squared
        upper = beta_quantile(LEARNED_CONFIDENCE, mean * n + 1, (1 - mean) * n)
        return min(LEARNED_MOST, max(TOLERATE_LEAST, LEARNED_HEADROOM * mean, upper))
