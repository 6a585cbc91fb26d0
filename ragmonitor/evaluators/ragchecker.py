"""RAGChecker's eleven scores, by its formulas.

A claim of the answer is right if the reference entails it, and supported if a chunk does. A
sentence of the reference is recalled if a chunk entails it. A chunk is relevant if it entails a
sentence of the reference.

Where there is nothing to divide by RAGChecker says 0; here there is no score, as everywhere.

Source:
    Ru et al., "RAGChecker" (2024), section 3.3, arXiv:2408.08067; checked against
    `ragchecker/computation.py` of version 0.1.9. Its claims are triplets or sentences that a model
    writes; here they are the sentences themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators.reference import (
    Claim,
    claims_to_rate,
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


def _share(claims: tuple[Claim, ...], counts: Callable[[Claim], bool]) -> float:
    return sum(map(counts, claims)) / len(claims)


# The whole


@_named("precision", needs_context=False)
def precision(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are right, 0 to 1.

    Raises:
        NotScorableError: As `claims_to_rate`.
    """
    return _share(claims_to_rate(assessment), lambda claim: claim.is_right)


@_named("recall", needs_context=False)
def recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences that are in the answer, 0 to 1.

    Raises:
        NotScorableError: As `sentences_of`.
    """
    sentences = sentences_of(assessment)
    return sum(sentence.in_answer for sentence in sentences) / len(sentences)


@_named("f1", needs_context=False)
def f1(interaction: Interaction, assessment: Assessment) -> float:
    """Return the harmonic mean of precision and recall, 0 to 1.

    Raises:
        NotScorableError: As either of them.
    """
    return harmonic_mean(precision(interaction, assessment), recall(interaction, assessment))


# The retriever


@_named("claim_recall")
def claim_recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences that are recalled, 0 to 1.

    Raises:
        NotScorableError: As `sentences_of`.
    """
    sentences = sentences_of(assessment)
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)


@_named("context_precision")
def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of chunks that are relevant, 0 to 1, whatever their ranks.

    Raises:
        NotScorableError: As `sentences_of`.
    """
    relevant = relevant_chunks(interaction, assessment)
    return sum(relevant) / len(relevant)


# The generator


@_named("context_utilization")
def context_utilization(_interaction: Interaction, assessment: Assessment) -> float:
    """Return, of the reference's sentences that are recalled, the share in the answer, 0 to 1.

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
    """Return the share of the answer's claims that are wrong and from a relevant chunk, 0 to 1.

    Raises:
        NotScorableError: As `claims_to_rate` and `sentences_of`.
    """
    relevant = relevant_chunks(interaction, assessment)
    return _share(
        claims_to_rate(assessment),
        lambda claim: not claim.is_right and _is_from(claim, relevant),
    )


@_named("noise_sensitivity_in_irrelevant")
def noise_sensitivity_in_irrelevant(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of claims that are wrong and from irrelevant chunks only, 0 to 1.

    A wrong claim that the chunks lack something, which no single chunk entails, counts here.

    Raises:
        NotScorableError: As `claims_to_rate` and `sentences_of`.
    """
    relevant = relevant_chunks(interaction, assessment)
    return _share(
        claims_to_rate(assessment),
        lambda claim: not claim.is_right and claim.is_supported and not _is_from(claim, relevant),
    )


@_named("hallucination")
def hallucination(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are wrong and unsupported, 0 to 1.

    Raises:
        NotScorableError: As `claims_to_rate`.
    """
    return _share(
        claims_to_rate(assessment), lambda claim: not claim.is_right and not claim.is_supported
    )


@_named("self_knowledge")
def self_knowledge(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are right and unsupported, 0 to 1.

    Raises:
        NotScorableError: As `claims_to_rate`.
    """
    return _share(
        claims_to_rate(assessment), lambda claim: claim.is_right and not claim.is_supported
    )


@_named("faithfulness")
def faithfulness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the answer's claims that are supported, 0 to 1.

    Raises:
        NotScorableError: As `claims_to_rate`.
    """
    return _share(claims_to_rate(assessment), lambda claim: claim.is_supported)


def _is_from(claim: Claim, relevant: list[bool]) -> bool:
    return any(relevant[chunk] for chunk in claim.chunks if chunk < len(relevant))
