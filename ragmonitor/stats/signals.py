"""Reads signals off a report: a value, that the signal does not apply, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragmonitor.records import FAILURES, Cause, Report, Scored, evaluator_name
from ragmonitor.stats.sums import NOTHING, Outcome

HALLUCINATION: Final = "hallucination"
MINOR_HALLUCINATION: Final = "minor_hallucination"
REFUSAL: Final = "refusal"
FROM_ASSESSMENT: Final = (HALLUCINATION, REFUSAL, MINOR_HALLUCINATION)
"""The signals of every assessment, whichever evaluators are selected."""
EMPTY_RETRIEVAL: Final = "empty_retrieval"
WEAK_RETRIEVAL: Final = "weak_retrieval"
REFERENCES: Final = "anchors"
"""Old answers that were fine, and that the judge finds bad when it reads them again."""
SHARES: Final = frozenset(
    (
        *FROM_ASSESSMENT,
        "wrong_refusal",
        EMPTY_RETRIEVAL,
        WEAK_RETRIEVAL,
        REFERENCES,
        "golden_availability",
    )
)
"""Signals that are a share of the answers, and no mean of scores."""
NO_JUDGE: Final = "none"
"""The judge of signals that need none."""
Outcomes = Mapping[str, Outcome | None]
"""Every signal of a report with its outcome; None: there is no verdict."""
NO_VERDICT: Final = FAILURES | {
    Cause.NOT_SAMPLED,
    Cause.OVER_BUDGET,
    Cause.JUDGE_BUSY,
    Cause.EVIDENCE_TOO_LONG,
    Cause.TOO_LONG,
    Cause.QUEUE_FULL,
    Cause.SHUTDOWN,
}
"""Causes that say nothing of the answer. The others say that the signal does not apply to it."""


def language_of(report: Report) -> str:
    """Return the language of the answer; empty: not known."""
    return report.assessment.language if report.assessment is not None else ""


def hallucinated(report: Report) -> bool | None:
    """Return the verdict on hallucination; None: there is none, or it does not apply."""
    assessment = report.assessment
    found = None if assessment is None else _claimed(report, assessment.hallucinated)
    return bool(found.value) if found is not None and found.scored else None


def outcomes(report: Report) -> dict[str, Outcome | None]:
    """Return every signal of a report with its outcome; None: there is no verdict."""
    assessment = report.assessment
    found: dict[str, Outcome | None] = dict.fromkeys(FROM_ASSESSMENT)
    if assessment is not None:
        found[HALLUCINATION] = _claimed(report, assessment.hallucinated)
        found[MINOR_HALLUCINATION] = _claimed(report, assessment.has_minor_findings_only)
        if assessment.evasive is not None:
            found[REFUSAL] = Outcome(1.0, float(assessment.evasive))
    for evaluation in report.evaluations:
        name = evaluator_name(evaluation.evaluator)
        # Two evaluators say what the assessment says; added twice it would count for two answers.
        if name in FROM_ASSESSMENT:
            continue
        if isinstance(evaluation, Scored):
            found[name] = Outcome(1.0, evaluation.score)
        else:
            found[name] = None if evaluation.cause in NO_VERDICT else NOTHING
    return found


def _claimed(report: Report, verdict: bool | None) -> Outcome | None:
    """Return a verdict on what the answer claims of its chunks as an outcome."""
    if report.assessment is None or report.assessment.sentences is None:
        return None
    if verdict is None or not report.interaction.chunks:
        return NOTHING
    return Outcome(1.0, float(verdict))


def features(report: Report, found: Outcomes) -> dict[str, float]:
    """Return what the built-in judge says of each signal, to predict another judge's verdict from.

    For hallucination that is its continuous risk. Signals of which it says nothing are left out.

    Args:
        report: By the built-in judge.
        found: Its outcomes.
    """
    known = {signal: each.value for signal, each in found.items() if each and each.scored}
    risk = None if report.assessment is None else report.assessment.risk
    if HALLUCINATION in known and risk is not None:
        known[HALLUCINATION] = risk
    return known
