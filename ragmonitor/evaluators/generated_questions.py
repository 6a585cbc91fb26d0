"""Answer relevancy RAGAS' way: questions are made of the answer and compared with the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ragmonitor.apart import apart
from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.embedding import Embedding, Vector, character_grams, nearness, vectors
from ragmonitor.evaluators.table import Entry, Table, table
from ragmonitor.protocols import Asker, AskingEvaluator
from ragmonitor.records import Assessment, Cause, Interaction

NAME: Final = "answer_relevancy_by_questions"
QUESTIONS: Final = 3
"""RAGAS' `strictness`."""
_LONGEST: Final = 1000
_INSTRUCTIONS: Final = f"""\
Read the ANSWER alone. Write {QUESTIONS} different questions that it answers, in the ANSWER's \
language, as a user would ask them: the first the one that it answers best. Say of each whether \
the ANSWER is evasive about it: true if it only declines, is vague, or does not know."""
_FIELDS: Final = {
    "questions": f"a list of {QUESTIONS} texts",
    "evasive": f"a list of {QUESTIONS} times true or false",
}


def relevancy(question: Vector, generated: Sequence[Vector], evasive: Sequence[bool]) -> float:
    """Return the mean nearness of generated questions to the question; 0 if all are evasive.

    Args:
        question: Its vector; shape (n_dimensions,).
        generated: Of each generated question; shape (n_questions, n_dimensions), at least one.
        evasive: Of each; shape (n_questions,).

    Returns:
        0 to 1; a cosine below 0 counts as 0.

    Source:
        Es et al., "RAGAS" (2023), section 3, answer relevance, arXiv:2309.15217; the factor 0 as in
        RAGAS 0.4.3.
    """
    return mean_similarity([nearness(question, vector) for vector in generated], evasive)


def mean_similarity(similarities: Sequence[float], evasive: Sequence[bool]) -> float:
    """Return the mean of similarities, of at least one; 0 if all the answers are evasive."""
    return 0.0 if all(evasive) else sum(similarities) / len(similarities)


def answer_relevancy_by_questions(embedding: Embedding) -> AskingEvaluator:
    """Return the evaluator with this embedding."""

    async def evaluator(interaction: Interaction, _assessment: Assessment, asker: Asker) -> float:
        """Return the mean cosine of questions made of the answer with the question that was asked.

        It costs a call of the judge, and one of the embedding. 0 if the answer is evasive.

        Raises:
            NotScorableError: There is no question, or the reply is no list of questions.
            JudgeError: The judge gave no usable reply.
        """
        if not interaction.query.strip():
            raise NotScorableError(Cause.NO_QUERY)
        reply = await asker.ask(_INSTRUCTIONS, fields=_FIELDS, shown=("answer",))
        questions, evasive = _read(reply)
        # In a thread: an embedding may wait for a network, and this is an event loop.
        asked, *generated = await apart(vectors, embedding, [interaction.query, *questions])
        return relevancy(asked, generated, evasive)

    return evaluator


def _read(reply: Mapping[str, object]) -> tuple[list[str], list[bool]]:
    questions, evasive = reply["questions"], reply["evasive"]
    if isinstance(evasive, bool) and isinstance(questions, list):
        evasive = [evasive] * len(questions)
    if not isinstance(questions, list) or not isinstance(evasive, list):
        raise NotScorableError(Cause.UNREADABLE, "questions and evasive are no lists")
    texts = [each.strip()[:_LONGEST] for each in questions if isinstance(each, str)]
    flags = [each for each in evasive if isinstance(each, bool)]
    complete = len(texts) == len(questions) == len(flags) == len(evasive) and all(texts)
    if not complete or not 1 <= len(texts) <= 2 * QUESTIONS:
        raise NotScorableError(Cause.UNREADABLE, f"expected {QUESTIONS} questions and flags")
    return texts, flags


def register(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Register the evaluator with this embedding, in the place of the one that is there.

    Args:
        embedding: Called once for each score, in a thread.
        version: Another for each embedding: a changed ruler must not look like a changed system.
        into: A table.
    """
    into.register(
        Entry(
            name=NAME,
            version=version,
            evaluator=answer_relevancy_by_questions(embedding),
            asks=True,
            needs_context=False,
            by_default=False,
        )
    )


register(character_grams, version=1)
