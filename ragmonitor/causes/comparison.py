"""Two versions compared live: sums that add up over processes, and a confidence sequence of them.

Of each answer there are two pseudo-outcomes, of the signal's value and of "the signal applies", as
in `estimation.sums`. A version's mean is the ratio of their sums. What is kept of a version are
eleven sums, which add up over processes and over time, so that the same formula reads the state of
a monitor, a folder that processes share, and Prometheus' counters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.causes.signal_names import Language, difference, is_share, number, signal_name

FIELDS: Final = (
    *("answers", "uncovered", "judged", "drawn", "missing"),
    *("value", "scored", "value_value", "value_scored", "scored_scored"),
)
"""Answers that had a chance to be judged; those that had none; judged ones to which the signal
applies; drawn ones, and those of them without a verdict, by 1 / inclusion probability; the
pseudo-outcomes of the value and of being scored; and their products, each of one session's sums."""
_PLACE: Final = {name: place for place, name in enumerate(FIELDS)}

ALPHA: Final = 0.05
BEST_AT: Final = 200.0
"""Judged answers of a version at which the interval is as narrow as it can be."""
RHO_SQUARED: Final = (-2 * math.log(ALPHA) + math.log(-2 * math.log(ALPHA)) + 1) / BEST_AT
MIN_JUDGED: Final = 20
"""Judged answers of each version below which nothing is decided."""
MIN_COVERAGE: Final = 0.9
"""Share of each version's answers that must have been observed for a decision."""

