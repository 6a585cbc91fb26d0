"""Which old answers are asked about an alarm, and what becomes of the question."""

from __future__ import annotations

import pytest

from ragmonitor.estimation.anchors import VERSION, Anchors, Rise
from ragmonitor.estimation.judge_drift import MIN_AFTER, MIN_BEFORE, Rises
from ragmonitor.records import JudgeIdentity
from ragmonitor.state import StateFile
from tests.support.stories import BEGAN_NS, interaction

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
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


def test_reserved_answers_are_read_only_when_an_alarm_asks():
    """Day by day only the checked ones are."""
    anchors = filled()
    kept = {each.id for each in reserve(anchors)}
    day_s = 86_400.0
    read = [each for n in range(60) for each in asked(anchors, BEGAN_S + 1_000 + n * day_s / 20)]
    assert read
    assert not kept & set(read)


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
