"""What the recording rules compute, in Python: an independent reading of the same formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields


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
    drawn: float = 1.0
    returned: float = 1.0
    returned_count: float = 1.0
    returned_squares: float = 1.0
    missing: float = 0.0
    uncovered: float = 0.0

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
            "drawn_answers": self.drawn,
            "returned_answers": self.returned,
            "returned_count": self.returned_count,
            "returned_squares": self.returned_squares,
            "missing_answers": self.missing,
            "uncovered_answers": self.uncovered,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What is recorded of them."""

    mean: float
    lower: float
    upper: float
    effective_n: float
    coverage: float


def recorded(sums: Sums) -> Recorded | None:
    """Return it; None where nothing is recorded, for want of a verdict."""
    value = sums.value_positive - sums.value_negative
    scored = sums.scored_positive - sums.scored_negative
    pending = max(0.0, sums.drawn - sums.returned)
    due = sums.returned + pending
    covered = sums.answers / max(1e-9, sums.answers + sums.uncovered)
    covered *= min(1.0, max(0.0, (sums.returned - sums.missing) / due)) if due > 0 else 0.0
    if sums.judged <= 0 or scored <= 0 or covered < 0.5:
        return None
    mean = min(1.0, max(0.0, value / scored))
    product = (sums.value_squares + sums.scored_squares - sums.difference_squares) / 2
    squares = sums.value_squares - 2 * mean * product + mean**2 * sums.scored_squares
    variance = max(0.0, squares) / scored**2
    near = max(mean, 0.5 / max(1.0, sums.judged))
    near = min(near, 1 - 0.5 / max(1.0, sums.judged))
    rarer = sums.judged * min(mean, 1 - mean)
    seen = variance * sums.judged / (near * (1 - near))
    weighting = max(1.0, sums.returned_count * sums.returned_squares / sums.returned**2)
    if seen < weighting:
        rarer /= weighting
    effect = (rarer * seen + 5 * weighting) / (rarer + 5)
    n = sums.judged / max(0.2, effect)
    z = 1.96
    centre = (mean + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(mean * (1 - mean) / n + z**2 / (4 * n**2))
    unobserved = sums.uncovered + sums.missing + pending
    observed = scored / (scored + unobserved)
    observed -= z * math.sqrt(observed * (1 - observed) / sums.judged)
    observed = max(0.0, observed)
    return Recorded(
        mean=mean,
        lower=observed * max(0.0, centre - half),
        upper=1 - observed * (1 - min(1.0, centre + half)),
        effective_n=n,
        coverage=covered,
    )


def sampled(
    *,
    answers: int,
    judged: int,
    bad: int,
    chance: float,
    predicted: float,
    missing: int = 0,
    uncovered: int = 0,
) -> Sums:
    """Return the sums of answers of which some are judged, each with the same prediction.

    All of them apply, and are known to; `bad` of the judged ones are of value 1. Of `missing` more
    that were drawn there is no verdict, and `uncovered` more had no chance.
    """
    good = judged - bad
    lost = 1 - 1 / chance
    drawn = (judged + missing) / chance
    of_bad = predicted + (1 - predicted) / chance
    of_good = predicted - predicted / chance
    rest = answers - judged - missing
    return Sums(
        answers=answers,
        judged=judged,
        value_positive=answers * predicted + bad * (1 - predicted) / chance,
        value_negative=(good + missing) * predicted / chance,
        scored_positive=answers,
        scored_negative=missing / chance,
        value_squares=(bad * of_bad**2 + (good + missing) * of_good**2 + rest * predicted**2),
        scored_squares=answers - missing + missing * lost**2,
        difference_squares=(
            bad * (1 - of_bad) ** 2
            + good * (1 - of_good) ** 2
            + rest * (1 - predicted) ** 2
            + missing * (lost - of_good) ** 2
        ),
        drawn=drawn,
        returned=drawn,
        returned_count=judged + missing,
        returned_squares=(judged + missing) / chance**2,
        missing=missing / chance,
        uncovered=uncovered,
    )


def together(*parts: Sums) -> Sums:
    """Return the sums of a window that has these parts, each `sampled` at a chance of its own."""
    names = (each.name for each in fields(Sums))
    return Sums(**{name: sum(getattr(part, name) for part in parts) for name in names})
