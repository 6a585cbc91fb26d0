"""How often a judge contradicts itself on one answer."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from ragmonitor import metrics
from ragmonitor.protocols import Clock
from ragmonitor.records import GaugeValue


class SelfDisagreement:
    """How often a judge contradicts itself on one answer, over the last day."""

    WINDOW_S: Final = 86_400.0
    PAIRS_LEAST: Final = 5.0
    """Below so many, an older one counting less, nothing is said."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._aged_at_s = clock()
        self._differing = 0.0
        self._weight = 0.0
        self._pairs = 0.0

    def add(self, first: bool, second: bool, weight: float = 1.0) -> None:
        """Take in two verdicts of one judge on one answer.

        Args:
            first: Whether the first reading found it hallucinated.
            second: Whether the second did.
            weight: 1 / chance that the answer was judged, so that the rate is that of all answers.
        """
        self._age()
        self._pairs += 1
        self._weight += weight
        self._differing += weight * (first is not second)

    @property
    def disagreement(self) -> float | None:
        """Share of answers on which two readings differ; None: too few were read twice."""
        self._age()
        if self._pairs < self.PAIRS_LEAST:
            return None
        return self._differing / self._weight

    @property
    def error(self) -> float | None:
        """Share of verdicts that chance alone turned, as it follows; 0 to 1/2.

        Two readings differ if one of them was turned, and the other was not: d = 2 e (1 - e), so
        e = (1 - sqrt(1 - 2 d)) / 2. It knows nothing of errors that both readings share.
        """
        differing = self.disagreement
        return None if differing is None else (1 - math.sqrt(max(0.0, 1 - 2 * differing))) / 2

    def readings(self, judge: str) -> Sequence[GaugeValue]:
        """Return the share of answers on which two readings differ, under the judge's name."""
        differing = self.disagreement
        if differing is None:
            return ()
        return (
            GaugeValue(name=metrics.JUDGE_FLIP_RATE, value=differing, labels=(("judge", judge),)),
        )

    def _age(self) -> None:
        now_s = self._clock()
        share = math.exp(-max(0.0, now_s - self._aged_at_s) / self.WINDOW_S)
        self._aged_at_s = now_s
        self._differing *= share
        self._weight *= share
        self._pairs *= share
