"""One run of a framework (chain, retriever, model, tool) with its place in the tree."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal

from opentelemetry.trace import SpanContext

from ragmonitor.records import Status

RunKind = Literal["chain", "retriever", "model", "tool"]


@dataclass(slots=True, eq=False)
class Run:
    """The notes on one run while it is open. Mutable, and never shared with the application.

    `inputs` and `outputs` hold the framework's own objects. An integration passes references to
    what nobody changes afterwards (texts, messages) and shallow copies of what the application may
    change (dicts, lists); a `Translator` turns them into text behind the request path.
    """

    id: Any
    parent: InitVar[Run | None]
    kind: RunKind
    name: str
    inputs: Any
    outputs: Any = None
    root: Root = field(init=False)
    inside_retriever: bool = False
    started_ns: int = field(init=False)
    ended_ns: int = 0
    """0 while the run is open."""
    status: Status = "ok"
    error: str = ""
    first_piece_ns: int = 0
    """The time when the first text of the stream came; 0: none has."""
    pieces: list[str] = field(default_factory=list)
    """Text of the stream so far, piece by piece."""
    retrieved: bool = False
    """Whether a retriever run in this tool has the chunks, which the tool's output repeats."""
    details: Any = None
    """Further notes of the integration for its translator, such as tags and metadata."""

    def __post_init__(self, parent: Run | None) -> None:
        """Begin now, below the parent."""
        self.started_ns = time.time_ns()
        if parent is not None:
            self.root = parent.root
            self.inside_retriever = parent.within_retriever

    @property
    def within_retriever(self) -> bool:
        """Whether what this run calls is inside a retriever."""
        return self.inside_retriever or self.kind == "retriever"

    @property
    def is_root(self) -> bool:
        """Whether this run is a whole interaction, or may be one."""
        return self.root is self

    @property
    def is_open(self) -> bool:
        """Whether its end has not been seen."""
        return self.ended_ns == 0

    @property
    def has_retrieved(self) -> bool:
        """Whether this run is a retrieval: a retriever's, or a tool's that gave chunks or text."""
        return self.kind == "retriever" or (self.kind == "tool" and self.outputs is not None)

    @property
    def is_generation(self) -> bool:
        """Whether this run is a model call that worked on the answer, and not on a search."""
        return self.kind == "model" and not self.inside_retriever


@dataclass(slots=True, eq=False)
class Root(Run):
    """A run that is an interaction, or may be one, with the runs that belong to it.

    Its parent, if it has one, is of the interaction that it was taken out of, by choice of the
    application.
    """

    outer: Root | None = None
    """That interaction."""
    tool: Run | None = None
    """The tool that it was called by."""
    members: list[Run] = field(default_factory=list)
    """Its retriever, model and tool runs."""
    lost: int = 0
    """Number of its runs that were not kept: there were too many, or they were given up."""
    asked: bool = False
    """Known to answer a question, even where no model run shows it (a framework's own words when
    nothing was retrieved, a failure before the model)."""
    picked: bool = False
    """The application named or tagged this run as the interaction."""
    resumed_ns: int = 0
    """The time when it resumed an earlier run that had paused; 0: it did not."""
    thread: Hashable | None = None
    """The key under which it pauses, and by which a later run resumes it."""
    is_cut_short: bool = False
    """It is `partial` because a model had not ended when it did: the texts may tell that its answer
    is whole all the same (`FinishedRuns.ending`)."""
    named: Run | None = None
    """Stands for a retrieval that no run was: the outputs name what was found."""
    is_taken_from: bool = False
    """An interaction was taken out of it, with what had been retrieved for that."""
    waits: bool = False
    """It stopped because the application waits for a person."""
    caller: SpanContext | None = None
    """The application's span that was current when it started."""
    target: SpanContext | None = None
    """Another instrumentation's span of this very run."""
    labels: Mapping[str, Any] | None = None
    """Labels in the caller's OpenTelemetry context; see `labels.py`."""
    before_id: str = ""
    """The newest interaction of its thread or task when it began."""
    scope: Any = None
    """The recorder of the interaction of plain code that it is a part of."""

    def __post_init__(self, parent: Run | None) -> None:
        """Begin now."""
        Run.__post_init__(self, parent)
        self.root = self
        if parent is not None:
            self.outer = parent.root
            self.tool = parent if parent.kind == "tool" else None

    def release(self) -> None:
        """Break the cycles that it is in, when nothing more is to be read of it.

        Else it stays, with all texts, until the application's garbage collector comes by, and makes
        that work longer.
        """
        self.members = []
        self.named = self.details = None
        self.root = _RELEASED


_RELEASED = Root("", None, "chain", "", None)
"""The root of a released run: it has ended, and no run belongs to it."""
_RELEASED.ended_ns = 1
