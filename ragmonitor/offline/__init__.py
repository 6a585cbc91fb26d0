"""Recorded interactions scored offline, for the command line and for Python."""

from ragmonitor.offline.evaluating import EvaluationResult, aevaluate, evaluate
from ragmonitor.offline.summary import EvaluatorSummary

__all__ = ["EvaluationResult", "EvaluatorSummary", "aevaluate", "evaluate"]
