"""Recorded interactions scored offline, for the command line and for Python."""

from ragmonitor.offline.scoring import EvaluationResult, evaluate

__all__ = ["EvaluationResult", "evaluate"]
