"""Answers to golden questions, scored by the judges of a monitor."""

from __future__ import annotations

import pytest

from ragmonitor.goldens import Golden, GoldenKind, ReferenceChunk
from ragmonitor.goldens.golden_scores import GoldenOutcome, ask_and_score
from ragmonitor.records import Cause, Unscored, evaluator_name

CHUNK = "The tower is 330 metres tall. It was opened in 1889."
TALL = Golden(
    id="tall",
    question="How tall is the tower?",
    answer="The tower is 330 metres tall.",
    chunks=(ReferenceChunk(text=CHUNK, id="c1"),),
)
PRICE = Golden(id="price", question="What does a ticket cost?", kind=GoldenKind.UNANSWERABLE)
REFUSAL = "The documents do not say what a ticket costs."


def app(answers: dict[str, str]):
    """Return an application that gives these answers, from one chunk."""
    return lambda question: {
        "answer": answers[question],
        "chunks": [{"text": CHUNK, "id": "c1"}],
    }


def causes(outcome: GoldenOutcome) -> dict[str, Cause]:
    """Return by evaluator why it gave no score."""
    evaluations = () if outcome.report is None else outcome.report.evaluations
    return {evaluator_name(e.evaluator): e.cause for e in evaluations if isinstance(e, Unscored)}


def test_a_right_answer_scores_full_and_a_wrong_one_does_not():
    """Correctness follows the reference, recall the chunks."""
    right = ask_and_score([TALL], app({TALL.question: TALL.answer})).outcomes[0]
    wrong = ask_and_score([TALL], app({TALL.question: "The tower is 99 metres tall."})).outcomes[0]
    assert right.scores["answer_correctness"] == 1
    assert wrong.scores["answer_correctness"] < 0.5
    assert wrong.scores["context_recall"] == wrong.scores["document_recall"] == 1
    assert wrong.scores["ragchecker_precision"] == 0


@pytest.mark.parametrize(("answer", "score"), [(REFUSAL, 1), ("A ticket costs 20 euros.", 0)])
def test_of_an_unanswerable_question_a_refusal_is_right(answer: str, score: float):
    """It has no other score by a reference."""
    outcome = ask_and_score([PRICE], app({PRICE.question: answer})).outcomes[0]
    assert outcome.scores["refusal_correctness"] == score
    assert causes(outcome)["answer_correctness"] == Cause.NO_REFERENCE


def test_an_answer_without_chunks_has_no_score_of_retrieval():
    """That an application does not say what it retrieved is no recall of 0."""
    outcome = ask_and_score([TALL], lambda _: TALL.answer).outcomes[0]
    assert outcome.scores["answer_correctness"] == 1
    assert causes(outcome)["context_recall"] == Cause.CAPTURE_INCOMPLETE
    assert causes(outcome)["context_precision"] == Cause.NO_CONTEXT


async def test_it_works_on_a_running_loop_and_keeps_what_failed():
    """Each question stands there as often as it was asked, answered or not."""

    def ask(question: str) -> str:
        if question == PRICE.question:
            raise RuntimeError("down")
        return TALL.answer

    found = ask_and_score([TALL, PRICE], ask, repeats=2)
    assert [each.golden.id for each in found.outcomes] == ["tall", "tall", "price", "price"]
    assert [each.asked.outcome for each in found.outcomes[2:]] == ["exception"] * 2
    assert all(each.report is None and not each.scores for each in found.outcomes[2:])
    assert found.judge.startswith("builtin@")
