"""A model of the sampled judge's verdicts, trusted as far as verdicts to come bear it out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, Final, NamedTuple, Self

from ragmonitor.estimation.answer_features import NAMES
from ragmonitor.records import Features, PredictionBasis

KEPT: Final = 2_000.0
"""The number of verdicts that are remembered: each later one makes earlier ones count a little
less."""
REFIT_EACH: Final = 50
RIDGE: Final = 4.0
RIDGE_OF_GROUPS: Final = 16.0
"""The cost of a coefficient: the reciprocal of its variance before any verdict. Groups of hashed
words and routes are many, and most of them mean nothing."""
MIN_CURVATURE: Final = 0.05
"""The least curvature of a verdict that was all but certain, so that one surprise cannot turn the
model over."""
MAX_SHIFT: Final = 4.0
"""The model may move the log odds of the untrained score so far."""
SHARES: Final = (0.25, 0.5, 1.0)
"""Shares of the model's shift, one of which is the best: few verdicts make large weights too
large."""
MAX_BEHIND: Final = 6.0
"""So many nats a share may fall behind the best one, so that it can catch up."""
PRIOR_ODDS: Final = 1 / 3
"""That the model knows more than the untrained score, before any verdict."""
MAX_ODDS: Final = 1_000.0
REVIVAL: Final = 1 / 20_000
"""Added to the odds at each verdict while the model is not trusted, since services change."""
MIN_SPREAD: Final = 1e-3
"""The least spread of the risk's log odds, relative to their mean square, for a known slope."""
_LEAST: Final = 1e-4
_SIZE: Final = len(NAMES)
_RIDGES: Final = tuple(RIDGE_OF_GROUPS if ", group " in name else RIDGE for name in NAMES)
_TRIANGLE: Final = _SIZE * (_SIZE + 1) // 2
_LOSSES: Final = 4


class _Trust(NamedTuple):
    """Says how far the model was borne out by verdicts that it had not seen."""

    odds: float = PRIOR_ODDS
    """That the learned score knows more than the untrained one."""
    is_trusted: bool = False
    behind: tuple[float, ...] = (0.0,) * len(SHARES)
    """The likelihood of each share of the shift relative to the best one's, in nats; up to 0."""
    share: float = sum(SHARES) / len(SHARES)
    """The mean of the shares by their likelihoods."""
    weight: float = 0.0
    """The weight of the learned score in the mixture."""

    @classmethod
    def of(cls, odds: float, behind: Sequence[float], *, is_trusted: bool) -> Self:
        """Return the trust with its share and weight."""
        likelihoods = [math.exp(each) for each in behind]
        share = sum(map(mul, SHARES, likelihoods)) / sum(likelihoods)
        weight = odds / (1 + odds) if is_trusted else 0.0
        return cls(odds, is_trusted, tuple(behind), share, weight)

    def after(self, gain: float, gains: Sequence[float]) -> _Trust:
        """Return the trust after one more verdict.

        Args:
            gain: How many nats the learned score lost less than the untrained one.
            gains: Of each share of the shift, likewise.
        """
        summed = [old + new for old, new in zip(self.behind, gains, strict=True)]
        best = max(summed)
        behind = [max(-MAX_BEHIND, each - best) for each in summed]
        odds = min(MAX_ODDS, self.odds * math.exp(gain))
        if self.is_trusted:
            return self.of(odds, behind, is_trusted=odds > PRIOR_ODDS)
        odds += REVIVAL
        return self.of(min(1.0, odds), behind, is_trusted=odds >= 1.0)


