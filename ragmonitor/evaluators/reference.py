"""What evaluators by a reference answer count, or why there is nothing to count."""

from __future__ import annotations

from dataclasses import dataclass

from ragmonitor.errors import NotScorableError
from ragmonitor.records import (
    Assessment,
    Cause,
    Interaction,
    ReferenceReading,
    ReferenceSentence,
    Verdict,
)


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
    """Claims of the answer that it does not."""
    false_negatives: int
    """Sentences of the reference that the answer does not entail."""

    @property
    def precision(self) -> float:
        """From 0 to 1; 0 if the answer claims nothing."""
        return _share(self.true_positives, self.false_positives)

    @property
    def recall(self) -> float:
        """From 0 to 1."""
        return _share(self.true_positives, self.false_negatives)

    @property
    def f1(self) -> float:
        """Harmonic mean of both: TP / (TP + (FP + FN) / 2)."""
        return harmonic_mean(self.precision, self.recall)


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


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


def claims_to_rate(assessment: Assessment) -> tuple[Claim, ...]:
    """Return the answer's claims; at least one.

    Raises:
        NotScorableError: The answer refuses or claims nothing, or it or the reference could not be
            read.
    """
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    claims = answer_claims_of(assessment)
    if not claims:
        raise NotScorableError(Cause.NO_CLAIMS)
    return claims


def counts_of(assessment: Assessment) -> Counts:
    """Return the claims that answer and reference share, and those that only one has.

    A refusal shares nothing: beside a reference answer it is a wrong answer.

    Raises:
        NotScorableError: The answer's verdicts or the reference could not be read, or the reference
            claims nothing.
    """
    sentences = sentences_of(assessment)
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
    found = {chunk for sentence in sentences_of(assessment) for chunk in sentence.chunks}
    return [position in found for position in range(len(interaction.chunks))]


def _reading(assessment: Assessment) -> ReferenceReading:
    if assessment.reference is None:
        raise NotScorableError(assessment.reference_cause or Cause.UNREADABLE)
    return assessment.reference
