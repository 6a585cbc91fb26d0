"""Finds the cause of an alarm: where the rise concentrates, what it rests on, and since when."""

from ragmonitor.causes.candidates import (
    CandidateCause,
    CandidateKind,
    CauseFinder,
    ChangeFinder,
    ChangePoint,
)

__all__ = ["CandidateCause", "CandidateKind", "CauseFinder", "ChangeFinder", "ChangePoint"]
