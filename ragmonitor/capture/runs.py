"""One run of a framework (chain, retriever, model, tool) with its place in the tree."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any, Literal

from opentelemetry.trace import SpanContext

from ragmonitor.records import Status

RunKind = Literal["chain", "retriever", "model", "tool"]


class Run:
    """What is noted of one run while it is open. Mutable, and never shared with the application.

    `given` and `gave` hold the framework's own objects. An integration passes references to what
    nobody changes afterwards (texts, messages) and shallow copies of what the application may
    change (dicts, lists); a `Translator` turns them into text behind the request path.
    """

    __slots__ = (
        "asked",
        "caller",
        "details",
        "ended_ns",
        "error",
        "gave",
        "given",
        "id",
        "inside_retriever",
        "kind",
        "members",
        "name",
        "pieces",
        "root",
        "started_ns",
        "status",
    )

    def __init__(
        self, run_id: Hashable, parent: Run | None, kind: RunKind, name: str, given: Any
    ) -> None:
        self.id = run_id
        self.root: Run = self if parent is None else parent.root
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
        self.inside_retriever: bool = parent is not None and (
            parent.inside_retriever or parent.kind == "retriever"
        )
        self.members: list[Run] = []
        """Of a root: its retriever, model and tool runs, in the order they started."""
        self.asked = False
        """Of a root: known to answer a question, even where no model run shows it (a framework's
        own words when nothing was found, a failure before the model)."""
        self.caller: SpanContext | None = None
        """Of a root: the application's span that was current when it started."""
        self.details: Any = None
        """Of any run: what the integration wants its translator to see (tags, metadata)."""

    @property
    def is_root(self) -> bool:
        """Whether this run is the whole interaction."""
        return self.root is self

    @property
    def is_open(self) -> bool:
        """Whether its end has not been seen."""
        return self.ended_ns == 0
