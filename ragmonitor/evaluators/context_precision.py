"""Context precision: whether the chunks that the reference answer needs come first."""

from __future__ import annotations

from ragmonitor.evaluators.ranking import average_precision
from ragmonitor.evaluators.reference import relevant_chunks
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction


@evaluator("context_precision", needs_reference=True)
def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the average precision of the ranking, by which chunks entail part of the reference.

    Returns:
        0 (no chunk does) to 1 (those that do come first).

    Raises:
        NotScorableError: There is no chunk or no reference, it claims nothing, or it could not be
            read.

    Source:
        RAGAS 0.4.3, `ContextPrecisionWithReference`; a chunk is relevant where it entails a
        sentence of the reference, instead of by a call for each chunk.
    """
    return average_precision(relevant_chunks(interaction, assessment))
