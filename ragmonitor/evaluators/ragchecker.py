"""RAGChecker's eleven scores, by its formulas, and the one that RAGAS took over.

A claim of the answer is right if the reference entails it, and supported if a chunk does. A
sentence of the reference is recalled if a chunk entails it. A chunk is relevant if it entails a
sentence of the reference. All scores are from 0 to 1.

Where there is nothing to divide by RAGChecker says 0; here there is no score, as everywhere.

Source:
    Ru et al., "RAGChecker" (2024), section 3.3, arXiv:2408.08067; checked against
    `ragchecker/computation.py` of version 0.1.9. Its claims are triplets or sentences that a model
    writes; here they are the sentences themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ragmonitor.evaluators.by_reference import (
    Claim,
    answer_claims_of,
    harmonic_mean,
    relevant_chunks,
    sentences_of,
)
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.protocols import Evaluator


def _share_of_claims(counts: Callable[[Claim], bool]) -> Evaluator:
    """Return the evaluator of the share of the answer's claims that count.

    It raises `NotScorableError` where the answer refuses or claims nothing, or where it or the
    reference could not be read.
    """

    def share(_interaction: Interaction, assessment: Assessment) -> float:
        if assessment.evasive:
            raise NotScorableError(Cause.REFUSAL)
        claims = answer_claims_of(assessment)
        if not claims:
            raise NotScorableError(Cause.NO_CLAIMS)
        return sum(map(counts, claims)) / len(claims)

    return share


precision = _share_of_claims(lambda claim: claim.is_right)


def recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences in the answer. Raises as `sentences_of`."""
    sentences = sentences_of(assessment)
    return sum(sentence.in_answer for sentence in sentences) / len(sentences)


def f1(interaction: Interaction, assessment: Assessment) -> float:
    """Return the harmonic mean of precision and recall. Raises as either of them."""
    return harmonic_mean(precision(interaction, assessment), recall(interaction, assessment))


def claim_recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences that are recalled. Raises as `sentences_of`."""
    sentences = sentences_of(assessment)
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)


def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of relevant chunks, whatever their ranks. Raises as `sentences_of`."""
    relevant = relevant_chunks(interaction, assessment)
    return sum(relevant) / len(relevant)


def context_utilization(_interaction: Interaction, assessment: Assessment) -> float:
    """Return, of the reference's sentences that are recalled, the share in the answer.

    Raises:
        NotScorableError: As `sentences_of`; or nothing is recalled that could be used (cause
            `no_context`).
    """
    recalled = [sentence for sentence in sentences_of(assessment) if sentence.chunks]
    if not recalled:
        raise NotScorableError(Cause.NO_CONTEXT, "no chunk holds anything of the reference")
    return sum(sentence.in_answer for sentence in recalled) / len(recalled)


def noise_sensitivity_in_relevant(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are wrong and from a relevant chunk."""
    relevant = relevant_chunks(interaction, assessment)
    share = _share_of_claims(lambda claim: not claim.is_right and _is_from(claim, relevant))
    return share(interaction, assessment)


def noise_sensitivity_in_irrelevant(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are wrong and from irrelevant chunks only.

    A wrong claim that the chunks lack something, which no single chunk entails, counts here.
    """
    relevant = relevant_chunks(interaction, assessment)
    share = _share_of_claims(
        lambda claim: not claim.is_right and claim.is_supported and not _is_from(claim, relevant)
    )
    return share(interaction, assessment)


def _is_from(claim: Claim, relevant: list[bool]) -> bool:
    return any(relevant[chunk] for chunk in claim.chunks if chunk < len(relevant))


RAGCHECKER: Final[Mapping[str, Evaluator]] = {
    # the whole
    "precision": precision,
    "recall": recall,
    "f1": f1,
    # the retriever
    "claim_recall": claim_recall,
    "context_precision": context_precision,
    # the generator
    "context_utilization": context_utilization,
    "noise_sensitivity_in_relevant": noise_sensitivity_in_relevant,
    "noise_sensitivity_in_irrelevant": noise_sensitivity_in_irrelevant,
    "hallucination": _share_of_claims(lambda claim: not claim.is_right and not claim.is_supported),
    "self_knowledge": _share_of_claims(lambda claim: claim.is_right and not claim.is_supported),
    "faithfulness": _share_of_claims(lambda claim: claim.is_supported),
}
for _name, _function in RAGCHECKER.items():
    evaluator(
        f"ragchecker_{_name}",
        needs_context=_name not in ("precision", "recall", "f1"),
        needs_reference=True,
        by_default=False,
    )(_function)

# RAGAS 0.4.3, noise sensitivity, mode relevant, is RAGChecker's formula; its mode irrelevant is
# `ragchecker_noise_sensitivity_in_irrelevant`.
evaluator("noise_sensitivity", needs_reference=True, lower_is_better=True)(
    noise_sensitivity_in_relevant
)
