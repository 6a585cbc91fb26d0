"""How the last day's questions are spread over the topics of the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_DAY_S: Final = 86_400.0
_FEWEST: Final = 100.0
"""Questions without which the index is noise."""


class TopicShares:
    """Counts by topic that fade with a time constant of 24 hours."""

    def __init__(self) -> None:
        self._counts: list[float] = []
        self._squares = 0.0
        self._at_s: float | None = None

    def add(self, topic: int, at_s: float) -> None:
        """Take one question; times that go back count as now."""
        if self._at_s is None or at_s > self._at_s:
            fading = math.exp(((at_s if self._at_s is None else self._at_s) - at_s) / _DAY_S)
            self._counts = [count * fading for count in self._counts]
            self._squares *= fading**2
            self._at_s = at_s
        while len(self._counts) <= topic:
            self._counts.append(0.0)
        self._counts[topic] += 1
        self._squares += 1

    def stability_index(self, reference: Sequence[int]) -> float | None:
        """Return the population stability index against counts of the reference; 0: as it was.

        What chance alone gives is subtracted, so that it may be a little below 0. None: too few
        questions.

        Source:
            The index is Jeffreys' divergence of two samples' shares; its mean without a change is
            (K - 1) (1/n + 1/m): Yurdakul, "Statistical properties of population stability index"
            (2018), 3.1. Half a question in every cell keeps it finite.
        """
        total = math.fsum(self._counts)
        size, cells = sum(reference), len(reference)
        if cells < 2 or not size or not self._squares:
            return None
        effective = total**2 / self._squares
        if effective < _FEWEST:
            return None
        counts = [*self._counts, *[0.0] * (cells - len(self._counts))]
        index = 0.0
        for now, before in zip(counts, reference, strict=True):
            share = (now / total * effective + 0.5) / (effective + 0.5 * cells)
            usual = (before + 0.5) / (size + 0.5 * cells)
            index += (share - usual) * math.log(share / usual)
        return index - (cells - 1) * (1 / effective + 1 / size)
