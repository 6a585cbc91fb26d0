"""Laws of the alarms: whatever comes in, in whatever order, by whatever clock and process."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.estimation.alarms import STATE_VERSION, Alarms, Stream
from ragmonitor.estimation.alarms.sessions import Sessions
from ragmonitor.estimation.detector import WEIGHTS, Block, Clearing, Detector
from ragmonitor.estimation.parts import Observation
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock

START_S = 1_790_000_000.0
STREAMS = (
    Stream(signal="up", judge="j", kind="quality", share=0.5, max_importance_weight=2.0),
    Stream(
        signal="down",
        judge="j",
        kind="quality",
        share=0.3,
        max_importance_weight=2.0,
        higher_is_better=True,
    ),
    Stream(signal="learned", judge="none", kind="input", share=0.2),
)
OBJECTIVE = {"up": 0.05, "down": 0.9}

shares = st.floats(0, 1)
importance_weights = st.floats(0, 2)
steps = st.floats(0, 4_000)
signals = st.sampled_from([stream.signal for stream in STREAMS])
bets = st.tuples(signals, shares, importance_weights, st.sampled_from(["", "", "a", "b"]))
jumps = st.floats(-1e9, 1e9) | st.floats(-5_000, 5_000)


def alarms(clock: ManualClock, file: StateFile | None = None, every_days: float = 30.0) -> Alarms:
    return Alarms(
        STREAMS, false_alarm_every_days=every_days, objectives=OBJECTIVE, now=clock, file=file
    )


def nothing(_: str) -> None:
    return None


def update(to: Alarms, each, at_s: float) -> None:
    signal, value, importance_weight, session = each
    to.update(
        Observation(
            signal=signal,
            value=value,
            importance_weight=importance_weight,
            at_s=at_s,
            session=session,
        )
    )


@given(
    objective=shares,
    max_importance_weight=st.floats(0.5, 4),
    line=st.floats(0.01, 1e4),
    moves=st.lists(st.tuples(jumps, shares, st.floats(0, 10)), max_size=200),
)
def test_evidence_is_never_negative(objective, max_importance_weight, line, moves):
    """Whatever the objective and the weights, and whatever the clock does; nor is it no number."""
    detector = Detector(
        objective=objective, max_importance_weight=max_importance_weight, threshold_days=line
    )
    clearing = Clearing(objective=objective, max_importance_weight=max_importance_weight, at_s=0.0)
    for at_s, x, importance_weight in moves:
        detector.pass_time(at_s)
        detector.update(x, importance_weight)
        clearing.update(x, min(importance_weight, max_importance_weight), at_s)
        assert min(detector.parts) >= 0
        assert min(clearing.parts) >= 0
        if detector.evidence >= line:
            detector.restart()
        assert detector.evidence < line


@given(
    objective=st.floats(0.001, 0.999),
    importance_weight=st.floats(0, 2),
    parts=st.lists(shares, min_size=6, max_size=6),
)
def test_a_bet_is_fair_at_what_is_tolerated(objective, importance_weight, parts):
    """In expectation over an answer that is bad with just that chance, evidence stays."""
    after = []
    for x in (0.0, 1.0):
        detector = Detector(objective=objective, max_importance_weight=2.0)
        detector.parts = list(parts)
        detector.update(x, importance_weight)
        after.append(detector.evidence)
    expected = (1 - objective) * after[0] + objective * after[1]
    assert expected == pytest.approx(sum(parts), rel=1e-9, abs=1e-12)


@given(
    level_of=st.floats(0.001, 0.999),
    importance_weight=st.floats(0, 2),
    step=steps,
)
def test_clearing_is_a_fair_bet_too(level_of, importance_weight, step):
    """At its level, what is in play grows only by what was held back."""
    after = []
    for x in (0.0, 1.0):
        clearing = Clearing(objective=level_of, max_importance_weight=2.0, at_s=0.0)
        clearing.update(x, importance_weight, step)
        after.append(clearing.evidence)
    expected = (1 - clearing.level) * after[0] + clearing.level * after[1]
    assert expected <= 1 + 1e-9


@given(
    objective=st.floats(0.01, 0.9),
    rates=st.tuples(shares, shares),
    importance_weights=st.lists(st.floats(0.01, 2), min_size=1, max_size=6),
    enters=st.integers(0, 5),
    stops=st.floats(1.0, 10.0),
)
def test_a_session_s_bets_are_fair_on_average_over_sessions(
    objective, rates, importance_weights, enters, stops
):
    """Every course of a session of two kinds, with capital that comes in half way and stops high.

    The kinds are as frequent as makes the mean the objective; what is summed over all courses
    is exact. Bets that multiply fail this by the variance of the rates between sessions.
    """
    low, high = min(*rates, objective), max(*rates, objective)
    share = (objective - low) / (high - low) if high > low else 1.0
    enters = min(enters, len(importance_weights) - 1)
    expected = 0.0
    for course in itertools.product((0.0, 1.0), repeat=len(importance_weights)):
        detector, block = Detector(objective=objective, max_importance_weight=2.0), Block()
        detector.parts = [0.0] * 6
        for number, (x, importance_weight) in enumerate(
            zip(course, importance_weights, strict=True)
        ):
            if number == enters:
                detector.parts = list(WEIGHTS)
            detector.update(x, importance_weight, block)
            if detector.evidence >= stops:
                break
        chance = sum(
            kind * math.prod(rate if x else 1 - rate for x in course)
            for kind, rate in ((share, high), (1 - share, low))
        )
        expected += chance * detector.evidence
    assert expected <= 1 + 1e-9


@given(
    moves=st.lists(st.tuples(st.floats(0, 7_200), shares, st.booleans()), max_size=100),
    max_reserve=st.floats(0, 5),
)
def test_no_more_capital_is_put_in_than_time_has_passed(moves, max_reserve):
    """Put aside or put in, by whatever suspicion: with fair bets it is at most the days gone by."""
    detector = Detector(objective=0.05, threshold_days=30.0, max_reserve=max_reserve)
    at_s = START_S
    detector.pass_time(at_s)
    for step_s, suspicion, saves in moves:
        at_s += step_s
        detector.pass_time(at_s, saves=saves)
        detector.trust(suspicion)
        detector.update(0.05)
        assert 0 <= detector.reserve <= max_reserve
        assert detector.evidence + detector.reserve <= (at_s - START_S) / 86_400 + 1e-9
        assert detector.evidence <= 15 + 1e-9


@given(times=st.lists(jumps, max_size=200), line=st.floats(0.01, 100))
def test_a_jumping_clock_alone_raises_no_alarm(times, line):
    """Back and forth, by seconds or by years, with answers exactly as good as the objective."""
    clock = ManualClock(START_S)
    watched = alarms(clock, every_days=line)
    for jump in times:
        clock.now_s = START_S + jump
        watched.update(Observation(signal="up", value=0.05, at_s=clock()))
        assert watched.apply(nothing) == ()
        assert watched.states()[0].evidence_s / 86_400 <= line / 2 + 1e-9


@given(
    moves=st.lists(st.tuples(steps, bets), max_size=60),
    seed=st.randoms(use_true_random=False),
    ticks=st.integers(1, 5),
)
def test_the_order_within_a_tick_changes_nothing(moves, seed, ticks):
    """Verdicts come back in any order; the evidence is the same, to the last digit."""
    clock = ManualClock(START_S)
    straight, mixed = alarms(clock), alarms(clock)
    size = len(moves) // ticks + 1
    for begin in range(0, len(moves), size):
        timed = []
        for step_s, each in moves[begin : begin + size]:
            clock.advance(step_s)
            timed.append((each, clock()))
        for each, at_s in timed:
            update(straight, each, at_s)
        seed.shuffle(timed)
        for each, at_s in timed:
            update(mixed, each, at_s)
        assert straight.apply(nothing) == mixed.apply(nothing)
        assert straight.states() == mixed.states()


@given(moves=st.lists(st.tuples(steps, bets), min_size=1, max_size=60))
def test_a_state_goes_through_the_file_unchanged(moves):
    """To the last digit, so that a restart is no event."""
    with tempfile.TemporaryDirectory() as folder:
        file = StateFile(Path(folder) / "alarms.json", version=STATE_VERSION)
        clock = ManualClock(START_S)
        before = alarms(clock, file)
        for step_s, each in moves:
            clock.advance(step_s)
            update(before, each, clock())
        before.apply(nothing)
        after = alarms(clock, file)
        after.apply(nothing)
        assert after.states() == before.states()
        assert [watch.dump() for watch in after._monitors] == [
            watch.dump() for watch in before._monitors
        ]


@settings(deadline=None)
@given(moves=st.lists(st.tuples(steps, bets, st.booleans()), max_size=40))
def test_two_processes_on_one_file_are_one(moves):
    """Whoever settles a verdict, states and events are those of a lone process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "alarms.json"
        clock = ManualClock(START_S)
        pair = [alarms(clock, StateFile(path, version=STATE_VERSION)) for _ in range(2)]
        lone = alarms(clock)
        for step_s, each, second in moves:
            clock.advance(step_s)
            update(pair[second], each, clock())
            update(lone, each, clock())
            assert pair[second].apply(nothing) == lone.apply(nothing)
            assert pair[not second].apply(nothing) == ()
        assert pair[0].states() == pair[1].states() == lone.states()


