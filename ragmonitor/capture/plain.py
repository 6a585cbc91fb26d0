"""Interactions of applications without a framework: `with monitor.interaction(...) as i:`."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from opentelemetry import trace

from ragmonitor.capture.assembly import reference
from ragmonitor.capture.recorder import status_of
from ragmonitor.guard import record_error, shielded
from ragmonitor.protocols import Finished
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Retrieval,
    Status,
    Usage,
)


class Record:
    """A finished interaction that is already in its final form."""

    __slots__ = ("_interaction", "framework", "status")

    def __init__(self, interaction: Interaction) -> None:
        self._interaction = interaction
        self.framework = interaction.framework
        self.status = interaction.status

    def interaction(self) -> Interaction:
        """Return the record."""
        return self._interaction


class InteractionRecorder:
    """Notes one interaction of plain code; handed over when the block ends.

    An exception that leaves the block is noted as the interaction's error and goes on its way.
    No method of it raises.
    """

    def __init__(
        self,
        hand_over: Callable[[Finished], None],
        *,
        query: str,
        name: str = "",
        session_id: str = "",
        user_id: str = "",
        tags: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        self._hand_over = hand_over
        self._query = query
        self._name = name
        self._session_id = session_id
        self._user_id = user_id
        self._tags = tuple(tags)
        self._attributes = dict(attributes or {})
        self._retrievals: list[Retrieval] = []
        self._generations: list[Generation] = []
        self._answer = ""
        self._status: Status = "ok"
        self._error = ""
        self._started_ns = self._step_ns = time.time_ns()
        self._caller = trace.get_current_span().get_span_context()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_: TracebackType | None,
    ) -> None:
        if error is not None:
            self.failed(error)
        try:
            self._hand_over(Record(self._record()))
        except Exception as problem:  # noqa: BLE001 - the border to the host application
            record_error("capture", problem)

    def retrieved(self, chunks: Sequence[Chunk | str], *, query: str = "", name: str = "") -> None:
        """Note what a retriever gave, in the order the model saw it."""
        with shielded("capture"):
            now_ns = time.time_ns()
            self._retrievals.append(
                Retrieval(
                    query=query or self._query,
                    chunks=tuple(Chunk(text=c) if isinstance(c, str) else c for c in chunks),
                    started_ns=self._step_ns,
                    ended_ns=now_ns,
                    name=name,
                )
            )
            self._step_ns = now_ns

    def answered(self, text: str, *, model: str = "", usage: Usage | None = None) -> None:
        """Note the answer. Said twice: the last one is what the user saw."""
        with shielded("capture"):
            now_ns = time.time_ns()
            self._answer = text
            self._generations.append(
                Generation(
                    output=text,
                    started_ns=self._step_ns,
                    ended_ns=now_ns,
                    model=model,
                    usage=usage or Usage(),
                )
            )
            self._step_ns = now_ns

    def tag(self, *tags: str, **attributes: str) -> None:
        """Add tags and attributes: `i.tag("beta", route="/ask", tenant="acme")`."""
        with shielded("capture"):
            self._tags += tags
            self._attributes.update(attributes)

    def failed(self, error: BaseException) -> None:
        """Note that the application failed on this question."""
        with shielded("capture"):
            self._status = status_of(error)
            self._error = f"{type(error).__name__}: {error}" if self._status == "error" else ""

    def _record(self) -> Interaction:
        return Interaction(
            id=uuid.uuid4().hex,
            query=self._query,
            chunks=tuple(c for r in self._retrievals for c in r.chunks),
            answer=self._answer,
            framework="python",
            started_ns=self._started_ns,
            ended_ns=time.time_ns(),
            name=self._name,
            status=self._status,
            error=self._error,
            retrievals=tuple(self._retrievals),
            generations=tuple(self._generations),
            usage=sum((g.usage for g in self._generations), Usage()),
            caller=reference(self._caller),
            session_id=self._session_id,
            user_id=self._user_id,
            tags=self._tags,
            attributes=self._attributes,
        )
