"""How suspicious the built-in judge's score is: when it rises, and what it does not heed."""

from __future__ import annotations

import random
import statistics

import pytest

from ragmonitor.estimation.suspicion import BEGINS_AFTER, Suspicion
from ragmonitor.testing import ManualClock

START_S = 1_790_000_000.0
DAY_S = 86_400.0


def risk(rng: random.Random, bad: float) -> float:
    """Return a built-in score, calibrated at 4 %: twice as high in the mean for bad answers."""
    return min(1.0, rng.betavariate(0.8, 9.2) if rng.random() < bad else rng.betavariate(0.4, 9.6))


class Process:
    """A process that scores every answer and ticks every minute."""

    def __init__(self, seed: int = 1) -> None:
        self.clock = ManualClock(START_S)
        self.suspicion = Suspicion(now=self.clock)
        self.rng = random.Random(seed)

    def answers(self, days: float, *, per_minute: float = 60, draw=lambda rng: risk(rng, 0.04)):
        """Let answers come in."""
        until_s = self.clock() + days * DAY_S
        while self.clock() < until_s:
            for _ in range(round(per_minute)):
                self.clock.advance(60 / per_minute)
                self.suspicion.add_risk(draw(self.rng), self.clock())
            self.suspicion.tick()


def test_it_says_nothing_of_the_first_thousand_answers():
    """Until then it does not know what is usual."""
    process = Process()
    process.suspicion.tick()
    for _ in range(BEGINS_AFTER):
        process.clock.advance(1)
        process.suspicion.add_risk(1.0, process.clock())
    assert process.suspicion.value == 0


def test_a_rising_score_is_suspicious():
    """Mostly little on a usual day; nearly all within ten minutes of a rise."""
    process, usual = Process(), []
    process.answers(0.2)
    for _ in range(100):
        process.answers(1 / 1_440)
        usual.append(process.suspicion.value)
    assert statistics.median(usual) < 0.6
    process.answers(10 / 1_440, draw=lambda rng: risk(rng, 0.6))
    assert process.suspicion.value > 0.9


def test_answers_of_a_host_whose_clock_is_behind_make_no_time_pass():
    """Every third is two hours old; the suspicion of a usual score is what it is without."""
    late, right = Process(), Process()
    for n in range(20_000):
        score = risk(right.rng, 0.04)
        for process, behind_s in ((late, 7_200.0 * (n % 3 == 0)), (right, 0.0)):
            process.clock.advance(5)
            process.suspicion.add_risk(score, process.clock() - behind_s)
            if n % 12 == 0:
                process.suspicion.tick()
    assert late.suspicion.value == pytest.approx(right.suspicion.value, abs=0.01)
