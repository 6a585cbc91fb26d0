"""From the sums of a window to the mean of *all* its answers, with a 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragmonitor.records import Estimate
from ragmonitor.stats.beta import clopper_pearson, t_quantile
from ragmonitor.stats.sums import (
    ANSWERS,
    DRAWN,
    DRAWN2,
    EXPECTED,
    EXPECTED2,
    HEAD,
    HITS,
    JUDGED,
    LOST,
    SPREAD,
    SQUARES,
    UNCOVERED,
    VARIANCE_GROUPS,
)

TRUST: Final = 5.0
"""The number of bad answers that the implied design effect counts for."""
LEAST_EFFECT: Final = 0.05
SESSION_CORRELATION: Final = 0.1
"""The intraclass correlation that is assumed of sessions until verdicts say otherwise."""
MIN_COVERAGE: Final = 0.5


class Mean(NamedTuple):
    """The mean of a window, and how many of its answers it speaks of."""

    judged: float
    missing: float
    """Share of the drawn answers without a verdict: it failed, or is on its way."""
    uncovered: float
    """Share of the answers that could not be drawn."""
    estimate: Estimate | None
    """None: too little was observed."""

    @classmethod
    def of(cls, row: Sequence[float]) -> Mean | None:
        """Return what sums say; None: there were no answers."""
        if row[ANSWERS] < 0.5:
            return None
        gone = max(0.0, math.fsum(row[HEAD + 2 :: 3]))
        missing = min(1.0, gone / row[DRAWN]) if row[DRAWN] > 0 else 0.0
        return cls(row[JUDGED], missing, row[UNCOVERED] / row[ANSWERS], estimate(row))


def mean_of_scores(n: float, total: float, squares: float) -> Estimate | None:
    """Return the mean of scores that were all given, with its interval; None: there was none.

    Args:
        n: The number of scores, independent of each other.
        total: Their sum.
        squares: The sum of their squares.

    >>> found = mean_of_scores(4, 3.0, 3.0)
    >>> found.mean, round(found.lower, 2), round(found.upper, 2)
    (0.75, 0.19, 0.99)
    """
    if n < 1:
        return None
    mean = min(1.0, max(0.0, total / n))
    effect = design_effect(
        n=n,
        hits=total,
        squares=squares,
        mean=mean,
        variance=(squares / n - mean**2) / n,
        kish=1.0,
        implied=1.0,
    )
    lower, upper = clopper_pearson(mean * n / effect, n / effect)
    return Estimate(mean, min(mean, lower), max(mean, upper), n / effect, n)


class _Case(NamedTuple):
    """The mean if what was lost were so bad, and the effective number behind it."""

    mean: float
    n: float


def estimate(row: Sequence[float]) -> Estimate | None:
    """Return the mean with its interval; None: less than `MIN_COVERAGE` was observed.

    An answer is observed or it is not: a verdict that is on its way is as lost as one that failed,
    until it comes. The interval's lower end is for "all that was lost had been 0", its upper one
    for "1"; answers without a chance widen it by their share (Manski 2003).

    Valid for any chances that were fixed before the draw, any prediction from past verdicts, and
    sessions of any correlation, as far as 32 random groups of them are alike; simulated coverage is
    94 % or more (`tests/bench/core.py coverage`).

    Args:
        row: Sums of one series, in the order of `sums.ANSWERS` and those after it.

    Source:
        Wolter, "Introduction to Variance Estimation" (2007), chapter 2, for random groups; Korn &
        Graubard (1998), Survey Methodology 24(2), for Clopper and Pearson's interval at the
        effective number; Manski, "Partial Identification of Probability Distributions" (2003).

    >>> row = [0.0] * (HEAD + 3 * VARIANCE_GROUPS)
    >>> row[ANSWERS] = row[JUDGED] = row[DRAWN] = row[DRAWN2] = 320.0
    >>> row[HEAD + 1 :: 3] = [10.0] * VARIANCE_GROUPS
    >>> found = estimate(row)
    >>> found.mean, round(found.upper, 3), found.coverage
    (0.0, 0.012, 1.0)
    """
    known, gone = math.fsum(row[HEAD + 1 :: 3]), max(0.0, math.fsum(row[HEAD + 2 :: 3]))
    if known <= 0 or row[JUDGED] < 1:
        return None
    everything = known + gone + row[UNCOVERED]
    if known / everything < MIN_COVERAGE:
        return None
    observed = _case(row, None)
    low = high = observed
    if row[LOST] > 0.5:
        low, high = (_case(row, bad) for bad in (0.0, 1.0))
    share = (known + gone) / everything
    lower, _ = clopper_pearson(low.mean * low.n, low.n)
    _, upper = clopper_pearson(high.mean * high.n, high.n)
    return Estimate(
        observed.mean,
        min(observed.mean, share * lower),
        max(observed.mean, share * upper + 1 - share),
        observed.n,
        row[JUDGED],
        known / everything,
    )


def _case(row: Sequence[float], bad: float | None) -> _Case:
    """Return mean and effective number if what was lost were so bad; None: without it."""
    values, scored, lost = (row[HEAD + each :: 3] for each in range(3))
    here, worth = (0.0, 0.0) if bad is None else (1.0, bad)
    value = math.fsum(values) + worth * math.fsum(lost)
    total = math.fsum(scored) + here * math.fsum(lost)
    mean = min(1.0, max(0.0, value / total))
    n, hits = row[JUDGED] + here * row[LOST], row[HITS] + worth * row[LOST]
    rest = [
        v + worth * x - mean * (s + here * x) for v, s, x in zip(values, scored, lost, strict=True)
    ]
    centre = math.fsum(rest) / VARIANCE_GROUPS
    spread = math.fsum((each - centre) ** 2 for each in rest) / (VARIANCE_GROUPS - 1)
    kish = max(row[DRAWN2], 0.0) * n / row[DRAWN] ** 2
    effect = design_effect(
        n=n,
        hits=hits,
        squares=row[SQUARES] + worth * row[LOST],
        mean=mean,
        variance=VARIANCE_GROUPS * spread / total**2,
        kish=kish,
        implied=_implied(row, scored, n, kish),
    )
    used = sum(1 for each in scored if each)
    return _Case(mean, n / effect * (1.959964 / t_quantile(max(1, used - 1))) ** 2)


def _implied(row: Sequence[float], scored: Sequence[float], n: float, kish: float) -> float:
    """Return the design effect that predictions, chances and the sizes of sessions imply."""
    implied = kish
    expected = row[EXPECTED] / row[ANSWERS]
    if 0 < expected < 1:
        variance = row[SPREAD] + row[EXPECTED2] - row[EXPECTED] ** 2 / row[ANSWERS]
        kept = row[JUDGED] / n
        by_prediction = variance / row[ANSWERS] ** 2 * row[JUDGED] / (expected * (1 - expected))
        implied = kept * by_prediction + (1 - kept) * kish
    mean_size = math.fsum(scored) / VARIANCE_GROUPS
    variance = math.fsum((each - mean_size) ** 2 for each in scored) / (VARIANCE_GROUPS - 1)
    # Long sessions show in how unequal the groups' sizes are.
    answers = variance / mean_size * n / row[ANSWERS]
    return implied * (1 + SESSION_CORRELATION * max(0.0, answers - 1))


def design_effect(
    *,
    n: float,
    hits: float,
    squares: float,
    mean: float,
    variance: float,
    kish: float,
    implied: float,
) -> float:
    """Return how many times as many values a mean needs as a mean of equal, independent ones.

    Few bad answers say little of the variance between groups, and none would say that it is 0. So
    the design effect is drawn towards the one that predictions, chances and sessions imply, as if
    `TRUST` bad answers more had shown that.

    Args:
        n: The number of values.
        hits: Their sum.
        squares: The sum of their squares.
        mean: Their weighted mean.
        variance: The variance of that mean, as it was seen.
        kish: The effect of unequal weights.
        implied: What else is known of the effect, of a signal of yes and no.
    """
    near = min(max(mean, 0.5 / n), 1 - 0.5 / n) if n > 1 else 0.5
    seen = max(0.0, variance) * n / (near * (1 - near))
    rate = hits / n
    if 0 < rate < 1:  # graded values have a share of the variance of yes and no
        share = min(1.0, max(0.0, squares / n - rate**2) / (rate * (1 - rate)))
        implied *= (n * share + TRUST) / (n + TRUST)
    rarer = max(0.0, min(hits, n - hits))
    if seen < implied:
        # Bad answers that were drawn for certain say nothing of those that stand for many.
        rarer = min(rarer, min(mean, 1 - mean) * n / kish)
    return max(LEAST_EFFECT, (rarer * seen + TRUST * implied) / (rarer + TRUST))