@given(
    delays=st.lists(st.tuples(st.floats(0, 600), st.floats(0, 1e6), shares), max_size=100),
)
def test_late_verdicts_pass_no_time_twice(delays):
    """However late they are, evidence at fair odds is at most the time that has passed."""
    clock = ManualClock(START_S)
    watched = alarms(clock)
    for step_s, late_s, _ in delays:
        clock.advance(step_s)
        watched.update(Observation(signal="up", value=0.05, at_s=clock() - late_s))
        watched.apply(nothing)
    days = (clock() - START_S + 1_800) / 86_400
    (state, *_) = watched.states()
    assert state.evidence_s / 86_400 <= days * 0.5 + 1e-9


@pytest.mark.parametrize(("length", "correlation"), [(20, 0.3), (5, 0.6), (40, 0.1)])
def test_false_alarms_of_long_sessions_keep_to_the_stated_rate(length, correlation):
    """At exactly the objective, answers of a session failing together: at most one in N days.

    Sessions of two kinds, eight at a time, all answers judged. If each verdict counted for one,
    there would be many times as many.
    """
    rng, rate, threshold_days = random.Random(length), 0.05, 0.25
    bad = rate + correlation * (1 - rate)
    detector = Detector(objective=rate, threshold_days=threshold_days)
    sessions, open_ones, at_s, raised, days = (
        Sessions(),
        [["", 0, 0.0] for _ in range(8)],
        0.0,
        0,
        40,
    )
    for number in range(days * 4_320):
        at_s += 20.0
        slot = rng.choice(open_ones)
        if slot[1] <= 0:
            slot[:] = [str(number), length, bad if rng.random() < rate / bad else 0.0]
        slot[1] -= 1
        detector.pass_time(at_s)
        detector.update(float(rng.random() < slot[2]), 1.0, sessions.block(slot[0], 0, at_s))
        if detector.evidence >= threshold_days:
            raised += 1
            detector.restart()
            sessions.spend(0)
    allowed = days / threshold_days
    assert 0 < raised <= allowed + 3 * math.sqrt(allowed)


