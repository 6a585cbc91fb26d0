"""Rejects those of many hypotheses of which few rejections are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FALSE_DISCOVERY_RATE: Final = 0.1
"""The share of the slices named at once that is named wrongly, at most, on
average."""


def discovered(e_values: Sequence[float], hypotheses: float) -> list[int]:
    """Return the places of the e-values that are discoveries, by e-BH.

    With K hypotheses, the k largest e-values are discoveries where the smallest of them is
    at least K / (k alpha), for the largest such k. The false discovery rate is then at most alpha,
    however the e-values depend on each other; and at any time, since e-processes are e-values
    whenever one stops.

    Args:
        e_values: Those that were worked out.
        hypotheses: How many were looked at; those without an e-value count with one of 0.

    Source:
        Wang & Ramdas (2022), "False discovery rate control with e-values", JRSS B 84(3),
        arXiv:2009.02824, section 4 (the e-BH procedure).
    """
    order = sorted(range(len(e_values)), key=e_values.__getitem__, reverse=True)
    count = 0
    for rank, place in enumerate(order, start=1):
        if e_values[place] * rank * FALSE_DISCOVERY_RATE >= hypotheses:
            count = rank
    return order[:count]
