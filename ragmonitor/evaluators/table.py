"""The evaluators by name and version, and how one assessment passes through them."""

from __future__ import annotations

import asyncio
import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from ragmonitor.records import (
    Assessment,
    Cause,
    Evaluation,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Scored,
    Unscored,
)
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import JudgeError, NotScorableError, SettingsError
from ragmonitor.runtime.guard import ends_the_task, record_error
from ragmonitor.runtime.protocols import AskingEvaluator, Evaluator, Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the table."""

    name: str
    """Lower case, digits and `_`: it is a label's value and part of attribute names."""
    version: int
    """From 1; raised whenever the same assessment would score differently."""
    evaluator: Evaluator | AskingEvaluator
    needs_query: bool = False
    """Without a question there is no score."""
    needs_context: bool = True
    """Without any chunk there is no score."""
    needs_reference: bool = False
    """Without a reference answer there is no score."""
    by_default: bool = True
    """Whether it scores where nobody names evaluators; one that needs a reference does only where
    there is one."""
    lower_is_better: bool = False
    """Whether an alarm is due when the mean rises; else when it falls."""
    explain: Callable[[Assessment], str] = lambda _: ""
    """Says in words what a score rests on; what spans and events carry as explanation."""
    waits: bool = False
    """It waits for a network: where an event loop runs, it is called on a thread."""
    asks: bool = field(init=False)
    """It is an `AskingEvaluator`: it asks the judge something, which costs a call."""

    def __post_init__(self) -> None:
        """See whether it asks: once, and not for each answer."""
        function = self.evaluator
        asks = iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
        object.__setattr__(self, "asks", asks)

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
        known = self._entries.get(entry.name)
        if known is not None and known.version == entry.version and known != entry:
            raise SettingsError(
                f"evaluator {entry.identity} is registered already; raise its version to replace it"
            )
        self._entries[entry.name] = entry

    def lower_is_better(self, name: str) -> bool:
        """Return whether there is an evaluator of that name whose 1 is bad."""
        known = self._entries.get(name)
        return known is not None and known.lower_is_better

    def select(
        self,
        names: Iterable[str | Evaluator | AskingEvaluator] = (),
        *,
        with_reference: bool = False,
    ) -> Table:
        """Return the named evaluators in the given order; the default ones if none is named.

        Args:
            names: Of evaluators, or patterns of names: `ragchecker_*`, `*`; or the registered
                functions themselves.
            with_reference: Whether those that need a reference are among the default ones.

        Raises:
            SettingsError: A name, a pattern or a function fits nothing in the table.
        """
        functions = {id(entry.evaluator): entry.name for entry in self}
        wanted = [
            each if isinstance(each, str) else functions.get(id(each), repr(each)) for each in names
        ]
        if not wanted:
            return Table(
                entry
                for entry in self
                if entry.by_default and (with_reference or not entry.needs_reference)
            )
        by_pattern = {name: fnmatch.filter(self._entries, name) for name in wanted}
        unknown = [name for name, fitting in by_pattern.items() if not fitting]
        if unknown:
            raise SettingsError(
                f"unknown evaluator {', '.join(unknown)}; known: {', '.join(self._entries)}; a "
                "function of your own is decorated with @ragmonitor.evaluator(name)"
            )
        chosen = dict.fromkeys(name for fitting in by_pattern.values() for name in fitting)
        return Table(self._entries[name] for name in chosen)


table = Table()
"""The table that monitors and the command line read; `evaluator` adds to it."""

Registered = TypeVar("Registered", bound=Evaluator | AskingEvaluator)


def evaluator(
    name: str, *, version: int = 1, into: Table = table, **options: Any
) -> Callable[[Registered], Registered]:
    """Register the decorated function as an evaluator; it is returned unchanged.

    A plain function scores the assessment. A coroutine function asks the judge something of its
    own: each `ask` is one call more for every answer that a judge scores, and a judge that cannot
    be asked (the built-in judge) leaves it unscored, cause `not_asked`.

    Args:
        name: Lower case, digits and `_`; a label's value.
        version: Raised whenever the same assessment would score differently.
        into: A table.
        options: Others of `Entry`: `needs_query`, `needs_context`, `needs_reference`,
            `by_default`, `lower_is_better`, `explain`, `waits`.

    Example:
        ```python
        @ragmonitor.evaluator("brevity")
        def brevity(interaction, assessment):
            return 1 / (1 + len(interaction.answer) / 1000)


        @ragmonitor.evaluator("politeness", needs_context=False)
        async def politeness(interaction, assessment, asker):
            reply = await asker.ask("Is the ANSWER polite?", fields={"polite": "true or false"})
            if not isinstance(reply["polite"], bool):
                raise ragmonitor.NotScorableError(ragmonitor.Cause.UNREADABLE)
            return float(reply["polite"])
        ```
    """
    if not isinstance(name, str):  # without parentheses the function would be lost in silence
        raise SettingsError(f'evaluator: name it, as in @evaluator("brevity"), not {name!r}')

    def register(function: Registered) -> Registered:
        into.register(Entry(name=name, version=version, evaluator=function, **options))
        return function

    return register


