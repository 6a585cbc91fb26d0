"""What the recording rules compute, in Python: an independent reading of the same formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a window's counters grew by."""

    answers: float
    judged: float
    value_positive: float
    value_negative: float
    scored_positive: float
    scored_negative: float
    value_squares: float
    scored_squares: float
    difference_squares: float

    def counters(self) -> dict[str, float]:
        """Return them by the names of their series, without prefix and suffix."""
        return {
            "answers": self.answers,
            "judged_answers": self.judged,
            "estimate_sum_positive": self.value_positive,
            "estimate_sum_negative": self.value_negative,
            "estimate_count_positive": self.scored_positive,
            "estimate_count_negative": self.scored_negative,
            "estimate_sum_squares": self.value_squares,
            "estimate_count_squares": self.scored_squares,
            "estimate_difference_squares": self.difference_squares,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is recorded of them."""

    mean: float
    lower: float
    upper: float
    effective_n: float


def recorded(sums: Sums) -> Recorded | None:
    """Return it; None where nothing is recorded, for want of a verdict."""
    value = sums.value_positive - sums.value_negative
    scored = sums.scored_positive - sums.scored_negative
    if sums.judged <= 0 or scored <= 0:
        return None
    mean = min(1.0, max(0.0, value / scored))
    product = (sums.value_squares + sums.scored_squares - sums.difference_squares) / 2
    squares = sums.value_squares - 2 * mean * product + mean**2 * sums.scored_squares
    variance = max(0.0, squares) / scored**2
    near = max(mean, 0.5 / max(1.0, sums.judged))
    near = min(near, 1 - 0.5 / max(1.0, sums.judged))
    rarer = sums.judged * min(mean, 1 - mean)
    effect = (rarer * variance * sums.judged / (near * (1 - near)) + 5) / (rarer + 5)
    n = sums.judged / max(0.2, effect)
    z = 1.96
    centre = (mean + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(mean * (1 - mean) / n + z**2 / (4 * n**2))
    return Recorded(
        mean=mean, lower=max(0.0, centre - half), upper=min(1.0, centre + half), effective_n=n
    )


def sampled(*, answers: int, judged: int, bad: int, chance: float, predicted: float) -> Sums:
    """Return the sums of answers of which some are judged, each with the same prediction.

    All of them apply, and are known to; `bad` of the judged ones are of value 1.
    """
    good = judged - bad
    of_bad = predicted + (1 - predicted) / chance
    of_good = predicted - predicted / chance
    rest = answers - judged
    return Sums(
        answers=answers,
        judged=judged,
        value_positive=answers * predicted + bad * (1 - predicted) / chance,
        value_negative=good * predicted / chance,
        scored_positive=answers,
        scored_negative=0,
        value_squares=bad * of_bad**2 + good * of_good**2 + rest * predicted**2,
        scored_squares=answers,
        difference_squares=(
            bad * (1 - of_bad) ** 2 + good * (1 - of_good) ** 2 + rest * (1 - predicted) ** 2
        ),
    )
