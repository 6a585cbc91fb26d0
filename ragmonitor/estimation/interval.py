"""From a window's sums to a mean and a 95 % interval."""

from __future__ import annotations

import math
from typing import Final

from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.records import Estimate, Moments

Z95: Final = 1.959963984540054
TAIL: Final = 0.025
FORGOTTEN: Final = math.exp(-3)
"""Below this many judged answers a window is empty: one counts for three time constants."""
MODEL_TRUST: Final = 5.0
"""How many bad answers' worth of trust the design effect as predicted keeps."""
LEAST_DESIGN_EFFECT: Final = 0.05


def summarise(moments: Moments) -> Estimate | None:
    """Return the mean with its interval; None where the window holds nothing.

    The mean is the ratio of two sums of pseudo-outcomes (see `estimation.sums`), its variance that
    of the ratio, linearised. The interval is Clopper and Pearson's at an effective sample size:
    Kish's number of judged answers, divided by the design effect. Few bad answers say little of the
    variance, so the design effect is drawn towards the one that the predictions alone imply, as if
    five bad answers more had shown that.

    Source:
        Clopper & Pearson (1934), Biometrika 26(4); Kish (1965), "Survey Sampling", section 8.2;
        Korn & Graubard (1998), Survey Methodology 24(2), for an interval of a proportion at an
        effective sample size; Saerndal, Swensson & Wretman (1992), section 5.6, for the ratio.
    """
    if moments.judged < FORGOTTEN or moments.scored <= 0 or moments.judged_squared <= 0:
        return None
    ratio = moments.value / moments.scored
    mean = min(1.0, max(0.0, ratio))
    n = moments.judged**2 / moments.judged_squared
    effect = _design_effect(moments, mean, n)
    effective_n = n / max(LEAST_DESIGN_EFFECT, effect)
    hits = mean * effective_n
    misses = effective_n - hits
    low, high = _bounds(moments)
    return Estimate(
        mean=mean,
        lower=min(mean, beta_quantile(TAIL, hits, misses + 1)),
        upper=max(mean, beta_quantile(1 - TAIL, hits + 1, misses)),
        effective_n=effective_n,
        missing_lower=min(mean, low),
        missing_upper=max(mean, high),
        efficiency=effect,
    )


def _design_effect(moments: Moments, mean: float, n: float) -> float:
    """Return how many times more answers a plain random sample would need, or fewer, below 1."""
    near = min(max(mean, 0.5 / n), 1 - 0.5 / n) if n > 1 else 0.5
    squares = (
        moments.value_value - 2 * mean * moments.value_scored + mean**2 * moments.scored_scored
    )
    seen = max(0.0, squares) / moments.scored**2 * n / (near * (1 - near))
    # Without predictions: Kish's effect of unequal weights, 1 where they are equal.
    predicted = moments.scored_scored * n / moments.scored**2
    if moments.expected_scored > 0:
        expected = min(max(moments.expected / moments.expected_scored, 1e-6), 1 - 1e-6)
        # Of each answer that was predicted, over all answers: the first ones were not, and the few
        # that came after say how wide it is for all.
        variance = moments.expected_variance / moments.expected_scored / moments.scored
        predicted = variance * n / (expected * (1 - expected))
    predicted *= _dispersion(moments)
    rarer = max(0.0, min(moments.judged_value, moments.judged - moments.judged_value))
    return (rarer * seen + MODEL_TRUST * predicted) / (rarer + MODEL_TRUST)


def _dispersion(moments: Moments) -> float:
    """Return how widely scores spread, of how widely 0 and 1 of the same mean would; 0 to 1.

    1 for a share. Few scores tell little of it: it is drawn towards 1, as if five more had shown
    that.
    """
    n = moments.judged
    mean = moments.judged_value / n
    most = mean * (1 - mean)
    if most <= 0:
        return 1.0
    seen = min(1.0, max(0.0, moments.judged_value_squared / n - mean**2) / most)
    return (n * seen + MODEL_TRUST) / (n + MODEL_TRUST)


def _bounds(moments: Moments) -> tuple[float, float]:
    """Return the mean if every missing verdict were 0, and if every one were 1."""
    scored = moments.scored + moments.missing_scored
    if scored <= 0:
        return 0.0, 1.0
    return (
        min(1.0, max(0.0, (moments.value + moments.missing_low) / scored)),
        min(1.0, max(0.0, (moments.value + moments.missing_high) / scored)),
    )
