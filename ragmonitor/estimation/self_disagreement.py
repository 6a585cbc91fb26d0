"""Measures how often a judge contradicts itself on one answer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.parts import Means, Part
from ragmonitor.estimation.signals import hallucinated
from ragmonitor.protocols import Clock
from ragmonitor.records import GaugeValue, Report

WINDOW_S: Final = 86_400.0
"""Time constant of the shares."""
MIN_PAIRS: Final = 5.0
"""Below so many, an older one counting less, nothing is said."""


class SelfDisagreement(Part):
    """The rate at which a judge contradicts itself on one answer, over the last day."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._aged_at_s = clock()
        self._differing = 0.0
        self._weight = 0.0
        self._pairs = 0.0

    def repeated(self, first: Report, again: Report) -> None:
        """Take in two reports on one answer, where both have a verdict."""
        before, now = hallucinated(first), hallucinated(again)
        if before is not None and now is not None:
            weight = 1 / first.decision.inclusion_probability  # for the rate of all answers
            self._age()
            self._pairs += 1
            self._weight += weight
            self._differing += weight * (before is not now)

    @property
    def disagreement(self) -> float | None:
        """Share of answers on which two verdicts differ; None: too few were scored twice."""
        self._age()
        return self._differing / self._weight if self._pairs >= MIN_PAIRS else None

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the share of answers on which two verdicts differ, under the judge's name."""
        share = self.disagreement
        if share is not None:
            yield GaugeValue.of(metrics.JUDGE_FLIP_RATE, share, judge=means.quality_judge)

    def _age(self) -> None:
        now_s = self._clock()
        kept = math.exp(-max(0.0, now_s - self._aged_at_s) / WINDOW_S)
        self._aged_at_s = now_s
        self._differing *= kept
        self._weight *= kept
        self._pairs *= kept
