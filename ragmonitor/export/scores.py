"""Names, identities and explanations of evaluations in scoring APIs."""

from __future__ import annotations

from ragmonitor.export.content import Content, clipped
from ragmonitor.records import Evaluation, Report, Scored, SpanReference, evaluator_name
from ragmonitor.runtime.printable import encodable

MAX_EXPLANATION_BYTES = 4096
"""Longer than anybody reads beside a trace."""


def annotated(report: Report) -> SpanReference | None:
    """Return the span that a report's scores belong on; None: it is in no backend."""
    target = report.target
    return target if target is not None and target.sampled else None


def score_name(evaluation: Evaluation) -> str:
    """Return the name of the score in a backend: `faithfulness (builtin)`.

    Backends average what has one name. Scores of two judges are on two scales, and a mean of both
    would move with the share that the second one scores.
    """
    return encodable(f"{evaluator_name(evaluation.evaluator)} ({evaluation.judge.name})")


def score_identity(evaluation: Evaluation) -> str:
    """Return evaluator and judge, with versions; the same identity again updates the score."""
    return encodable(f"{evaluation.evaluator} {evaluation.judge}")


def score_metadata(evaluation: Evaluation, report: Report) -> dict[str, str | float]:
    """Return the versions of judge and evaluator, and the inclusion probability."""
    return {
        "evaluator": encodable(evaluation.evaluator),
        "judge": encodable(str(evaluation.judge)),
        "chance": report.decision.inclusion_probability,
        "interaction_id": encodable(report.interaction.id),
    }


def explanation(evaluation: Scored, content: Content) -> str:
    """Return the explanation; empty where content may not leave as it is: it quotes the answer."""
    return clipped(evaluation.explanation, MAX_EXPLANATION_BYTES) if content == "all" else ""
