"""From the runs of one root to one `Interaction`; runs behind the request path."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from ragmonitor.capture.runs import Run
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Retrieval,
    SpanReference,
    Status,
    Usage,
)


class Translator(Protocol):
    """Turns one framework's objects, as they were noted on a run, into records.

    Every method takes a run whose `given` and `gave` may be None (a run that failed or was left
    open) and then returns something empty. Called behind the request path.
    """

    framework: str
    """The label's value: `langchain`."""

    def query(self, run: Run) -> str:
        """Return the question that a root or a retriever run was given; empty if unknown."""
        ...

    def chunks(self, run: Run) -> Sequence[Chunk]:
        """Return what a retriever or tool run gave, in order."""
        ...

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the chunks that a root's own result names as the model's context, else None."""
        ...

    def answer(self, run: Run) -> str:
        """Return the text that a root or a model run gave; empty if unknown."""
        ...

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model) of a model run; empty where unknown."""
        ...

    def usage(self, run: Run) -> Usage:
        """Return the tokens that a model run used."""
        ...

    def labels(self, root: Run) -> dict[str, Any]:
        """Return what the application says of the interaction.

        Keys, all optional: `session_id`, `user_id` (str), `tags` (tuple of str), `attributes`
        (mapping of str to str), `capture_incomplete` (bool).
        """
        ...


class FinishedRuns:
    """A root run that has ended, with its members: an interaction in the framework's objects."""

    __slots__ = ("_root", "_translator")

    def __init__(self, root: Run, translator: Translator) -> None:
        self._root = root
        self._translator = translator

    @property
    def framework(self) -> str:
        """The translator's."""
        return self._translator.framework

    @property
    def status(self) -> Status:
        """How the root ended."""
        return self._root.status

    def is_interaction(self) -> bool:
        """Return whether text was retrieved and a model was asked (cheap; in the request path).

        A retrieval that failed counts too: the application's user saw an error instead of an
        answer, and a monitor that hides it would look healthy.
        """
        retrieved, asked = False, self._root.asked
        for run in self._root.members:
            if run.kind == "retriever":
                if run is self._root:
                    continue
                retrieved = True
                asked = asked or bool(run.error)
            elif run.kind == "tool" and run.gave is not None:
                retrieved = True
            elif run.kind == "model" and not run.inside_retriever:
                asked = True
        return retrieved and asked

    def is_cut_short(self) -> bool:
        """Return whether the root ended before its model did: a stream that was closed early.

        To be asked when the root ends: a model that is still open then may end a moment later.
        """
        for run in self._root.members:
            # Not `any`: a generator costs as much again, and this is the request path.
            if (
                run.kind == "model"
                and not run.inside_retriever
                and (run.is_open or run.status == "partial")
            ):
                return True
        return False

    def interaction(self) -> Interaction | None:
        """Return the record."""
        root, translator = self._root, self._translator
        retrievals = self._retrievals()
        if not retrievals:
            return None
        models = [r for r in root.members if r.kind == "model" and not r.inside_retriever]
        generations = tuple(self._generation(run) for run in models)
        shown = translator.shown(root)
        chunks = _distinct(c for r in retrievals for c in r.chunks) if shown is None else shown
        answer = translator.answer(root)
        if root.status == "partial":
            # LangChain loses the last piece of a stream that is closed early, or all of it.
            seen = "".join(next((run.pieces for run in reversed(models) if run.pieces), ()))
            answer = seen if seen.startswith(answer) else answer
        if not answer and not root.asked:
            # Where the root itself names no answer, the last thing a model said is one.
            answer = next((g.output for g in reversed(generations) if g.output), "")
        query = translator.query(root) or next((r.query for r in retrievals if r.query), "")
        labels = translator.labels(root)
        return Interaction(
            id=_interaction_id(root.id),
            query=query,
            chunks=tuple(chunks),
            answer=answer,
            framework=translator.framework,
            started_ns=root.started_ns,
            ended_ns=root.ended_ns,
            name=root.name,
            status=root.status,
            error=root.error,
            retrievals=retrievals,
            generations=generations,
            usage=sum((g.usage for g in generations), Usage()),
            caller=reference(root.caller),
            session_id=labels.get("session_id", ""),
            user_id=labels.get("user_id", ""),
            tags=tuple(labels.get("tags", ())),
            attributes=labels.get("attributes", {}),
            capture_incomplete=labels.get("capture_incomplete", False),
        )

    def _retrievals(self) -> tuple[Retrieval, ...]:
        """Return the outermost retriever runs, and the tools that retrieved without one."""
        root = self._root
        found = [
            (run.kind, self._retrieval(run))
            for run in root.members
            if (run.kind == "retriever" or (run.kind == "tool" and run.gave is not None))
            and not run.inside_retriever
            and run is not root
        ]
        known = {_key(c) for kind, r in found if kind == "retriever" for c in r.chunks}
        return tuple(
            retrieval
            for kind, retrieval in found
            if kind == "retriever" or any(_key(chunk) not in known for chunk in retrieval.chunks)
        )

    def _retrieval(self, run: Run) -> Retrieval:
        translator = self._translator
        return Retrieval(
            query=translator.query(run),
            chunks=tuple(translator.chunks(run)),
            started_ns=run.started_ns,
            ended_ns=run.ended_ns or self._root.ended_ns,
            name=run.name,
            error=run.error,
        )

    def _generation(self, run: Run) -> Generation:
        provider, model = self._translator.model(run)
        return Generation(
            output=self._translator.answer(run) or "".join(run.pieces),
            started_ns=run.started_ns,
            ended_ns=run.ended_ns or self._root.ended_ns,
            model=model,
            provider=provider,
            usage=self._translator.usage(run),
            error=run.error,
        )


def reference(span: SpanContext | None) -> SpanReference | None:
    """Return an OTel span context as a record."""
    if span is None or not span.is_valid:
        return None
    return SpanReference(
        trace_id=format_trace_id(span.trace_id),
        span_id=format_span_id(span.span_id),
        sampled=span.trace_flags.sampled,
        trace_state=span.trace_state.to_header(),
    )


def _distinct(chunks: Iterable[Chunk]) -> list[Chunk]:
    seen: dict[tuple[str, str], Chunk] = {}
    for chunk in chunks:
        seen.setdefault(_key(chunk), chunk)
    return list(seen.values())


def _key(chunk: Chunk) -> tuple[str, str]:
    # Id and text together: stores may give many pieces of one document the same id.
    return chunk.id, chunk.text


def _interaction_id(run_id: Any) -> str:
    if isinstance(run_id, uuid.UUID):
        return run_id.hex
    if isinstance(run_id, int):
        # A UUID's number: its hash is cheaper than the UUID's, which is asked at every event.
        return f"{run_id:032x}"
    return str(run_id) or uuid.uuid4().hex
