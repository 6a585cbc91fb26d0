"""One run of a framework (chain, retriever, model, tool) with its place in the tree."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import Any, Literal

from opentelemetry.trace import SpanContext

from ragmonitor.capture.scopes import InteractionScope
from ragmonitor.records import Status

RunKind = Literal["chain", "retriever", "model", "tool"]


class Run:
    """The notes on one run while it is open. Mutable, and never shared with the application.

    `inputs` and `outputs` hold the framework's own objects. An integration passes references to
    what nobody changes afterwards (texts, messages) and shallow copies of what the application may
    change (dicts, lists); a `Translator` turns them into text behind the request path.
    """

    __slots__ = (
        "details",
        "ended_ns",
        "error",
        "first_piece_ns",
        "id",
        "inputs",
        "inside_retriever",
        "kind",
        "name",
        "outputs",
        "pieces",
        "retrieved",
        "root",
        "started_ns",
        "status",
    )

    root: Root

    def __init__(
        self, run_id: Hashable, parent: Run | None, kind: RunKind, name: str, inputs: Any
    ) -> None:
        self.id = run_id
        self.kind = kind
        self.name = name
        self.inputs = inputs
        self.outputs: Any = None
        self.started_ns = time.time_ns()
        self.ended_ns = 0
        """0 while the run is open."""
        self.status: Status = "ok"
        self.error = ""
        self.first_piece_ns = 0
        """The time when the first text of the stream came; 0: none has."""
        self.pieces: list[str] = []
        """Text of the stream so far, piece by piece."""
        self.retrieved = False
        """Whether a retriever run in this tool has the chunks, which the tool's output repeats."""
        self.details: Any = None
        """Further notes of the integration for its translator, such as tags and metadata."""
        if parent is None:
            self.inside_retriever = False
        else:
            self.root = parent.root
            self.inside_retriever = parent.inside_retriever or parent.kind == "retriever"

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


class Root(Run):
    """A run that is an interaction, or may be one, with the runs that belong to it."""

    __slots__ = (
        "asked",
        "before_id",
        "caller",
        "is_cut_short",
        "is_taken_from",
        "labels",
        "lost",
        "members",
        "named",
        "outer",
        "picked",
        "resumed_ns",
        "scope",
        "target",
        "thread",
        "tool",
        "waits",
    )

    def __init__(
        self, run_id: Hashable, outer: Run | None, kind: RunKind, name: str, inputs: Any
    ) -> None:
        super().__init__(run_id, outer, kind, name, inputs)
        self.root = self
        self.outer: Root | None = None if outer is None else outer.root
        """The interaction that this one was taken out of, by choice of the application."""
        self.members: list[Run] = []
        """Its retriever, model and tool runs."""
        self.lost = 0
        """Number of its runs that were not kept: there were too many, or they were given up."""
        self.asked = False
        """Known to answer a question, even where no model run shows it (a framework's own words
        when nothing was retrieved, a failure before the model)."""
        self.picked = False
        """The application named or tagged this run as the interaction."""
        self.resumed_ns = 0
        """The time when it resumed an earlier run that had paused; 0: it did not."""
        self.thread: Hashable | None = None
        """The key under which it pauses, and by which a later run resumes it."""
        self.is_cut_short = False
        """It is `partial` because a model had not ended when it did: the texts may tell that its
        answer is whole all the same (`FinishedRuns.ending`)."""
        self.named: Run | None = None
        """Stands for a retrieval that no run was: the outputs name what was found."""
        self.is_taken_from = False
        """An interaction was taken out of it, with what had been retrieved for that."""
        self.waits = False
        """It stopped because the application waits for a person."""
        self.tool = outer if outer is not None and outer.kind == "tool" else None
        """The tool that it was called by."""
        self.caller: SpanContext | None = None
        """The application's span that was current when it started."""
        self.target: SpanContext | None = None
        """Another instrumentation's span of this very run."""
        self.labels: Mapping[str, Any] | None = None
        """Labels in the caller's OpenTelemetry context; see `labels.py`."""
        self.before_id = ""
        """The newest interaction of its thread or task when it began."""
        self.scope: InteractionScope | None = None
        """The scope of plain code that it is a part of."""

    def release(self) -> None:
        """Break the cycles that it is in, when nothing more is to be read of it.

        Else it stays, with all texts, until the application's garbage collector comes by, and makes
        that work longer.
        """
        self.members = []
        self.named = None
        self.root = _RELEASED


_RELEASED = Root("", None, "chain", "", None)
"""The root of a released run: it has ended, and no run belongs to it."""
_RELEASED.ended_ns = 1
