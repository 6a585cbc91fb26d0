"""From what the built-in judge says of an answer to what the judge would: learned as it goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

BINS: Final = 32
"""The bins of the built-in value; answers without one are a bin of their own, the last. They are
narrowest at 0 and 1, where such values crowd: of answers of risk 0 one in a hundred may be bad, and
of those of risk 0.03 nearly all."""
TRUST: Final = 8.0
"""The number of verdicts that the logistic curve counts for in each bin."""
KEPT: Final = 2_000.0
"""The number of verdicts that are remembered: each later one makes earlier ones count a little
less."""
ENOUGH: Final = 8.0
"""Verdicts of either kind before a value means anything; until then there is the base rate."""
ENOUGH_TO_TELL: Final = 20.0
"""Verdicts before it is said how often a signal applies at all."""
REFIT_EACH: Final = 50
RIDGE: Final = 1.0
LEAST: Final = 1e-4
"""Means lie between this and 1 less this."""
RAMP: Final = 1e-3
"""Share of the value itself in `mean_at`, so that pooled values keep their order."""
_MAX_STEPS: Final = 30
_GRID: Final = 100
"""Predictions are kept for so many steps of the built-in value."""
_SUMS: Final = ("weight", "scored", "value", "feature")


class Calibration:
    """One signal: chance that the judge's verdict applies, and its mean, by the built-in value.

    A curve that never falls, by isotonic regression of the bins' means, each drawn towards Platt's
    logistic curve as if that were eight verdicts; straight lines between the bins. The logistic
    curve alone does not fit the built-in judge's scores where it matters most: verdicts on the
    riskiest fifth were off by up to 6 points for ever. A built-in score that says nothing, or the
    opposite, is left out of account and not turned round. Learned from verdicts only that were
    there before, each weighted by 1 / inclusion probability, the last 2,000 or so. What is kept is
    their sums in bins, so that the state is small and processes' add up.

    Source:
        Zadrozny & Elkan, "Transforming classifier scores into accurate multiclass probability
        estimates" (2002), section 3, for isotonic calibration; Barlow et al., "Statistical
        inference under order restrictions" (1972), section 1.2, for pooling adjacent violators;
        Platt, "Probabilistic outputs for support vector machines" (1999), with the ridge in place
        of his smoothed targets; fitted to shares as well as to yes and no (Papke & Wooldridge 1996,
        Journal of Applied Econometrics 11).
    """

    def __init__(self) -> None:
        """Begin without verdicts."""
        self._sums = {name: [0.0] * (BINS + 1) for name in _SUMS}
        self._counts = [0.0, 0.0, 0.0]
        """Verdicts; those that apply; sum of their values. Each for one."""
        self._so_far = 0.0
        """All verdicts so far, of which none counts less for its age: what is new to this process
        follows from it, as from the fading number it does not."""
        self.forget_news()
        self._since_fit = 0.0
        self.intercept = 0.0
        self.slope = 0.0
        self.is_fitted = False
        self._applies = (0.0, 0.0)
        """Share of verdicts that apply: where the built-in judge has a value, and where not."""
        self._without = 0.0
        """Mean value where the built-in judge has none."""
        self._table: tuple[tuple[float, float], ...] = ()

    def forget_news(self) -> None:
        """Forget the verdicts that `merge` has not seen; for a forked child, too."""
        self._fresh = {name: [0.0] * (BINS + 1) for name in _SUMS}
        self._fresh_counts = [0.0, 0.0, 0.0]

    # --- predicting -----------------------------------------------------------------------------

    def expected(self, feature: float | None) -> tuple[float, float]:
        """Return the chance that the verdict applies and its mean if it does; 0 to 1 each.

        (0, 0) until there are verdicts enough: estimates then rest on the verdicts alone.
        """
        if feature is None:
            return self._applies[1], self._without
        table = self._table
        if not table:
            return 0.0, 0.0
        return table[int(feature * _GRID + 0.5)]

    def mean_at(self, value: float) -> float:
        """Return the mean of the verdict if it applies; 0 until there are verdicts enough.

        Unlike `expected` it rises strictly with the value, by a thousandth at least from 0 to 1,
        so that answers are ranked by it exactly as by the value.

        Args:
            value: The built-in judge's; 0 to 1.
        """
        table = self._table
        if not table:
            return 0.0
        step = value * _GRID
        left = min(_GRID - 1, int(step))
        mean = table[left][1]
        mean += (step - left) * (table[left + 1][1] - mean)
        return mean + RAMP * (value - mean)

    # --- learning -------------------------------------------------------------------------------

    def add(self, feature: float | None, *, scored: bool, value: float, weight: float) -> None:
        """Take in one verdict.

        Args:
            feature: What the built-in judge said; 0 to 1, or None.
            scored: Whether the signal applies.
            value: 0 to 1.
            weight: 1 / inclusion probability.
        """
        place = BINS if feature is None else _bin(feature)
        fresh = self._fresh
        fresh["weight"][place] += weight
        counts = self._fresh_counts
        counts[0] += 1
        if scored:
            fresh["scored"][place] += weight
            fresh["value"][place] += weight * value
            fresh["feature"][place] += weight * (feature or 0.0)
            counts[1] += 1
            counts[2] += value

    @property
    def has_news(self) -> bool:
        """Whether there are verdicts that `merge` has not seen."""
        return self._fresh_counts[0] > 0

    def merge(self, told: Mapping[str, Any] | None = None) -> None:
        """Take what is new into what is kept, and learn from it where there is enough.

        Args:
            told: The `state` of another process, or of this one before a restart.

        Raises:
            ValueError: `told` has another shape. Nothing has changed then.
        """
        if told is not None:
            sums, counts, so_far = _read(told)
            self._since_fit += max(0.0, so_far - self._so_far)
            self._sums, self._counts, self._so_far = sums, counts, so_far
        new = self._fresh_counts[0]
        if new:
            share = (1.0 - 1.0 / KEPT) ** new
            for name, kept in self._sums.items():
                self._sums[name] = [
                    old * share + more for old, more in zip(kept, self._fresh[name], strict=True)
                ]
            self._counts = [
                old * share + more
                for old, more in zip(self._counts, self._fresh_counts, strict=True)
            ]
            self.forget_news()
            self._since_fit += new
            self._so_far += new
        if self._since_fit >= min(REFIT_EACH, max(1.0, 0.1 * self._counts[0])):
            self.fit()

    def state(self) -> dict[str, Any]:
        """Return what is kept, for JSON: some 500 bytes."""
        return {
            **{name: [float(f"{x:.6g}") for x in kept] for name, kept in self._sums.items()},
            "counts": [float(f"{x:.9g}") for x in self._counts],
            "so_far": self._so_far,
        }

    def fit(self) -> None:
        """Learn from what is kept."""
        self._since_fit = 0.0
        weight, scored, value, feature = (self._sums[name] for name in _SUMS)
        n, n_scored, n_value = self._counts
        self._applies = (
            _share(sum(scored[:BINS]), sum(weight[:BINS]), n),
            _share(scored[BINS], weight[BINS], n),
        )
        total, of_value = sum(scored), sum(value)
        if total <= 0:
            self._table, self._without = (), 0.0
            return
        per_verdict = n_scored / total
        base = (of_value * per_verdict + 0.5) / (n_scored + 1.0)
        self._without = (value[BINS] * per_verdict + base) / (scored[BINS] * per_verdict + 1.0)
        self.intercept, self.slope = math.log(base / (1 - base)), 0.0
        self.is_fitted = min(n_value, n_scored - n_value) >= ENOUGH
        points = [
            (feature[b] / scored[b], value[b] / scored[b], scored[b] * per_verdict)
            for b in range(BINS)
            if scored[b] > 0
        ]
        means = self._means(points, base)
        applies = self._applies[0]
        self._table = tuple((applies, mean) for mean in means) if applies > 0 else ()

    def _means(self, points: Sequence[tuple[float, float, float]], base: float) -> list[float]:
        """Return the means at each step of the value.

        Args:
            points: Of each bin, in order: value, mean, verdicts.
            base: The mean over all.
        """
        if not self.is_fitted:
            return [base] * (_GRID + 1)
        self.intercept, self.slope = _logistic(points, self.intercept)
        if self.slope <= 0:
            return [base] * (_GRID + 1)
        drawn = [
            (x, (mean * w + TRUST * _curve(self.intercept + self.slope * x)) / (w + TRUST), w)
            for x, mean, w in points
        ]
        return _between([x for x, _, _ in drawn], _rising(drawn))

    # --- how good it is -------------------------------------------------------------------------

    @property
    def verdicts(self) -> float:
        """The number of verdicts that it remembers."""
        return self._counts[0] + self._fresh_counts[0]

    def auroc(self) -> float | None:
        """Return the chance that a bad answer has a higher built-in score than a good one.

        Weighted, from the bins: two of the same bin count half. 0 to 1; None: too few verdicts.
        """
        if min(self._counts[2], self._counts[1] - self._counts[2]) < ENOUGH:
            return None
        scored, value = self._sums["scored"], self._sums["value"]
        below = pairs = 0.0
        for b in range(BINS):
            good = scored[b] - value[b]
            pairs += value[b] * (below + good / 2)
            below += good
        bad = sum(value[:BINS])
        return pairs / (bad * below) if bad * below > 0 else None


def _share(part: float, whole: float, verdicts: float) -> float:
    """Return part / whole, a little towards the middle; 0 while there is too little to tell."""
    if verdicts < ENOUGH_TO_TELL or whole <= 0:
        return 0.0
    prior = whole / verdicts  # one verdict's weight
    return (part + 0.5 * prior) / (whole + prior)


@lru_cache(maxsize=1_024)  # most features are one of a few values, such as 0 and 1
def _bin(feature: float) -> int:
    share = 2 / math.pi * math.asin(math.sqrt(min(1.0, max(0.0, feature))))
    return min(BINS - 1, int(share * BINS))


def _rising(points: Sequence[tuple[float, float, float]]) -> list[float]:
    """Return what fits the means best and never falls: adjacent violators are pooled.

    Args:
        points: Of each bin, in order: feature, mean, verdicts.
    """
    pools: list[tuple[float, float, int]] = []
    for _, mean, verdicts in points:
        pools.append((mean, verdicts + TRUST, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, of_first, n), (second, of_second, more) = pools[-2:]
            weight = of_first + of_second
            pools[-2:] = [((first * of_first + second * of_second) / weight, weight, n + more)]
    return [mean for mean, _, count in pools for _ in range(count)]


def _between(features: Sequence[float], means: Sequence[float]) -> list[float]:
    """Return the means at each step of the built-in value, by straight lines between the bins."""
    found: list[float] = []
    right = 0
    for step in range(_GRID + 1):
        x = step / _GRID
        while right < len(features) and features[right] < x:
            right += 1
        if right in {0, len(features)}:
            found.append(means[min(right, len(means) - 1)])
            continue
        left_x, right_x = features[right - 1], features[right]
        share = (x - left_x) / (right_x - left_x) if right_x > left_x else 1.0
        found.append(means[right - 1] + share * (means[right] - means[right - 1]))
    return [min(1 - LEAST, max(LEAST, mean)) for mean in found]


def _curve(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-min(30.0, max(-30.0, x))))


def _logistic(points: Sequence[tuple[float, float, float]], start: float) -> tuple[float, float]:
    """Return intercept and slope of the curve through (feature, mean, verdicts), by Newton steps.

    The feature is standardised for the ridge, so that its scale does not matter.

    Args:
        points: Verdicts of 0 count for nothing.
        start: The intercept to begin with, and to return where the curve would not rise.
    """
    total = sum(w for _, _, w in points)
    centre = sum(w * x for x, _, w in points) / total
    spread = math.sqrt(sum(w * (x - centre) ** 2 for x, _, w in points) / total)
    if spread < 1e-9:
        return start, 0.0
    a, b = start, 0.0
    for _ in range(_MAX_STEPS):
        gradient_a, gradient_b = 0.0, -RIDGE * b
        aa, ab, bb = 1e-9, 0.0, RIDGE
        for x, mean, w in points:
            z = (x - centre) / spread
            p = _curve(a + b * z)
            error, steepness = w * (mean - p), w * p * (1 - p)
            gradient_a += error
            gradient_b += error * z
            aa += steepness
            ab += steepness * z
            bb += steepness * z * z
        scale = aa * bb - ab * ab
        step_a = (bb * gradient_a - ab * gradient_b) / scale
        step_b = (aa * gradient_b - ab * gradient_a) / scale
        a += max(-2.0, min(2.0, step_a))
        b += max(-2.0, min(2.0, step_b))
        if abs(step_a) + abs(step_b) < 1e-6:
            break
    if b <= 0:
        return start, 0.0
    return a - b * centre / spread, b / spread


def _read(told: Mapping[str, Any]) -> tuple[dict[str, list[float]], list[float], float]:
    try:
        sums = {name: [float(x) for x in told[name]] for name in _SUMS}
        counts = [float(x) for x in told["counts"]]
        so_far = float(told.get("so_far", sum(counts[:1])))  # an older file did not say
    except (KeyError, TypeError) as error:
        raise ValueError(f"a calibration without {error}") from error
    if any(len(kept) != BINS + 1 for kept in sums.values()) or len(counts) != 3:
        raise ValueError("a calibration of another shape")
    numbers = (x for kept in (*sums.values(), counts, [so_far]) for x in kept)
    if not all(math.isfinite(x) and x >= 0 for x in numbers):
        raise ValueError("a calibration that is not of sums")
    return sums, counts, so_far
