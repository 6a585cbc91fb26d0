"""Answers to golden questions, scored by the judges of a monitor."""

from __future__ import annotations

import pytest

from ragmonitor.goldens.golden import Golden, ReferenceChunk
from ragmonitor.goldens.scored_runs import ask_and_score

CHUNK = "The tower is 330 metres tall. It was opened in 1889."
TALL = Golden(
    id="tall",
    question="How tall is the tower?",
    answer="The tower is 330 metres tall.",
    chunks=(ReferenceChunk(text=CHUNK, id="c1"),),
)
PRICE = Golden(id="price", question="What does a ticket cost?", kind="unanswerable")
REFUSAL = "The documents do not say what a ticket costs."


def app(answers: dict[str, str]):
    """Return an application that gives these answers, from one chunk."""
    return lambda question: {
        "answer": answers[question],
        "chunks": [{"text": CHUNK, "id": "c1"}],
    }


def scored(golden, ask):
    """Return the one answer to a golden question, with its scores."""
    return ask_and_score([golden], ask).goldens[0]


def test_a_right_answer_scores_full_and_a_wrong_one_does_not():
    """Correctness follows the reference, recall the chunks."""
    right = scored(TALL, app({TALL.question: TALL.answer}))
    wrong = ask_and_score([TALL], app({TALL.question: "The tower is 99 metres tall."})).goldens[0]
    assert right.scores["answer_correctness"] == 1
    assert wrong.scores["answer_correctness"] < 0.5
    assert wrong.scores["context_recall"] == wrong.scores["document_recall"] == 1
    assert wrong.scores["ragchecker_precision"] == 0


@pytest.mark.parametrize(("answer", "score"), [(REFUSAL, 1), ("A ticket costs 20 euros.", 0)])
def test_of_an_unanswerable_question_a_refusal_is_right(answer: str, score: float):
    """It has no other score by a reference."""
    outcome = scored(PRICE, app({PRICE.question: answer}))
    assert outcome.scores["refusal_correctness"] == score
    assert "answer_correctness" not in outcome.scores


def test_an_answer_without_chunks_has_no_score_of_retrieval():
    """That an application does not say what it retrieved is no recall of 0."""
    outcome = scored(TALL, lambda _: TALL.answer)
    assert outcome.scores["answer_correctness"] == 1
    assert not {"context_recall", "context_precision"} & {*outcome.scores}


async def test_it_works_on_a_running_loop_and_keeps_what_failed():
    """Each question stands there, answered or not."""

    def ask(question: str) -> str:
        if question == PRICE.question:
            raise RuntimeError("down")
        return TALL.answer

    found = ask_and_score([TALL, PRICE], ask)
    errors = [each.error for each in found.goldens]
    assert errors == ["", "exception: RuntimeError: down"]
    assert found.scored_by[0].startswith("builtin@")
