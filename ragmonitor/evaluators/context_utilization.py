"""Context utilization: how much of what was retrieved the answer rests on."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
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
    return len(used) / len(interaction.chunks)
