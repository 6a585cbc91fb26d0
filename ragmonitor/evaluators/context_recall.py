"""Context recall: how much of the reference answer the retrieved chunks hold."""

from __future__ import annotations

from ragmonitor.evaluators.reference import sentences_of
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction


@evaluator("context_recall", needs_context=False, needs_reference=True)
def context_recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return sentences of the reference that a chunk entails / sentences of the reference.

    Returns:
        0 (none; so too where nothing was retrieved) to 1 (all).

    Raises:
        NotScorableError: There is no reference, it claims nothing, or it could not be read.

    Source:
        RAGAS 0.4.3, context recall: attributable sentences of the reference / its sentences.
    """
    sentences = sentences_of(assessment)
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)
