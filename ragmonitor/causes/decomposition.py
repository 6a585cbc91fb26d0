"""Splits a rise into what goes with a slice and with the mix of the traffic, with errors.

A rate R is the sum of p_v r_v over the parts v of the traffic, p_v being a part's share and r_v its
rate. So a rise from before to now is, exactly, the sum of

    rate part   (p_v before + p_v now) / 2 * (r_v now - r_v before)     over v, and
    mix part    (p_v now - p_v before) * (r_v before + r_v now) / 2     over v.

Source:
    Kitagawa (1955), "Components of a difference between two rates", JASA 50(272), equation (5); the
    same as Oaxaca's and Blinder's (1973) of a regression on the parts alone. The error: Wolter,
    "Introduction to Variance Estimation" (2007), section 4.2 (the jackknife that leaves out one
    random group); of a ratio: Fieller (1954), JRSS B 16(2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ragmonitor.causes.answer_log import Row
from ragmonitor.records import Estimate
from ragmonitor.stats.beta import TAIL, clopper_pearson, t_quantile
from ragmonitor.stats.interval import TRUST

MIN_BEFORE: Final = 20
"""Judged answers before the rise below which a part of the traffic counts as new."""
GROUPS: Final = 20
"""Random groups of sessions, else of answers, that errors are worked out from."""
_LEAST: Final = 1e-9


class Totals(NamedTuple):
    """Sums over the answers of one period: how many the signal applies to, and their badness."""

    scored: float
    bad: float

    @property
    def rate(self) -> float | None:
        """Their ratio, 0 to 1; None: it applies to none."""
        return min(1.0, max(0.0, self.bad / self.scored)) if self.scored > _LEAST else None


Periods = tuple[Totals, Totals]
"""Before, and since."""


class Contribution(NamedTuple):
    """The contribution of an answer to the sums of every part of the traffic that it belongs to."""

    period: int
    """0: before; 1: since."""
    place: int
    """The place of the sums of its period and random group."""
    scored: float
    """Its pseudo-outcome of being scored, times the answers that it stands for."""
    bad: float
    """Its pseudo-outcome of badness, likewise."""
    value: float | None
    """Its badness, 0 to 1; None: not judged, or the signal does not apply."""
    weight: float
    """The weight of its verdict."""


def contribution(
    row: Row, *, since: bool, value: float | None, predicted: tuple[float, float]
) -> Contribution:
    """Return what an answer adds.

    Args:
        row: The answer.
        since: Whether it belongs to the second period.
        value: Its badness, 0 to 1; None: not judged, or the signal does not apply.
        predicted: Chance that the signal applies, and the badness if it does.
    """
    scored = predicted[0]
    bad = scored * predicted[1]
    if row.values and row.weight > 0:
        bad += row.weight * ((value or 0.0) - bad)
        scored += row.weight * ((value is not None) - scored)
    else:
        value = None
    place = 2 * (GROUPS * since + row.cluster % GROUPS)
    weight = row.copies * row.weight
    return Contribution(int(since), place, row.copies * scored, row.copies * bad, value, weight)


class PartSums:
    """Sums over the answers of one part of the traffic, before a time and since.

    What is summed are the pseudo-outcomes of `estimation.sums`, of being scored and of badness.
    """

    __slots__ = ("hits", "judged", "sums", "weight", "weight_squared")

    def __init__(self) -> None:
        """Begin without an answer."""
        self.sums = [0.0] * (4 * GROUPS)
        """The sums by period, random group, and (scored, bad)."""
        self.judged = [0, 0]
        self.hits = [0.0, 0.0]
        self.weight = [0.0, 0.0]
        self.weight_squared = [0.0, 0.0]

    def add(self, of: Contribution) -> None:
        """Take in one answer."""
        period, place, scored, bad, value, weight = of
        sums = self.sums
        sums[place] += scored
        sums[place + 1] += bad
        if value is not None:
            self.judged[period] += 1
            self.hits[period] += value
            self.weight[period] += weight
            self.weight_squared[period] += weight * weight

    @property
    def is_new(self) -> bool:
        """Whether there were hardly any judged answers before."""
        return self.judged[0] < MIN_BEFORE

    def periods(self, without: int = -1) -> Periods:
        """Return the totals before and since, without one random group; -1: with all."""
        sums = self.sums
        found = []
        for begin in (0, 2 * GROUPS):
            scored = math.fsum(sums[begin : begin + 2 * GROUPS : 2])
            bad = math.fsum(sums[begin + 1 : begin + 2 * GROUPS : 2])
            if without >= 0:
                scored -= sums[begin + 2 * without]
                bad -= sums[begin + 2 * without + 1]
            found.append(Totals(scored, bad))
        return found[0], found[1]

    def estimate(self, since: bool) -> Estimate | None:
        """Return the mean badness of a period with its 95 % interval; None: too little is known.

        Clopper and Pearson's at an effective sample size, as `estimation.interval` has it; the
        design effect comes from the random groups.
        """
        n = self.judged[since]
        mean = self.periods()[since].rate
        if not n or mean is None:
            return None
        means = [self.periods(group)[since].rate for group in range(GROUPS)]
        variance = _covariance([mean if each is None else each for each in means])
        near = min(max(mean, 0.5 / n), 1 - 0.5 / n) if n > 1 else 0.5
        seen = variance * n / (near * (1 - near))
        kish = self.weight_squared[since] * n / self.weight[since] ** 2
        rarer = max(0.0, min(self.hits[since], n - self.hits[since]))
        size = n / ((rarer * seen + TRUST * kish) / (rarer + TRUST))
        lower, upper = clopper_pearson(mean * size, size)
        return Estimate(mean=mean, lower=min(mean, lower), upper=max(mean, upper), effective_n=size)


class Share(NamedTuple):
    """A share of the rise, with its 95 % interval; None: the rise is too uncertain for one."""

    value: float
    lower: float | None
    upper: float | None


def rise(everything: Periods) -> float:
    """Return by how much the rate has risen; 0 where one of the two is not known."""
    before, now = everything[0].rate, everything[1].rate
    return 0.0 if before is None or now is None else now - before


def _rest(everything: Periods, part: Periods) -> Periods:
    first, second = (
        Totals(of_all.scored - own.scored, of_all.bad - own.bad)
        for of_all, own in zip(everything, part, strict=True)
    )
    return first, second


def rate_part(everything: Periods, part: Periods, *, is_new: bool) -> float:
    """Return what a part's own rate adds to the rise: `p_v (r_v now - r_v before)`, as above.

    Args:
        everything: Totals of all answers.
        part: Totals of the part.
        is_new: It had hardly any answers before. Then it is its share now times by how much it is
            worse than the rest.
    """
    shares = [
        own.scored / max(_LEAST, each.scored) for each, own in zip(everything, part, strict=True)
    ]
    before, now = part[0].rate, part[1].rate
    if now is None:
        return 0.0
    if is_new or before is None:
        rest = _rest(everything, part)[1].rate
        return 0.0 if rest is None else shares[1] * (now - rest)
    return (shares[0] + shares[1]) / 2 * (now - before)


def share_of_rise(
    everything: PartSums,
    parts: Sequence[PartSums],
    of: Callable[[Periods, Sequence[Periods]], float],
    *,
    tail: float = TAIL,
) -> Share | None:
    """Return which share of the rise a component is; None: nothing rose.

    Args:
        everything: All answers.
        parts: What the component is worked out from.
        of: Returns it.
        tail: What the interval leaves out at each end.
    """

    def both(without: int) -> tuple[float, float]:
        whole = everything.periods(without)
        return of(whole, [each.periods(without) for each in parts]), rise(whole)

    component, whole = both(-1)
    if whole <= 0:
        return None
    ours, theirs = zip(*(both(group) for group in range(GROUPS)), strict=True)
    quantile = t_quantile(GROUPS - 1, tail)
    bounds = _fieller(component, whole, quantile, _covariances(ours, theirs))
    return Share(component / whole, *(bounds or (None, None)))


def _covariance(left: Sequence[float], right: Sequence[float] | None = None) -> float:
    """Return the jackknife's covariance of two estimates, each without one of the groups."""
    right = left if right is None else right
    count = len(left)
    centres = math.fsum(left) / count, math.fsum(right) / count
    return (
        (count - 1)
        / count
        * math.fsum((a - centres[0]) * (b - centres[1]) for a, b in zip(left, right, strict=True))
    )


def _covariances(left: Sequence[float], right: Sequence[float]) -> tuple[float, float, float]:
    return _covariance(left), _covariance(left, right), _covariance(right)


def _fieller(
    above: float, below: float, quantile: float, covariances: tuple[float, float, float]
) -> tuple[float, float] | None:
    """Return the ends of the interval of a ratio; None: the denominator may be 0."""
    own, shared, others = (quantile**2 * each for each in covariances)
    a, b, c = below**2 - others, above * below - shared, above**2 - own
    if a <= 0:
        return None
    root = math.sqrt(max(0.0, b * b - a * c))
    return (b - root) / a, (b + root) / a
