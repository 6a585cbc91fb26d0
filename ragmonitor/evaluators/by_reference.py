"""Scores that compare with a reference answer: RAGAS' and RAGChecker's.

A claim of the answer is right if the reference entails it, and supported if a chunk does. A
sentence of the reference is recalled if a chunk entails it. A chunk is relevant if it entails a
sentence of the reference. All scores are from 0 to 1.

Where there is nothing to divide by RAGChecker says 0; here there is no score, as everywhere.

Source:
    RAGAS 0.4.3; Ru et al., "RAGChecker" (2024), section 3.3, arXiv:2408.08067, checked against
    `ragchecker/computation.py` of version 0.1.9. Their claims are statements, triplets or sentences
    that a model writes; here they are the sentences themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ragmonitor.evaluators.embeddings import Embedding, grams, nearness
from ragmonitor.evaluators.reference_free import average_precision, refusal
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction, ReferenceReading, Verdict
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.runtime.protocols import Evaluator

FACTS_WEIGHT: Final = 0.75
"""Weight of the claims' F1 in `answer_correctness`; the rest is the similarity's."""


class Claim(NamedTuple):
    """One claim of the answer."""

    is_right: bool
    is_supported: bool
    is_from_relevant: bool
    """A relevant chunk entails it; false too of a claim about what the chunks lack."""


def harmonic_mean(left: float, right: float) -> float:
    """Return 2 * left * right / (left + right); 0 if both are 0."""
    return 2 * left * right / (left + right) if left + right else 0.0


def reading_of(assessment: Assessment) -> ReferenceReading:
    """Return what the judge says of the reference: of one sentence at least.

    Raises:
        NotScorableError: The reference could not be read, or claims nothing.
    """
    reading = assessment.reference
    if reading is None:
        raise NotScorableError(assessment.reference_cause or Cause.UNREADABLE)
    if not reading.sentences:
        raise NotScorableError(Cause.NO_REFERENCE, "the reference answer claims nothing")
    return reading


def claims_of(assessment: Assessment) -> list[Claim]:
    """Return the answer's claims; empty if it refuses or claims nothing.

    Raises:
        NotScorableError: As `reading_of`; or the answer's verdicts could not be read.
    """
    reading = reading_of(assessment)
    claims = assessment.claims
    if claims is None or len(claims) != len(reading.answer_claims):
        raise NotScorableError(Cause.UNREADABLE)
    relevant = _relevant_chunks(reading)
    return [
        Claim(
            is_right=is_right,
            is_supported=(is_supported := claim.verdict is Verdict.SUPPORTED),
            is_from_relevant=is_supported and not relevant.isdisjoint(claim.chunks),
        )
        for claim, is_right in zip(claims, reading.answer_claims, strict=True)
    ]


def _relevant_chunks(reading: ReferenceReading) -> set[int]:
    return {chunk for sentence in reading.sentences for chunk in sentence.chunks}


def _relevance(interaction: Interaction, assessment: Assessment) -> list[bool]:
    """Return for each chunk, in order, whether it is relevant. Raises as `reading_of`."""
    relevant = _relevant_chunks(reading_of(assessment))
    return [position in relevant for position in range(len(interaction.chunks))]


# What RAGAS calls factual correctness

_YES_OR_NO: Final = lazy_pattern(
    r"\W*(?:(?P<no>(?:no|not|false|incorrect|wrong|never)\b|[不否没错假])"
    r"|(?:yes|true|correct|right|sure)\b|[是对会有能真]|可以|正确)",
    re.IGNORECASE,
)
_NOTHING_MORE: Final = lazy_pattern(r"(?:可以|正确|[是会对能有误的]|\W)*")


def _says_yes(text: str, *, alone: bool = False) -> bool | None:
    """Return whether a text begins with a yes or with a no; None: with neither, or says more."""
    word = _YES_OR_NO.match(text)
    if word is None or (alone and not _NOTHING_MORE.fullmatch(text, word.end())):
        return None
    return word["no"] is None


def _facts(interaction: Interaction, assessment: Assessment) -> tuple[float, float]:
    """Return precision and recall of the claims that answer and reference have in common.

    TP / (TP + FP) and TP / (TP + FN): TP are right claims of the answer, FP its others, and FN
    sentences of the reference that the answer does not entail. A refusal shares nothing: beside a
    reference answer it is a wrong answer. With a reference that says yes or no and nothing more,
    the word is compared that the answer begins with.

    Raises:
        NotScorableError: As `claims_of`; or the answer says neither yes nor no.
    """
    expected = _says_yes(interaction.reference, alone=True)
    if expected is not None:
        answered = _says_yes(interaction.answer)
        if answered is None and not assessment.evasive:
            raise NotScorableError(Cause.UNREADABLE, "the answer says neither yes nor no")
        is_right = float(expected is answered)
        return is_right, is_right
    claims = claims_of(assessment)
    right = sum(claim.is_right for claim in claims)
    missing = sum(not sentence.in_answer for sentence in reading_of(assessment).sentences)
    return right / (len(claims) or 1), right / (right + missing or 1)


@evaluator("context_recall", needs_context=False, needs_reference=True)
def context_recall(interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences that are recalled.

    Returns:
        0 (none; so too where nothing was retrieved) to 1 (all).

    Raises:
        NotScorableError: As `reading_of`; or a golden question's application does not say what it
            retrieved.

    Source:
        RAGAS 0.4.3, context recall: attributable sentences of the reference / its sentences.
    """
    if interaction.probe is not None and not interaction.probe.knows_chunks:
        raise NotScorableError(Cause.CAPTURE_INCOMPLETE, "the reply names no chunks")
    sentences = reading_of(assessment).sentences
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)


