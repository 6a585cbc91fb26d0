"""From a window's sums to a mean and a 95 % interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.records import GROUP_SUMS, Estimate, Moments

Z95: Final = 1.959963984540054
TAIL: Final = 0.025
LEAST_COVERAGE: Final = 0.5
"""Share of a window's answers below which nothing is said: most of the window was not observed."""
MODEL_TRUST: Final = 5.0
"""The trust, in bad answers, that the design effect as predicted keeps."""
LEAST_DESIGN_EFFECT: Final = 0.05
SESSION_CORRELATION: Final = 0.1
"""Correlation of a session's answers that predictions are trusted with: they say nothing of it."""
_NORMAL: Final = NormalDist()


def summarise(moments: Moments, *, least_coverage: float = LEAST_COVERAGE) -> Estimate | None:
    """Return the mean with its interval; None where too little of the window was observed.

    The mean is the ratio of two sums of pseudo-outcomes (see `estimation.sums`), over the answers
    whose verdict comes. The interval is one of the mean of *all* answers of the window. Those that
    were not observed - an inclusion probability of 0, a verdict that is missing or on its way - may
    have been anything, so its lower end takes each of them for 0 and its upper end for 1: Manski's
    bounds. Each end has the sampling error of its own case, in which a missing verdict is one more
    verdict, of 0 or of 1. While the bounds are wide, the truth can be near one of them only, and
    the tail that is left out at each end grows from 2.5 to at most 5 %: Imbens and Manski's
    interval of a mean that the data determine in part.

    The sampling error is Clopper and Pearson's at an effective sample size: the number of judged
    answers, divided by the design effect. Few bad answers say little of the variance, so the
    design effect is drawn towards the one that the predictions alone imply, as if five bad answers
    more had shown that. Those that were seen count by their weights: of answers that were read for
    certain many may be bad, which says nothing of the spread among those that few were drawn of.

    Args:
        moments: Of the window.
        least_coverage: Share of the window's answers that must have been observed.

    Source:
        Manski (2003), "Partial Identification of Probability Distributions", chapter 1; Imbens &
        Manski (2004), Econometrica 72(6), 1845-1857, section 4; Clopper & Pearson (1934),
        Biometrika 26(4); Kish (1965), "Survey Sampling", section 8.2; Korn & Graubard (1998),
        Survey Methodology 24(2), for an interval of a proportion at an effective sample size and
        few clusters; Saerndal, Swensson & Wretman (1992), section 5.6, for the ratio.
    """
    coverage = moments.coverage
    if coverage is None or coverage < least_coverage or moments.judged < 1:
        return None
    if moments.scored <= 0:
        return None
    observed = _case(moments, None)
    low = high = observed
    if moments.missing > 0:
        low, high = _case(moments, 0.0), _case(moments, 1.0)
    # Of those that could not be drawn or are on their way nothing is known, nor was it sampled.
    unseen = moments.uncovered + moments.pending
    known = low.scored / (low.scored + unseen)
    width = known * high.mean + (1 - known) - known * low.mean
    tail = _tail(width, known * max(low.error, high.error))
    lower, upper = known * low.quantile(tail), known * high.quantile(1 - tail) + (1 - known)
    return Estimate(
        mean=observed.mean,
        lower=min(observed.mean, lower),
        upper=max(observed.mean, upper),
        effective_n=observed.effective_n,
        coverage=coverage,
        efficiency=observed.effect,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """A mean in one case of what the missing verdicts would have been."""

    mean: float
    scored: float
    """Pseudo-outcomes of being scored that it rests on."""
    effective_n: float
    effect: float
    """Design effect."""

    @property
    def error(self) -> float:
        """Standard error, of a mean half an answer away from 0 and 1 at least."""
        near = min(max(self.mean, 0.5 / self.effective_n), 1 - 0.5 / self.effective_n)
        return math.sqrt(max(0.0, near * (1 - near)) / self.effective_n)

    def quantile(self, probability: float) -> float:
        """Return the end of Clopper and Pearson's interval that leaves so much below it."""
        hits = self.mean * self.effective_n
        misses = self.effective_n - hits
        if probability < 0.5:
            return beta_quantile(probability, hits, misses + 1)
        return beta_quantile(probability, hits + 1, misses)


def _case(moments: Moments, missing: float | None) -> _Mean:
    """Return the mean if every missing verdict had this value; None: without them."""
    count = 0.0 if missing is None else moments.missing_count
    as_value = missing or 0.0
    lost = 0.0 if missing is None else moments.missing
    value, scored = moments.value + as_value * lost, moments.scored + lost
    mean = min(1.0, max(0.0, value / scored))
    n = moments.judged + count
    hits = moments.judged_value + as_value * count
    variance, freedom = _variance(moments, missing, mean)
    near = min(max(mean, 0.5 / n), 1 - 0.5 / n) if n > 1 else 0.5
    seen = variance / scored**2 * n / (near * (1 - near))
    predicted = _predicted(moments, count) * _clustering(moments)
    predicted *= _dispersion(n, hits / n, (moments.judged_value_squared + as_value * count) / n)
    rarer = max(0.0, min(hits, n - hits))
    if seen < predicted:
        # Bad answers that were all but certain to be drawn say nothing of how widely those vary
        # that stand for many: each counts by its weight, relative to the usual one.
        rarer = min(rarer, min(mean, 1 - mean) * n / _weighting(moments))
    effect = (rarer * seen + MODEL_TRUST * predicted) / (rarer + MODEL_TRUST)
    effect = max(LEAST_DESIGN_EFFECT, effect)
    return _Mean(
        mean=mean,
        scored=scored,
        # Few groups say little of the variance between them: as if there were fewer answers.
        effective_n=n / effect * (Z95 / t_quantile(freedom)) ** 2,
        effect=effect,
    )


def _variance(moments: Moments, missing: float | None, mean: float) -> tuple[float, float]:
    """Return the variance of the sum of what answers are off the mean, and its degrees of freedom.

    Answers without a session stand each for itself; of those with one it is the variance between
    the totals of the random groups.
    """
    m = moments
    value_value, value_scored, scored_scored = m.value_value, m.value_scored, m.scored_scored
    if missing is not None:
        value_scored += m.missing_value
        scored_scored += 2 * m.missing_scored + m.missing_squared
        if missing:
            value_value += 2 * m.missing_value + m.missing_squared
            value_scored += m.missing_scored + m.missing_squared
    alone = max(0.0, value_value - 2 * mean * value_scored + mean**2 * scored_scored)
    if not any(m.groups):
        return alone, math.inf
    of_value = 0.0 if missing is None else missing - mean
    rows = [m.groups[at : at + GROUP_SUMS] for at in range(0, len(m.groups), GROUP_SUMS)]
    off = [value - mean * scored + of_value * lost for value, scored, lost in rows]
    count = len(off)
    centre = math.fsum(off) / count
    between = math.fsum((each - centre) ** 2 for each in off) * count / (count - 1)
    if between <= 0:
        return alone, math.inf
    used = sum(1 for row in rows if any(row))
    # Multiplied, since a power that is too large raises an error: it is infinite.
    ratio = (alone + between) / between
    return alone + between, max(1, used - 1) * ratio * ratio


def _weighting(moments: Moments) -> float:
    """Return Kish's effect of unequal weights; 1 where they are equal."""
    return moments.drawn_squared * moments.drawn_count / moments.drawn**2


def _predicted(moments: Moments, missing_count: float) -> float:
    """Return the design effect that the predictions alone imply.

    Of answers without a prediction, and of missing verdicts, which nothing predicts: Kish's effect
    of unequal weights, 1 where they are equal.
    """
    kish = _weighting(moments)
    if moments.expected_scored <= 0:
        return kish
    expected = min(max(moments.expected / moments.expected_scored, 1e-6), 1 - 1e-6)
    # Of each answer that was predicted, as if all had been: the first ones were not, and may have
    # been drawn at quite other probabilities, so that theirs is Kish's.
    variance = moments.expected_variance / moments.expected_scored / moments.scored
    predicted = variance * moments.judged / (expected * (1 - expected))
    missing_share = missing_count / (moments.judged + missing_count)
    share = (1 - missing_share) * min(1.0, moments.expected_scored / moments.scored)
    return share * predicted + (1 - share) * kish


def _clustering(moments: Moments) -> float:
    """Return the design effect of sessions at the correlation that is taken for granted.

    The size of a session, as it counts for the variance, follows from how unequal the random
    groups are: a group's answers vary as if they came by so many at once.

    Source:
        Kish (1965), "Survey Sampling", section 5.4: 1 + correlation (size - 1).
    """
    sizes = moments.groups[1::GROUP_SUMS]
    centre = math.fsum(sizes) / max(1, len(sizes))
    if centre <= 0:
        return 1.0
    size = math.fsum((each - centre) ** 2 for each in sizes) / (len(sizes) - 1) / centre
    judged = size * moments.judged / moments.answers
    return 1 + SESSION_CORRELATION * max(0.0, judged - 1)


def _dispersion(n: float, mean: float, mean_square: float) -> float:
    """Return how widely scores spread, of how widely 0 and 1 of the same mean would; 0 to 1.

    1 for a share. Few scores tell little of it: it is drawn towards 1, as if five more had shown
    that.
    """
    most = mean * (1 - mean)
    if most <= 0:
        return 1.0
    seen = min(1.0, max(0.0, mean_square - mean**2) / most)
    return (n * seen + MODEL_TRUST) / (n + MODEL_TRUST)


def _tail(width: float, error: float) -> float:
    """Return the tail to leave out at each end of an interval of a mean known to within `width`.

    It solves Phi(C + width / error) - Phi(-C) = 95 % for C: 2.5 % where the width is 0, and 5 %
    where it is so wide that the truth cannot be near both ends.

    Source:
        Imbens & Manski (2004), Econometrica 72(6), equation (7).
    """
    if width <= 0 or error <= 0:
        return TAIL
    low, high = _NORMAL.inv_cdf(1 - 2 * TAIL), Z95
    for _ in range(30):
        middle = (low + high) / 2
        if _NORMAL.cdf(middle + width / error) - _NORMAL.cdf(-middle) < 1 - 2 * TAIL:
            low = middle
        else:
            high = middle
    return _NORMAL.cdf(-high)


def clopper_pearson(hits: float, n: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a share.

    Args:
        hits: How many were seen.
        n: Of how many, above 0; effective ones, if their weights differ.

    Source:
        Clopper & Pearson (1934), Biometrika 26(4).
    """
    misses = n - hits
    return beta_quantile(TAIL, hits, misses + 1), beta_quantile(1 - TAIL, hits + 1, misses)


def t_quantile(freedom: float, tail: float = TAIL) -> float:
    """Return the quantile of Student's t distribution that leaves so much above it; 97.5 %.

    Args:
        freedom: Degrees of freedom, 1 or more; infinite: the normal distribution's.
        tail: What it leaves above; below one half.

    Source:
        The t distribution's tail as a regularised incomplete beta: NIST Digital Library of
        Mathematical Functions, 8.17, with x = freedom / (freedom + t^2).
    """
    if freedom > 1e6:
        return Z95 if tail == TAIL else _NORMAL.inv_cdf(1 - tail)
    x = beta_quantile(2 * tail, freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)
