"""What is said beforehand of intervals and alarms, against the detector and the estimates."""

from __future__ import annotations

import math
import random
from statistics import fmean

import pytest

from ragmonitor.estimation import streams, summarise
from ragmonitor.estimation.detector import Detector
from ragmonitor.estimation.planning import (
    Watched,
    delay_hours,
    design_effect,
    digamma,
    half_width,
    judged_in,
    share_of,
)
from ragmonitor.records import Estimate, SeriesKey
from ragmonitor.sampling import AdaptiveSampler
from ragmonitor.testing import ManualClock
from tests.support.simulation import Service, statistics
from tests.support.streams import HOUR_S, Records, Stream, steady

THRESHOLD_DAYS = 30.0
RUNS = 60
QUIET = 3_000
"""Bets before the change: evidence is then as it is on a usual day."""


def watched(objective: float, mean: float, **more: float) -> Watched:
    """Return the hallucination alarm of a service with a judge."""
    told = {"share": 0.5, "max_importance_weight": 2.0} | more
    return Watched(objective=objective, mean=mean, threshold_days=THRESHOLD_DAYS, **told)


def delays(objective: float, before: float, after: float, per_hour: float) -> list[float]:
    """Return how many hours real detectors took, in simulations."""
    found = []
    for seed in range(RUNS):
        rng = random.Random(seed)
        line = THRESHOLD_DAYS / 0.5
        detector = Detector(objective=objective, max_importance_weight=2.0, threshold_days=line)
        at_s = 0.0
        for _ in range(QUIET):
            at_s += rng.expovariate(per_hour / HOUR_S)
            detector.pass_time(at_s)
            detector.update(float(rng.random() < before))
        began_s = at_s
        while detector.evidence < line:
            at_s += rng.expovariate(per_hour / HOUR_S)
            detector.pass_time(at_s)
            detector.update(float(rng.random() < after))
        found.append((at_s - began_s) / HOUR_S)
    return found


@pytest.mark.parametrize(
    ("objective", "times", "usual", "per_hour"),
    [
        (0.02, 2, 0.6, 180),
        (0.02, 4, 0.8, 10),
        (0.05, 2, 0.8, 180),
        (0.05, 4, 0.8, 180),
        (0.05, 4, 0.6, 10),
        (0.05, 2, 0.8, 3_000),
        (0.15, 2, 0.8, 10),
        (0.15, 4, 0.6, 180),
    ],
)
def test_delays_are_those_of_the_detector(
    objective: float, times: float, usual: float, per_hour: float
):
    """Within a factor of 1.5 of the mean over simulated jumps, whatever the traffic."""
    before, after = usual * objective, times * objective
    told = delay_hours(watched(objective, before), mean=after, bets_per_hour=per_hour)
    found = fmean(delays(objective, before, after, per_hour))
    assert 1 / 1.5 < told / found < 1.5


def test_twice_the_verdicts_take_a_little_more_than_half_the_time():
    """More bets at the same growth; but each brings less time, so that evidence begins lower."""
    slow = delay_hours(watched(0.05, 0.04), mean=0.2, bets_per_hour=90)
    fast = delay_hours(watched(0.05, 0.04), mean=0.2, bets_per_hour=180)
    assert slow / 2 < fast < slow / 1.7


def test_evidence_that_is_there_shortens_it():
    """What an alarm has it need not gather again."""
    bare = delay_hours(watched(0.05, 0.04), mean=0.1, bets_per_hour=180)
    half_way = delay_hours(watched(0.05, 0.04, evidence_days=3.0), mean=0.1, bets_per_hour=180)
    assert half_way < 0.6 * bare


@pytest.mark.parametrize(("mean", "per_hour"), [(0.04, 180), (0.05, 180), (0.2, 0)])
def test_there_is_no_alarm_without_a_rise_or_without_verdicts(mean: float, per_hour: float):
    """At or below the objective no bet grows; nor does one that is not made."""
    told = delay_hours(watched(0.05, 0.04), mean=mean, bets_per_hour=per_hour)
    assert told == math.inf


