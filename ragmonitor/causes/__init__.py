"""Finds the cause of an alarm: where the rise concentrates, what it rests on, and since when."""

from ragmonitor.causes.explanation import Explanation, NamedPart, PartKind, Shift
from ragmonitor.causes.live_causes import Causes

__all__ = ["Causes", "Explanation", "NamedPart", "PartKind", "Shift"]
