"""Hallucination: whether the chunks fail to bear out anything that the answer claims."""

from __future__ import annotations

from ragmonitor.evaluators.claims import claims_of, share_of
from ragmonitor.evaluators.faithfulness import unsupported
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction, Verdict


@evaluator("hallucination", lower_is_better=True, explain=unsupported)
def hallucination(_interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if any claim is absent from the chunks or contradicted by them, else 0.

    Its mean over answers is the hallucination rate.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        Niu et al., "RAGTruth" (2024), section 2, hallucination at the level of answers,
        arXiv:2401.00396.
    """
    return float(any(claim.verdict is not Verdict.SUPPORTED for claim in claims_of(assessment)))


@evaluator("absent_claims", by_default=False, lower_is_better=True, explain=unsupported)
def absent_claims(_interaction: Interaction, assessment: Assessment) -> float:
    """Return claims that stand in no chunk / claims: what the answer adds of its own.

    Returns:
        0 (none) to 1 (all); with `contradicted_claims` and `faithfulness` it makes 1.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        "Extrinsic" hallucination of Ji et al., "Survey of Hallucination in Natural Language
        Generation" (2022), section 2.2, arXiv:2202.03629; "baseless info" of RAGTruth.
    """
    return share_of(assessment, Verdict.ABSENT)


@evaluator("contradicted_claims", by_default=False, lower_is_better=True, explain=unsupported)
def contradicted_claims(_interaction: Interaction, assessment: Assessment) -> float:
    """Return claims that say otherwise than a chunk / claims.

    Returns:
        0 (none) to 1 (all).

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        "Intrinsic" hallucination of Ji et al. (2022), section 2.2, arXiv:2202.03629; "conflict" of
        RAGTruth.
    """
    return share_of(assessment, Verdict.CONTRADICTED)
