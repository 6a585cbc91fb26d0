"""The signals that may raise an alarm, and what their verdicts do to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragmonitor.records import AlarmKind, Example, is_builtin

Pending = tuple[float, str, float, float, float, str, Callable[[], Example] | None]
"""When, signal, badness, importance weight, suspicion, session and example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One signal that may raise an alarm."""

    signal: str
    """Empty: a slot, for a slice that is chosen while the service runs."""
    judge: str
    """The judge whose verdicts update it; `none` for what needs no judge."""
    kind: AlarmKind
    share: float
    """The share of all false alarms that are allowed; those of all streams together at most 1."""
    higher_is_better: bool = False
    """Better the higher it is: `objective` is the lowest mean accepted."""
    max_importance_weight: float = 1.0
    """2 where inclusion probabilities vary."""
    default_objective: float | None = None
    """In the signal's own scale; None: learned where it is not given."""
    reserve: float = 0.0
    """The share of its threshold that may be put aside for when the built-in score is
    suspicious."""
    least_learned: float = 0.0
    """The least objective that is learned, on the scale of badness."""
    definition: str = ""
    """What the signal's value means, where a setting says it: another is another evidence."""
    version: int = 1
    """Of the evaluator that gives the value: another is another evidence, too."""


def key_of(stream: Stream) -> str:
    """Return the stream's name in the file.

    A changed judge goes on with the evidence it finds. Not so one that takes over from the
    built-in judge, or gives way to it: their verdicts have little in common. Nor have those of two
    built-in ones. What was learned of another definition or version of the signal stays in the
    file, under its own name.
    """
    name = f"{stream.signal}:{stream.definition}" if stream.definition else stream.signal
    name = f"{name}:{stream.version}" if stream.version > 1 else name
    return f"{name}@{stream.judge}" if is_builtin(stream.judge) else name
