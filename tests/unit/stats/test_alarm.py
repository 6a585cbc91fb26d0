"""The evidence of one alarm."""

from __future__ import annotations

import random
import statistics

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.stats.alarm import CLEARED_AT, Alarm
from ragmonitor.stats.learning import ENOUGH, Learning
from ragmonitor.stats.suspicion import Suspicion
from ragmonitor.store import DAY_S, HOUR_S


def cell(bad: float, *, weight: float = 1.0, waiting: float = 0.0, missed: float = 0.0):
    return (weight, weight * bad, waiting, missed)


def fed(alarm: Alarm, values, *, each_s: float = 20.0, start_s: float = 0.0) -> list[str]:
    """Return what happens while verdicts come, each of an answer of its own."""
    found = []
    for n, value in enumerate(values):
        event = alarm.step(start_s + n * each_s, {f"{n % 4_000}": cell(value)})
        if event:
            found.append(event)
    return found


def capital_after(rng, *, session: int, days: float) -> float:
    """Return the evidence at the end, at exactly the objective, however high it is."""
    alarm = Alarm.begin(0.1, threshold_days=1e9)
    alarm.parts = [1.0] * len(alarm.parts)
    n = 0
    while n * 60 < days * DAY_S:
        own = rng.betavariate(0.3, 2.7) if session > 1 else 0.1
        group = rng.randrange(4_096)
        for _ in range(session):
            alarm.step(60.0 * n, {f"{group}": cell(float(rng.random() < own))})
            n += 1
    return alarm.evidence / len(alarm.parts)


@pytest.mark.parametrize("session", [1, 5])
def test_capital_grows_on_average_by_time_alone(session):
    """The mean of an e-value is 1, and a tenth of a day comes in, whatever sessions are like."""
    rng = random.Random(3)
    found = [capital_after(rng, session=session, days=0.1) for _ in range(200)]
    error = statistics.stdev(found) / 200**0.5
    assert statistics.fmean(found) <= 1 + 0.1 / 6 + 3 * error


def test_a_rise_is_raised_with_its_beginning_and_cleared_when_it_is_over():
    """The beginning is where the sum beyond the objective was lowest."""
    rng = random.Random(5)
    alarm = Alarm.begin(0.05, threshold_days=30.0)
    assert fed(alarm, [float(rng.random() < 0.03) for _ in range(3_000)]) == []
    spike_s = 60_000.0
    assert fed(alarm, [float(rng.random() < 0.4) for _ in range(150)], start_s=spike_s) == [
        "raised"
    ]
    assert spike_s - 600 < alarm.began_s < alarm.raised_at_s < spike_s + 3_000
    calm_s = spike_s + 7_200
    assert fed(alarm, [0.0] * 1_000, start_s=calm_s) == ["cleared"]
    assert not alarm.is_active


def test_missing_verdicts_count_as_fine_for_raising():
    """Half of the good ones fail: the mean of the rest is above the objective, and is no rise."""
    rng = random.Random(1)
    alarm = Alarm.begin(0.05, threshold_days=30.0)
    plain = Alarm.begin(0.05, threshold_days=30.0)
    for n in range(5_000):
        bad = rng.random() < 0.05
        fails = not bad and rng.random() < 0.5
        verdict = cell(float(bad)) if not fails else cell(0.0, weight=0.0, missed=1.0)
        alarm.step(n * 20.0, {f"{n % 4_000}": verdict})
        plain.step(n * 20.0, {} if fails else {f"{n % 4_000}": verdict})
        if plain.is_active:
            break
    assert plain.is_active
    assert not alarm.is_active


def test_failed_verdicts_say_nothing_for_clearing():
    """A judge that is down clears no alarm."""
    alarm = Alarm.begin(0.05, threshold_days=1.0)
    assert fed(alarm, [1.0] * 30) == ["raised"]
    for n in range(2_000):
        alarm.step(10_000.0 + n * 20, {f"{n}": cell(0.0, weight=0.0, missed=1.0)})
    assert alarm.evidence < CLEARED_AT


