"""The early warning by the built-in judge's score alone: it raises sampling and never pages."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from ragmonitor import metrics
from ragmonitor.estimation.alarms.service_alarms import LATE_MOST_S
from ragmonitor.estimation.detector import DAY_S, STEP_MOST_S, Detector
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.records import GaugeValue

THRESHOLD_DAYS = 3.0
"""Evidence that raises sampling, in days. A false suspicion is cheap: it costs some verdicts."""
TIME_ALONE = 0.5
"""Up to this share of the threshold evidence grows with time. No ticket hangs on it, as on an
alarm's."""
HEADROOM = 1.1
SLIGHT_HEADROOM = 1.05
"""The headroom of the slight suspicion, which lets the alarm put in the evidence it has put
aside."""
SLIGHT_EACH = 10
"""Answers that update the slight suspicion together, which is a tenth of the work."""
SLIGHT_FROM_DAYS = 0.02
SLIGHT_HALF_DAYS = 0.1
"""Evidence at which it is half of what it can be."""
BOOST_S = 45 * 60.0
FORGETTING_S = DAY_S
"""Time constant of the running mean."""
BEGINS_AFTER = 1_000
"""Answers from which the running mean means something."""


class EarlyWarning(Part):
    """Watches the built-in judge's score of all answers, and asks for more judging when it rises.

    The same detector as the alarms', against 1.1 times the score's own running mean. It sees a
    spike as fast as the alarms do and before the few judged answers can; but it also fires when
    nothing but the score has moved, so that a judge must decide. What is drawn at a raised rate
    is drawn with a known probability all the same: no estimate and no alarm is biased by it.

    One thread at a time; each process has its own, and forgets it when it ends.
    """

    def __init__(self, *, factor: float, now: Callable[[], float] = time.time) -> None:
        """Begin without a mean.

        Args:
            factor: What sampling is to be raised by while there is a suspicion; 1: nothing.
            now: Seconds since the epoch.
        """
        self._factor = factor
        self._now = now
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._detector = Detector(objective=1.0, threshold_days=THRESHOLD_DAYS, by_time=TIME_ALONE)
        self._slight = Detector(
            objective=1.0,
            threshold_days=THRESHOLD_DAYS,
            max_importance_weight=SLIGHT_EACH,
            by_time=TIME_ALONE,
        )
        self._batch = 0.0
        self._answers = 0
        # The running mean of the answers up to the last tick is _score / _weight.
        self._score = self._weight = 0.0
        self._seen: float | None = None
        self._until_s = -math.inf

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in an answer's predicted risk, if it was predicted and may be drawn."""
        prediction = answer.completed.prediction
        # Not what verdicts teach beyond it: a model that is learning moves the mean by itself.
        risk = prediction.hallucination if prediction.basis is None else prediction.basis.untrained
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
        # The detector follows a clock that was set back. One answer of another clock is none.
        at_s = max(at_s, self._now() - LATE_MOST_S)
        # Against the mean as of the last tick: what this answer says must not move its own bar.
        self._detector.pass_time(at_s)
        self._detector.update(risk)
        self._batch += risk
        if self._answers % SLIGHT_EACH == 0:
            self._slight.pass_time(at_s)
            self._slight.update(self._batch / SLIGHT_EACH, SLIGHT_EACH)
            self._batch = 0.0
            if self._slight.evidence >= THRESHOLD_DAYS:
                self._slight.restart()
        if self._detector.evidence >= THRESHOLD_DAYS:
            self._detector.restart()
            self._until_s = self._now() + BOOST_S

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
            self._slight.objective = SLIGHT_HEADROOM * self._score / self._weight
        return ()

    @property
    def boost(self) -> float:
        """The factor by which the sampling is to be raised now; 1: nothing is suspicious."""
        left_s = self._until_s - self._now()
        # Longer than it was ever granted: the clock was set back.
        return self._factor if 0 < left_s <= BOOST_S else 1.0

    @property
    def suspicion(self) -> float:
        """0 to 1: how far the alarm may put in the evidence that it has put aside."""
        days = self._slight.evidence
        return days / (days + SLIGHT_HALF_DAYS) if days > SLIGHT_FROM_DAYS else 0.0

    @property
    def evidence_days(self) -> float:
        """While the score keeps to its mean, evidence gets so far at most once in so many days."""
        return self._detector.evidence

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the evidence."""
        yield GaugeValue.of(metrics.EARLY_WARNING_EVIDENCE_SECONDS, self.evidence_days * DAY_S)
