"""How far verdicts are off what was predicted of them, where the prediction was highest."""

from __future__ import annotations

import math
from typing import Final

from ragmonitor.protocols import Clock

RISKY_SHARE: Final = 0.2
"""Of the answers: those with the highest predicted chance of a hallucination."""
KEPT: Final = 200.0
"""How many verdicts the mean remembers."""
LEAST: Final = 20.0
FORGOTTEN_S: Final = 86_400.0
_CELLS: Final = 200


class Residuals:
    """The mean of verdict less prediction among the riskiest fifth of the answers.

    On all answers the mean stays near 0 while the built-in score dies, as long as the rate does
    not move; on the riskiest fifth it does not. Predictions rest on past verdicts only, so this is
    no look at the data that were fitted.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock()
        self._counts = [0.0] * (_CELLS + 1)
        self._line = 1.0
        self._residual = self._weight = self._n = 0.0

    def predicted(self, chance: float) -> None:
        """Take note of an answer's predicted chance; 0 to 1."""
        self._counts[int(chance * _CELLS)] += 1

    def is_risky(self, chance: float) -> bool:
        """Return whether an answer belongs to the riskiest fifth, as of the last tick."""
        return chance >= self._line

    def add(self, residual: float, weight: float) -> None:
        """Take in a verdict on a risky answer.

        Args:
            residual: Verdict less prediction, -1 to 1.
            weight: 1 / chance to be judged.
        """
        keep = 1.0 - 1.0 / KEPT
        self._residual = self._residual * keep + weight * residual
        self._weight = self._weight * keep + weight
        self._n += 1

    @property
    def mean(self) -> float | None:
        """-1 to 1; None: too few verdicts."""
        return self._residual / self._weight if self._n >= LEAST else None

    def tick(self) -> None:
        """Let old predictions count less, and find out anew where the riskiest fifth begins."""
        now = self._clock()
        share = math.exp(-max(0.0, now - self._at_s) / FORGOTTEN_S)
        self._at_s = now
        self._counts = [count * share for count in self._counts]
        left = RISKY_SHARE * sum(self._counts)
        self._line = 1.0
        if left < LEAST:
            return
        for cell in reversed(range(_CELLS + 1)):
            left -= self._counts[cell]
            if left <= 0:
                self._line = cell / _CELLS
                return
