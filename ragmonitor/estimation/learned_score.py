"""A model of the sampled judge's verdicts, trusted as far as verdicts to come bear it out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, Final

from ragmonitor.estimation.answer_features import NAMES
from ragmonitor.records import Features, PredictionBasis

KEPT: Final = 2_000.0
"""How many verdicts are remembered: each later one makes earlier ones count a little less."""
REFIT_EACH: Final = 50
RIDGE: Final = 4.0
RIDGE_OF_GROUPS: Final = 16.0
"""What a coefficient costs: the reciprocal of its variance before any verdict. Groups of hashed
words and routes are many, and most of them mean nothing."""
MIN_CURVATURE: Final = 0.05
"""Of a verdict that was all but certain, so that one surprise cannot turn the model over."""
MAX_SHIFT: Final = 4.0
"""How far the model may move the log odds of the untrained score."""
SWITCHING: Final = 1 / 100
"""How likely it is, before each verdict, that another of the two scores has become the better."""
_LEAST: Final = 1e-4
_SIZE: Final = len(NAMES)
_RIDGES: Final = tuple(RIDGE_OF_GROUPS if ", group " in name else RIDGE for name in NAMES)
_TRIANGLE: Final = _SIZE * (_SIZE + 1) // 2
_LOSSES: Final = 4


class LearnedScore:
    """Logistic regression on the features of answers, around the untrained score.

    The log odds of a bad verdict are those of the untrained, calibrated score plus a weighted sum
    of the features; before any verdict all weights are 0. A Gaussian prior with mean 0 draws them
    there. Each verdict adds one step of Fisher's scoring, taken at what was predicted of it: to
    the information matrix `w p (1 - p) x x'`, and to its right-hand side
    `w (p (1 - p) (logit p - logit u) + y - p) x`, with p the model's prediction before the verdict
    y, u the untrained one and w the importance weight. These are sums of what was recorded with
    each answer, so that those of several processes add up, in any order, and old ones fade.

    How far the model is trusted follows from the logarithmic losses of both scores on verdicts that
    neither had seen: they are mixed by their posterior weights, either of which may become the
    better at any verdict (fixed share). So the mixture's summed loss is at most ln 2 above that of
    the better score, and about ln(1 / SWITCHING) more for each change of which that is.

    Source:
        Spiegelhalter & Lauritzen, "Sequential updating of conditional probabilities on directed
        graphical structures" (1990), Networks 20, section 4, for logistic regression learned by
        one Gaussian step a verdict; Dawid, "Present position and potential developments: the
        prequential approach" (1984), JRSS A 147, for judging by verdicts to come; Herbster &
        Warmuth, "Tracking the best expert" (1998), Machine Learning 32, section 4 (fixed share).
    """

    def __init__(self) -> None:
        self._information = [0.0] * _TRIANGLE
        """The lower triangle, row by row."""
        self._right = [0.0] * _SIZE
        self._losses = [0.0] * _LOSSES
        """Importance weights; of bad verdicts; squared errors of the untrained and of the mixed
        score, each weighted."""
        self._verdicts = 0.0
        self._trust = 0.5
        self._weights = [0.0] * _SIZE
        self._labels: tuple[list[float], list[float]] | None = None
        self._since_fit = 0.0
        self.forget_news()

    def forget_news(self) -> None:
        """Forget the verdicts that `merge` has not seen; for a forked child, too."""
        self._fresh: list[tuple[Features, float, float, float]] = []
        """Of each verdict its features, the factors of its step, and what the model lost less."""
        self._fresh_losses = [0.0] * _LOSSES

    # --- predicting -----------------------------------------------------------------------------

    @property
    def trust(self) -> float:
        """The weight of the model in the mixture, 0 to 1."""
        return self._trust

    def predict(self, features: Features, untrained: float) -> float:
        """Return the model's chance that the verdict is bad, before mixing; 0.0001 to 0.9999.

        Args:
            features: Of the answer.
            untrained: The chance by the built-in judge's risk alone.
        """
        weights = self._weights
        shift = sum([value * weights[at] for at, value in features])
        shift = MAX_SHIFT if shift > MAX_SHIFT else max(-MAX_SHIFT, shift)
        odds = untrained / (1.0 - untrained) * math.exp(shift)
        return _within(odds / (1.0 + odds))

    def mixed(self, untrained: float, learned: float) -> float:
        """Return both chances, mixed by how far the model is trusted."""
        return untrained + self._trust * (learned - untrained)

    # --- learning -------------------------------------------------------------------------------

    def add(self, basis: PredictionBasis, *, value: float, weight: float) -> None:
        """Take in one verdict.

        Args:
            basis: What was predicted of the answer, and from what.
            value: The verdict; 0 to 1.
            weight: The importance weight; bounded.
        """
        features, untrained, learned, mixed = basis
        gain = weight * (_loss(untrained, value) - _loss(learned, value))
        self._fresh.append((features, *_step(untrained, learned, value, weight), gain))
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
            information, right, losses, verdicts, trust = _read(told)
            self._since_fit += max(0.0, verdicts - self._verdicts)
            self._information, self._right, self._losses = information, right, losses
            self._verdicts, self._trust = verdicts, trust
        new = len(self._fresh)
        if new:
            share = (1.0 - 1.0 / KEPT) ** new
            self._information = [each * share for each in self._information]
            self._right = [each * share for each in self._right]
            for features, curvature, push, gain in self._fresh:
                _add_step(self._information, self._right, features, curvature, push)
                self._trust = _trusted(self._trust, gain)
            self._losses = [
                old * share + more
                for old, more in zip(self._losses, self._fresh_losses, strict=True)
            ]
            self._verdicts = self._verdicts * share + new
            self._since_fit += new
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
        self._weights = _solved(information, right)

    def state(self) -> dict[str, Any]:
        """Return what is kept, for JSON: some 20 kB, however many verdicts there were."""
        return {
            "features": list(NAMES),
            "information": [float(f"{x:.6g}") for x in self._information],
            "right": [float(f"{x:.6g}") for x in self._right],
            "losses": [float(f"{x:.9g}") for x in self._losses],
            "verdicts": float(f"{self._verdicts:.9g}"),
            "trust": self._trust,
        }

    # --- what it has learned --------------------------------------------------------------------

    @property
    def verdicts(self) -> float:
        """How many verdicts it remembers."""
        return self._verdicts + len(self._fresh)

    def largest(self, n: int) -> list[tuple[str, float]]:
        """Return the n largest weights by their features' names, the largest first."""
        named = sorted(zip(NAMES, self._weights, strict=True), key=lambda each: -abs(each[1]))
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


