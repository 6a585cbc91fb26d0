"""The detector's evidence, its guarantee and its speed, on seeded streams and in their own time."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from ragmonitor.estimation.detector import CLEARED_AT, Clearing, Detector

HOUR_S = 3_600.0
DAY_S = 86_400.0


def days_of(detector: Detector, rng: random.Random, days: float, *, rate: float, per_hour: float):
    """Bet on a Poisson stream, every answer judged; yield the time after each bet."""
    at_s = 0.0
    while (at_s := at_s + rng.expovariate(per_hour / HOUR_S)) < days * DAY_S:
        detector.pass_time(at_s)
        detector.update(float(rng.random() < rate))
        yield at_s


def alarms_in(
    days: float, *, objective: float, rate: float, line: float, per_hour: float, seed: int
):
    rng = random.Random(seed)
    detector = Detector(objective=objective, threshold_days=line)
    raised = 0
    for _ in days_of(detector, rng, days, rate=rate, per_hour=per_hour):
        if detector.evidence >= line:
            raised += 1
            detector.restart()
    return raised


def test_silence_counts_an_hour():
    """A night without a verdict, or a clock that jumps ahead, is no evidence of anything."""
    detector = Detector(objective=0.05)
    detector.pass_time(0.0)
    detector.pass_time(12 * HOUR_S)
    assert detector.evidence == pytest.approx(1 / 24)


def test_a_clock_that_was_set_back_is_followed():
    """After a wrong date in the future the detector is not deaf until then."""
    detector = Detector(objective=0.05)
    for at_s in (0.0, 365 * DAY_S, 60.0, 660.0):
        detector.pass_time(at_s)
    assert detector.evidence == pytest.approx((HOUR_S + 600) / DAY_S)


def test_while_the_mean_is_tolerated_evidence_is_at_most_the_time_passed():
    """In the mean over 2,000 seeded runs of a quarter day, within three standard errors."""
    found = []
    for seed in range(2_000):
        detector = Detector(objective=0.2)
        for _ in days_of(detector, random.Random(seed), 0.25, rate=0.2, per_hour=20):
            pass
        found.append(detector.evidence)
    error = statistics.stdev(found) / math.sqrt(len(found))
    assert statistics.fmean(found) <= 0.25 + 3 * error


@pytest.mark.parametrize("objective", [0.05, 0.3])
def test_false_alarms_keep_to_the_stated_rate(objective):
    """At the worst point, the rate at the objective: at most one in N days, within its error."""
    # 1,000 times N days with 480 verdicts each; Poisson error of a thousand.
    raised = alarms_in(2_000, objective=objective, rate=objective, line=2.0, per_hour=10, seed=3)
    assert 0 < raised <= 1_000 + 3 * math.sqrt(1_000)


def test_the_guarantee_holds_for_unequal_chances():
    """Answers that look bad are judged more often; staked by 1/chance they raise no more alarms."""
    rng = random.Random(5)
    detector = Detector(objective=0.1, max_importance_weight=2.0, threshold_days=2.0)
    raised, at_s = 0, 0.0
    while at_s < 600 * DAY_S:
        at_s += rng.expovariate(60 / HOUR_S)
        suspicious = rng.random() < 0.2
        bad = rng.random() < (0.3 if suspicious else 0.05)  # 10 % on the whole
        # The moment's rate moves with the hour; the chance moves with the look of the answer.
        rate = 0.1 if int(at_s // HOUR_S) % 2 else 0.3
        chance = rate * (0.5 + 0.5 * (3.0 if suspicious else 0.5))
        if rng.random() >= chance:
            continue
        detector.pass_time(at_s)
        detector.update(float(bad), rate / chance)
        if detector.evidence >= 2.0:
            raised += 1
            detector.restart()
    assert raised <= 300 + 3 * math.sqrt(300)


def minutes_to_find(seed: int, *, objective: float, after: float, line: float) -> float:
    """From a change of 4 % to `after`, four hours into the stream, at 180 verdicts an hour."""
    rng = random.Random(seed)
    detector = Detector(objective=objective, max_importance_weight=2.0, threshold_days=line)
    change_s, at_s = 4 * HOUR_S, 0.0
    while True:
        at_s += rng.expovariate(180 / HOUR_S)
        detector.pass_time(at_s)
        detector.update(float(rng.random() < (0.04 if at_s < change_s else after)))
        if detector.evidence >= line and at_s >= change_s:
            return (at_s - change_s) / 60


@pytest.mark.parametrize(
    ("objective", "line", "fastest", "slowest"),
    [(0.05, 30.0, 12, 26), (0.05, 60.0, 14, 30), (0.04, 30.0, 8, 22)],
)
def test_a_spike_is_found_within_half_an_hour(objective, line, fastest, slowest):
    """4 to 20 % at 180 verdicts an hour: about 20 minutes at 5 % as the objective, 15 at 4 %."""
    delays = [
        minutes_to_find(seed, objective=objective, after=0.2, line=line) for seed in range(101)
    ]
    assert fastest < statistics.median(delays) < slowest


def test_a_doubled_rate_is_found_within_hours():
    """4 to 8 % at 180 verdicts an hour, 4 % as the objective: about two and a half hours."""
    delays = [minutes_to_find(seed, objective=0.04, after=0.08, line=30.0) for seed in range(31)]
    assert 1.0 < statistics.median(delays) / 60 < 5.0


def hours_to_clear(
    seed: int, *, bad_hours: float, good: float, bad: float = 0.2, most_hours: float = 48
) -> float:
    """From the recovery on, at 180 verdicts an hour and 5 % as the objective."""
    rng = random.Random(seed)
    clearing = Clearing(objective=0.05, max_importance_weight=2.0, at_s=0.0)
    at_s = 0.0
    while at_s < (bad_hours + most_hours) * HOUR_S:
        at_s += rng.expovariate(180 / HOUR_S)
        rate = bad if at_s < bad_hours * HOUR_S else good
        clearing.update(float(rng.random() < rate), 1.0, at_s)
        if clearing.evidence >= CLEARED_AT:
            return at_s / HOUR_S - bad_hours
    return math.inf


def test_an_alarm_is_cleared_within_hours_of_the_recovery():
    """Back at 1 %, after half an hour at 20 %."""
    delays = [hours_to_clear(seed, bad_hours=0.5, good=0.01) for seed in range(21)]
    assert 0 < statistics.median(delays) < 3


def test_a_long_bad_time_need_not_be_paid_back():
    """After a day at 20 % it is cleared within half a day, not after days."""
    delays = [hours_to_clear(seed, bad_hours=24, good=0.01) for seed in range(11)]
    assert 0 < statistics.median(delays) < 8


def test_few_clearances_are_wrong():
    """At 1.2 times the objective at most one alarm in twenty is ever cleared, within error."""
    runs = 100
    wrong = sum(
        hours_to_clear(seed, bad_hours=0, good=0.06, most_hours=24) < math.inf
        for seed in range(runs)
    )
    assert wrong <= runs / 20 + 3 * math.sqrt(runs / 20)


@pytest.mark.slow
def test_a_rate_a_little_too_high_does_not_flutter():
    """1.2 times the objective, ten services, thirty days each: about one alarm, that stays."""
    raised = 0
    for seed in range(10):
        rng, at_s = random.Random(seed), 0.0
        detector, clearing = Detector(objective=0.05, threshold_days=30.0), None
        while at_s < 30 * DAY_S:
            at_s += rng.expovariate(180 / HOUR_S)
            x = float(rng.random() < 0.06)
            if clearing is not None:
                clearing.update(x, 1.0, at_s)
                if clearing.evidence >= CLEARED_AT:
                    clearing = None
                    detector.restart()
                continue
            detector.pass_time(at_s)
            detector.update(x)
            if detector.evidence >= 30:
                raised += 1
                clearing = Clearing(objective=0.05, max_importance_weight=1.0, at_s=at_s)
    assert 8 <= raised <= 15
