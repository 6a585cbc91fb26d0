"""The difference of two means over the same questions, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragmonitor.stats.beta import Z95


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of two versions in one score."""

    pairs: int
    """Questions that both have a score for."""
    first_mean: float
    """The first version's mean on those questions; 0 to 1."""
    second_mean: float
    difference: float
    """Second less first; -1 to 1."""
    lower: float
    """Lower end of the 95 % interval of the difference."""
    upper: float

    @property
    def is_told_apart(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.lower > 0 or self.upper < 0


def paired_difference(pairs: Sequence[tuple[float, float]]) -> Difference | None:
    """Return what the second scores' mean is above the first's; None without a pair.

    The interval is Wald's on the pairs' differences after two pairs more were put in, one that
    differs by +s and one by -s, where s is the greatest difference that was seen, or 1 where none
    was. For scores of 0 and 1 that is Bonett and Price's interval exactly: one more for each of the
    two cells in which the versions disagree. For other scores s keeps the two in proportion. A t
    interval would claim to know the difference exactly while all pairs agree, and holds the truth
    far too seldom while few disagree.

    Pairs are taken as independent: several questions on one document are not quite.

    Args:
        pairs: First and second score of each question; 0 to 1.

    Source:
        Bonett & Price (2012), "Adjusted Wald confidence interval for a difference of binomial
        proportions based on paired data", Journal of Educational and Behavioral Statistics 37(4);
        after Agresti & Min (2005), Statistics in Medicine 24(5). The scaling by s is ours;
        tests/property/test_paired.py measures what it covers.
    """
    n = len(pairs)
    if not n:
        return None
    differences = [second - first for first, second in pairs]
    greatest = max(map(abs, differences)) or 1.0
    total = math.fsum(differences)
    centre = total / (n + 2)
    squares = math.fsum(value**2 for value in differences) + 2 * greatest**2
    half = Z95 * math.sqrt(max(0.0, squares / (n + 2) - centre**2) / (n + 2))
    mean = total / n
    return Difference(
        pairs=n,
        first_mean=math.fsum(first for first, _ in pairs) / n,
        second_mean=math.fsum(second for _, second in pairs) / n,
        difference=mean,
        lower=max(-1.0, min(mean, centre - half)),
        upper=min(1.0, max(mean, centre + half)),
    )
