"""Factual correctness: the claims that answer and reference answer share."""

from __future__ import annotations

from ragmonitor.evaluators.reference import counts_of
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction


@evaluator("factual_correctness", needs_context=False, needs_reference=True)
def factual_correctness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the F1 of the answer's claims against those of the reference: TP / (TP + (FP + FN)/2).

    TP are claims of the answer that the reference entails, FP those that it does not, FN sentences
    of the reference that the answer does not entail. A refusal scores 0.

    Returns:
        0 (nothing in common) to 1 (each entails the other).

    Raises:
        NotScorableError: There is no reference, it claims nothing, or it or the verdicts could not
            be read.

    Source:
        RAGAS 0.4.3, factual correctness, mode f1, beta 1.
    """
    return counts_of(assessment).f1


@evaluator(
    "factual_correctness_precision", needs_context=False, needs_reference=True, by_default=False
)
def factual_correctness_precision(_interaction: Interaction, assessment: Assessment) -> float:
    """Return claims of the answer that the reference entails / claims of the answer.

    0 to 1; a refusal scores 0. Raises as `factual_correctness`.

    Source:
        RAGAS 0.4.3, factual correctness, mode precision.
    """
    return counts_of(assessment).precision


@evaluator(
    "factual_correctness_recall", needs_context=False, needs_reference=True, by_default=False
)
def factual_correctness_recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return TP / (TP + FN), with TP and FN as in `factual_correctness`.

    0 to 1; a refusal scores 0. Raises as `factual_correctness`.

    Source:
        RAGAS 0.4.3, factual correctness, mode recall.
    """
    return counts_of(assessment).recall
