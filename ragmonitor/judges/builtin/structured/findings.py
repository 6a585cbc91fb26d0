"""Holds what the fields of structured chunks say of one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from ragmonitor.judges.builtin.structured.clauses import Span


class Outcome(IntEnum):
    """The finding of a field on a clause; the greater one goes before the lesser one."""

    SILENT = 0
    CONTRADICTS = 1
    UNKNOWN = 2
    SUPPORTS = 3


class Finding(NamedTuple):
    """A part of a sentence that a field does not bear out."""

    start: int
    end: int
    label: str
    """The field and its value: `hours.Sunday: closed`."""
    conflicts: bool
    """Whether the field says otherwise; else it has no value."""


@dataclass(slots=True)
class FieldReading:
    """The findings of the fields on one sentence."""

    supported: list[Span] = field(default_factory=list)
    """Parts that fields bear out, perhaps in other words."""
    findings: list[Finding] = field(default_factory=list)

    def support(self, *spans: Span) -> None:
        """Note parts that a field bears out."""
        self.supported += spans

    def object(self, at: Span, fact: str, *, conflicts: bool = True) -> None:
        """Note a part that a field does not bear out."""
        self.findings.append(Finding(*at, fact, conflicts))
