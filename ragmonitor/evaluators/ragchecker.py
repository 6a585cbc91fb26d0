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

from collections.abc import Callable

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.by_reference import (
    Claim,
    answer_claims_of,
    harmonic_mean,
    relevant_chunks,
    sentences_of,
)
from ragmonitor.evaluators.table import evaluator
from ragmonitor.protocols import Evaluator
from ragmonitor.records import Assessment, Cause, Interaction


def _named(name: str, *, needs_context: bool = True) -> Callable[[Evaluator], Evaluator]:
    return evaluator(
        f"ragchecker_{name}", needs_context=needs_context, needs_reference=True, by_default=False
    )


def _share_of_claims(assessment: Assessment, counts: Callable[[Claim], bool]) -> float:
    """Return the share of the answer's claims that count.

    Raises:
        NotScorableError: The answer refuses or claims nothing, or it or the reference could not be
            read.
    """
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    claims = answer_claims_of(assessment)
    if not claims:
        raise NotScorableError(Cause.NO_CLAIMS)
    return sum(map(counts, claims)) / len(claims)


# The whole


@_named("precision", needs_context=False)
def precision(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are right. Raises as `_share_of_claims`."""
    return _share_of_claims(assessment, lambda claim: claim.is_right)


@_named("recall", needs_context=False)
def recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences in the answer. Raises as `sentences_of`."""
    sentences = sentences_of(assessment)
    return sum(sentence.in_answer for sentence in sentences) / len(sentences)


@_named("f1", needs_context=False)
def f1(interaction: Interaction, assessment: Assessment) -> float:
    """Return the harmonic mean of precision and recall. Raises as either of them."""
    return harmonic_mean(precision(interaction, assessment), recall(interaction, assessment))


# The retriever


@_named("claim_recall")
def claim_recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences that are recalled. Raises as `sentences_of`."""
    sentences = sentences_of(assessment)
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)


@_named("context_precision")
def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of relevant chunks, whatever their ranks. Raises as `sentences_of`."""
    relevant = relevant_chunks(interaction, assessment)
    return sum(relevant) / len(relevant)


# The generator


@_named("context_utilization")
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


@_named("noise_sensitivity_in_relevant")
def noise_sensitivity_in_relevant(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are wrong and from a relevant chunk.

    Raises:
        NotScorableError: As `_share_of_claims` and `sentences_of`.
    """
    relevant = relevant_chunks(interaction, assessment)
    return _share_of_claims(
        assessment, lambda claim: not claim.is_right and _is_from(claim, relevant)
    )


@_named("noise_sensitivity_in_irrelevant")
def noise_sensitivity_in_irrelevant(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are wrong and from irrelevant chunks only.

    A wrong claim that the chunks lack something, which no single chunk entails, counts here.

    Raises:
        NotScorableError: As `_share_of_claims` and `sentences_of`.
    """
    relevant = relevant_chunks(interaction, assessment)
    return _share_of_claims(
        assessment,
        lambda claim: not claim.is_right and claim.is_supported and not _is_from(claim, relevant),
    )


@_named("hallucination")
def hallucination(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are wrong and unsupported. Raises as `_share_of_claims`."""
    return _share_of_claims(assessment, lambda claim: not claim.is_right and not claim.is_supported)


@_named("self_knowledge")
def self_knowledge(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are right and unsupported. Raises as `_share_of_claims`."""
    return _share_of_claims(assessment, lambda claim: claim.is_right and not claim.is_supported)


@_named("faithfulness")
def faithfulness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are supported. Raises as `_share_of_claims`."""
    return _share_of_claims(assessment, lambda claim: claim.is_supported)


def _is_from(claim: Claim, relevant: list[bool]) -> bool:
    return any(relevant[chunk] for chunk in claim.chunks if chunk < len(relevant))


# RAGAS 0.4.3, noise sensitivity, mode relevant, is RAGChecker's formula; its mode irrelevant is
# `ragchecker_noise_sensitivity_in_irrelevant`.
evaluator("noise_sensitivity", needs_reference=True, lower_is_better=True)(
    noise_sensitivity_in_relevant
)