def test_a_line_that_is_reached_already_takes_one_bet():
    """Not none: a bad answer raises an alarm."""
    told = delay_hours(watched(0.05, 0.04, evidence_days=29.9), mean=0.2, bets_per_hour=60)
    assert 1 / 60 <= told < 10 / 60


def test_shares_are_those_of_the_streams():
    """Also where patterns leave signals out."""
    for patterns in (("*",), ("hallucination",), ("refusal", "faithfulness"), ("h*", "r*")):
        found = streams(
            evaluators=("faithfulness", "answer_relevancy"),
            lower_is_better=(),
            builtin="builtin",
            judge="judge",
            patterns=patterns,
        )
        signals = [stream.signal for stream in found]
        assert {s.signal: s.share for s in found} == {s: share_of(s, signals) for s in signals}


def estimated(rate: float, window: str) -> tuple[Estimate, float]:
    """Return the estimate of a simulated service after five hours, and verdicts per hour."""
    clock = ManualClock()
    records = Records()
    estimates = statistics(clock, records, boost=1.0)
    service = Service(
        estimates=estimates,
        sampler=AdaptiveSampler(rate, clock=clock),
        clock=clock,
        records=records,
        tick_s=60.0,
    )
    hours = 5.0
    stream = Stream(
        seed=7, for_s=hours * HOUR_S, per_minute=60, rate=steady(0.15), auroc=steady(0.9)
    )
    service.feed(stream.answers())
    key = SeriesKey(signal="hallucination", judge=records.judge.name)
    moments = next(
        found for own, name, found in estimates.snapshot().moments if own == key and name == window
    )
    estimate = summarise(moments)
    assert estimate is not None
    return estimate, service.drawn / hours


@pytest.mark.slow
def test_the_width_is_that_of_the_gauge():
    """Of the hourly window, filled, within a tenth."""
    found, per_hour = estimated(0.2, "1h")
    told = half_width(found.mean, judged_in(1.0, per_hour) / found.efficiency)
    assert told == pytest.approx((found.upper - found.lower) / 2, rel=0.1)


@pytest.mark.slow
def test_the_design_effect_follows_the_rate():
    """What is seen at a tenth says what it would be at a half, and the other way round."""
    tenth, _ = estimated(0.1, "24h")
    half, _ = estimated(0.5, "24h")
    told = design_effect(0.5, seen=tenth.efficiency, seen_at=0.1)
    assert told == pytest.approx(half.efficiency, rel=0.2)
    back = design_effect(0.1, seen=half.efficiency, seen_at=0.5)
    assert back == pytest.approx(tenth.efficiency, rel=0.3)


def test_where_everything_is_judged_the_sample_is_plain():
    """There is nothing to predict; and what is seen there says nothing of a lower rate."""
    assert design_effect(1.0, seen=0.4, seen_at=0.1) == 1.0
    assert design_effect(0.1, seen=1.0, seen_at=1.0) == 1.0


def test_half_a_width_lies_between_nothing_and_a_half():
    """Without an answer everything is possible; with many, next to nothing else."""
    assert half_width(0.3, 0.0) == 0.5
    assert half_width(0.0, 100) == pytest.approx((1 - 0.025 ** (1 / 100)) / 2)
    assert half_width(0.5, 1e6) < 0.001


def test_digamma_has_its_known_values():
    """Minus Euler's constant at 1; DLMF 5.4.13 at a half."""
    gamma = 0.5772156649015329
    assert digamma(1.0) == pytest.approx(-gamma, abs=1e-6)
    assert digamma(0.5) == pytest.approx(-gamma - 2 * math.log(2), abs=1e-6)
    assert digamma(10.0) == pytest.approx(2.251752589066721, abs=1e-8)