class LearnedScore:
    """Logistic regression on the features of answers, around the untrained score.

    The log odds of a bad verdict are those of the untrained, calibrated score plus a weighted sum
    of the features; before any verdict all weights are 0. A Gaussian prior with mean 0 draws them
    there. Each verdict adds one step of Fisher's scoring, taken at what was predicted of it: to
    the information matrix `w p (1 - p) x x'`, and to its right-hand side
    `w (p (1 - p) (logit p - logit u) + y - p) x`, with p the model's prediction before the verdict
    y, u the untrained one and w the importance weight. These are sums of what was recorded with
    each answer, so that those of several processes add up, in any order, and old ones fade.

    The log odds move by that share of the sum (a quarter, a half, all of it) which foretold
    verdicts best so far: its mean by the shares' likelihoods. Whether that is trusted at all
    follows from the odds that it knows more than the untrained score: the prior odds times the
    ratio of the likelihoods of verdicts that neither had seen. It is trusted once the odds
    are even, weighs `odds / (1 + odds)` in the mixture of both then, and is not trusted any more
    once they are back at the prior ones. Three things follow.

    - While it is not trusted the prediction is the untrained score itself, and so is the ranking.
    - Each time it is trusted, the mixture's summed loss is at most ln 2 above the untrained
      score's from then on, as of every Bayesian mixture that begins with even weights, and from
      any verdict on at most ln(1 + MAX_ODDS); so where each verdict is in before the next one
      is predicted, and about so where a few are under way.
    - Where the untrained chances are true, the odds are a supermartingale but for `REVIVAL`: the
      model is trusted at some time within n verdicts with a probability of at most
      PRIOR_ODDS + n REVIVAL (Ville's inequality).

    Source:
        Spiegelhalter & Lauritzen, "Sequential updating of conditional probabilities on directed
        graphical structures" (1990), Networks 20, section 4, for logistic regression learned by
        one Gaussian step a verdict; Dawid, "Present position and potential developments: the
        prequential approach" (1984), JRSS A 147, for judging by verdicts to come; Shafer, "Testing
        by betting" (2021), JRSS A 184, section 2, for ratios of likelihoods as evidence.
    """

    def __init__(self) -> None:
        self._information = [0.0] * _TRIANGLE
        """The lower triangle, row by row."""
        self._right = [0.0] * _SIZE
        self._losses = [0.0] * _LOSSES
        """Importance weights; of bad verdicts; squared errors of the untrained and of the mixed
        score, each weighted."""
        self._verdicts = self._so_far = 0.0
        """The number that is remembered, and of all so far, of which none counts less for its age.
        """
        self._trust = _Trust()
        self._weights = [0.0] * _SIZE
        self._labels: tuple[list[float], list[float]] | None = None
        self._since_fit = 0.0
        self.forget_news()

    def forget_news(self) -> None:
        """Forget the verdicts that `merge` has not seen; for a forked child, too."""
        self._fresh: list[tuple[Features, float, float, tuple[float, ...]]] = []
        """For each verdict its features, the factors of its step, and how many nats the learned
        score and each share of the shift lost less than the untrained score."""
        self._fresh_losses = [0.0] * _LOSSES

    # --- predicting -----------------------------------------------------------------------------

    @property
    def trust(self) -> float:
        """The weight of the learned score in the mixture, 0 to 1; 0: it is not trusted."""
        return self._trust.weight

    def predict(self, features: Features, untrained: float) -> PredictionBasis:
        """Return the chances that the verdict is bad; 0.0001 to 0.9999.

        Args:
            features: Of the answer.
            untrained: The chance by the built-in judge's risk alone; likewise.
        """
        weights, trust = self._weights, self._trust
        shift = sum([value * weights[at] for at, value in features])
        shift = MAX_SHIFT if shift > MAX_SHIFT else max(-MAX_SHIFT, shift)
        learned = _shifted(untrained, trust.share * shift)
        mixed = untrained + trust.weight * (learned - untrained)
        return PredictionBasis(features, untrained, shift, learned, mixed, trust.is_trusted)

    # --- learning -------------------------------------------------------------------------------

    def add(self, basis: PredictionBasis, *, value: float, weight: float) -> None:
        """Take in one verdict.

        Args:
            basis: What was predicted of the answer, and from what.
            value: The verdict; 0 to 1.
            weight: The importance weight; bounded.
        """
        features, untrained, shift, learned, mixed, _ = basis
        whole = _shifted(untrained, shift)
        loss = _loss(untrained, value)
        # Of the learned score as it was then, and of each share. Not weighted: a ratio of
        # likelihoods is one verdict's, and the draw does not depend on it.
        gains = [loss - _loss(learned, value)]
        gains += [loss - _loss(_shifted(untrained, each * shift), value) for each in SHARES]
        self._fresh.append((features, *_step(untrained, whole, value, weight), tuple(gains)))
        losses = self._fresh_losses
        losses[0] += weight
        losses[1] += weight * value
        losses[2] += weight * (value - untrained) ** 2
        losses[3] += weight * (value - mixed) ** 2

    def set_labels(self, labels: Sequence[tuple[Features, float, float]]) -> None:
        """Learn from people's verdicts too; they replace those that were set before.

        Args:
            labels: Of each answer its features, its untrained chance and the verdict, 0 or 1.
        """
        sums = [0.0] * _TRIANGLE, [0.0] * _SIZE
        for features, untrained, value in labels:
            _add_step(*sums, features, *_step(untrained, untrained, value, 1.0))
        self._labels = sums
        self.fit()

    def merge(self, told: Mapping[str, Any] | None = None) -> None:
        """Take what is new into what is kept, and learn from it where there is enough.

        Args:
            told: The `state` of another process, or of this one before a restart.

        Raises:
            ValueError: `told` has another shape, or is of other features. Nothing has changed then.
        """
        if told is not None:
            information, right, losses, verdicts, so_far, trust = _read(told)
            self._since_fit += max(0.0, so_far - self._so_far)
            self._information, self._right, self._losses = information, right, losses
            self._verdicts, self._so_far, self._trust = verdicts, so_far, trust
        new = len(self._fresh)
        if new:
            share = (1.0 - 1.0 / KEPT) ** new
            self._information = [each * share for each in self._information]
            self._right = [each * share for each in self._right]
            for features, curvature, push, (gain, *gains) in self._fresh:
                _add_step(self._information, self._right, features, curvature, push)
                self._trust = self._trust.after(gain, gains)
            self._losses = [
                old * share + more
                for old, more in zip(self._losses, self._fresh_losses, strict=True)
            ]
            self._verdicts = self._verdicts * share + new
            self._since_fit += new
            self._so_far += new
            self.forget_news()
        if self._since_fit >= min(REFIT_EACH, max(1.0, 0.1 * self._verdicts)):
            self.fit()

    def fit(self) -> None:
        """Solve for the weights: the mean of the Gaussian posterior."""
        self._since_fit = 0.0
        information, right = self._information, self._right
        if self._labels is not None:
            information = [a + b for a, b in zip(information, self._labels[0], strict=True)]
            right = [a + b for a, b in zip(right, self._labels[1], strict=True)]
        self._weights = _beyond_risk(_solved(information, right), self._information)

    def state(self) -> dict[str, Any]:
        """Return what is kept, for JSON: some 20 kB, however many verdicts there were."""
        return {
            "features": list(NAMES),
            "information": [float(f"{x:.6g}") for x in self._information],
            "right": [float(f"{x:.6g}") for x in self._right],
            "losses": [float(f"{x:.9g}") for x in self._losses],
            "verdicts": float(f"{self._verdicts:.9g}"),
            "so_far": self._so_far,
            "odds": self._trust.odds,
            "is_trusted": self._trust.is_trusted,
            "behind": [float(f"{x:.6g}") for x in self._trust.behind],
        }

    # --- what it has learned --------------------------------------------------------------------

    @property
    def verdicts(self) -> float:
        """The number of verdicts that it remembers."""
        return self._verdicts + len(self._fresh)

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return the n largest weights by their features' names, the largest first.

        Each as it moves the log odds of the learned score.
        """
        weights = [self._trust.share * each for each in self._weights]
        named = sorted(zip(NAMES, weights, strict=True), key=lambda each: -abs(each[1]))
        return [(name, weight) for name, weight in named[:n] if weight]

    def error_ratios(self) -> dict[str, float] | None:
        """Return the squared errors on verdicts to come, relative to those of the verdicts' mean.

        `untrained` and `learned`, which is as mixed; 0 to about 1. None: the verdicts were too few,
        or all alike.
        """
        weight, bad, untrained, learned = self._losses
        variance = bad * (weight - bad) / weight if weight > 0 else 0.0
        if variance < 1.0:
            return None
        return {"untrained": untrained / variance, "learned": learned / variance}


def _step(untrained: float, learned: float, value: float, weight: float) -> tuple[float, float]:
    """Return what x x' and x are multiplied by in a verdict's step."""
    curvature = max(MIN_CURVATURE, learned * (1 - learned))
    shift = _logit(learned) - _logit(untrained)
    return weight * curvature, weight * (curvature * shift + value - learned)


def _shifted(chance: float, shift: float) -> float:
    """Return a chance with its log odds moved."""
    odds = chance / (1.0 - chance) * math.exp(shift)
    return _within(odds / (1.0 + odds))


def _add_step(
    triangle: list[float], right: list[float], features: Features, curvature: float, push: float
) -> None:
    """Add a verdict's step to the information matrix and to its right-hand side."""
    for at, value in features:
        right[at] += push * value
        row = at * (at + 1) // 2
        scaled = curvature * value
        for other, other_value in features:
            if other <= at:
                triangle[row + other] += scaled * other_value