@given(
    buckets=st.lists(
        st.dictionaries(
            st.sampled_from("0123"),
            st.tuples(st.booleans(), st.booleans(), st.booleans()),
            max_size=3,
        ),
        max_size=25,
    )
)
def test_open_draws_make_evidence_a_lower_bound(buckets):
    """Whatever comes of them, the evidence will be at least what is shown while they are open."""
    known = Alarm.begin(0.2, 1e6, max_reserve=1.0)
    known.reserve, known.suspicion.parts = 1.0, [1.0]
    ahead = known.copy()
    held: set[str] = set()
    for n, bucket in enumerate(buckets):
        at_s = 600.0 * n
        seen = {
            group: cell(float(bad)) if not is_open else cell(0.0, weight=0.0, waiting=1.0)
            for group, (bad, is_open, _) in bucket.items()
        }
        final = {
            group: cell(float(bad)) if not is_open else cell(float(comes_bad))
            for group, (bad, is_open, comes_bad) in bucket.items()
        }
        ahead.step(at_s, seen, held=held)
        known.step(at_s, final)
        assert ahead.evidence <= known.evidence * (1 + 1e-9)


def test_it_is_the_same_after_it_was_written_and_read():
    """While it learns, while it bets, and while it is raised."""
    rng = random.Random(2)
    for objective, p in ((None, 0.1), (0.05, 0.02), (0.05, 0.7)):
        alarm = Alarm.begin(objective, 5.0, 2.0)
        fed(alarm, [float(rng.random() < p) for _ in range(900)], each_s=10.0)
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(alarm), type=Alarm)
        assert again == alarm
        more = [float(rng.random() < p) for _ in range(100)]
        for each in (alarm, again):
            fed(each, more, start_s=9_000.0)
        assert again == alarm


def test_an_objective_is_learned_over_a_whole_day():
    """And a spike within the first day is raised all the same, and not learned."""
    rng = random.Random(4)
    alarm = Alarm.begin(None, 30.0)
    assert fed(alarm, [float(rng.random() < 0.04) for _ in range(1_800)], each_s=20.0) == []
    assert alarm.objective is None
    assert 0.08 < alarm.spike < 0.2
    assert fed(alarm, [float(rng.random() < 0.5) for _ in range(200)], start_s=36_000.0) == [
        "raised"
    ]
    fed(alarm, [0.0] * 2_000, start_s=42_000.0)
    fed(alarm, [float(rng.random() < 0.04) for _ in range(400)], start_s=90_000.0)
    assert 0.03 < alarm.objective < 0.09
    assert alarm.learning is None


def test_what_leaves_no_room_has_no_alarm():
    """A usual badness of .95 is held to no lower value: that would raise an alarm for good."""
    alarm = Alarm.begin(None, 30.0)
    events = fed(alarm, [0.953] * 5_000, each_s=20.0)
    assert events == []
    assert alarm.objective is None
    assert alarm.learning is None


def test_a_rate_that_swings_over_the_day_is_learned_at_its_peak():
    """The night knows nothing of the noon."""
    learning = Learning()
    for n in range(3_000):
        at_s = n * DAY_S / 2_000
        noon = 1.0 if 0.25 < at_s % DAY_S / DAY_S < 0.75 else 0.0
        learning.add(1.0, 0.02 + 0.16 * noon, 0.0, at_s)
    assert learning.verdicts >= ENOUGH
    assert learning.objective() > 0.18


def test_what_was_put_aside_comes_in_when_something_is_suspicious():
    """As far as half of the threshold, and never more than the time that passed."""
    alarm = Alarm.begin(0.05, 30.0, max_reserve=7.5)
    for n in range(480):
        alarm.step(n * HOUR_S, {f"{n}": cell(0.0)})
    assert 7.4 < alarm.reserve <= 7.5
    low = alarm.evidence
    alarm.suspicion.parts = [1.0]
    alarm.step(480 * HOUR_S, {"1": cell(0.0)})
    assert low + 3 < alarm.evidence < 15
    assert alarm.evidence + alarm.reserve < 20


def test_suspicion_follows_the_score_of_all_answers():
    """It rises within minutes of a rise, and says little while the score is as usual."""
    rng = random.Random(6)
    suspicion = Suspicion()
    most = 0.0
    for n in range(3_000):
        suspicion.step(10.0 * n, sum(rng.betavariate(0.4, 9.6) for _ in range(10)), 10.0)
        most = max(most, suspicion.value)
    assert most < 0.8
    for n in range(3_000, 3_120):
        suspicion.step(10.0 * n, sum(rng.betavariate(0.7, 9.6) for _ in range(10)), 10.0)
    assert suspicion.value > 0.5
