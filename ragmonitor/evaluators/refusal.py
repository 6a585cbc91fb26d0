"""Refusal: whether the answer declines, and whether it had to."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.diagnosis import holds_what_was_asked
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction


@evaluator("refusal", needs_context=False, by_default=False, lower_is_better=True)
def refusal(_interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if the answer declines to answer, else 0.

    Its mean over answers is the refusal rate.

    Raises:
        NotScorableError: The judge's reply does not tell.
    """
    if assessment.evasive is None:
        raise NotScorableError(Cause.UNREADABLE)
    return float(assessment.evasive)


@evaluator("wrong_refusal", needs_context=False, by_default=False, lower_is_better=True)
def wrong_refusal(interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if the answer declines although a chunk holds what was asked for, else 0.

    "Holds" is a relevance of `RELEVANT_FROM` at least. Its mean is a share of all answers, not of
    the refusals: divided by the mean of `refusal` it is the share of refusals that were wrong.

    Raises:
        NotScorableError: The judge's reply does not tell, or there is no question.

    Source:
        "Negative rejection" of Chen et al., "Benchmarking Large Language Models in
        Retrieval-Augmented Generation" (2023), arXiv:2309.01431, the other way round.
    """
    if assessment.evasive is None:
        raise NotScorableError(Cause.UNREADABLE)
    if not assessment.evasive or not interaction.chunks:
        return 0.0
    if not interaction.query.strip():
        raise NotScorableError(Cause.NO_QUERY)
    holds = holds_what_was_asked(assessment)
    if holds is None:
        raise NotScorableError(Cause.UNREADABLE)
    return float(holds)
