"""Corrects the judged rate by some people's labels: the rate that people would find."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.records import Estimate
from ragmonitor.stats.beta import Z95

MIN_LABELS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The verdicts of the judge and of a person on one answer."""

    interaction_id: str
    judged: bool
    """The judge found it hallucinated."""
    human: bool | None
    """A person does; None: nobody has said anything, or nobody can tell."""
    at_s: float
    """The time when it was answered, in seconds since the epoch."""
    chance: float = 1.0
    """Inclusion probability of the answer; above 0, up to 1."""
    drawn_from: int = 1
    """The number of answers of this verdict that it was drawn among."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the labelled answers, with its 95 % interval."""

    mean: float
    lower: float
    upper: float
    labels: int
    effective_n: float
    """The number of answers with equal chances that would tell as much."""


def wilson(mean: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    Args:
        mean: The share that was seen.
        n: Of how many; effective ones, if their weights differ.

    Source:
        Wilson (1927), "Probable inference", JASA 22(158).
    """
    shrink = 1 + Z95**2 / n
    centre = (mean + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def hallucinated_share(labels: Iterable[Label], *, judged: bool) -> Share | None:
    """Return how many answers of one verdict people find hallucinated; None: none is labelled.

    With `judged` that is the judge's precision (PPV), without it is what it overlooks (FOR, the
    false omission rate). Answers that were judged with a smaller chance stand for more of their
    kind: each label weighs 1 / chance (Hajek's mean), and the interval is Wilson's at Kish's
    effective number, (sum of weights)^2 / sum of their squares.
    """
    kind = [label for label in labels if label.judged is judged]
    if not kind:
        return None
    weights = [1 / label.chance for label in kind]
    total = math.fsum(weights)
    n = total**2 / math.fsum(weight**2 for weight in weights)
    hits = math.fsum(weight for weight, label in zip(weights, kind, strict=True) if label.human)
    mean = min(1.0, hits / total)
    lower, upper = wilson(mean, n)
    return Share(mean=mean, lower=lower, upper=upper, labels=len(kind), effective_n=n)


def combined(rate: Estimate, precision: Share, omission: Share) -> Estimate:
    """Return rate * precision + (1 - rate) * omission, with its interval.

    Each of the three is estimated from draws of its own, so the squares of what each may be off by
    add up; the distances of an interval's own ends stand for the deviations, since few hits make
    it lopsided (MOVER, the method of variance estimates recovery). The more the rate can be off
    upwards, the more the result is, as long as the judge is better than a coin; if not it is the
    other way round.

    Source:
        Zou & Donner (2008), "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 27(10), equations 5 and 6, for sums; applied here to the
        linear terms of the two products.
    """

    def at(judged: float) -> float:
        return judged * precision.mean + (1 - judged) * omission.mean

    mean, slope = at(rate.mean), precision.mean - omission.mean
    of_rate = (slope * (rate.mean - rate.lower), slope * (rate.upper - rate.mean))
    below, above = of_rate if slope >= 0 else (-of_rate[1], -of_rate[0])
    lower = mean - math.hypot(
        rate.mean * (precision.mean - precision.lower),
        (1 - rate.mean) * (omission.mean - omission.lower),
        below,
    )
    upper = mean + math.hypot(
        rate.mean * (precision.upper - precision.mean),
        (1 - rate.mean) * (omission.upper - omission.mean),
        above,
    )
    lower, upper = max(0.0, lower), min(1.0, upper)
    return Estimate(
        mean=mean,
        lower=lower,
        upper=upper,
        effective_n=_effective_n(lower, upper),
        coverage=rate.coverage,
    )


def _effective_n(lower: float, upper: float) -> float:
    """Return how many answers drawn at random and read by people give as narrow an interval.

    Of the share in the interval's middle: n = share (1 - share) (2 z / width)^2.
    """
    middle = (lower + upper) / 2
    return middle * (1 - middle) * (2 * Z95 / max(upper - lower, 1e-9)) ** 2


def corrected(rate: Estimate, labels: Sequence[Label]) -> Estimate | None:
    """Return the rate that people would find, from the judged rate and some people's labels.

    Two-phase estimation, stratified by the verdict: rate * PPV + (1 - rate) * FOR. Each stratum's
    labels have to be a random part of its judged answers; how many of each kind were labelled does
    not matter. Not Rogan and Gladen's (rate + specificity - 1) / (sensitivity + specificity - 1):
    it takes both from labelled answers of some other time, and is off by the whole of what the
    judge has changed since, where these labels, being of the same answers, notice it.

    Args:
        rate: The judged rate, with its interval.
        labels: Of this judge.

    Returns:
        None with fewer than 100 labels, or with none of one kind. `effective_n` is how many answers
        drawn at random and read by people would tell as much.

    Source:
        The problem: Lee et al. (2025), "How to Correctly Report LLM-as-a-Judge Evaluations",
        arXiv:2511.21140; it corrects by Rogan & Gladen (1978), American Journal of Epidemiology
        107(1). Two phases: Cochran, "Sampling Techniques", 3rd edition (1977), chapter 12.
        tests/property/test_labels.py measures bias and coverage, with a judge that drifts, too.
    """
    if len(labels) < MIN_LABELS:
        return None
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    if precision is None or omission is None:
        return None
    return combined(rate, precision, omission)
