"""Assertions on answers: what fails says the sentence and the chunk, and replies are recorded."""

import time

import pytest

from ragmonitor.goldens.answer_assertions import AnswerAssertions, NotJudgedError
from ragmonitor.goldens.golden import Golden, ReferenceChunk
from ragmonitor.records import Verdict
from ragmonitor.testing import ScriptedJudge
from tests.support.stories import assessment

CHUNK = "A parcel may weigh 40 kg."
GOLDEN = Golden(
    id="g",
    question="How heavy may a parcel be?",
    answer=CHUNK,
    chunks=(
        ReferenceChunk(text=CHUNK, source="limits.md"),
        ReferenceChunk(text="Or 20 kg abroad."),
    ),
)
UNANSWERABLE = Golden(id="u", question="Who is king?", kind="unanswerable")


@pytest.fixture
def check():
    return AnswerAssertions()


def test_who_should_decline_and_does_not_fails(check):
    with pytest.raises(AssertionError, match="the answer does not say"):
        check.assert_correct("Charles is king.", UNANSWERABLE)


def test_what_is_no_text_is_no_answer(check):
    """Nothing passes because its name claims nothing: None, or a message in place of its text."""
    with pytest.raises(TypeError, match="not NoneType"):
        check.assert_faithful(None, [CHUNK])


def scripted(verdict=Verdict.SUPPORTED):
    return ScriptedJudge(lambda _: assessment(verdict))


def test_a_recorded_reply_needs_no_judge(tmp_path, monkeypatch):
    """Nor does it later, in CI."""
    path, judge, other = tmp_path / "replies.jsonl", scripted(), scripted(Verdict.ABSENT)
    recording = AnswerAssertions(judge, replies=path, records=True)
    recording.assert_faithful(CHUNK, [CHUNK], GOLDEN)
    recording.assert_faithful(CHUNK, [CHUNK], GOLDEN)
    assert len(judge.asked) == 1
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + 2 * 86_400 * 10**9)
    AnswerAssertions(other, replies=path).assert_faithful(CHUNK, [CHUNK], GOLDEN)
    assert not other.asked


def test_what_is_not_recorded_fails_and_says_what_to_do(tmp_path):
    """An answer, a chunk, a reference or a judge that has changed is another question to it."""
    path = tmp_path / "replies.jsonl"
    AnswerAssertions(scripted(), replies=path, records=True).assert_faithful(CHUNK, [CHUNK], GOLDEN)
    judge = scripted()
    check = AnswerAssertions(judge, replies=path)
    for answer, chunks, golden in (
        ("Another.", [CHUNK], GOLDEN),
        (CHUNK, [CHUNK, "more"], GOLDEN),
        (CHUNK, [CHUNK], Golden(id="g", question=GOLDEN.question, answer="Another.")),
    ):
        with pytest.raises(NotJudgedError, match="--ragmonitor-record"):
            check.assert_faithful(answer, chunks, golden)
    renamed = ScriptedJudge(lambda _: assessment(), name="newer")
    with pytest.raises(NotJudgedError, match="newer"):
        AnswerAssertions(renamed, replies=path).assert_faithful(CHUNK, [CHUNK], GOLDEN)
    assert not judge.asked


def test_a_judge_that_gives_nothing_asserts_nothing():
    def fails(_):
        raise RuntimeError("no network")

    with pytest.raises(NotJudgedError, match="judge_error"):
        AnswerAssertions(ScriptedJudge(fails)).assert_faithful(CHUNK, [CHUNK], GOLDEN)
