"""Which old answers are asked about an alarm, and what becomes of the question."""

from __future__ import annotations

import pytest

from ragmonitor.estimation.anchors import VERSION, Anchors, Rise
from ragmonitor.estimation.anchors.inquiry import (
    MAX_AT_ONCE,
    MAX_RESERVE,
    MAX_TRIES,
    RENEWED_S,
    readings_needed,
)
from ragmonitor.estimation.anchors.membership import MAX_RESERVE_CHARACTERS
from ragmonitor.estimation.judge_drift import MAX_VERDICTS, MIN_AFTER, MIN_BEFORE, Rises
from ragmonitor.records import AlarmCause, JudgeIdentity
from ragmonitor.state import StateFile
from tests.support.stories import BEGAN_NS, interaction

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
OTHER = JudgeIdentity(name="model", version="2", kind="LLM")
BEGAN_S = BEGAN_NS / 1e9
RISE = Rise(before=0.04, after=0.2, verdicts=40)


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "anchors.json", version=VERSION)


def answer(number, *, at_s=BEGAN_S, **changes):
    ended_ns = int(at_s * 1e9)
    return interaction(id=f"a{number}", started_ns=ended_ns, ended_ns=ended_ns, **changes)


def filled(count=400, **how):
    anchors = Anchors(per_day=20, **how)
    for number in range(count):
        anchors.offer([(answer(number, at_s=BEGAN_S + number), False, JUDGE)])
    return anchors


def reserve(anchors):
    return [each for each in anchors._set.anchors.values() if each.in_reserve]


def asked(anchors, now_s, *, rise=RISE, flips=False, judge=JUDGE):
    """Read what is due once; return the ids."""
    due = anchors.due(now_s, judge, rise=rise)
    for each in due:
        anchors.checked(each.id, flips, judge, now_s)
    return [each.id for each in due]


def test_fine_answers_beyond_the_checked_ones_are_kept_in_reserve():
    """Those that gave up a place among the checked ones, too."""
    assert len(reserve(filled(400))) == 300


def test_the_reserve_is_bounded_and_renewed_within_a_week():
    """The oldest gives way, as seldom as lets it reach back a week."""
    anchors = filled(MAX_RESERVE + 500)
    assert len(reserve(anchors)) == MAX_RESERVE
    between_s = RENEWED_S / MAX_RESERVE
    at_s = BEGAN_S + MAX_RESERVE + 500
    for number in range(5_000, 5_020):
        at_s += between_s / 2
        anchors.offer([(answer(number, at_s=at_s), False, JUDGE)])
    newcomers = [each for each in reserve(anchors) if each.joined_s > BEGAN_S + MAX_RESERVE + 500]
    assert len(reserve(anchors)) == MAX_RESERVE
    assert 5 <= len(newcomers) <= 12


def test_one_answer_of_a_clock_that_was_ahead_does_not_stop_the_renewal():
    """It came a year early; the next half an hour apart are kept in reserve all the same."""
    anchors = filled(MAX_RESERVE + 100)
    began_s = BEGAN_S + MAX_RESERVE + 100 + RENEWED_S / MAX_RESERVE
    anchors.offer([(answer(5_000, at_s=began_s + 365 * 86_400), False, JUDGE)])
    for number in range(3):
        anchors.offer([(answer(5_001 + number, at_s=began_s + 1_800 * number), False, JUDGE)])
    kept = {each.id for each in reserve(anchors)}
    assert {f"a{number}" for number in range(5_000, 5_004)} <= kept


def test_a_long_answer_is_not_kept_in_reserve():
    """Five hundred of them would be felt in memory."""
    anchors = filled(100)
    long = answer(1_000, answer="x" * (MAX_RESERVE_CHARACTERS + 1))
    anchors.offer([(long, False, JUDGE)])
    assert not any(each.id == "a1000" for each in reserve(anchors))


def test_reserved_answers_are_read_only_when_an_alarm_asks():
    """Day by day only the checked ones are."""
    anchors = filled()
    kept = {each.id for each in reserve(anchors)}
    day_s = 86_400.0
    read = [each for n in range(60) for each in asked(anchors, BEGAN_S + 1_000 + n * day_s / 20)]
    assert read
    assert not kept & set(read)


def test_a_few_are_read_at_once_until_the_cause_is_known():
    """No more than a decision may have to wait for."""
    anchors = filled()
    anchors.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    assert len(anchors.due(BEGAN_S + 2_001, JUDGE, rise=RISE)) == MAX_AT_ONCE
    assert len(anchors.due(BEGAN_S + 2_002, JUDGE, rise=RISE)) <= 1
    anchors = filled()
    anchors.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    rounds = 0
    while anchors.cause().cause == "unknown":
        assert asked(anchors, BEGAN_S + 2_001 + rounds)
        rounds += 1
    assert anchors.cause().cause == "application"
    assert anchors.decided().cause == "application"
    assert anchors.decided() is None
    assert len(asked(anchors, BEGAN_S + 2_100)) <= 1


def test_answers_judged_since_the_rise_are_no_witnesses():
    """Their frozen verdicts may be those of a judge that has changed already."""
    anchors = filled(400)
    anchors.inquire(BEGAN_S + 40, BEGAN_S + 2_000)
    read = []
    for n in range(100):
        read += asked(anchors, BEGAN_S + 2_001 + n, rise=Rise(before=0.04, after=0.08, verdicts=99))
    assert read
    assert all(int(each.removeprefix("a")) < 40 for each in read)
    assert anchors.cause().cause == "unknown"
    assert anchors.cause().waiting == 0