def _trusted(trust: float, gain: float) -> float:
    """Return the trust after a verdict on which the model lost so many nats less."""
    odds = trust / (1 - trust) * math.exp(gain)
    return SWITCHING / 2 + (1 - SWITCHING) * odds / (1 + odds)


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


def _loss(predicted: float, value: float) -> float:
    return -(value * math.log(predicted) + (1 - value) * math.log(1 - predicted))


def _within(chance: float) -> float:
    return min(1 - _LEAST, max(_LEAST, chance))


def _logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def _read(
    told: Mapping[str, Any],
) -> tuple[list[float], list[float], list[float], float, float]:
    try:
        if list(told["features"]) != list(NAMES):
            raise ValueError("a model of other features")
        information = [float(x) for x in told["information"]]
        right = [float(x) for x in told["right"]]
        losses = [float(x) for x in told["losses"]]
        verdicts, trust = float(told["verdicts"]), float(told["trust"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a model without {error}") from error
    sizes = (len(information), len(right), len(losses))
    if sizes != (_TRIANGLE, _SIZE, _LOSSES):
        raise ValueError("a model of another shape")
    numbers = (*information, *right, *losses)
    if not all(map(math.isfinite, numbers)) or not verdicts >= 0 or not 0 < trust < 1:
        raise ValueError("a model that is not of sums")
    return information, right, losses, verdicts, trust
