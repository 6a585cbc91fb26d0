"""Evaluators that ask the judge something of their own: one call more for each answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, get_args

from ragmonitor.evaluators.embeddings import Embedding, grams, nearness
from ragmonitor.evaluators.table import Table, evaluator, table
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import NotScorableError, SettingsError
from ragmonitor.runtime.protocols import Asker, AskingEvaluator, Section

# Answer relevancy RAGAS' way: questions are made of the answer and compared with the question

QUESTIONS: Final = 3
"""RAGAS' `strictness`."""
_MAX_CHARACTERS: Final = 1000
"""The characters of a generated question; the rest is cut."""
_WRITE_QUESTIONS: Final = f"""\
Read the ANSWER alone. Write {QUESTIONS} different questions that it answers, in the ANSWER's \
language, as a user would ask them: the first the one that it answers best. Say of each whether \
the ANSWER is evasive about it: true if it only declines, is vague, or does not know."""
_QUESTIONS: Final = {
    "questions": f"a list of {QUESTIONS} texts",
    "evasive": f"a list of {QUESTIONS} times true or false",
}


@evaluator("answer_relevancy_by_questions", needs_query=True, needs_context=False, by_default=False)
async def answer_relevancy_by_questions(
    interaction: Interaction, _assessment: Assessment, asker: Asker, vectors: Embedding = grams
) -> float:
    """Return the mean cosine of questions made of the answer with the question that was asked.

    It costs a call of the judge, and one of the embedding. A cosine below 0 counts as 0; the score
    is 0 if the answer is evasive about all the questions.

    Raises:
        NotScorableError: The reply is no list of questions.
        JudgeError: The judge gave no usable reply.

    Source:
        Es et al., "RAGAS" (2023), section 3, answer relevance, arXiv:2309.15217; the factor 0 as in
        RAGAS 0.4.3.
    """
    reply = await asker.ask(_WRITE_QUESTIONS, fields=_QUESTIONS, shown=("answer",))
    questions, evasive = reply["questions"], reply["evasive"]
    if not isinstance(questions, list) or not 1 <= len(questions) <= 2 * QUESTIONS:
        raise NotScorableError(Cause.UNREADABLE, f"expected {QUESTIONS} questions")
    texts = [each.strip()[:_MAX_CHARACTERS] for each in questions if isinstance(each, str)]
    flags = evasive if isinstance(evasive, list) else [evasive] * len(questions)
    is_complete = len(texts) == len(questions) == len(flags) and all(texts)
    if not is_complete or not all(isinstance(flag, bool) for flag in flags):
        raise NotScorableError(Cause.UNREADABLE, f"expected {QUESTIONS} questions and flags")
    if all(flags):
        return 0.0
    # In a thread: an embedding may wait for a network, and this is an event loop.
    asked, *generated = await apart(vectors, [interaction.query, *texts])
    return sum(nearness(asked, vector) for vector in generated) / len(generated)


# Context relevance RAGAS' way: the share of the chunks' sentences that help with the question

_FIND_SENTENCES: Final = """\
SENTENCES holds the sentences of chunks C1..Cm, numbered from 1 in each chunk. Find those that can \
help to answer the QUESTION; none if the QUESTION cannot be answered from them."""
_SENTENCES: Final = {
    "relevant": "a list of one list for each chunk C1..Cm, in order: the numbers of its sentences "
    "that help, [] if none does",
}


@evaluator("context_relevance_by_sentences", needs_query=True, by_default=False)
async def context_relevance_by_sentences(
    _interaction: Interaction, _assessment: Assessment, asker: Asker
) -> float:
    """Return the share of the chunks' sentences that help to answer the question, 0 to 1.

    The judge is shown the sentences by number and names numbers: it costs one call, and a reply of
    a few tokens where RAGAS has the sentences written out. A number named twice counts once.

    Raises:
        NotScorableError: The chunks hold no text, or the reply names chunks or sentences that are
            not there.
        JudgeError: The judge gave no usable reply.

    Source:
        Es et al., "RAGAS" (2023), section 3, context relevance, arXiv:2309.15217.
    """
    counts = asker.sentence_counts
    if not sum(counts):
        raise NotScorableError(Cause.NO_CONTEXT)
    reply = await asker.ask(_FIND_SENTENCES, fields=_SENTENCES, shown=("sentences", "question"))
    lists = reply["relevant"]
    if not isinstance(lists, list) or len(lists) != len(counts):
        raise NotScorableError(Cause.UNREADABLE, f"expected a list of {len(counts)} lists")
    relevant = 0
    for chunk, (numbers, count) in enumerate(zip(lists, counts, strict=True), 1):
        if not isinstance(numbers, list) or not all(
            type(number) is int and 1 <= number <= count for number in numbers
        ):
            problem = f"C{chunk} has sentences 1 to {count}, not {numbers!r:.20}"
            raise NotScorableError(Cause.UNREADABLE, problem)
        relevant += len(set(numbers))
    return relevant / sum(counts)


# An evaluator of one's own in words


def rubric(
    name: str,
    text: str,
    *,
    scale: tuple[float, float] = (1, 5),
    shown: Sequence[Section] = ("chunks", "question", "answer"),
    version: int = 1,
    by_default: bool = True,
    into: Table = table,
) -> AskingEvaluator:
    """Register an evaluator that puts a rubric to the judge; return it.

    It scores wherever evaluators do: live, `ragmonitor score`, spans, Prometheus, files. Each costs
    one call more for every answer that the judge scores; the built-in judge leaves it `not_asked`.

    Args:
        name: Lower case, digits and `_`; a label's value.
        text: What to rate, and what the ends of the scale mean.
        scale: From the worst to the best; the first may be the larger number. Scores are where the
            rating lies between them, from 0 to 1.
        shown: What the judge sees of the interaction.
        version: Raised with every change of the text or of the scale.
        by_default: Whether it scores where nobody names evaluators.
        into: A table.

    Raises:
        SettingsError: The scale has no extent, the text is empty, what is to be shown is no part of
            an interaction, or the name is taken.

    Example:
        ```python
        ragmonitor.rubric(
            "tone",
            "How polite is the ANSWER? 1: insulting; 3: matter-of-fact; 5: warm and respectful.",
            scale=(1, 5),
            shown=("question", "answer"),
        )
        ```
    """
    worst, best = scale
    if not (math.isfinite(worst) and math.isfinite(best)) or worst == best:
        raise SettingsError(f"rubric {name}: a scale has two different ends, not {scale}")
    if not text.strip():
        raise SettingsError(f"rubric {name}: say what is to be rated")
    if not shown or isinstance(shown, str) or not set(shown) <= set(get_args(Section)):
        raise SettingsError(
            f"rubric {name}: shown is a list of {', '.join(get_args(Section))}, not {shown!r}"
        )
    low, high = min(scale), max(scale)
    fields = {"rating": f"a number from {low:g} to {high:g}"}

    async def rate(_interaction: Interaction, _assessment: Assessment, asker: Asker) -> float:
        reply = await asker.ask(text, fields=fields, shown=tuple(shown))
        value: Any = reply["rating"]
        try:
            rating = float(value) if type(value) in (int, float, str) else math.nan
        except (ValueError, OverflowError):
            rating = math.nan
        if not low <= rating <= high:
            detail = f"{value!r:.20} is no number from {low:g} to {high:g}"
            raise NotScorableError(Cause.UNREADABLE, detail)
        return (rating - worst) / (best - worst)

    return evaluator(
        name,
        version=version,
        needs_context="chunks" in shown or "sentences" in shown,
        needs_reference="reference" in shown,
        by_default=by_default,
        into=into,
    )(rate)
