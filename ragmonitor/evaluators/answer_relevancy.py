"""Answer relevancy: whether the answer speaks to the question."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction


@evaluator("answer_relevancy", needs_context=False)
def answer_relevancy(interaction: Interaction, assessment: Assessment) -> float:
    """Return the judge's rating of the answer's relevancy to the question.

    A refusal is no irrelevant answer: it is counted as a refusal, not as 0 (RAGAS' way).

    Returns:
        0 (does not speak of the question) to 1 (answers it).

    Raises:
        NotScorableError: There is no question, the answer refuses, or the rating is unreadable.
    """
    if not interaction.query.strip():
        raise NotScorableError(Cause.NO_QUERY)
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    if assessment.answer_relevancy is None:
        raise NotScorableError(Cause.UNREADABLE)
    return assessment.answer_relevancy
