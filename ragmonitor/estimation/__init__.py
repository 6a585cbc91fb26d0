"""Windowed means that no sampling rule can bias, each with an interval."""

from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.windows import Windows

__all__ = ["Windows", "summarise"]
