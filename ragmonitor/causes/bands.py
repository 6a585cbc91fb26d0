"""Bands of numbers, as slices: how long an answer took, how well its best chunk fitted."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from ragmonitor.causes.answer_log import Row
from ragmonitor.causes.slice_names import Slice

CUTS: Final = (0.25, 0.5, 0.75, 0.95)
"""Quantiles of all answers at which bands begin."""


def banded(rows: Sequence[Row]) -> Iterator[tuple[Row, tuple[Slice, ...]]]:
    """Yield each answer with its slices and its bands of latency and chunk score.

    The cuts are those of all answers at hand, so that a band is the same before and since.
    """
    latency = _Bands("latency_s", [row.latency_s for row in rows])
    score = _Bands("chunk_score", [row.score for row in rows])
    for row in rows:
        yield row, (*row.slices, *latency.of(row.latency_s), *score.of(row.score))


class _Bands:
    def __init__(self, dimension: str, values: Sequence[float]) -> None:
        known = sorted(each for each in values if math.isfinite(each))
        cuts = [float(f"{known[int(cut * len(known))]:.3g}") for cut in CUTS] if known else []
        # Values that are all alike have no bands.
        self._cuts = list(dict.fromkeys(cuts)) if known and known[0] < known[-1] else []
        ends = [f"{each:g}" for each in self._cuts]
        self._names = (
            tuple(
                (dimension, name)
                for name in (
                    f"below {ends[0]}",
                    *(f"{low} to {high}" for low, high in pairwise(ends)),
                    f"{ends[-1]} or more",
                )
            )
            if ends
            else ()
        )

    def of(self, value: float) -> tuple[Slice, ...]:
        """Return the band of a value; none of one that is not known."""
        if not self._cuts or not math.isfinite(value):
            return ()
        return (self._names[bisect_right(self._cuts, value)],)
