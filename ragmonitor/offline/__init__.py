"""Recorded interactions scored offline, for the command line and for Python."""

from ragmonitor.offline.evaluating import EvaluationResult, aevaluate, evaluate

__all__ = ["EvaluationResult", "aevaluate", "evaluate"]
