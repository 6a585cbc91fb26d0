"""Evidence that one group of answers is worse than another: e-values of two samples.

A verdict x (0 fine, 1 bad) with the importance weight w is a fair bet at the mean theta: whoever
multiplies a capital of 1 by 1 + b w (x - theta), with a b that was fixed beforehand, gains nothing
on average while the mean is at most theta. So the capital is an e-value, at any time one looks.

What the means are nobody knows. A null hypothesis such as "the slice is no worse than the rest"
holds for some pair of means; for each of them the capitals of both samples multiply to an e-value,
and the least of these products is an e-value of the whole hypothesis.

Source:
    Waudby-Smith & Ramdas (2024), "Estimating means of bounded random variables by betting", JRSS B
    86(1), arXiv:2010.09686, section 4, for the bets; Ramdas, Gruenwald, Vovk & Shafer (2023),
    "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38(4),
    arXiv:2210.01948, section 5, for the least over a composite hypothesis, and products of e-values
    of independent samples.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

_FIRST: Final = -6.0
_STEP: Final = 0.2
GRID: Final = tuple(1 / (1 + math.exp(-(_FIRST + _STEP * at))) for at in range(48))
"""Means at which capitals are known: from 0.25 to 97 %, each 1.22 times the odds of the last."""
_MULTIPLES: Final = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 16.0)
"""The multiple of the mean that each part of the mixture expects a worse one to be."""
_SHARES: Final = (0.9, 0.75, 0.5, 0.25, 0.1)
"""The share of the mean that each part expects a better one to be."""
_IDLE: Final = 0.25
"""The share of the capital that bets on nothing, so that no more than the rest is lost."""
_MAX_RISK: Final = 0.9
_LEVELS: Final = 20
_FINENESS: Final = math.log(1.1)

Cell = tuple[float, float, float, float]
"""Bounds of an importance weight, and of a value: lower, upper; lower, upper."""


class Sample:
    """Verdicts on a group of answers, counted by their weight and value.

    Weights are counted in steps of 10 % and values in steps of a twentieth. Bets take the bound
    that is worse for them, so that they stay fair. Weights of 1, and values of 0 and 1, are exact.
    """

    __slots__ = ("cells",)

    def __init__(self, cells: Counter[Cell] | None = None) -> None:
        """Begin with what was counted."""
        self.cells: Counter[Cell] = Counter() if cells is None else cells

    def __len__(self) -> int:
        """Return the number of verdicts."""
        return self.cells.total()

    def __sub__(self, part: Sample) -> Sample:
        """Return the verdicts that are not in a part of them."""
        return Sample(self.cells - part.cells)

    @property
    def mean(self) -> float:
        """The weighted mean, nearly; 0 where there are no verdicts."""
        total = sum(count * cell[0] for cell, count in self.cells.items())
        bad = sum(count * cell[0] * cell[2] for cell, count in self.cells.items())
        return bad / total if total > 0 else 0.0

    def above(self, max_weight: float) -> list[float]:
        """Return log capitals that the mean is above each one of `GRID`."""
        found = []
        for theta in GRID:
            most = _MAX_RISK / (theta * max_weight)
            bets = [min((multiple - 1) / (1 - theta), most) for multiple in _MULTIPLES]
            edges = [
                (count, low * x_low - high * theta)
                for (low, high, x_low, _), count in self.cells.items()
            ]
            found.append(_log_mixture(bets, edges))
        return found

    def below(self, max_weight: float) -> list[float]:
        """Return log capitals that the mean is below each one of `GRID`."""
        found = []
        for theta in GRID:
            most = _MAX_RISK / max_weight
            bets = [min((1 - share) / (1 - theta), most) for share in _SHARES]
            edges = [
                (count, low * theta - high * x_high)
                for (low, high, _, x_high), count in self.cells.items()
            ]
            found.append(_log_mixture(bets, edges))
        return found


def cell_of(value: float, weight: float, max_weight: float) -> Cell:
    """Return where a verdict is counted.

    Args:
        value: 0 to 1; 1 is the worst.
        weight: Its importance weight, above 0; more than `max_weight` counts as that.
        max_weight: As large as a weight may be, known beforehand.
    """
    if weight >= max_weight:
        low = high = max_weight
    elif weight == 1:
        low = high = 1.0
    else:
        step = math.floor(math.log(weight) / _FINENESS)
        low, high = math.exp(step * _FINENESS), min(max_weight, math.exp((step + 1) * _FINENESS))
    scaled = value * _LEVELS
    return low, high, math.floor(scaled) / _LEVELS, math.ceil(scaled) / _LEVELS


def _log_mixture(bets: list[float], edges: list[tuple[int, float]]) -> float:
    logs, log1p = [], math.log1p
    for bet in bets:
        log = 0.0
        for count, edge in edges:  # a generator inside `sum` takes twice the time
            log += count * log1p(bet * edge)
        logs.append(log)
    top = max(0.0, *logs)
    part = (1 - _IDLE) / len(bets)
    return top + math.log(
        _IDLE * math.exp(-top) + part * sum(math.exp(each - top) for each in logs)
    )


def log_worse(worse: Sample, better: Sample, max_weight: float) -> float:
    """Return the log e-value that the first sample's mean is above the second's.

    Between two means of `GRID` the least product is hardly lower than at them: the larger one
    capital is there, the smaller is the other.

    Args:
        worse: The sample that is said to be worse.
        better: The other one.
        max_weight: Of the importance weights.
    """
    above, below = worse.above(max_weight), better.below(max_weight)
    return min(map(sum, zip(above, below, strict=True)))
