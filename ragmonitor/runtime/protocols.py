"""The seams between stages. Each says what it may raise; everything else is a bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from ragmonitor.records import (
    Assessment,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Report,
    SpanReference,
    Status,
)


class Finished(Protocol):
    """An interaction that has ended. Handing it over is cheap; turning it into a record is not."""

    @property
    def framework(self) -> str:
        """The field of `Interaction`, known without building it."""

    @property
    def status(self) -> Status:
        """The field of `Interaction`, known without building it."""

    def interaction(self) -> Interaction | None:
        """Return the record, or None if it was no question-and-answer over retrieved text.

        Called once, behind the request path.
        """


@runtime_checkable
class Judge(Protocol):
    """A judge reads an interaction once. It is slow, sometimes wrong and sometimes absent.

    Two members are needed. What else a judge may have is listed in `capabilities.CapableJudge`.
    """

    @property
    def identity(self) -> JudgeIdentity:
        """The judge's name, version and kind; constant over the judge's life."""

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what was found. Raises `JudgeError`; safe to call concurrently."""


BudgetUnit = Literal["usd", "tokens", "calls"]
"""The unit in which a budget counts."""

BreakerState = Literal["closed", "half_open", "open"]
"""The state of a provider that is left alone while it fails: `half_open`, the next reading
tries."""


class Evaluator(Protocol):
    """A pure function of an interaction and its assessment."""

    def __call__(self, interaction: Interaction, assessment: Assessment, /) -> float:
        """Return a score from 0 to 1. Raises `NotScorableError`."""


Section = Literal["chunks", "sentences", "question", "answer", "reference"]
"""A part of an interaction that a judge may be shown. `sentences` are the chunks', one a line,
numbered from 1 within each chunk."""


class Asker(Protocol):
    """The judge that has read an answer, to be asked something more of it."""

    @property
    def identity(self) -> JudgeIdentity:
        """The judge; its version changes with all that stands around a question, too."""

    @property
    def sentence_counts(self) -> Sequence[int]:
        """The number of sentences of each chunk in the section `sentences`; shape (n_chunks,)."""

    @property
    def usage(self) -> JudgeUsage:
        """The cost of asking so far."""

    async def ask(
        self,
        instructions: str,
        *,
        fields: Mapping[str, str],
        shown: Sequence[Section] = ("chunks", "question", "answer"),
    ) -> Mapping[str, object]:
        """Return the fields of the judge's reply, by name; values are what JSON can hold.

        Args:
            instructions: The same for every answer, so that a provider can cache them; texts of
                the interaction do not belong here.
            fields: Name of each field, lower case, with what its value is to be.
            shown: What the judge is to see of the interaction.

        Raises:
            JudgeError: There is no usable reply; or a field is missing, cause `unreadable`.
        """


class AskingEvaluator(Protocol):
    """A score that needs a question of its own to the judge."""

    async def __call__(
        self, interaction: Interaction, assessment: Assessment, asker: Asker, /
    ) -> float:
        """Return a score from 0 to 1. Raises `NotScorableError`, `JudgeError`."""


class Exporter(Protocol):
    """Carries reports to where people look. Called from the worker only.

    All three methods are needed. A class that names this one as its base has a `flush` and a
    `close` for who buffers and holds nothing. These it may have beside them, none of which waits
    for the network:

    | method | what it is told |
    |---|---|
    | `configure(context: ExportContext)` | first, its settings; may raise `SettingsError` |
    | `alarm(event: AlarmEvent)` | an alarm was raised or cleared |
    | `feedback(joined: JoinedFeedback)` | what a person said of an answer |
    | `snapshot(snapshot: Snapshot)` | every number of now, every few seconds and at every flush |
    """

    def export(self, report: Report) -> None:
        """Pass one report on without waiting for the network."""

    def flush(self, timeout_s: float) -> bool:  # noqa: ARG002 - for who buffers something
        """Send what is buffered; return whether all of it left in time."""
        return True

    def close(self) -> None:
        """Release what is held. Nothing is exported afterwards."""
        return  # for mypy, which would find it abstract


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportContext:
    """The settings of a monitor that its exporters heed."""

    service: str = ""
    service_version: str = ""
    content: Literal["all", "hashed", "none"] = "all"
    """The texts that may leave the process."""
    hash_key: bytes | None = field(default=None, repr=False)
    """The key of hashed texts; None: random, of this process."""
    has_traces: bool = True
    """Whether there are traces on which scores can be put."""
    lost: Callable[[str, int], None] | None = None
    """Counts reports that did not arrive, by reason; may be called from any thread."""


class TraceExporter(Exporter, Protocol):
    """Emits an interaction's trace from the finished record."""

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the spans, with the scores known by now; return the root span's reference.

        None: there is nowhere to send traces.
        """

    def destination(self) -> str:
        """Say where traces go, without secrets."""


Clock = Callable[[], float]
"""Seconds, from any origin, never going back: `time.monotonic`."""