@evaluator("context_precision", needs_reference=True)
def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the average precision of the ranking, by which chunks are relevant.

    Returns:
        0 (no chunk is) to 1 (those that are come first).

    Raises:
        NotScorableError: As `reading_of`.

    Source:
        RAGAS 0.4.3, `ContextPrecisionWithReference`; a chunk is relevant where it entails a
        sentence of the reference, instead of by a call for each chunk.
    """
    return average_precision(_relevance(interaction, assessment))


@evaluator("factual_correctness", needs_context=False, needs_reference=True)
def factual_correctness(interaction: Interaction, assessment: Assessment) -> float:
    """Return the F1 of the claims: TP / (TP + (FP + FN) / 2). Raises as `_facts`.

    Source:
        RAGAS 0.4.3, factual correctness, mode f1 (beta 1); the next two are its other modes.
    """
    return harmonic_mean(*_facts(interaction, assessment))


_not_by_default = partial(evaluator, needs_reference=True, by_default=False)


@_not_by_default("factual_correctness_precision", needs_context=False)
def factual_correctness_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return TP / (TP + FP). Raises as `_facts`."""
    return _facts(interaction, assessment)[0]


@_not_by_default("factual_correctness_recall", needs_context=False)
def factual_correctness_recall(interaction: Interaction, assessment: Assessment) -> float:
    """Return TP / (TP + FN). Raises as `_facts`."""
    return _facts(interaction, assessment)[1]


