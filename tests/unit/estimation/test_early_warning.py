"""The early warning by the built-in score: what it asks for, for how long, and how often."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from ragmonitor.estimation.early_warning import BEGINS_AFTER, BOOST_S, THRESHOLD_DAYS, EarlyWarning
from ragmonitor.testing import ManualClock

START_S = 1_790_000_000.0
DAY_S = 86_400.0


def risk(rng: random.Random, bad: float) -> float:
    """Return a built-in score, calibrated at 4 %: twice as high in the mean for bad answers."""
    return min(1.0, rng.betavariate(0.8, 9.2) if rng.random() < bad else rng.betavariate(0.4, 9.6))


class Process:
    """A process that scores every answer and ticks every minute."""

    def __init__(self, seed: int = 1, *, factor: float = 4.0) -> None:
        self.clock = ManualClock(START_S)
        self.warning = EarlyWarning(factor=factor, now=self.clock)
        self.rng = random.Random(seed)

    def answers(self, days: float, *, per_minute: float = 60, draw=lambda rng: risk(rng, 0.04)):
        """Let answers come in; return how often sampling began to be boosted."""
        warned, boosted = 0, self.warning.boost > 1
        until_s = self.clock() + days * DAY_S
        while self.clock() < until_s:
            for _ in range(round(per_minute)):
                self.clock.advance(60 / per_minute)
                self.warning.add_risk(draw(self.rng), self.clock())
            self.warning.tick()
            warned += self.warning.boost > 1 and not boosted
            boosted = self.warning.boost > 1
        return warned


def test_it_begins_quiet():
    """No boost, no evidence."""
    warning = EarlyWarning(factor=4.0)
    assert warning.boost == 1.0
    assert warning.evidence_days == 0


def test_it_says_nothing_of_the_first_thousand_answers():
    """Until then it does not know what is usual."""
    process = Process()
    process.warning.tick()
    for _ in range(BEGINS_AFTER):
        process.clock.advance(1)
        process.warning.add_risk(1.0, process.clock())
    assert process.warning.evidence_days == 0


def test_a_rising_score_is_suspicious_before_it_buys_verdicts():
    """Mostly little on a usual day; nearly all within ten minutes of a rise."""
    process, usual = Process(), []
    process.answers(0.2)
    for _ in range(100):
        process.answers(1 / 1_440)
        usual.append(process.warning.suspicion)
    assert statistics.median(usual) < 0.6
    process.answers(10 / 1_440, draw=lambda rng: risk(rng, 0.6))
    assert process.warning.suspicion > 0.9


def test_usual_answers_boost_nothing():
    """A day of them."""
    assert Process().answers(1.0) == 0


def test_a_spike_of_the_score_boosts_the_sampling():
    """From a mean of 0.04 to one of 0.12, at 60 answers a minute: within half an hour."""
    delays = []
    for seed in range(9):
        process = Process(seed)
        process.answers(0.1)
        before_s = process.clock()
        while process.warning.boost == 1:
            process.answers(60 / DAY_S, draw=lambda rng: rng.betavariate(1.2, 8.8))
        delays.append((process.clock() - before_s) / 60)
    assert statistics.median(delays) < 30


def spiked() -> Process:
    process = Process()
    process.answers(0.1)
    while process.warning.boost == 1:
        process.clock.advance(1)
        process.warning.add_risk(0.9, process.clock())
    return process


def test_the_boost_is_the_factor_for_three_quarters_of_an_hour():
    """Then the sampling is what it was, unless it is suspicious again."""
    process = spiked()
    assert process.warning.boost == 4.0
    process.clock.advance(BOOST_S - 1)
    assert process.warning.boost == 4.0
    process.clock.advance(1)
    assert process.warning.boost == 1.0


def test_the_evidence_begins_anew_when_it_has_fired():
    """One suspicion, one boost."""
    assert spiked().warning.evidence_days < THRESHOLD_DAYS / 10


def test_what_stays_suspicious_is_boosted_on():
    """The boost is prolonged while the score stays high."""
    process = spiked()
    for _ in range(int(BOOST_S) + 60):
        process.clock.advance(1)
        process.warning.add_risk(0.9, process.clock())
    assert process.warning.boost == 4.0


def test_a_clock_that_is_set_back_ends_the_boost():
    """It does not last until the old time comes round again."""
    process = spiked()
    process.clock.advance(-DAY_S)
    assert process.warning.boost == 1.0


def test_the_usual_follows_the_score_slowly():
    """After two days at a higher mean that is the usual one."""
    process = Process()
    process.answers(0.5, per_minute=10)
    raised = lambda rng: risk(rng, 0.5)  # noqa: E731 - a mean of 0.06
    process.answers(2.0, per_minute=10, draw=raised)
    assert process.answers(2.0, per_minute=10, draw=raised) <= 1


def test_while_the_score_is_usual_it_warns_at_most_once_in_three_days():
    """60 days at a steady mean, at the bar itself were it not for the head-room."""
    days = 60
    allowed = days / THRESHOLD_DAYS
    assert Process().answers(days, per_minute=2) <= allowed + 3 * math.sqrt(allowed)


def test_answers_of_a_host_whose_clock_is_behind_make_no_time_pass():
    """Every third is two hours old; evidence of a usual score is what it is without."""
    late, right = Process(), Process()
    for n in range(20_000):
        score = risk(right.rng, 0.04)
        for process, behind_s in ((late, 7_200.0 * (n % 3 == 0)), (right, 0.0)):
            process.clock.advance(5)
            process.warning.add_risk(score, process.clock() - behind_s)
            if n % 12 == 0:
                process.warning.tick()
    assert late.warning.boost == 1.0
    assert late.warning.evidence_days == pytest.approx(right.warning.evidence_days, rel=0.01)


def test_clearing_forgets_everything():
    """A forked child begins on its own."""
    process = spiked()
    process.warning.clear()
    assert process.warning.boost == 1.0
    process.warning.add_risk(1.0, process.clock())
    assert process.warning.evidence_days == 0


@pytest.mark.parametrize("score", [math.nan, -0.1, 1.1])
def test_what_is_no_score_is_left_out(score):
    """It would stand in the running mean for a day."""
    process = Process()
    process.answers(0.05)
    before = process.warning.evidence_days
    process.warning.add_risk(score, process.clock() + 1)
    assert process.warning.evidence_days == before


def test_time_alone_brings_its_evidence_to_half_of_the_threshold():
    """It raises no ticket, so that it need not stay below what one takes."""
    process = Process()
    process.answers(0.1, per_minute=10, draw=lambda _: 0.0)
    for _ in range(10 * 24):
        process.clock.advance(3_600)
        process.warning.tick()
        process.warning.add_risk(0.0, process.clock())
    assert process.warning.evidence_days == pytest.approx(THRESHOLD_DAYS / 2, rel=0.01)