def evaluate(
    entries: Iterable[Entry], interaction: Interaction, assessment: Assessment
) -> tuple[Evaluation, ...]:
    """Return one evaluation per entry, in order; those that would have to ask are `not_asked`.

    An evaluator that raises, or returns what is no number from 0 to 1, gives `evaluator_error`
    and spoils no other.
    """
    return tuple(_one(entry, interaction, assessment) for entry in entries)


async def evaluate_asking(
    entries: Iterable[Entry],
    interaction: Interaction,
    assessment: Assessment,
    judge: Judge,
    *,
    within_s: float = 60.0,
) -> tuple[tuple[Evaluation, ...], JudgeUsage]:
    """Return one evaluation per entry, in order, and what asking for them cost.

    As `evaluate`, with the entries that ask, one after the other, where the judge can be asked.
    What it raises then is the cause of that evaluation alone.

    Args:
        entries: The evaluators.
        interaction: What was answered.
        assessment: What the judge found.
        judge: Who is asked.
        within_s: After which one evaluator's asking counts as `judge_timeout`.
    """
    evaluations: list[Evaluation] = []
    usage = JudgeUsage()
    for entry in entries:
        asker = as_judge(judge).asker(interaction, assessment) if entry.asks else None
        if asker is None:
            if entry.waits:
                evaluations.append(await apart(_one, entry, interaction, assessment))
            else:
                evaluations.append(_one(entry, interaction, assessment))
            continue
        try:
            _check_needs(entry, interaction)
            function: Any = entry.evaluator
            value = await asyncio.wait_for(function(interaction, assessment, asker), within_s)
            evaluations.append(_scored(entry, assessment, asker.identity, value))
        except BaseException as error:  # noqa: BLE001 - an evaluator is anybody's code
            evaluations.append(_failed(entry, asker.identity, error))
        usage += asker.usage
    return tuple(evaluations), usage


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
        _check_needs(entry, interaction)
        if entry.asks:
            raise NotScorableError(Cause.NOT_ASKED)
        function: Any = entry.evaluator
        return _scored(entry, assessment, assessment.judge, function(interaction, assessment))
    except BaseException as error:  # noqa: BLE001 - an evaluator is anybody's code
        return _failed(entry, assessment.judge, error)


def _check_needs(entry: Entry, interaction: Interaction) -> None:
    """Raise `NotScorableError` if the evaluator lacks something that it needs for a score."""
    if entry.needs_reference and not interaction.reference.strip():
        raise NotScorableError(Cause.NO_REFERENCE)
    if entry.needs_context and not interaction.chunks:
        raise NotScorableError(Cause.NO_CONTEXT)
    if entry.needs_query and not interaction.query.strip():
        raise NotScorableError(Cause.NO_QUERY)


def _scored(entry: Entry, assessment: Assessment, judge: JudgeIdentity, value: float) -> Scored:
    score = float(value)
    if not 0 <= score <= 1 or math.isnan(score):
        raise ValueError(f"{entry.identity} returned {score}, which is not from 0 to 1")
    return Scored(
        evaluator=entry.identity,
        judge=judge,
        score=score,
        explanation=entry.explain(assessment),
    )


def _failed(entry: Entry, judge: JudgeIdentity, error: BaseException) -> Unscored:
    if ends_the_task(error):
        raise error
    if isinstance(error, NotScorableError):
        cause, detail = error.cause, error.detail
    elif isinstance(error, JudgeError):
        cause, detail = error.cause, str(error)
    elif isinstance(error, TimeoutError):
        cause, detail = Cause.JUDGE_TIMEOUT, "no score in time"
    else:
        record_error("evaluate", error)
        cause, detail = Cause.EVALUATOR_ERROR, f"{type(error).__name__}: {error}"
    return Unscored(evaluator=entry.identity, judge=judge, cause=cause, detail=detail)