@evaluator("refusal_correctness", needs_context=False, by_default=False)
def refusal_correctness(interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if an answer to an unanswerable golden question declines to answer, else 0.

    Raises:
        NotScorableError: It is no golden question that the documents leave unanswered (cause
            `no_reference`), or it could not be read whether it declines.
    """
    if interaction.probe is None or not interaction.probe.expects_refusal:
        raise NotScorableError(Cause.NO_REFERENCE, "it is no unanswerable golden question")
    return refusal(interaction, assessment)


@evaluator("answer_similarity", needs_context=False, needs_reference=True)
def answer_similarity(
    interaction: Interaction, _assessment: Assessment, vectors: Embedding = grams
) -> float:
    """Return the cosine between the vectors of the answer and of the reference.

    Returns:
        0 (nothing in common; so too what points away) to 1 (the same direction).

    Source:
        RAGAS 0.4.3, semantic similarity. The embedding without a network compares what is written,
        not what is meant.
    """
    answer, reference = vectors([interaction.answer, interaction.reference])
    return nearness(answer, reference)


@evaluator("answer_correctness", needs_context=False, needs_reference=True)
def answer_correctness(
    interaction: Interaction, assessment: Assessment, vectors: Embedding = grams
) -> float:
    """Return 0.75 * the F1 of the claims + 0.25 * the similarity to the reference.

    Returns:
        0 (wrong, and written differently) to 1 (the reference).

    Raises:
        NotScorableError: As `factual_correctness`.

    Source:
        RAGAS 0.4.3, answer correctness, with its weights.
    """
    facts = factual_correctness(interaction, assessment)
    similarity = answer_similarity(interaction, assessment, vectors)
    return FACTS_WEIGHT * facts + (1 - FACTS_WEIGHT) * similarity


# RAGChecker's eleven, and the one that RAGAS took over


def _share_of_claims(counts: Callable[[Claim], bool]) -> Evaluator:
    """Return the evaluator of the share of the answer's claims that count.

    It raises `NotScorableError` as `claims_of`, and where the answer refuses or claims nothing.
    """

    def share(_interaction: Interaction, assessment: Assessment) -> float:
        if assessment.evasive:
            raise NotScorableError(Cause.REFUSAL)
        claims = claims_of(assessment)
        if not claims:
            raise NotScorableError(Cause.NO_CLAIMS)
        return sum(map(counts, claims)) / len(claims)

    return share


def _recall(_interaction: Interaction, assessment: Assessment) -> float:
    """Return the share of the reference's sentences in the answer. Raises as `reading_of`."""
    sentences = reading_of(assessment).sentences
    return sum(sentence.in_answer for sentence in sentences) / len(sentences)


def _f1(interaction: Interaction, assessment: Assessment) -> float:
    """Return the harmonic mean of precision and recall. Raises as either of them."""
    precision = RAGCHECKER["precision"](interaction, assessment)
    return harmonic_mean(precision, _recall(interaction, assessment))


def _context_utilization(_interaction: Interaction, assessment: Assessment) -> float:
    """Return, of the reference's sentences that are recalled, the share in the answer.

    Raises:
        NotScorableError: As `reading_of`; or nothing is recalled that could be used (cause
            `no_context`).
    """
    recalled = [sentence for sentence in reading_of(assessment).sentences if sentence.chunks]
    if not recalled:
        raise NotScorableError(Cause.NO_CONTEXT, "no chunk holds anything of the reference")
    return sum(sentence.in_answer for sentence in recalled) / len(recalled)


RAGCHECKER: Final[Mapping[str, Evaluator]] = {
    # the whole
    "precision": _share_of_claims(lambda claim: claim.is_right),
    "recall": _recall,
    "f1": _f1,
    # the retriever
    "claim_recall": context_recall,
    # whatever the ranks of relevant chunks
    "context_precision": lambda interaction, assessment: (
        sum(_relevance(interaction, assessment)) / len(interaction.chunks)
    ),
    # the generator
    "context_utilization": _context_utilization,
    "noise_sensitivity_in_relevant": _share_of_claims(
        lambda claim: not claim.is_right and claim.is_from_relevant
    ),
    # A wrong claim that the chunks lack something, which no single chunk entails, counts here.
    "noise_sensitivity_in_irrelevant": _share_of_claims(
        lambda claim: not claim.is_right and claim.is_supported and not claim.is_from_relevant
    ),
    "hallucination": _share_of_claims(lambda claim: not claim.is_right and not claim.is_supported),
    "self_knowledge": _share_of_claims(lambda claim: claim.is_right and not claim.is_supported),
    "faithfulness": _share_of_claims(lambda claim: claim.is_supported),
}
for _name, _function in RAGCHECKER.items():
    _needs_context = _name not in ("precision", "recall", "f1")
    _not_by_default(f"ragchecker_{_name}", needs_context=_needs_context)(_function)

# RAGAS 0.4.3, noise sensitivity, mode relevant, is RAGChecker's formula; its mode irrelevant is
# `ragchecker_noise_sensitivity_in_irrelevant`.
evaluator("noise_sensitivity", needs_reference=True, lower_is_better=True)(
    RAGCHECKER["noise_sensitivity_in_relevant"]
)
