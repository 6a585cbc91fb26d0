"""Evaluators without a reference answer: they count the verdicts and ratings of an assessment."""

from __future__ import annotations

from collections.abc import Sequence

from ragmonitor.evaluators.diagnosis import holds_what_was_asked
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    Language,
    SentenceVerdict,
    Severity,
    Verdict,
)
from ragmonitor.runtime.errors import NotScorableError

_FAILURES: dict[Language, dict[Verdict, str]] = {
    "en": {Verdict.ABSENT: "absent", Verdict.CONTRADICTED: "contradicted"},
    "zh": {Verdict.ABSENT: "资料中没有", Verdict.CONTRADICTED: "与资料矛盾"},
}
_MINOR: dict[Language, str] = {"en": " (minor)", "zh": "（轻微）"}


def claims_of(assessment: Assessment) -> tuple[SentenceVerdict, ...]:
    """Return the answer's sentences that assert something; at least one.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.
    """
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    claims = assessment.claims
    if claims is None:
        raise NotScorableError(Cause.UNREADABLE)
    if not claims:
        raise NotScorableError(Cause.NO_CLAIMS)
    return claims


def _share_of(assessment: Assessment, verdict: Verdict) -> float:
    """Return the share of an answer's claims with this verdict, 0 to 1. Raises as `claims_of`."""
    claims = claims_of(assessment)
    return sum(claim.verdict is verdict for claim in claims) / len(claims)


def _used_chunks(interaction: Interaction, assessment: Assessment) -> list[bool]:
    """Return for each chunk, in order, whether a supported sentence of the answer rests on it.

    Raises:
        NotScorableError: The answer refuses, or its verdicts are unreadable.
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
    return [position in used for position in range(len(interaction.chunks))]


def average_precision(relevant: Sequence[bool]) -> float:
    """Return the mean, over the relevant ones, of the share of relevant ones up to each.

    Args:
        relevant: One per rank, best first; shape (n,).

    Returns:
        0 (nothing is relevant) to 1 (what is relevant comes first).

    Source:
        RAGAS 0.4.3, context precision: sum over k of (precision at k * v_k) / sum over k of v_k.
    """
    ranks = [rank for rank, is_relevant in enumerate(relevant, 1) if is_relevant]
    return sum(n / rank for n, rank in enumerate(ranks, 1)) / (len(ranks) or 1)


def unsupported_claims(assessment: Assessment) -> str:
    """Return the claims that the chunks do not support, one a line, with the words at fault.

    The labels are in the answer's language; minor findings are marked.
    """
    labels = _FAILURES[assessment.language]
    colon, comma = ("：", "、") if assessment.language == "zh" else (": ", ", ")
    marks: dict[Severity | None, str] = {Severity.MINOR: _MINOR[assessment.language]}
    return "\n".join(
        f"{labels[claim.verdict]}{marks.get(claim.severity, '')}{colon}{claim.text}"
        + (f" [{comma.join(claim.words)}]" if claim.words else "")
        for claim in assessment.claims or ()
        if claim.verdict in labels
    )


@evaluator("faithfulness", explain=unsupported_claims)
def faithfulness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return supported claims / claims.

    Returns:
        0 (nothing is supported) to 1 (everything is).

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        Es et al., "RAGAS" (2023), section 3, faithfulness, arXiv:2309.15217; over sentences
        instead of generated statements.
    """
    return _share_of(assessment, Verdict.SUPPORTED)


