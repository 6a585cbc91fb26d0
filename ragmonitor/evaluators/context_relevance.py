"""Context relevance: whether what was retrieved speaks to the question."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction


@evaluator("context_relevance")
def context_relevance(interaction: Interaction, assessment: Assessment) -> float:
    """Return the mean over chunks of each chunk's relevance to the question.

    Returns:
        0 (no chunk speaks of the question) to 1 (every chunk does).

    Raises:
        NotScorableError: There is no question or no chunk, or the ratings are unreadable.
    """
    if not interaction.query.strip():
        raise NotScorableError(Cause.NO_QUERY)
    relevance = assessment.chunk_relevance
    if relevance is None:
        raise NotScorableError(Cause.UNREADABLE)
    if not relevance:
        raise NotScorableError(Cause.NO_CONTEXT)
    return sum(relevance) / len(relevance)
