"""Evaluators that compare with a reference answer, and the claims that they count."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ragmonitor.evaluators.embeddings import (
    Embedding,
    PricedEmbedding,
    character_grams,
    nearness,
    vectors,
)
from ragmonitor.evaluators.ranking import average_precision
from ragmonitor.evaluators.table import Table, evaluator, table
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    ReferenceReading,
    ReferenceSentence,
    Verdict,
)
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.patterns import lazy_pattern

FACTS_WEIGHT: Final = 0.75
"""Weight of the claims' F1 in `answer_correctness`; the rest is the similarity's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the answer."""

    is_right: bool
    """The reference entails it."""
    is_supported: bool
    """The chunks entail it."""
    chunks: tuple[int, ...]
    """Positions of the chunks that do; may be empty for a claim about what the chunks lack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Claims by whether answer and reference share them."""

    true_positives: int
    """Claims of the answer that the reference entails."""
    false_positives: int
    """Claims of the answer that the reference does not entail."""
    false_negatives: int
    """Sentences of the reference that the answer does not entail."""

    @property
    def precision(self) -> float:
        """TP / (TP + FP), from 0 to 1; 0 if the answer claims nothing."""
        return self.true_positives / (self.true_positives + self.false_positives or 1)

    @property
    def recall(self) -> float:
        """TP / (TP + FN), from 0 to 1."""
        return self.true_positives / (self.true_positives + self.false_negatives or 1)

    @property
    def f1(self) -> float:
        """Harmonic mean of both: TP / (TP + (FP + FN) / 2)."""
        return harmonic_mean(self.precision, self.recall)


def harmonic_mean(left: float, right: float) -> float:
    """Return 2 * left * right / (left + right); 0 if both are 0."""
    return 2 * left * right / (left + right) if left + right else 0.0


def sentences_of(assessment: Assessment) -> tuple[ReferenceSentence, ...]:
    """Return the sentences of the reference that assert something; at least one.

    Raises:
        NotScorableError: The reference could not be read, or claims nothing.
    """
    sentences = _reading(assessment).sentences
    if not sentences:
        raise NotScorableError(Cause.NO_REFERENCE, "the reference answer claims nothing")
    return sentences


def answer_claims_of(assessment: Assessment) -> tuple[Claim, ...]:
    """Return the answer's claims; empty if it refuses or claims nothing.

    Raises:
        NotScorableError: The answer's verdicts or the reference could not be read.
    """
    reading = _reading(assessment)
    claims = assessment.claims
    if claims is None or len(claims) != len(reading.answer_claims):
        raise NotScorableError(Cause.UNREADABLE)
    return tuple(
        Claim(
            is_right=is_right,
            is_supported=claim.verdict is Verdict.SUPPORTED,
            chunks=claim.chunks if claim.verdict is Verdict.SUPPORTED else (),
        )
        for claim, is_right in zip(claims, reading.answer_claims, strict=True)
    )


_NO: Final = lazy_pattern(
    r"\W*(?:(?:no|not|false|incorrect|wrong|never)\b|[不否没错假])", re.IGNORECASE
)
_YES: Final = lazy_pattern(
    r"\W*(?:(?:yes|true|correct|right|sure)\b|[是对会有能真]|可以|正确)", re.IGNORECASE
)


_WORD_ALONE: Final = lazy_pattern(
    r"\W*(?:yes|no|true|false|correct|incorrect|right|wrong|不?可以|不?[是会对能]|[没否有真假]|没有|正确|错误?)"
    r"的?\W*",
    re.IGNORECASE,
)


def _says_yes(text: str) -> bool | None:
    """Return whether a text begins with a yes or with a no; None: with neither."""
    if _NO.match(text):
        return False
    return True if _YES.match(text) else None


def _counts_of_a_word(interaction: Interaction, assessment: Assessment) -> Counts:
    """Return the counts beside a reference that says yes or no and nothing more.

    Raises:
        NotScorableError: The reference claims nothing at all, or the answer says neither.
    """
    expected, answered = _says_yes(interaction.reference), _says_yes(interaction.answer)
    if expected is None:
        raise NotScorableError(Cause.NO_REFERENCE, "the reference answer claims nothing")
    if answered is None and not assessment.evasive:
        raise NotScorableError(Cause.UNREADABLE, "the answer says neither yes nor no")
    is_right = expected is answered
    return Counts(
        true_positives=is_right, false_positives=not is_right, false_negatives=not is_right
    )


def counts_of(interaction: Interaction, assessment: Assessment) -> Counts:
    """Return how many claims answer and reference share, and how many only one of them has.

    A refusal shares nothing: beside a reference answer it is a wrong answer.

    Raises:
        NotScorableError: The answer's verdicts or the reference could not be read, or the reference
            claims nothing.
    """
    sentences = _reading(assessment).sentences
    if not sentences or _WORD_ALONE.fullmatch(interaction.reference):
        return _counts_of_a_word(interaction, assessment)
    claims = answer_claims_of(assessment)
    right = sum(claim.is_right for claim in claims)
    return Counts(
        true_positives=right,
        false_positives=len(claims) - right,
        false_negatives=sum(not sentence.in_answer for sentence in sentences),
    )


def relevant_chunks(interaction: Interaction, assessment: Assessment) -> list[bool]:
    """Return for each chunk, in order, whether it entails a sentence of the reference.

    Raises:
        NotScorableError: The reference could not be read, or claims nothing.
    """
    relevant = {chunk for sentence in sentences_of(assessment) for chunk in sentence.chunks}
    return [position in relevant for position in range(len(interaction.chunks))]


def _reading(assessment: Assessment) -> ReferenceReading:
    if assessment.reference is None:
        raise NotScorableError(assessment.reference_cause or Cause.UNREADABLE)
    return assessment.reference


@evaluator("context_recall", needs_context=False, needs_reference=True)
def context_recall(interaction: Interaction, assessment: Assessment) -> float:
    """Return sentences of the reference that a chunk entails / sentences of the reference.

    Returns:
        0 (none; so too where nothing was retrieved) to 1 (all).

    Raises:
        NotScorableError: The reference claims nothing, or could not be read; or a golden question's
            application does not say what it retrieved.

    Source:
        RAGAS 0.4.3, context recall: attributable sentences of the reference / its sentences.
    """
    if interaction.probe is not None and not interaction.probe.knows_chunks:
        raise NotScorableError(Cause.CAPTURE_INCOMPLETE, "the reply names no chunks")
    sentences = sentences_of(assessment)
    return sum(bool(sentence.chunks) for sentence in sentences) / len(sentences)


@evaluator("context_precision", needs_reference=True)
def context_precision(interaction: Interaction, assessment: Assessment) -> float:
    """Return the average precision of the ranking, by which chunks entail part of the reference.

    Returns:
        0 (no chunk does) to 1 (those that do come first).

    Raises:
        NotScorableError: The reference claims nothing, or could not be read.

    Source:
        RAGAS 0.4.3, `ContextPrecisionWithReference`; a chunk is relevant where it entails a
        sentence of the reference, instead of by a call for each chunk.
    """
    return average_precision(relevant_chunks(interaction, assessment))


def _factual_correctness(name: str, share: Callable[[Counts], float], *, by_default: bool) -> None:
    """Register a share of the claims that answer and reference have in common.

    `Counts` says what is counted. The score is from 0 (nothing in common) to 1 (each entails the
    other); a refusal scores 0. There is none where the reference claims nothing, or where it or the
    verdicts could not be read.

    Source:
        RAGAS 0.4.3, factual correctness, modes f1 (beta 1), precision and recall.
    """

    @evaluator(name, needs_context=False, needs_reference=True, by_default=by_default)
    def factual_correctness(interaction: Interaction, assessment: Assessment) -> float:
        return share(counts_of(interaction, assessment))


_factual_correctness("factual_correctness", lambda counts: counts.f1, by_default=True)
_factual_correctness(
    "factual_correctness_precision", lambda counts: counts.precision, by_default=False
)
_factual_correctness("factual_correctness_recall", lambda counts: counts.recall, by_default=False)


@evaluator("refusal_correctness", needs_context=False, by_default=False)
def refusal_correctness(interaction: Interaction, assessment: Assessment) -> float:
    """Return 1 if an answer to an unanswerable golden question declines to answer, else 0.

    Raises:
        NotScorableError: It is no golden question that the documents leave unanswered (cause
            `no_reference`), or it could not be read whether it declines.
    """
    if interaction.probe is None or not interaction.probe.expects_refusal:
        raise NotScorableError(Cause.NO_REFERENCE, "it is no unanswerable golden question")
    if assessment.evasive is None:
        raise NotScorableError(Cause.UNREADABLE)
    return float(assessment.evasive)


def register_similarity(embedding: Embedding, *, version: int, into: Table = table) -> None:
    """Register `answer_similarity` and `answer_correctness` with this embedding.

    They take the places of those that are there; the arguments are `register_embedding`'s.
    """
    register = partial(
        evaluator,
        version=version,
        needs_context=False,
        needs_reference=True,
        waits=isinstance(embedding, PricedEmbedding),
        into=into,
    )

    @register("answer_similarity")
    def answer_similarity(interaction: Interaction, _assessment: Assessment) -> float:
        """Return the cosine between the vectors of the answer and of the reference.

        Returns:
            0 (nothing in common; so too what points away) to 1 (the same direction).

        Source:
            RAGAS 0.4.3, semantic similarity. The embedding without a network compares what is
            written, not what is meant.
        """
        answer, reference = vectors(embedding, [interaction.answer, interaction.reference])
        return nearness(answer, reference)

    @register("answer_correctness")
    def answer_correctness(interaction: Interaction, assessment: Assessment) -> float:
        """Return 0.75 * the F1 of the claims + 0.25 * the similarity to the reference.

        Returns:
            0 (wrong, and written differently) to 1 (the reference).

        Raises:
            NotScorableError: As `factual_correctness`.

        Source:
            RAGAS 0.4.3, answer correctness, with its weights.
        """
        facts = counts_of(interaction, assessment).f1
        similarity = answer_similarity(interaction, assessment)
        return FACTS_WEIGHT * facts + (1 - FACTS_WEIGHT) * similarity


register_similarity(character_grams, version=1)
