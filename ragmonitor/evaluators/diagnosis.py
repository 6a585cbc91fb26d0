"""One word for what went wrong with an answer: what an on-call person sorts by first."""

from __future__ import annotations

from typing import Final

from ragmonitor.records import Assessment, Diagnosis, Interaction, Verdict

RELEVANT_FROM: Final = 0.75
"""Relevance from which a chunk counts as holding what was asked for. An LLM judge rates 0, 0.5
(same subject only) or 1 (holds it). The built-in judge rates 0.75 where three eighths of the
question's content stand in the chunk, which is a guess."""
OFF_TOPIC_TO: Final = 1 / 3
"""Answer relevancy up to which an answer is off topic: an LLM judge's 0 or 1 (barely) of 3."""


def holds_what_was_asked(assessment: Assessment) -> bool | None:
    """Return whether any chunk holds something that was asked for; None: that is not known."""
    relevance = assessment.chunk_relevance
    if relevance is None:
        return None
    return any(rating >= RELEVANT_FROM for rating in relevance)


def diagnosis(interaction: Interaction, assessment: Assessment) -> Diagnosis:
    """Return what went wrong: the first of `Diagnosis` that applies, `ok` if nothing does.

    Only findings that make the answer hallucinated (`Assessment.counted_findings`) are looked at.
    What is not known counts as not the case; `unknown` is left for an answer of which neither the
    claims nor their absence is known.
    """
    answerable = holds_what_was_asked(assessment)
    if not interaction.chunks:
        answerable = False
    if assessment.evasive:
        return Diagnosis.WRONG_REFUSAL if answerable else Diagnosis.REFUSAL
    claims = assessment.claims
    if claims is None:
        return Diagnosis.UNKNOWN
    findings = [claim.verdict for claim in assessment.counted_findings]
    if Verdict.CONTRADICTED in findings:
        return Diagnosis.CONTRADICTION
    if Verdict.ABSENT in findings:
        if answerable is False:
            return Diagnosis.RETRIEVAL_MISS
        if answerable and len(findings) == len(claims):
            return Diagnosis.IGNORED_CONTEXT
        return Diagnosis.UNSUPPORTED_ADDITION
    relevancy = assessment.answer_relevancy
    if relevancy is not None and relevancy <= OFF_TOPIC_TO and interaction.query.strip():
        return Diagnosis.OFF_TOPIC
    return Diagnosis.OK