@evaluator("answer_relevancy", needs_query=True, needs_context=False)
def answer_relevancy(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the judge's rating of the answer's relevancy to the question.

    A refusal is no irrelevant answer: it is counted as a refusal, not as 0 (RAGAS' way).

    Returns:
        0 (does not speak of the question) to 1 (answers it).

    Raises:
        NotScorableError: The answer refuses, or the rating is unreadable.
    """
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    if assessment.answer_relevancy is None:
        raise NotScorableError(Cause.UNREADABLE)
    return assessment.answer_relevancy


@evaluator("context_relevance", needs_query=True)
def context_relevance(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the mean over chunks of each chunk's relevance to the question.

    Returns:
        0 (no chunk speaks of the question) to 1 (every chunk does).

    Raises:
        NotScorableError: The ratings are unreadable, or there are none.
    """
    relevance = assessment.chunk_relevance
    if relevance is None:
        raise NotScorableError(Cause.UNREADABLE)
    if not relevance:
        raise NotScorableError(Cause.NO_CONTEXT)
    return sum(relevance) / len(relevance)


@evaluator("context_utilization")
def context_utilization(interaction: Interaction, assessment: Assessment) -> float:
    """Return chunks that support a sentence of the answer / chunks.

    Returns:
        0 (the answer uses no chunk) to 1 (it uses every chunk).

    Raises:
        NotScorableError: The answer refuses, or its verdicts are unreadable.
    """
    used = _used_chunks(interaction, assessment)
    return sum(used) / len(used)


@evaluator("context_precision_without_reference", by_default=False)
def context_precision_without_reference(interaction: Interaction, assessment: Assessment) -> float:
    """Return the average precision of the ranking, a chunk being relevant if the answer uses it.

    Returns:
        0 (the answer uses no chunk) to 1 (those that it uses come first).

    Raises:
        NotScorableError: The answer refuses, or its verdicts are unreadable.

    Source:
        RAGAS 0.4.3, `ContextPrecisionWithoutReference`, there also called `ContextUtilization`; a
        chunk is used where a supported sentence rests on it, instead of by a call for each chunk.
    """
    return average_precision(_used_chunks(interaction, assessment))


@evaluator("hallucination", version=2, lower_is_better=True, explain=unsupported_claims)
def hallucination(_interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if any claim is absent from the chunks or contradicted by them, else 0.

    Only major findings count. Its mean over answers is the hallucination
    rate.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        Niu et al., "RAGTruth" (2024), section 2, hallucination at the level of answers,
        arXiv:2401.00396.
    """
    claims_of(assessment)
    return float(bool(assessment.counted_findings))


@evaluator(
    "minor_hallucination", by_default=False, lower_is_better=True, explain=unsupported_claims
)
def minor_hallucination(_interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if there are absent or contradicted claims, and all of them are minor, else 0.

    Its mean over answers is the minor hallucination rate.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.
    """
    claims_of(assessment)
    return float(bool(assessment.has_minor_findings_only))


@evaluator("absent_claims", by_default=False, lower_is_better=True, explain=unsupported_claims)
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
    return _share_of(assessment, Verdict.ABSENT)


@evaluator(
    "contradicted_claims", by_default=False, lower_is_better=True, explain=unsupported_claims
)
def contradicted_claims(_interaction: Interaction, assessment: Assessment) -> float:
    """Return claims that a chunk contradicts / claims.

    Returns:
        0 (none) to 1 (all).

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        "Intrinsic" hallucination of Ji et al. (2022), section 2.2, arXiv:2202.03629; "conflict" of
        RAGTruth.
    """
    return _share_of(assessment, Verdict.CONTRADICTED)


@evaluator("refusal", needs_context=False, by_default=False, lower_is_better=True)
def refusal(_interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if the answer declines to answer, else 0.

    Its mean over answers is the refusal rate.

    Raises:
        NotScorableError: The judge's reply does not say.
    """
    if assessment.evasive is None:
        raise NotScorableError(Cause.UNREADABLE)
    return float(assessment.evasive)


@evaluator("wrong_refusal", needs_context=False, by_default=False, lower_is_better=True)
def wrong_refusal(interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if the answer declines although a chunk holds what was asked for, else 0.

    A chunk holds it if its relevance is `RELEVANT_FROM` at least. The mean is a share of all
    answers: divided by the mean of `refusal` it is the share of refusals that were wrong.

    Raises:
        NotScorableError: The judge's reply does not say, or the answer refuses and there is no
            question.

    Source:
        "Negative rejection" of Chen et al., "Benchmarking Large Language Models in
        Retrieval-Augmented Generation" (2023), arXiv:2309.01431, the other way round.
    """
    if not refusal(interaction, assessment) or not interaction.chunks:
        return 0.0
    if not interaction.query.strip():
        raise NotScorableError(Cause.NO_QUERY)
    is_answerable = holds_what_was_asked(assessment)
    if is_answerable is None:
        raise NotScorableError(Cause.UNREADABLE)
    return float(is_answerable)
