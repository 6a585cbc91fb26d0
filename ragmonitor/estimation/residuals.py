"""Measures how far verdicts are off their predictions, where those were highest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.alarm_streams import CALIBRATION_HIGH, CALIBRATION_LOW, half
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import Outcomes
from ragmonitor.protocols import Clock
from ragmonitor.records import GaugeValue, Prediction, Report

RISKY_SHARE: Final = 0.2
"""The share of the answers with the highest predicted risk of a hallucination."""
KEPT: Final = 200.0
"""The number of verdicts that the mean remembers."""
MIN_VERDICTS: Final = 20.0
FORGOTTEN_S: Final = 86_400.0
_CELLS: Final = 200


class Residuals(Part):
    """The mean of verdict less prediction among the riskiest fifth of the answers.

    On all answers the mean stays near 0 while the built-in judge's score dies, as long as the rate
    does not move; on the riskiest fifth it does not. Predictions rest on past verdicts only, so
    the verdicts that were fitted are not looked at again.
    """

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock()
        self._counts = [0.0] * (_CELLS + 1)
        self._risky_from = 1.0
        self._residual = self._weight = self._n = 0.0

    def predict(self, builtin: Report, outcomes: Outcomes, prediction: Prediction) -> Prediction:
        """Take note of an answer's predicted risk."""
        if prediction.hallucination is not None:
            self.add_predicted(prediction.hallucination)
        return prediction

    def add_predicted(self, risk: float) -> None:
        """Take note of an answer's predicted risk; 0 to 1."""
        self._counts[int(risk * _CELLS)] += 1

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in the verdict on a risky answer, and return how far it is off, in both directions.

        The two signals are better the lower they are, so each sees a drift in one direction.
        """
        risk, verdict = answer.completed.prediction.hallucination, answer.hallucination
        decision = answer.completed.decision
        if verdict is None or risk is None or decision is None or not self.is_risky(risk):
            return ()
        residual = verdict.value - risk
        self.add_residual(residual, answer.weight)
        return [
            Observation(
                signal=signal,
                value=half(sign * residual),
                importance_weight=decision.importance_weight,
                at_s=answer.at_s,
                session=answer.interaction.session_id,
                answer=answer.interaction.id,
            )
            for signal, sign in ((CALIBRATION_HIGH, 1), (CALIBRATION_LOW, -1))
        ]

    observe_again = add
    """What it holds ends with the process."""

    def is_risky(self, risk: float) -> bool:
        """Return whether an answer belongs to the riskiest fifth, as of the last tick."""
        return risk >= self._risky_from

    def add_residual(self, residual: float, weight: float) -> None:
        """Take in a verdict on a risky answer.

        Args:
            residual: Verdict less prediction, -1 to 1.
            weight: 1 / inclusion probability.
        """
        keep = 1.0 - 1.0 / KEPT
        self._residual = self._residual * keep + weight * residual
        self._weight = self._weight * keep + weight
        self._n += 1

    @property
    def mean(self) -> float | None:
        """-1 to 1; None: too few verdicts."""
        return self._residual / self._weight if self._n >= MIN_VERDICTS else None

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the mean, under the judge's name."""
        if self.mean is not None:
            yield GaugeValue.of(metrics.CALIBRATION_RESIDUAL, self.mean, judge=means.quality_judge)

    def tick(self) -> Sequence[Observation]:
        """Let old predictions count less, and find out anew where the riskiest fifth begins."""
        now = self._clock()
        share = math.exp(-max(0.0, now - self._at_s) / FORGOTTEN_S)
        self._at_s = now
        self._counts = [count * share for count in self._counts]
        left = RISKY_SHARE * sum(self._counts)
        self._risky_from = 1.0
        if left < MIN_VERDICTS:
            return ()
        for cell in reversed(range(_CELLS + 1)):
            left -= self._counts[cell]
            if left <= 0:
                self._risky_from = cell / _CELLS
                break
        return ()
