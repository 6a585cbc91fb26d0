"""Feedback is joined with its answer whenever it comes, and what finds none is counted."""

import pytest

from ragmonitor.records import CompletedAnswer, Report, SpanReference
from ragmonitor.runtime.feedback import feedback_of
from ragmonitor.semconv import metrics
from ragmonitor.stats.feedback import MAX_KINDS, MAX_WAITING, OTHER, WAIT_S, PeoplesFeedback
from ragmonitor.stats.parts import Answer
from ragmonitor.store import Memory, Sqlite
from ragmonitor.testing import ManualClock
from tests.support.stories import BEGAN_NS, JUDGE, interaction

DAY_S = 86_400.0
SPAN = SpanReference(trace_id="a" * 32, span_id="b" * 16)


def answer(identity):
    told = interaction(id=identity)
    report = Report(interaction=told, judge=JUDGE, evaluations=(), assessment=None)
    return Answer(
        completed=CompletedAnswer(target=SPAN, builtin=report),
        at_s=BEGAN_NS / 1e9,
        verdicts={},
    )


def said(identity, value, now=0.0, **changes):
    return feedback_of(identity, value, **({"kind": "thumbs", "at_s": now} | changes))


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return None if request.param == "memory" else tmp_path / "feedback.sqlite"


@pytest.fixture
def clock():
    return ManualClock(1_000.0)


@pytest.fixture
def part(path, clock):
    return PeoplesFeedback(Memory() if path is None else Sqlite(path, "shop"), now=clock)


def values(part):
    return {(each.name, *dict(each.labels).values()): each.value for each in part.gauges()}


def test_feedback_that_comes_days_later_is_joined(part, clock):
    part.add(answer("a"))
    part.tick()
    clock.advance(5 * DAY_S)
    assert part.note(said("a", False, comment="no"))
    part.tick()
    (joined,) = part.joined()
    assert (joined.feedback.comment, joined.target) == ("no", SPAN)
    assert not part.joined()


def test_feedback_that_comes_before_its_answer_is_scored_waits_for_it(part):
    part.note(said("a", True))
    part.tick()
    assert not part.joined()
    part.add(answer("a"))
    part.tick()
    assert len(part.joined()) == 1


def test_ids_that_nobody_was_given_keep_no_feedback_on_known_answers_out(part):
    """They have a small room, of which the newest go first; what is known is joined at once."""
    part.add(answer("a"))
    part.note(said("early", True))
    for number in range(MAX_WAITING + 500):
        assert part.note(said(f"invented {number}", False))
    part.note(said("a", True))
    part.tick()
    assert [each.feedback.interaction_id for each in part.joined()] == ["a"]
    assert values(part)[metrics.FEEDBACK, "thumbs", "unknown"] == 501
    part.add(answer("early"))
    part.tick()
    assert len(part.joined()) == 1


def test_processes_of_one_folder_join_each_other_s_answers(tmp_path, clock):
    first, second = (
        PeoplesFeedback(Sqlite(tmp_path / "a.sqlite", "shop"), now=clock) for _ in range(2)
    )
    first.add(answer("a"))
    first.tick()
    second.note(said("a", True))
    second.tick()
    assert len(second.joined()) == 1


def test_kinds_are_bounded(part, clock):
    """Whoever may give feedback names them: beyond the first fifty they count as one."""
    for n in range(200):
        part.note(said("a", True, kind=f"kind_{n}"))
    part.note(said("a", False))
    part.add(answer("a"))
    part.tick()
    clock.advance(WAIT_S)
    part.note(said("nobody", True, kind="kind_199"))
    part.tick()
    clock.advance(WAIT_S)
    part.tick()
    received = {
        k: n for k, n in values(part).items() if k[0] == metrics.FEEDBACK and k[2] != "unknown"
    }
    assert len(received) == MAX_KINDS + 1
    assert received[metrics.FEEDBACK, "thumbs", "bad"] == 1
    assert received[metrics.FEEDBACK, OTHER, "good"] == 200 - (MAX_KINDS - 1) + 1
    assert values(part)[metrics.FEEDBACK, OTHER, "unknown"] == 1
