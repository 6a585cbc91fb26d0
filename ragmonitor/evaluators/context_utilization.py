"""Context utilization: how much of what was retrieved the answer rests on."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.ranking import average_precision
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction, Verdict


@evaluator("context_utilization")
def context_utilization(interaction: Interaction, assessment: Assessment) -> float:
    """Return chunks that support a sentence of the answer / chunks.

    Returns:
        0 (the answer uses no chunk) to 1 (it uses every chunk).

    Raises:
        NotScorableError: There is no chunk, the answer refuses, or its verdicts are unreadable.
    """
    used = _used(interaction, assessment)
    return sum(used) / len(used)


@evaluator("context_precision_without_reference", by_default=False)
def context_precision_without_reference(interaction: Interaction, assessment: Assessment) -> float:
    """Return the average precision of the ranking, a chunk being relevant if the answer uses it.

    Returns:
        0 (the answer uses no chunk) to 1 (those that it uses come first).

    Raises:
        NotScorableError: There is no chunk, the answer refuses, or its verdicts are unreadable.

    Source:
        RAGAS 0.4.3, `ContextPrecisionWithoutReference`, there also called `ContextUtilization`; a
        chunk is used where a supported sentence rests on it, instead of by a call for each chunk.
    """
    return average_precision(_used(interaction, assessment))


def _used(interaction: Interaction, assessment: Assessment) -> list[bool]:
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    if assessment.sentences is None:
        raise NotScorableError(Cause.UNREADABLE)
    used = {
        chunk
        for sentence in assessment.sentences
        if sentence.verdict is Verdict.SUPPORTED
        for chunk in sentence.chunks
    }
    return [position in used for position in range(len(interaction.chunks))]
