"""The evaluators by name and version, and how one assessment passes through them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ragmonitor.errors import NotScorableError, SettingsError
from ragmonitor.guard import record_error
from ragmonitor.protocols import Evaluator
from ragmonitor.records import (
    Assessment,
    Cause,
    Evaluation,
    Interaction,
    JudgeIdentity,
    Scored,
    Unscored,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the table."""

    name: str
    """Lower case, digits and `_`: it is a label's value and part of attribute names."""
    version: int
    """From 1; raised whenever the same assessment would score differently."""
    evaluator: Evaluator
    needs_context: bool = True
    """Without any chunk there is no score."""
    explain: Callable[[Assessment], str] | None = None
    """Says in words what a score rests on; what spans and events carry as explanation."""

    @property
    def identity(self) -> str:
        """Return `name@version`."""
        return f"{self.name}@{self.version}"


class Table:
    """Evaluators by name, in the order of registration."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.register(entry)

    def __iter__(self) -> Iterator[Entry]:
        """Return the entries in order."""
        return iter(self._entries.values())

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._entries)

    def register(self, entry: Entry) -> None:
        """Add an evaluator.

        Raises:
            SettingsError: The name is taken by another evaluator, or is no valid name.
        """
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", entry.name):
            raise SettingsError(
                f"evaluator name {entry.name!r}: use lower-case letters, digits and _, at most 64"
            )
        if entry.version < 1:
            raise SettingsError(f"evaluator {entry.name}: versions start at 1")
        known = self._entries.get(entry.name)
        if known is not None and known.version == entry.version and known != entry:
            raise SettingsError(
                f"evaluator {entry.identity} is registered already; raise its version to replace it"
            )
        self._entries[entry.name] = entry

    def select(self, names: Iterable[str] = ()) -> Table:
        """Return the named evaluators in the given order; all of them if none is named.

        Raises:
            SettingsError: A name is not in the table.
        """
        names = tuple(names)
        unknown = [name for name in names if name not in self._entries]
        if unknown:
            raise SettingsError(
                f"unknown evaluator {', '.join(unknown)}; known: {', '.join(self._entries)}"
            )
        return Table(self._entries[name] for name in names) if names else Table(self)


table = Table()
"""The table that monitors and the command line read; `evaluator` adds to it."""


def evaluator(
    name: str,
    *,
    version: int = 1,
    needs_context: bool = True,
    explain: Callable[[Assessment], str] | None = None,
) -> Callable[[Evaluator], Evaluator]:
    """Register the decorated function as an evaluator; it is returned unchanged.

    Example:
        ```python
        @ragmonitor.evaluator("brevity")
        def brevity(interaction, assessment):
            return 1 / (1 + len(interaction.answer) / 1000)
        ```
    """

    def register(function: Evaluator) -> Evaluator:
        table.register(
            Entry(
                name=name,
                version=version,
                evaluator=function,
                needs_context=needs_context,
                explain=explain,
            )
        )
        return function

    return register


def evaluate(
    entries: Iterable[Entry], interaction: Interaction, assessment: Assessment
) -> tuple[Evaluation, ...]:
    """Return one evaluation per entry, in order.

    An evaluator that raises, or returns what is no number from 0 to 1, gives `evaluator_error`
    and spoils no other.
    """
    return tuple(_one(entry, interaction, assessment) for entry in entries)


def unscored(
    entries: Iterable[Entry], judge: JudgeIdentity, cause: Cause, detail: str = ""
) -> tuple[Evaluation, ...]:
    """Return the same cause for every entry: nothing was assessed."""
    return tuple(
        Unscored(evaluator=entry.identity, judge=judge, cause=cause, detail=detail)
        for entry in entries
    )


def unscorable(interaction: Interaction) -> Cause | None:
    """Return why no judge need read this interaction, or None if one should."""
    if interaction.status == "error":
        return Cause.APPLICATION_ERROR
    if interaction.status in ("partial", "cancelled"):
        return Cause.PARTIAL
    if interaction.capture_incomplete:
        return Cause.CAPTURE_INCOMPLETE
    if not interaction.answer.strip():
        return Cause.NO_ANSWER
    return None


def _one(entry: Entry, interaction: Interaction, assessment: Assessment) -> Evaluation:
    try:
        if entry.needs_context and not interaction.chunks:
            raise NotScorableError(Cause.NO_CONTEXT)
        score = float(entry.evaluator(interaction, assessment))
        explanation = entry.explain(assessment) if entry.explain is not None else ""
        if not 0 <= score <= 1 or math.isnan(score):
            raise ValueError(f"{entry.identity} returned {score}, which is not from 0 to 1")
    except NotScorableError as reason:
        return Unscored(
            evaluator=entry.identity,
            judge=assessment.judge,
            cause=reason.cause,
            detail=reason.detail,
        )
    except Exception as error:  # noqa: BLE001 - an evaluator is anybody's code
        record_error("evaluate", error)
        return Unscored(
            evaluator=entry.identity,
            judge=assessment.judge,
            cause=Cause.EVALUATOR_ERROR,
            detail=f"{type(error).__name__}: {error}",
        )
    return Scored(
        evaluator=entry.identity,
        judge=assessment.judge,
        score=score,
        explanation=explanation,
    )