def _solved(triangle: Sequence[float], right: Sequence[float]) -> list[float]:
    """Return the solution of (matrix + ridges) w = right, by Cholesky's decomposition."""
    rows: list[list[float]] = []
    half: list[float] = []
    start = 0
    for at in range(_SIZE):
        own: list[float] = []
        for other in range(at):
            above = rows[other]
            own.append((triangle[start + other] - sum(map(mul, own, above))) / above[other])
        pivot = triangle[start + at] + _RIDGES[at] - sum([each * each for each in own])
        # Rounding may take a little off; the ridge is the least that it can be.
        own.append(math.sqrt(max(_RIDGES[at], pivot)))
        half.append((right[at] - sum(map(mul, own, half))) / own[at])
        rows.append(own)
        start += at + 1
    for at in reversed(range(_SIZE)):
        row = rows[at]
        half[at] = solved = half[at] / row[at]
        for other in range(at):
            half[other] -= row[other] * solved
    return half


def _beyond_risk(weights: Sequence[float], triangle: Sequence[float]) -> list[float]:
    """Return the weights less what base rate and risk tell of their sum.

    The sum over answers is then uncorrelated with both, as verdicts weigh answers: it cannot be
    right by being a newer calibration of the untrained score.

    Args:
        weights: Of all features, those of base rate and risk first.
        triangle: The information matrix, whose first rows are theirs.
    """
    of_base, of_both, of_risk = triangle[:3]
    if of_base <= 0:
        return list(weights)
    base = risk = 0.0
    for at, weight in enumerate(weights):
        row = at * (at + 1) // 2
        base += weight * triangle[row]
        risk += weight * (triangle[row + 1] if at else of_both)
    spread = of_risk - of_both * of_both / of_base
    # Answers of one risk tell nothing of its slope, and rounding would.
    slope = (risk - base * of_both / of_base) / spread if spread > MIN_SPREAD * of_risk else 0.0
    level = (base - slope * of_both) / of_base
    return [weights[0] - level, weights[1] - slope, *weights[2:]]


