"""Noise sensitivity: wrong claims that the answer took from what was retrieved."""

from __future__ import annotations

from ragmonitor.evaluators import ragchecker
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction


@evaluator("noise_sensitivity", needs_reference=True, lower_is_better=True)
def noise_sensitivity(interaction: Interaction, assessment: Assessment) -> float:
    """Return claims that are wrong by the reference and from a relevant chunk / claims.

    Returns:
        0 (none; better) to 1 (all).

    Raises:
        NotScorableError: There is no chunk or no reference, the answer refuses or claims nothing,
            or something could not be read.

    Source:
        RAGAS 0.4.3, noise sensitivity, mode relevant, which is RAGChecker's (arXiv:2408.08067);
        mode irrelevant is `ragchecker_noise_sensitivity_in_irrelevant`.
    """
    return ragchecker.noise_sensitivity_in_relevant(interaction, assessment)