def test_nothing_is_read_before_the_rise_is_known_or_if_it_is_too_small():
    """What to expect of either cause follows from it."""
    anchors = filled()
    anchors.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    kept = {each.id for each in reserve(anchors)}
    assert not kept & {*asked(anchors, BEGAN_S + 2_001, rise=None)}
    assert "too few verdicts" in str(anchors.cause())
    tiny = Rise(before=0.04, after=0.041, verdicts=500)
    assert not kept & {*asked(anchors, BEGAN_S + 2_030, rise=tiny)}
    assert kept & {
        *asked(anchors, BEGAN_S + 2_060, rise=Rise(before=0.04, after=0.2, verdicts=600))
    }


def test_a_reference_that_cannot_be_read_is_tried_a_few_times():
    """Then the question does without it."""
    anchors = filled(120)
    anchors.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    tries, now_s = {}, BEGAN_S + 2_000
    for _ in range(200):
        now_s += 20
        for each in anchors.due(now_s, JUDGE, rise=RISE):
            tries[each.id] = tries.get(each.id, 0) + 1
            anchors.checked(each.id, None, JUDGE, now_s)
    reserved = {each.id for each in reserve(anchors)}
    assert {count for each, count in tries.items() if each in reserved} == {MAX_TRIES}
    assert anchors.cause().waiting == 0


def test_two_processes_share_the_question_and_its_readings(file):
    """Each reference is read by one of them, and both know the cause."""
    first = filled(file=file, keep_texts=True)
    second = Anchors(per_day=20, file=file, keep_texts=True)
    first.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    read, now_s = [], BEGAN_S + 2_000
    while len(read) < 200 and (first.cause().cause == "unknown" or not read):
        for each in (first, second):
            now_s += 11
            read += asked(each, now_s)
        second.inquire(BEGAN_S + 1_000, now_s)
    assert len(read) == len(set(read))
    assert second.due(now_s + 60, JUDGE) is not None
    assert {first.cause().cause, second.cause().cause} == {"application"}
    assert (first.decided() is None) != (second.decided() is None)


def test_another_judge_ends_the_question():
    """Its verdicts on old answers say nothing of why the first one's rate rises."""
    anchors = filled()
    day_s, now_s = 86_400.0, BEGAN_S + 1_000
    for _ in range(40):
        now_s += day_s / 20
        asked(anchors, now_s)
    anchors.inquire(now_s, now_s + 1)
    for _ in range(5):
        now_s += 30
        asked(anchors, now_s, judge=OTHER, rise=RISE)
    assert anchors.changes()
    assert anchors.cause() is None
    assert not reserve(anchors)


def test_the_question_can_be_asked_anew_for_the_next_alarm():
    """What was read for the last one is read again."""
    anchors = filled()
    anchors.inquire(BEGAN_S + 1_000, BEGAN_S + 2_000)
    now_s = BEGAN_S + 2_000
    while anchors.cause().cause == "unknown":
        now_s += 1
        asked(anchors, now_s, flips=True)
    assert anchors.cause().cause == "judge"
    anchors.end_inquiry()
    assert anchors.cause() is None
    anchors.inquire(BEGAN_S + 1_500, now_s + 10)
    assert asked(anchors, now_s + 11)


def test_a_larger_rise_needs_fewer_readings():
    """Some tens for a judge that explains 15 points, hundreds for one that explains 2."""
    small, large = readings_needed(0.015, 0.03), readings_needed(0.015, 0.15)
    assert max(large) < 40
    assert min(small) > 150


def test_the_rate_before_and_since_is_weighted():
    """An answer that had half the chance to be judged counts for two."""
    rises = Rises()
    for n in range(MIN_BEFORE):
        rises.add(float(n), n % 10 == 0, 1.0)
    for n in range(MIN_AFTER):
        assert rises.since(1_000, objective=0.05) is None
        rises.add(1_000.0 + n, n == 0, 4.0 if n == 0 else 1.0)
    rise = rises.since(1_000, objective=0.05)
    assert rise.before == pytest.approx(0.1)
    assert rise.after == pytest.approx(4 / 13)
    assert rise.size == pytest.approx(4 / 13 - 0.1)


def test_too_little_before_counts_as_what_the_objective_accepts():
    """After a restart nothing is remembered of it."""
    rises = Rises()
    for n in range(MIN_AFTER):
        rises.add(float(n), True, 1.0)
    assert rises.since(0, objective=0.05).before == 0.05


def test_remembered_verdicts_are_bounded():
    """Nothing of ours grows without bound."""
    rises = Rises()
    for n in range(MAX_VERDICTS + 100):
        rises.add(float(n), False, 1.0)
    assert rises.since(0, objective=0).verdicts == MAX_VERDICTS


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        ("judge", "The judge has become stricter: 3 of 20"),
        ("application", "It is the application, not the judge: 3 of 20"),
        ("unknown", "not yet known: 3 of 20"),
    ],
)
def test_a_cause_is_told_with_its_error_or_what_is_still_needed(cause, told):
    """For people, in a sentence or two."""
    text = str(
        AlarmCause(
            cause=cause,
            since_s=0,
            reread=20,
            flipped=3,
            expected_else=0.02,
            expected_judge=0.1,
            needed=90,
            waiting=30,
        )
    )
    assert told in text
    assert ("error at most 5 %" in text) == (cause != "unknown")
    assert ("takes some 90 readings; 30 more can be read." in text) == (cause == "unknown")
