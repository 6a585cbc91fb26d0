"""Assertions on answers: what fails says the sentence and the chunk, and replies are recorded."""

import pytest
from langchain_core.documents import Document

from ragmonitor import SettingsError
from ragmonitor.goldens.answer_assertions import AnswerAssertions, NotJudgedError
from ragmonitor.goldens.golden import Golden, GoldenKind, ReferenceChunk
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
UNANSWERABLE = Golden(id="u", question="Who is king?", kind=GoldenKind.UNANSWERABLE)


@pytest.fixture
def check():
    return AnswerAssertions()


def test_what_is_right_passes(check):
    check.assert_faithful(CHUNK, [CHUNK], GOLDEN)
    check.assert_correct(CHUNK, GOLDEN)
    check.assert_correct("The documents do not say who is king.", UNANSWERABLE)
    check.assert_retrieves([Document(CHUNK), "Or 20 kg abroad."], GOLDEN)


def test_an_unsupported_sentence_is_shown_with_its_chunk(check):
    with pytest.raises(AssertionError) as raised:
        check.assert_faithful("A parcel may weigh 90 kg.", [Document(CHUNK, id="c1")], GOLDEN)
    message = str(raised.value)
    assert message.startswith("faithfulness 0.00 < 1 (by builtin@")
    assert "contradicted: 'A parcel may weigh 90 kg.' (not so: 90; chunk 1:" in message
    assert f"chunk 1: '{CHUNK}' (c1)" in message


def test_a_wrong_answer_is_shown_beside_the_reference(check):
    with pytest.raises(AssertionError) as raised:
        check.assert_correct("Parcels are brown, square and shipped on Mondays.", GOLDEN)
    message = str(raised.value)
    assert f"missing from the answer: '{CHUNK}'" in message
    assert f"reference: {CHUNK}" in message


def test_who_should_decline_and_does_not_fails(check):
    with pytest.raises(AssertionError, match="the answer does not say"):
        check.assert_correct("Charles is king.", UNANSWERABLE)


def test_an_empty_answer_fails(check):
    """It claims nothing, and serves nobody."""
    for claim in (check.assert_faithful, check.assert_correct):
        with pytest.raises(AssertionError, match="the answer is empty"):
            claim(" ", [CHUNK] if claim == check.assert_faithful else CHUNK)


def test_what_is_no_text_is_no_answer(check):
    """Nothing passes because its name claims nothing: None, or a message in place of its text."""
    with pytest.raises(TypeError, match="not NoneType"):
        check.assert_faithful(None, [CHUNK])


def test_one_text_or_document_is_one_chunk(check):
    """And no collection of letters, or of a document's fields."""
    for chunk in (CHUNK, Document(CHUNK), {"text": CHUNK}):
        check.assert_faithful(CHUNK, chunk)


def test_a_refusal_claims_nothing_and_is_faithful(check):
    check.assert_faithful("I do not know.", [CHUNK], GOLDEN)


def test_what_was_not_retrieved_is_named(check):
    with pytest.raises(AssertionError) as raised:
        check.assert_retrieves(["Bees make honey."], GOLDEN)
    message = str(raised.value)
    assert "0 of 2 reference chunks were retrieved" in message
    assert f"missing: '{CHUNK}' (limits.md)" in message
    assert "retrieved 1: 'Bees make honey.'" in message
    check.assert_retrieves([CHUNK], GOLDEN, at_least=0.5)
    with pytest.raises(AssertionError):
        check.assert_retrieves([], GOLDEN, at_least=0.5)


def scripted(verdict=Verdict.SUPPORTED):
    return ScriptedJudge(lambda _: assessment(verdict))


def test_a_recorded_reply_needs_no_judge(tmp_path):
    path, judge, other = tmp_path / "replies.jsonl", scripted(), scripted(Verdict.ABSENT)
    recording = AnswerAssertions(judge, replies=path, records=True)
    recording.assert_faithful(CHUNK, [CHUNK], GOLDEN)
    recording.assert_faithful(CHUNK, [CHUNK], GOLDEN)
    assert len(judge.asked) == 1
    AnswerAssertions(other, replies=path).assert_faithful(CHUNK, [CHUNK], GOLDEN)
    assert not other.asked


def test_a_reply_is_recorded_on_a_line_of_its_own(tmp_path):
    """Also behind a last line whose end an editor has removed."""
    judge = ScriptedJudge(lambda _: assessment(Verdict.SUPPORTED))
    path = tmp_path / "replies.jsonl"
    for answer in (CHUNK, "Or 20 kg abroad."):
        recording = AnswerAssertions(judge, replies=path, records=True, budget_usd=1)
        recording.assert_faithful(answer, [answer])
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
    AnswerAssertions(judge, replies=path).assert_faithful(CHUNK, [CHUNK])


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


def test_the_built_in_judge_is_not_recorded(tmp_path):
    with pytest.raises(SettingsError, match="needs no recorded replies"):
        AnswerAssertions(replies=tmp_path / "replies.jsonl")


def test_a_judge_that_gives_nothing_asserts_nothing():
    def fails(_):
        raise RuntimeError("no network")

    with pytest.raises(NotJudgedError, match="judge_error"):
        AnswerAssertions(ScriptedJudge(fails)).assert_faithful(CHUNK, [CHUNK], GOLDEN)
