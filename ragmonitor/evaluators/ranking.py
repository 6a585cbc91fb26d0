"""Scores how well a ranking puts first what is relevant: pure functions of relevance, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence


def average_precision(relevant: Sequence[bool]) -> float:
    """Return the mean, over the relevant ones, of the share of relevant ones up to each.

    Args:
        relevant: One per rank, best first; shape (n,).

    Returns:
        0 (nothing is relevant) to 1 (what is relevant comes first).

    Source:
        RAGAS 0.4.3, context precision: sum over k of (precision at k * v_k) / sum over k of v_k.
    """
    n_relevant, total = 0, 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            n_relevant += 1
            total += n_relevant / rank
    return total / n_relevant if n_relevant else 0.0


def normalized_gain(relevant: Sequence[bool], wanted: int) -> float:
    """Return the discounted cumulative gain of a ranking / that of the best one possible.

    Args:
        relevant: One per rank, best first; shape (n,).
        wanted: How many relevant ones there are to be found, at least 1.

    Returns:
        0 (nothing relevant) to 1 (as many relevant ones as fit, all first).

    Source:
        NDCG of Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002),
        with gains of 0 and 1 and the discount 1 / log2(rank + 1).
    """
    gain = sum(1 / math.log2(rank + 1) for rank, hit in enumerate(relevant, 1) if hit)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(relevant), wanted) + 1))
    return min(1.0, gain / best) if best else 0.0