def _loss(predicted: float, value: float) -> float:
    return -(value * math.log(predicted) + (1 - value) * math.log(1 - predicted))


def _within(chance: float) -> float:
    return min(1 - _LEAST, max(_LEAST, chance))


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _read(
    told: Mapping[str, Any],
) -> tuple[list[float], list[float], list[float], float, float, _Trust]:
    try:
        if list(told["features"]) != list(NAMES):
            raise ValueError("a model of other features")
        information = [float(x) for x in told["information"]]
        right = [float(x) for x in told["right"]]
        losses = [float(x) for x in told["losses"]]
        behind = [float(x) for x in told["behind"]]
        verdicts, odds = float(told["verdicts"]), float(told["odds"])
        so_far = float(told.get("so_far", verdicts))  # an older file did not say
        trust = _Trust.of(odds, behind, is_trusted=bool(told["is_trusted"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a model without {error}") from error
    sizes = (len(information), len(right), len(losses), len(behind))
    if sizes != (_TRIANGLE, _SIZE, _LOSSES, len(SHARES)):
        raise ValueError("a model of another shape")
    numbers = (*information, *right, *losses, *behind, so_far)
    if not all(map(math.isfinite, numbers)) or not verdicts >= 0 or not 0 < odds <= MAX_ODDS:
        raise ValueError("a model that is not of sums")
    return information, right, losses, verdicts, so_far, trust
