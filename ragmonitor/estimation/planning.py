"""Plans by a number of verdicts: how wide intervals will be, how long alarms will take.

Explicit formulas, for planning a budget; nothing here takes part in an estimate or an alarm. They
hold for yes-or-no signals whose verdicts come evenly, and leave sessions out of account.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.estimation.alarm_streams import FIRST_SHARE
from ragmonitor.estimation.detector import DAY_S, MAX_RISK, MULTIPLES, STEP_MOST_S, WEIGHTS
from ragmonitor.estimation.interval import LEAST_DESIGN_EFFECT, clopper_pearson
from ragmonitor.estimation.signals import HALLUCINATION

HOURS_PER_DAY: Final = 24.0
_MIN_SHAPE: Final = 0.7
"""A part of the mixture that hardly grows would begin from anything, given for ever; an alarm does
not wait for that. Against the detector itself this keeps delays within a third of the truth."""
_HALVINGS: Final = 60
_EVEN: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One alarm, as its series show it."""

    objective: float
    """The highest mean that is accepted; above 0 and below 1."""
    mean: float
    """The mean as it is now."""
    threshold_days: float
    """Where it is raised."""
    share: float = 1.0
    """The share of the false alarms: evidence is shown times this."""
    evidence_days: float = 0.0
    """The evidence as it is shown now."""
    max_importance_weight: float = 1.0
    """2 where inclusion probabilities vary."""


def share_of(signal: str, signals: Collection[str]) -> float:
    """Return the share of the false alarms that a signal has among those that are watched."""
    others = len(set(signals) - {HALLUCINATION})
    if signal == HALLUCINATION:
        return FIRST_SHARE if others else 1.0
    return (1 - FIRST_SHARE * (HALLUCINATION in signals)) / max(1, others)


def delay_hours(watched: Watched, *, mean: float, bets_per_hour: float) -> float:
    """Return how long an alarm takes on average, once the mean has become `mean`.

    Part k of the mixture has the update size b_k. Of the logarithm of what one update multiplies
    its evidence by, g_k is the mean and s_k^2 the variance under `mean`:

        g = q ln(1 + b (1 - p0)) + (1 - q) ln(1 - b p0)

    After n updates its evidence is about `start_k exp(g_k n)`, and the alarm comes where those of
    all parts together reach the threshold. Each update brings d = (days since the last) times its
    weight of new evidence to each part. What was there from before the change, and what came since,
    both grow by every update that follows; the sum over when they came is, for a random walk with
    drift, the reciprocal of a gamma variable, whose mean logarithm gives

        start = d (2 / s^2) exp(-psi(2 |g| / s^2)),

    once with g and s under the mean as it was (where g < 0), once under what it has become. Against
    the detector itself the result is between 0.9 and 1.4 times the mean delay, for 10 to 3,000
    updates an hour and twice to four times an objective of 2 to 15 %
    (`pytest tests/unit/estimation/test_planning.py`).

    Args:
        watched: The alarm as it stands.
        mean: What the mean becomes, 0 to 1, on the scale where 1 is bad.
        bets_per_hour: Verdicts with a value.

    Returns:
        Hours; infinite where no part of the mixture grows, or nothing is judged.

    Source:
        Dufresne (1990), Scandinavian Actuarial Journal 1990(1), for the law of the sum over a
        geometric Brownian motion; the detector's sources stand with it.
    """
    if bets_per_hour <= 0 or not 0 < mean <= 1:
        return math.inf
    line = watched.threshold_days / watched.share
    fresh = min(STEP_MOST_S / DAY_S, 1 / (HOURS_PER_DAY * bets_per_hour))
    shown = watched.evidence_days / watched.share
    most = MAX_RISK / (watched.objective * watched.max_importance_weight)
    parts: list[tuple[float, float]] = []
    for multiple, weight in zip(MULTIPLES, WEIGHTS, strict=True):
        update = min((multiple - 1) / (1 - watched.objective), most)
        growth, variance = _growth(update, watched.objective, mean)
        if growth <= 0:
            continue
        start = weight * fresh * _sum(growth, variance)
        fall, spread = _growth(update, watched.objective, watched.mean)
        before = weight * fresh * _sum(-fall, spread) if fall < 0 else 0.0
        parts.append((start + max(weight * shown, before), growth))
    return _bets_until(line, parts) / bets_per_hour


def _growth(update: float, objective: float, mean: float) -> tuple[float, float]:
    """Return the mean and the variance of the logarithm of what one update multiplies by."""
    won, lost = math.log1p(update * (1 - objective)), math.log1p(-update * objective)
    return mean * won + (1 - mean) * lost, mean * (1 - mean) * (won - lost) ** 2


def _sum(growth: float, variance: float) -> float:
    """Return the sum over updates of exp(-(growth so far)), by its mean logarithm."""
    if variance <= 0:
        return 1 / -math.expm1(-growth)
    shape = max(_MIN_SHAPE, 2 * growth / variance)
    # Bets are steps, of which Brownian motion knows nothing: the sum has its newest term whole.
    return max(1.0, 2 / variance * math.exp(-digamma(shape)))


def _bets_until(line: float, parts: Sequence[tuple[float, float]]) -> float:
    """Return the number of updates after which parts of `start, growth` reach a threshold."""
    if not parts:
        return math.inf
    if sum(start for start, _ in parts) >= line:
        return 1.0
    low, high = 0.0, min(math.log(max(1.0, line / start)) / growth for start, growth in parts)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if sum(start * math.exp(growth * middle) for start, growth in parts) < line:
            low = middle
        else:
            high = middle
    return max(1.0, high)


def digamma(x: float) -> float:
    """Return the logarithmic derivative of the gamma function, for x above 0.

    Source:
        NIST Digital Library of Mathematical Functions, 5.5.2 (recurrence) and 5.11.2 (series).
    """
    below = 0.0
    while x < 6:
        below -= 1 / x
        x += 1
    return below + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)


def judged_in(window_hours: float, per_hour: float) -> float:
    """Return the number of judged answers in a window that is filled."""
    return per_hour * window_hours


def design_effect(rate: float, *, seen: float, seen_at: float) -> float:
    """Return the design effect at another sampling rate than that at which one was seen.

    A pseudo-outcome varies as the value itself does, and as its residual, times 1 / rate - 1; so
    relative to a plain random sample of the judged answers the effect is `rate + (1 - rate) r`,
    with r the residual's share of the variance: 1 for a built-in judge's score that says nothing.

    Args:
        rate: Above 0 and up to 1.
        seen: The effect, as `ragmonitor_sampling_efficiency` shows it.
        seen_at: The sampling rate there.
    """
    residual = 1.0 if seen_at >= 1 - _EVEN else (seen - seen_at) / (1 - seen_at)
    return max(LEAST_DESIGN_EFFECT, rate + (1 - rate) * max(0.0, residual))


def half_width(mean: float, effective_n: float) -> float:
    """Return half the width of the 95 % interval of a mean, 0 to 0.5."""
    if effective_n <= 0:
        return 0.5
    lower, upper = clopper_pearson(min(1.0, max(0.0, mean)) * effective_n, effective_n)
    return (upper - lower) / 2
