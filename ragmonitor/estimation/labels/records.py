"""What a person says of an answer, and the shares that many of them make."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the judge and a person say of one answer."""

    interaction_id: str
    judged: bool
    """The judge found it hallucinated."""
    human: bool
    """A person does."""
    at_s: float
    """When it was answered, in seconds since the epoch."""
    chance: float = 1.0
    """That the judge read it; above 0, up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """One row of a file of labels, filled in or not."""

    interaction_id: str
    judged: bool
    human: bool | None
    """None: nobody has said anything, or nobody can tell."""
    at_s: float
    chance: float
    drawn_from: int | None
    """How many answers of this verdict it was drawn among; None: the file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the labelled answers, with its 95 % interval."""

    mean: float
    lower: float
    upper: float
    labels: int
    effective_n: float
    """Of answers with equal chances that would tell as much."""