def test_verdicts_that_come_later_when_they_are_bad_raise_no_more_alarms():
    """Bursts at exactly the objective; bad verdicts take two minutes, good ones three seconds.

    Bet in the order in which they come, they make an alarm of nearly every burst.
    """
    rng, rate, threshold_days, days = random.Random(8), 0.05, 0.5, 12
    clock = ManualClock(START_S)
    stream = Stream(signal="up", judge="j", kind="quality", share=1.0)
    watched = Alarms(
        (stream,), false_alarm_every_days=threshold_days, objectives={"up": rate}, now=clock
    )
    raised, waiting, number = 0, [], 0
    for _ in range(days * 24):
        for at_s in sorted(
            [rng.uniform(0, 3_600) for _ in range(60)] + [rng.uniform(0, 300) for _ in range(200)]
        ):
            number += 1
            hour_s = clock.now_s - (clock.now_s - START_S) % 3_600
            clock.now_s = max(clock.now_s, hour_s + at_s)
            bad = rng.random() < rate
            watched.drawn(str(number))
            heapq.heappush(
                waiting, (clock.now_s + (120.0 if bad else 3.0), number, bad, clock.now_s)
            )
            while waiting and waiting[0][0] <= clock.now_s:
                _, which, value, drawn_s = heapq.heappop(waiting)
                watched.update(
                    Observation(
                        signal="up",
                        value=value,
                        importance_weight=1.0,
                        at_s=drawn_s,
                        answer=str(which),
                    )
                )
                watched.complete(str(which))
            if number % 5 == 0:
                raised += sum(event.raised for event in watched.apply(nothing))
        clock.now_s = START_S + 3_600 * math.ceil((clock.now_s - START_S) / 3_600)
    allowed = days / threshold_days
    assert raised <= allowed + 3 * math.sqrt(allowed)
    assert watched.late == 0


@pytest.mark.parametrize("follows", ["past verdicts", "chance", "always"])
def test_false_alarms_keep_to_the_stated_rate_whatever_is_trusted(follows):
    """At exactly the objective, by any suspicion that rests on the past: one in N days."""
    rng, threshold_days, days = random.Random(follows), 1.0, 500
    detector = Detector(objective=0.05, threshold_days=threshold_days, max_reserve=0.25)
    raised, at_s, lately = 0, 0.0, 0.0
    while at_s < days * 86_400:
        at_s += rng.expovariate(20 / 3_600)
        suspicion = {"past verdicts": min(1.0, 3 * lately), "chance": rng.random(), "always": 1.0}
        detector.pass_time(at_s, saves=True)
        detector.trust(suspicion[follows])
        x = float(rng.random() < 0.05)
        detector.update(x)
        lately += (x - lately) / 10
        if detector.evidence >= threshold_days:
            raised += 1
            detector.restart()
    assert 0.5 * days < raised <= days + 3 * math.sqrt(days)
