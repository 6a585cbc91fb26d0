"""One run of a framework (chain, retriever, model, tool) with its place in the tree."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry.trace import SpanContext

from ragmonitor.records import Status

if TYPE_CHECKING:
    from ragmonitor.capture.gathering import InteractionScope

RunKind = Literal["chain", "retriever", "model", "tool"]


class Run:
    """What is noted of one run while it is open. Mutable, and never shared with the application.

    `given` and `gave` hold the framework's own objects. An integration passes references to what
    nobody changes afterwards (texts, messages) and shallow copies of what the application may
    change (dicts, lists); a `Translator` turns them into text behind the request path.
    """

    __slots__ = (
        "details",
        "ended_ns",
        "error",
        "gave",
        "given",
        "id",
        "inside_retriever",
        "kind",
        "name",
        "pieces",
        "retrieved",
        "root",
        "started_ns",
        "status",
    )

    root: Root

    def __init__(
        self, run_id: Hashable, parent: Run | None, kind: RunKind, name: str, given: Any
    ) -> None:
        self.id = run_id
        self.kind = kind
        self.name = name
        self.given = given
        self.gave: Any = None
        self.started_ns = time.time_ns()
        self.ended_ns = 0
        """0 while the run is open."""
        self.status: Status = "ok"
        self.error = ""
        self.pieces: list[str] = []
        """Text of the stream so far, piece by piece."""
        self.retrieved = False
        """Of a tool: a retriever run in it has the chunks; what the tool gave repeats them."""
        self.details: Any = None
        """Of any run: what the integration wants its translator to see (tags, metadata)."""
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


class Root(Run):
    """A run that is an interaction, or may be one, with the runs that belong to it."""

    __slots__ = (
        "asked",
        "block",
        "caller",
        "labels",
        "lost",
        "members",
        "outer",
        "picked",
        "resumed_ns",
        "target",
        "thread",
        "tool",
        "waits",
    )

    def __init__(
        self, run_id: Hashable, outer: Run | None, kind: RunKind, name: str, given: Any
    ) -> None:
        super().__init__(run_id, outer, kind, name, given)
        self.root = self
        self.outer: Root | None = None if outer is None else outer.root
        """The interaction that this one was taken out of, by choice of the application."""
        self.members: list[Run] = []
        """Its retriever, model and tool runs."""
        self.lost = 0
        """Runs of it that were not kept: there were too many, or they were given up."""
        self.asked = False
        """Known to answer a question, even where no model run shows it (a framework's own words
        when nothing was found, a failure before the model)."""
        self.picked = False
        """The application named or tagged this run as the interaction."""
        self.resumed_ns = 0
        """When it went on with what an earlier run was given, which paused; 0: it did not."""
        self.thread: Hashable | None = None
        """What a later run names to go on with this one, should it pause."""
        self.waits = False
        """It stopped because the application waits for a person."""
        self.tool = outer if outer is not None and outer.kind == "tool" else None
        """The tool that it was called by."""
        self.caller: SpanContext | None = None
        """The application's span that was current when it started."""
        self.target: SpanContext | None = None
        """Another instrumentation's span of this very run."""
        self.labels: Mapping[str, Any] | None = None
        """What the context of the caller says of the interaction; see `labels.py`."""
        self.block: InteractionScope | None = None
        """The block of plain code that it is a part of."""
