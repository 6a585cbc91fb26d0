"""Predictions of the sampled judge's verdicts, by what the built-in judge says.

What is learned from are sums in bins, which processes and machines add to the store like any
others.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from ragmonitor.stats.sums import BINS, NOTHING, Outcome, bin_of
from ragmonitor.store import Store, merge

TRUST: Final = 1.0
"""The number of verdicts that the base rate counts for in each bin."""
KEPT: Final = 2_000.0
"""The number of verdicts that are learned from: the newest."""
ENOUGH: Final = 8.0
"""Verdicts of either kind before a value means anything; until then there is the base rate."""
ENOUGH_TO_TELL: Final = 20.0
"""Verdicts before it is said how often a signal applies at all."""
LEAST: Final = 1e-4
"""Means lie between this and 1 less this."""


class Calibration:
    """One signal: the chance that a verdict applies, and its mean, by the built-in judge's value.

    A curve that never falls, by isotonic regression of the bins' means, each drawn towards the base
    rate as if that were one more verdict. A value that says nothing, or the opposite, gives a
    flat one. Each verdict counts 1 / inclusion probability.

    Source:
        Zadrozny & Elkan, "Transforming classifier scores into accurate multiclass probability
        estimates" (2002), section 3; Barlow et al., "Statistical inference under order
        restrictions" (1972), section 1.2, for pooling adjacent violators.

    >>> from ragmonitor.stats.sums import LEARNED_WIDTH
    >>> Calibration([0.0] * LEARNED_WIDTH).expected(0.5)
    Outcome(scored=0.0, value=0.0)
    """

    def __init__(self, sums: Sequence[float]) -> None:
        """Learn.

        Args:
            sums: In the shape of `sums.LEARNED_WIDTH`.
        """
        weight, scored, value = (sums[at : 3 * (BINS + 1) : 3] for at in range(3))
        self.verdicts, applied, bad = sums[-3:]
        self._scored, self._value = scored[:BINS], value[:BINS]
        self.is_fitted = min(bad, applied - bad) >= ENOUGH
        """Whether the built-in judge's value means something."""
        share = _share(math.fsum(self._scored), math.fsum(weight[:BINS]), self.verdicts)
        self._without = NOTHING
        """What is expected of answers of which the built-in judge says nothing."""
        self._table: list[Outcome] = []
        """By bin."""
        total = math.fsum(scored)
        if total <= 0:
            return
        unit = applied / total
        base = (math.fsum(value) * unit + 0.5) / (applied + 1.0)
        self._without = Outcome(
            _share(scored[BINS], weight[BINS], self.verdicts),
            (value[BINS] * unit + base) / (scored[BINS] * unit + 1.0),
        )
        if share > 0:
            seen = [bin_ for bin_ in range(BINS) if scored[bin_] > 0] if self.is_fitted else []
            counts = [scored[bin_] * unit + TRUST for bin_ in seen]
            drawn = [
                ((value[bin_] * unit + TRUST * base) / count, count)
                for bin_, count in zip(seen, counts, strict=True)
            ]
            means = _rising(drawn) or [base]
            # A bin without a verdict has the mean of the one below it.
            at = [max(0, bisect_right(seen, bin_) - 1) for bin_ in range(BINS)]
            self._table = [Outcome(share, min(1 - LEAST, max(LEAST, means[n]))) for n in at]

    def expected(self, feature: float | None) -> Outcome:
        """Return what to expect of a verdict; `NOTHING` until there are verdicts enough.

        Args:
            feature: What the built-in judge says, 0 to 1; None: nothing.
        """
        if feature is None:
            return self._without
        if not self._table:
            return NOTHING
        return self._table[bin_of(feature)]


def calibrations(store: Store) -> dict[str, Calibration]:
    """Return what the newest verdicts of all processes teach, by signal.

    Raises:
        StoreUnavailableError: Nothing is known now.
    """
    sums: dict[str, list[float]] = {}
    for name in (f"{kind}{t}" for kind in "pq" for t in reversed(store.names(kind))):
        rows = store.read(name)
        wanted = {s: row for s, row in rows.items() if s not in sums or sums[s][-3] < KEPT}
        if rows and not wanted:
            break
        merge(sums, wanted)
    return {signal: Calibration(row) for signal, row in sums.items()}


def _share(part: float, whole: float, verdicts: float) -> float:
    """Return part / whole, a little towards the middle; 0 while there is too little to tell."""
    if verdicts < ENOUGH_TO_TELL or whole <= 0:
        return 0.0
    prior = whole / verdicts  # one verdict's weight
    return (part + 0.5 * prior) / (whole + prior)


def _rising(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return what fits means best, by weight, and never falls: adjacent violators are pooled.

    >>> _rising([(0.1, 1.0), (0.4, 1.0), (0.2, 1.0)])
    [0.1, 0.30000000000000004, 0.30000000000000004]
    """
    pools: list[tuple[float, float, int]] = []
    for mean, weight in points:
        pools.append((mean, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (first, of_first, n), (second, of_second, more) = pools[-2:]
            both = of_first + of_second
            pools[-2:] = [((first * of_first + second * of_second) / both, both, n + more)]
    return [mean for mean, _, count in pools for _ in range(count)]
