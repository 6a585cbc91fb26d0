"""How far badness has risen, by what is expected of all answers and by verdicts: no page by it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.store import DAY_S

HEADROOM: Final = 1.05
"""Times the running mean: what a rise is measured against."""
MAX_TOGETHER: Final = 10.0
"""The weight of a bucket's mean score is the number of answers, up to this."""
FROM_DAYS: Final = 0.02
HALF_DAYS: Final = 0.1
"""Evidence at which suspicion is half of what it can be."""
MAX_DAYS: Final = 3.0
"""Evidence does not grow beyond this."""
TIME_ALONE: Final = 0.5
"""Up to this share of it evidence grows with time alone."""
FORGETTING_S: Final = 86_400.0
BEGINS_AFTER: Final = 1_000.0
"""Answers from which the running mean means something."""
MULTIPLES: Final = (1.25, 1.5, 2.0, 3.0, 5.0, 9.0)
SHARES: Final = (1 / 12, 2 / 12, 3 / 12, 2 / 12, 3 / 12, 1 / 12)


@dataclass(slots=True)
class Suspicion:
    """The evidence that a mean score has risen, sooner than an alarm can tell.

    The score of a bucket is what the built-in judge has its answers expected to come to, plus what
    verdicts found bad, in importance weights: where few answers are judged the one tells soonest,
    where half of them are the other.

    It says when an alarm may put in the evidence that it has put aside (`Alarm.reserve`). Nothing
    rests on its being right: what is put in is no more than the time that passed, and when it is
    put in depends on the past alone, so that the alarm's guarantee holds however little the score
    is worth. The detector is the alarms', against 1.05 times the score's own running mean.

    >>> suspicion = Suspicion()
    >>> for step in range(300):
    ...     suspicion.step(60.0 * step, 1.0 if step < 280 else 5.0, 10.0)
    >>> suspicion.value > 0.5
    True
    """

    parts: list[float] = field(default_factory=lambda: [0.0] * len(MULTIPLES))
    at_s: float = -1.0
    score: float = 0.0
    """The sum of scores that the running mean is of, and the next the number of answers."""
    weight: float = 0.0
    answers: float = 0.0
    """Since the beginning, with nothing forgotten."""

    @property
    def value(self) -> float:
        """0 to 1: how much of what was put aside may come in, of the most that can be."""
        days = sum(self.parts)
        return days / (days + HALF_DAYS) if days > FROM_DAYS else 0.0

    def step(self, at_s: float, score: float, answers: float) -> None:
        """Take in a bucket.

        Args:
            at_s: Its end, in seconds since the epoch.
            score: Sum of the scores of its answers.
            answers: Their number.
        """
        passed_s = min(3_600.0, max(0.0, at_s - self.at_s)) if self.at_s >= 0 else 0.0
        self.at_s = max(self.at_s, at_s)
        if self.answers > BEGINS_AFTER:
            # Against the mean before: what these answers say must not move their own bar.
            self._update(passed_s, score, answers)
        kept = math.exp(-passed_s / FORGETTING_S)
        self.score, self.weight = self.score * kept + score, self.weight * kept + answers
        self.answers += answers

    def _update(self, passed_s: float, score: float, answers: float) -> None:
        usual = min(0.999, max(0.001, HEADROOM * self.score / self.weight))
        days = min(passed_s / DAY_S, TIME_ALONE * MAX_DAYS - sum(self.parts))
        if days > 0:
            self.parts = [p + days * share for p, share in zip(self.parts, SHARES, strict=True)]
        if answers <= 0:
            return
        weight = min(answers, MAX_TOGETHER)
        edge = weight * (score / answers - usual)
        most = 0.9 / (usual * MAX_TOGETHER)
        self.parts = [
            part * (1 + min((multiple - 1) / (1 - usual), most) * edge)
            for part, multiple in zip(self.parts, MULTIPLES, strict=True)
        ]
        excess = sum(self.parts) / MAX_DAYS
        if excess > 1:  # so that it is soon over once the score is back
            self.parts = [part / excess for part in self.parts]
