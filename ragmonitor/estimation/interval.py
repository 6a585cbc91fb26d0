"""From a window's sums to a mean and a 95 % interval."""

from __future__ import annotations

import math

from ragmonitor.records import Estimate, Moments

Z95 = 1.959963984540054
FORGOTTEN_WEIGHT = math.exp(-3)
"""Below this sum of weights a window is empty: one answer counts for three time constants."""

WORST_CASE_ANSWERS = 5.0
"""How many answers' worth of trust the greatest possible variance keeps."""
LEAST_DESIGN_EFFECT = 0.2


def summarise(moments: Moments) -> Estimate | None:
    """Return the weighted mean with its interval; None where the window holds nothing.

    The interval is Wilson's at an effective sample size: Kish's n = sum(w)^2 / sum(w^2), divided
    by the design effect d = variance / (mean (1 - mean)), which is 1 for a share and less for
    scores between 0 and 1. Few answers say little of their variance, so d is drawn towards 1, the
    most it can be, as if five more answers had shown that.

    Source:
        Wilson (1927), "Probable inference", JASA 22(158); Kish (1965), "Survey Sampling",
        section 8.2; Korn & Graubard (1998), Survey Methodology 24(2), for an interval of a
        proportion at an effective sample size.
    """
    if moments.weight < FORGOTTEN_WEIGHT or moments.weight_squared <= 0:
        return None
    kish_n = moments.weight**2 / moments.weight_squared
    mean = min(1.0, max(0.0, moments.value / moments.weight))
    n = kish_n / _design_effect(moments, mean, kish_n)
    shrink = 1 + Z95**2 / n
    centre = (mean + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return Estimate(
        mean=mean,
        lower=max(0.0, min(mean, centre - half)),
        upper=min(1.0, max(mean, centre + half)),
        effective_n=kish_n,
    )


def _design_effect(moments: Moments, mean: float, n: float) -> float:
    most = mean * (1 - mean)
    if most <= 0:
        return 1.0
    variance = max(0.0, moments.value_squared / moments.weight - mean**2)
    seen = min(1.0, variance / most)
    return max(LEAST_DESIGN_EFFECT, (n * seen + WORST_CASE_ANSWERS) / (n + WORST_CASE_ANSWERS))
