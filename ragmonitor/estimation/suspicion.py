"""Says how suspicious the built-in judge's score is, by which an alarm releases its reserve."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from ragmonitor.estimation.alarms.service_alarms import LATE_MOST_S
from ragmonitor.estimation.detector import DAY_S, STEP_MOST_S, Detector
from ragmonitor.estimation.parts import Answer, Observation, Part

THRESHOLD_DAYS: Final = 3.0
"""Evidence at which it begins anew, in days. A false suspicion is cheap: nobody is paged by it."""
TIME_ALONE: Final = 0.5
"""Up to this share of the threshold evidence grows with time. No ticket hangs on it, as on an
alarm's."""
HEADROOM: Final = 1.05
"""The score's usual mean times this is accepted."""
ANSWERS_EACH: Final = 10
"""Answers that update the evidence together, which is a tenth of the work."""
FROM_DAYS: Final = 0.02
HALF_DAYS: Final = 0.1
"""Evidence at which the suspicion is half of what it can be."""
FORGETTING_S: Final = DAY_S
"""Time constant of the running mean."""
BEGINS_AFTER: Final = 1_000
"""Answers from which the running mean means something."""


class Suspicion(Part):
    """Watches the built-in judge's score of all answers.

    The same detector as the alarms', against 1.05 times the score's own running mean. It sees a
    spike before the few judged answers can; but it also moves when nothing but the score has, so
    that it raises nothing by itself: it lets the alarm put in the evidence it has put aside.

    One thread at a time; each process has its own, and forgets it when it ends.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        """Begin without a mean; `now` is in seconds since the epoch."""
        self._now = now
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._detector = Detector(
            objective=1.0,
            threshold_days=THRESHOLD_DAYS,
            max_importance_weight=ANSWERS_EACH,
            by_time=TIME_ALONE,
        )
        self._batch = 0.0
        self._answers = 0
        # The running mean of the answers up to the last tick is _score / _weight.
        self._score = self._weight = 0.0
        self._seen: float | None = None

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in an answer's predicted risk, if it was predicted and may be drawn."""
        risk = answer.completed.prediction.hallucination
        if risk is not None and answer.completed.decision is not None:
            self.add_risk(risk, answer.at_s)
        return ()

    def add_risk(self, risk: float, at_s: float) -> None:
        """Take in one answer's built-in score, 0 to 1, given at so many seconds since the epoch."""
        if not 0.0 <= risk <= 1.0:
            return
        self._answers += 1
        self._score += risk
        self._weight += 1.0
        if self._answers <= BEGINS_AFTER:
            return
        self._batch += risk
        if self._answers % ANSWERS_EACH == 0:
            # The detector follows a clock that was set back. One answer of another clock is none.
            self._detector.pass_time(max(at_s, self._now() - LATE_MOST_S))
            self._detector.update(self._batch / ANSWERS_EACH, ANSWERS_EACH)
            self._batch = 0.0
            if self._detector.evidence >= THRESHOLD_DAYS:
                self._detector.restart()

    def tick(self) -> Sequence[Observation]:
        """Let the running mean age, and the objective follow it. Every few seconds."""
        now_s = self._now()
        if self._seen is not None:
            # A clock that jumps must not wipe out a day's mean.
            elapsed_s = min(max(0.0, now_s - self._seen), STEP_MOST_S)
            kept = math.exp(-elapsed_s / FORGETTING_S)
            self._score *= kept
            self._weight *= kept
        self._seen = now_s
        if self._weight > 0:
            self._detector.objective = HEADROOM * self._score / self._weight
        return ()

    @property
    def value(self) -> float:
        """0 to 1: how far the alarm may put in the evidence that it has put aside."""
        days = self._detector.evidence
        return days / (days + HALF_DAYS) if days > FROM_DAYS else 0.0
