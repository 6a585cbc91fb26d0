"""Recorded interactions scored offline: one engine for the command line and for Python."""

from ragmonitor.offline.evaluating import (
    EvaluationResult,
    EvaluatorSummary,
    aevaluate,
    evaluate,
)

__all__ = ["EvaluationResult", "EvaluatorSummary", "aevaluate", "evaluate"]