Decision = Literal["better", "equivalent", "worse", "undecided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean of one version, with its variance."""

    mean: float
    variance: float
    """The variance of the mean."""
    judged: float
    coverage: float
    """Share of the answers that were observed, 0 to 1."""
    answers: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference of two versions' means, candidate less baseline."""

    candidate: Mean
    baseline: Mean
    difference: float
    lower: float
    """Lower end of the 95 % confidence sequence: it holds at every moment at once."""
    upper: float
    e_value: float
    """Evidence against "no difference": at least 20 with a chance of 1/20 at most if there is
    none, however often one looks."""

    @property
    def is_observed(self) -> bool:
        """Whether there are verdicts enough of both versions to decide anything."""
        both = (self.candidate, self.baseline)
        return all(each.judged >= MIN_JUDGED and each.coverage >= MIN_COVERAGE for each in both)

    def said(self, signal: str) -> str:
        """Return the difference in words, with its interval."""
        return (
            f"{signal} {self.candidate.mean:.3g} instead of {self.baseline.mean:.3g}, a difference "
            f"of {self.difference:+.3g} [{self.lower:+.3g}, {self.upper:+.3g}] by "
            f"{self.candidate.judged:.0f} and {self.baseline.judged:.0f} judged answers"
        )

    def told(self, signal: str, baseline: str, language: Language) -> str:
        """Return the difference in a sentence for people, shares in percent."""
        name = signal_name(signal, language)
        new, old = (number(each.mean, signal) for each in (self.candidate, self.baseline))
        gap, lower, upper = (
            difference(each, signal) for each in (self.difference, self.lower, self.upper)
        )
        judged = f"{self.candidate.judged:.0f}", f"{self.baseline.judged:.0f}"
        if language == "zh":
            return (
                f"与 {baseline} 相比：{name}为 {new}，而非 {old}，相差 {gap} [{lower}, {upper}]"
                f"{'（百分点）' if is_share(signal) else ''}，依据已评审回答 {judged[0]} 条与 "
                f"{judged[1]} 条。"
            )
        points = " points" if is_share(signal) else ""
        return (
            f"Compared with {baseline}: {name} {new} instead of {old}, a difference of {gap} "
            f"[{lower}, {upper}]{points} by {judged[0]} and {judged[1]} judged answers."
        )

    def decision(self, max_worse: float, *, higher_is_better: bool = False) -> Decision:
        """Return what may be said for certain, but for 1 candidate in 20, whenever one looks.

        Args:
            max_worse: So much worse is still equivalent, on the signal's own scale; 0 or more.
            higher_is_better: The signal is the better the higher it is.
        """
        if not self.is_observed:
            return "undecided"
        worst, best = self.upper, self.lower
        if higher_is_better:
            worst, best = -self.lower, -self.upper
        if worst < 0:
            return "better"
        if worst <= max_worse:
            return "equivalent"
        return "worse" if best > max_worse else "undecided"


def mean_of(sums: Sequence[float], *, is_share: bool = True) -> Mean | None:
    """Return a version's mean with its variance; None: no verdict says anything of it.

    Few bad answers say little of the variance, and none would say that it is 0: one answer more of
    the rarer kind, of usual weight, is added to what was seen.

    Args:
        sums: In the order of `FIELDS`.
        is_share: The signal lies between 0 and 1.

    Source:
        Saerndal, Swensson & Wretman, "Model Assisted Survey Sampling" (1992), section 5.6, for the
        variance of a ratio.
    """
    answers, uncovered, judged, drawn, missing, y, d, yy, yd, dd = sums
    if judged < 1 or d <= 0:
        return None
    mean = y / d
    spread = max(0.0, yy - 2 * mean * yd + mean * mean * dd)
    if is_share:
        mean = min(1.0, max(0.0, mean))
        weight = max(1.0, drawn / judged)
        spread += (weight * max(mean, 1 - mean)) ** 2
    else:
        spread *= (judged + 1) / judged
    seen = (drawn - missing) / drawn if drawn > 0 else 1.0
    return Mean(
        mean=mean,
        variance=spread / (d * d),
        judged=judged,
        coverage=seen * answers / (answers + uncovered),
        answers=answers + uncovered,
    )


def compare(
    candidate: Sequence[float],
    baseline: Sequence[float],
    *,
    alpha: float = ALPHA,
    is_share: bool = True,
) -> Comparison | None:
    """Return the difference of two means with a confidence sequence; None: too little is known.

    The interval holds at all times at once, with probability 1 - alpha, so it may be looked at
    after each answer and acted on at once. Each mean has an asymptotic e-process, Robbins' normal
    mixture over its standardised deviation; of the two, which different answers feed, the product
    is one as well. With t judged answers and the variance v of a mean, it is less than 1 / alpha
    where

        e_c^2 / (2 u_c) + e_b^2 / (2 u_b) < ln(1 / alpha) + ln((1 + t_c r) (1 + t_b r)) / 2,
        u = v (1 + t r) / (t r),

    an ellipse of the two errors, whose shadow on their difference is the interval. How the traffic
    is divided over the versions may change with time.

    Args:
        candidate: Its sums, in the order of `FIELDS`.
        baseline: Likewise.
        alpha: Chance that the interval ever misses the difference.
        is_share: The signal lies between 0 and 1.

    Source:
        Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, "Time-uniform central limit theory and
        asymptotic confidence sequences", Annals of Statistics 52(6) (2024), arXiv:2103.06476,
        theorem 2.2, and appendix B.2 for r; Robbins (1970), Annals of Mathematical Statistics
        41(5), for the mixture. The product of two is our own use of it.
    """
    new, old = mean_of(candidate, is_share=is_share), mean_of(baseline, is_share=is_share)
    if new is None or old is None:
        return None
    spread, logs = 0.0, 0.0
    for each in (new, old):
        time = each.judged * RHO_SQUARED
        spread += each.variance * (1 + time) / time
        logs += math.log1p(time)
    difference = new.mean - old.mean
    half = math.sqrt(spread * (logs - 2 * math.log(alpha)))
    exponent = (difference**2 / spread - logs) / 2 if spread > 0 else 0.0
    low, high = (-1.0, 1.0) if is_share else (-math.inf, math.inf)
    return Comparison(
        candidate=new,
        baseline=old,
        difference=difference,
        lower=max(low, difference - half),
        upper=min(high, difference + half),
        e_value=math.exp(min(700.0, exponent)),
    )


def place(name: str) -> int:
    """Return where a sum of `FIELDS` stands."""
    return _PLACE[name]
