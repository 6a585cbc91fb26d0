"""Answer relevancy RAGAS' way: questions are made of the answer and compared with the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.evaluators.embeddings import Embedding, character_grams, nearness, vectors
from ragmonitor.evaluators.table import Table, evaluator, table
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.protocols import Asker

QUESTIONS: Final = 3
"""RAGAS' `strictness`."""
_MAX_CHARACTERS: Final = 1000
"""The characters of a generated question; the rest is cut."""
_INSTRUCTIONS: Final = f"""\
Read the ANSWER alone. Write {QUESTIONS} different questions that it answers, in the ANSWER's \
language, as a user would ask them: the first the one that it answers best. Say of each whether \
the ANSWER is evasive about it: true if it only declines, is vague, or does not know."""
_FIELDS: Final = {
    "questions": f"a list of {QUESTIONS} texts",
    "evasive": f"a list of {QUESTIONS} times true or false",
}


def register(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Register `answer_relevancy_by_questions` with this embedding.

    It takes the place of the one that is there; the arguments are `register_embedding`'s.
    """

    @evaluator(
        "answer_relevancy_by_questions",
        version=version,
        needs_query=True,
        needs_context=False,
        by_default=False,
        into=into,
    )
    async def answer_relevancy_by_questions(
        interaction: Interaction, _assessment: Assessment, asker: Asker
    ) -> float:
        """Return the mean cosine of questions made of the answer with the question that was asked.

        It costs a call of the judge, and one of the embedding. A cosine below 0 counts as 0; the
        score is 0 if the answer is evasive about all the questions.

        Raises:
            NotScorableError: The reply is no list of questions.
            JudgeError: The judge gave no usable reply.

        Source:
            Es et al., "RAGAS" (2023), section 3, answer relevance, arXiv:2309.15217; the factor 0
            as in RAGAS 0.4.3.
        """
        reply = await asker.ask(_INSTRUCTIONS, fields=_FIELDS, shown=("answer",))
        questions, evasive = _read(reply)
        # In a thread: an embedding may wait for a network, and this is an event loop.
        asked, *generated = await apart(vectors, embedding, [interaction.query, *questions])
        if all(evasive):
            return 0.0
        return sum(nearness(asked, vector) for vector in generated) / len(generated)


def _read(reply: Mapping[str, Any]) -> tuple[list[str], list[bool]]:
    """Return the generated questions, at least one, and for each whether the answer is evasive."""
    questions, evasive = reply["questions"], reply["evasive"]
    if not isinstance(questions, list) or not 1 <= len(questions) <= 2 * QUESTIONS:
        raise NotScorableError(Cause.UNREADABLE, f"expected {QUESTIONS} questions")
    texts = [each.strip()[:_MAX_CHARACTERS] for each in questions if isinstance(each, str)]
    flags = evasive if isinstance(evasive, list) else [evasive] * len(questions)
    is_complete = len(texts) == len(questions) == len(flags) and all(texts)
    if not is_complete or not all(isinstance(flag, bool) for flag in flags):
        raise NotScorableError(Cause.UNREADABLE, f"expected {QUESTIONS} questions and flags")
    return texts, flags


register(character_grams, version=1)
