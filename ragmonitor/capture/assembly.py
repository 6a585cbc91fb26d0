"""From the runs of one root to one `Interaction`; runs behind the request path."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from ragmonitor.capture.labels import merged
from ragmonitor.capture.prompts import not_among, seen_in
from ragmonitor.capture.runs import Root, Run
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
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
        """Return what a retriever or tool run gave, in order.

        A tool gave chunks, or text that counts as retrieved (`Recorder.is_retrieval_tool`).
        """
        ...

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the chunks that a root's own result names as the model's context, else None."""
        ...

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return what a model run was asked, in order; empty if unknown."""
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

    def __init__(self, root: Root, translator: Translator) -> None:
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

    @property
    def ended_ns(self) -> int:
        """When the root ended."""
        return self._root.ended_ns

    def is_interaction(self, *, in_turn: bool = False) -> bool:
        """Return whether text was retrieved and a model was asked (cheap; in the request path).

        A retrieval that failed counts too, and a failure after it: the application's user saw an
        error instead of an answer, and a monitor that hides it would look healthy.

        Args:
            in_turn: Demand that a model began after something had been retrieved: a step that
                rewrites a question and then retrieves for it is not an interaction.
        """
        retrieved = False
        asked = self._root.asked or (bool(self._root.error) and not in_turn)
        for run in self._root.members:
            if run.kind == "retriever":
                if run is self._root:
                    continue
                retrieved = True
                asked = asked or (bool(run.error) and not in_turn)
            elif run.kind == "tool" and run.gave is not None:
                retrieved = True
            elif run.kind == "model" and not run.inside_retriever:
                asked = asked or retrieved or not in_turn
        return retrieved and asked

    def is_unanswered(self) -> bool:
        """Return whether something was retrieved and no model asked since."""
        retrieved = False
        for run in self._root.members:
            if run.kind == "model" and retrieved and not run.inside_retriever:
                return False
            if (run.kind == "retriever" and run is not self._root) or (
                run.kind == "tool" and run.gave is not None
            ):
                retrieved = True
        return retrieved

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
                and (run.pieces or not self._is_replaced(run))
            ):
                return True
        return False

    def _is_replaced(self, model: Run) -> bool:
        """Return whether another model answered after this one: it was given up, for its time."""
        return any(
            run.kind == "model" and run.ended_ns and run.status == "ok" and not run.inside_retriever
            for run in self._root.members
            if run.started_ns > model.started_ns
        )

    def interaction(self) -> Interaction | None:
        """Return the record."""
        root, translator = self._root, self._translator
        retrievals = self.retrievals()
        if not retrievals:
            return None
        generations = self.generations()
        shown = translator.shown(root)
        if shown is None:
            shown = shown_of(retrievals, generations)
        query = translator.query(root) or next((r.query for r in retrievals if r.query), "")
        labels = self.labels()
        return Interaction(
            id=_interaction_id(root.id),
            query=query,
            chunks=tuple(shown),
            not_shown=not_among(shown, self.retrieved()),
            answer=self.answer(),
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
            target=reference(root.target),
            session_id=labels.get("session_id", ""),
            user_id=labels.get("user_id", ""),
            tags=tuple(labels.get("tags", ())),
            attributes=labels.get("attributes", {}),
            capture_incomplete=labels.get("capture_incomplete", False),
        )

    def labels(self) -> dict[str, Any]:
        """Return what the application and its context say of the interaction."""
        return merged(self._translator.labels(self._root), self._root.labels)

    def answer(self) -> str:
        """Return the text that the user saw, as far as it is known."""
        root = self._root
        answer = self._translator.answer(root)
        models = self._models()
        if root.status == "partial":
            # LangChain loses the last piece of a stream that is closed early, or all of it.
            seen = "".join(next((run.pieces for run in reversed(models) if run.pieces), ()))
            answer = seen if seen.startswith(answer) else answer
        if not answer and not root.asked:
            # Where the root itself names no answer, the last thing a model said is one; unless
            # something failed or was cancelled then: what was said earlier is a step's.
            failed = root.status in ("error", "cancelled") or (models and models[-1].error)
            said = models[-1:] if failed else models
            answer = next((text for m in reversed(said) if (text := self._said(m))), "")
        return answer

    def retrievals(self) -> tuple[Retrieval, ...]:
        """Return the outermost retriever runs, and the tools that retrieved without one."""
        found = [
            (run, self._retrieval(run))
            for run in self._members()
            if (run.kind == "retriever" or (run.kind == "tool" and run.gave is not None))
            and not run.inside_retriever
        ]
        known = {_key(c) for run, r in found if run.kind == "retriever" for c in r.chunks}
        return tuple(
            retrieval
            for run, retrieval in found
            if run.kind == "retriever" or self._adds(run, retrieval, known)
        )

    def _adds(self, tool: Run, retrieval: Retrieval, known: set[tuple[str, str]]) -> bool:
        if isinstance(tool.gave, str) and (tool.retrieved or self._repeats(tool, tool.gave)):
            return False  # a retriever's documents, put into one text
        return bool(tool.error) or any(_key(chunk) not in known for chunk in retrieval.chunks)

    def _repeats(self, tool: Run, text: str) -> bool:
        """Return whether a tool's text is what a retriever or a model gave while the tool ran.

        LangGraph hands tools their node's config: what they call with it starts beside them.
        """
        for run in self._root.members:
            if tool.started_ns <= run.started_ns <= run.ended_ns <= tool.ended_ns:
                if run.kind == "retriever":
                    chunks = self._translator.chunks(run)
                    if any(chunk.text and chunk.text in text for chunk in chunks):
                        return True
                elif run.kind == "model":
                    # Most of it: a question that a model rewrote may stand in what is found.
                    said = self._said(run)
                    if said in text and len(said) * 2 > len(text):
                        return True
        return False

    def shown(self) -> Sequence[Chunk]:
        """Return what the root's own result names as the model's context; empty if nothing."""
        return self._translator.shown(self._root) or ()

    def retrieved(self) -> list[Chunk]:
        """Return what every retriever gave, those inside others included, in order."""
        return [
            chunk
            for run in self._members()
            if run.kind == "retriever" or (run.kind == "tool" and not isinstance(run.gave, str))
            for chunk in self._translator.chunks(run)
        ]

    def generations(self) -> tuple[Generation, ...]:
        """Return the model calls that worked on the answer."""
        return tuple(self._generation(run) for run in self._models())

    def _members(self) -> list[Run]:
        # What an inner run left to this one was noted when that run ended.
        return sorted(self._root.members, key=lambda run: run.started_ns)

    def _models(self) -> list[Run]:
        return [r for r in self._members() if r.kind == "model" and not r.inside_retriever]

    def _retrieval(self, run: Run) -> Retrieval:
        translator = self._translator
        return Retrieval(
            query=translator.query(run),
            chunks=() if run.gave == "" else tuple(translator.chunks(run)),
            started_ns=run.started_ns,
            ended_ns=run.ended_ns or self._root.ended_ns,
            name=run.name,
            error=run.error,
        )

    def _generation(self, run: Run) -> Generation:
        provider, model = self._translator.model(run)
        return Generation(
            input=tuple(self._translator.prompt(run)),
            output=self._said(run),
            started_ns=run.started_ns,
            ended_ns=run.ended_ns or self._root.ended_ns,
            model=model,
            provider=provider,
            usage=self._translator.usage(run),
            error=run.error,
        )

    def _said(self, model: Run) -> str:
        return self._translator.answer(model) or "".join(model.pieces)


def shown_of(
    retrievals: Sequence[Retrieval],
    generations: Sequence[Generation],
    named: Sequence[Chunk] = (),
) -> Sequence[Chunk]:
    """Return the chunks that the models were shown, or all, where prompts do not tell.

    Args:
        retrievals: What was retrieved.
        generations: What the models were asked.
        named: What the application's own results name as shown: it goes before the prompts.
    """
    retrieved = _distinct(chunk for retrieval in retrievals for chunk in retrieval.chunks)
    seen = seen_in(generations, retrieved)
    if named:
        return _distinct([*named, *not_among(named, seen or ())])
    return retrieved if seen is None else seen


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
