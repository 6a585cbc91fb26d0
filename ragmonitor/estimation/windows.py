"""Exponentially weighted sums over the last hour and the last day."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from ragmonitor.protocols import Clock
from ragmonitor.records import EstimateKey, Moments, Report, Scored, evaluator_name

WINDOWS_S: dict[Literal["1h", "24h"], float] = {"1h": 3_600.0, "24h": 86_400.0}
"""Each window's time constant: an answer of that age counts 1/e of a new one."""

HALLUCINATION = "hallucination"
REFUSAL = "refusal"


class Windows:
    """One set of sums for each signal, judge and window.

    Signals: the evaluators' names (mean score), `hallucination` (share of answers with a claim
    that the chunks do not support) and `refusal` (share of answers that decline). Each answer
    weighs 1 / chance (Hajek, "Sampling from a finite population", 1981), so a mean says the same
    whatever was sampled. Unscored answers are in no mean; they are counted elsewhere.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._sums: dict[EstimateKey, tuple[float, Moments]] = {}

    def add(self, report: Report) -> None:
        """Take one report into every window."""
        if report.chance.probability <= 0:
            return
        weight = 1 / report.chance.probability
        for signal, value in _signals(report):
            for window in WINDOWS_S:
                key = EstimateKey(signal=signal, judge=report.judge.name, window=window)
                self._sums[key] = (
                    self._clock(),
                    self._aged(key)
                    + Moments(
                        weight=weight,
                        weight_squared=weight**2,
                        value=weight * value,
                        value_squared=weight * value**2,
                    ),
                )

    def moments(self) -> Iterator[tuple[EstimateKey, Moments]]:
        """Return the sums of each window as of now; summable over processes."""
        for key in tuple(self._sums):
            yield key, self._aged(key)

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what was reported."""
        self._sums.clear()

    def _aged(self, key: EstimateKey) -> Moments:
        updated_at, sums = self._sums.get(key, (0.0, Moments()))
        # A clock that jumps back must not make old answers count more than new ones.
        age_s = max(0.0, self._clock() - updated_at)
        share = math.exp(-age_s / WINDOWS_S[key.window])
        return Moments(
            weight=sums.weight * share,
            weight_squared=sums.weight_squared * share**2,
            value=sums.value * share,
            value_squared=sums.value_squared * share,
        )


def _signals(report: Report) -> Iterator[tuple[str, float]]:
    for evaluation in report.evaluations:
        # Two evaluators say what the assessment says; added twice it would count for two answers.
        if isinstance(evaluation, Scored) and (
            (name := evaluator_name(evaluation.evaluator)) not in (HALLUCINATION, REFUSAL)
        ):
            yield name, evaluation.score
    if report.assessment is None:
        return
    if report.assessment.evasive is not None:
        yield REFUSAL, float(report.assessment.evasive)
    hallucinated = report.assessment.hallucinated
    if hallucinated is not None and report.interaction.chunks:
        yield HALLUCINATION, float(hallucinated)
