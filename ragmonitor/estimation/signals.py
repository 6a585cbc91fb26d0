"""Reads signals off a report: a value, that the signal does not apply, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ragmonitor.records import Cause, Report, Scored, evaluator_name

HALLUCINATION: Final = "hallucination"
MINOR_HALLUCINATION: Final = "minor_hallucination"
REFUSAL: Final = "refusal"
FROM_ASSESSMENT: Final = (HALLUCINATION, REFUSAL, MINOR_HALLUCINATION)
"""The signals of every assessment, whichever evaluators are selected."""
EMPTY_RETRIEVAL: Final = "empty_retrieval"
WEAK_RETRIEVAL: Final = "weak_retrieval"
NO_JUDGE: Final = "none"
"""The judge of signals that need none."""

NO_VERDICT: Final = frozenset(
    (
        Cause.NOT_SAMPLED,
        Cause.OVER_BUDGET,
        Cause.JUDGE_BUSY,
        Cause.JUDGE_DOWN,
        Cause.EVIDENCE_TOO_LONG,
        Cause.TOO_LONG,
        Cause.QUEUE_FULL,
        Cause.JUDGE_TIMEOUT,
        Cause.JUDGE_ERROR,
        Cause.UNREADABLE,
        Cause.EVALUATOR_ERROR,
        Cause.SHUTDOWN,
    )
)
"""Causes that say nothing of the answer. The others say that the signal does not apply to it."""


class Outcome(NamedTuple):
    """The outcome of one signal of one answer."""

    scored: bool
    """Whether the signal applies: a refusal has no faithfulness."""
    value: float
    """0 to 1; 0 where it does not apply."""


NOT_APPLICABLE: Final = Outcome(scored=False, value=0.0)
_YES: Final = Outcome(scored=True, value=1.0)
_NO: Final = Outcome(scored=True, value=0.0)

Outcomes = Sequence[tuple[str, Outcome | None]]
"""Every signal of a report with its outcome; None: there is no verdict."""


def slice_signal(signal: str, name: str) -> str:
    """Return what the alarm of a slice is called: `hallucination{route=billing}`."""
    return f"{signal}{{{name}}}"


def slice_of(signal: str) -> str:
    """Return the slice that such a signal names: `route=billing`; empty: it names none."""
    return signal.partition("{")[2].rpartition("}")[0]


def whole_of(signal: str) -> str:
    """Return such a signal without its slice."""
    return signal.partition("{")[0]


def outcomes(report: Report) -> Outcomes:
    """Return every signal of a report with its outcome; None: there is no verdict."""
    assessment = report.assessment
    found: list[tuple[str, Outcome | None]]
    if assessment is None:
        found = [(signal, None) for signal in FROM_ASSESSMENT]
    else:
        evasive = assessment.evasive
        refusal = None if evasive is None else _YES if evasive else _NO
        minor = _claimed(report, assessment.has_minor_findings_only)
        found = [(HALLUCINATION, hallucination(report)), (REFUSAL, refusal)]
        found.append((MINOR_HALLUCINATION, minor))
    for evaluation in report.evaluations:
        name = evaluator_name(evaluation.evaluator)
        # Two evaluators say what the assessment says; added twice it would count for two answers.
        if name in FROM_ASSESSMENT:
            continue
        if isinstance(evaluation, Scored):
            # By position: a third of the time, and this runs for every score.
            found.append((name, Outcome(True, evaluation.score)))
        else:
            found.append((name, None if evaluation.cause in NO_VERDICT else NOT_APPLICABLE))
    return found


def hallucination(report: Report) -> Outcome | None:
    """Return whether anything is hallucinated, where the answer claims something of chunks."""
    assessment = report.assessment
    return None if assessment is None else _claimed(report, assessment.hallucinated)


def _claimed(report: Report, verdict: bool | None) -> Outcome | None:
    """Return a verdict on what the answer claims of its chunks as an outcome."""
    if report.assessment is None or report.assessment.sentences is None:
        return None
    if verdict is None or not report.interaction.chunks:
        return NOT_APPLICABLE
    return _YES if verdict else _NO


def hallucinated(report: Report) -> bool | None:
    """Return the verdict on hallucination; None: there is none, or it does not apply."""
    outcome = hallucination(report)
    return bool(outcome.value) if outcome is not None and outcome.scored else None


def language_of(report: Report) -> str:
    """Return the language of the answer; empty: not known."""
    return report.assessment.language if report.assessment is not None else ""


def features(report: Report, found: Outcomes) -> Iterator[tuple[str, float | None]]:
    """Yield what the built-in judge says of each signal, to predict another judge's verdict from.

    For hallucination that is its continuous risk. None: it says nothing.

    Args:
        report: By the built-in judge.
        found: Its outcomes.
    """
    assessment = report.assessment
    risk = None if assessment is None else assessment.risk
    for signal, outcome in found:
        if outcome is None or not outcome.scored:
            yield signal, None
        elif signal == HALLUCINATION and risk is not None:
            yield signal, risk
        else:
            yield signal, outcome.value
