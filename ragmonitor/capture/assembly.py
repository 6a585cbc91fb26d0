"""Makes one `Interaction` of the runs of one root, behind the request path."""

# ruff: noqa: ARG002 - a translator answers nothing unless a framework's own does

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol

from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from ragmonitor.capture.coercion import without_texts
from ragmonitor.capture.interaction_labels import merged
from ragmonitor.capture.prompts import is_too_much, not_among, seen_in, with_metadata
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
from ragmonitor.runtime.guard import record_error
from ragmonitor.semconv.conventions import PROBE_BAGGAGE


class Translator(Protocol):
    """Turns one framework's objects, as they were noted on a run, into records.

    Every method takes a run whose `inputs` and `outputs` may be None (a run that failed or was left
    open) and then returns something empty, as those here do. Called behind the request path.
    """

    framework: str
    """The label's value: `langchain`."""

    def query(self, run: Run) -> str:
        """Return the question that a root or a retriever run was given; empty if unknown."""
        return ""

    def chunks(self, run: Run) -> Sequence[Chunk] | None:
        """Return what a retriever or tool run gave, in order; None: it was no retrieval.

        A tool gave chunks, or text that counts as retrieved (`Recorder.is_retrieval_tool`).
        """
        return ()

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the chunks that a root's own result names as the model's context, else None."""
        return None

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return what a model run was asked, in order; empty if unknown."""
        return ()

    def answer(self, run: Run) -> str:
        """Return the text that a root or a model run gave; empty if unknown."""
        return ""

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model) of a model run; empty where unknown."""
        return "", ""

    def usage(self, run: Run) -> Usage:
        """Return the tokens that a model run used."""
        return Usage()

    def labels(self, root: Run) -> dict[str, Any]:
        """Return what the application says of the interaction.

        Keys, all optional: `session_id`, `user_id` (str), `tags` (tuple of str), `attributes`
        (mapping of str to str), `capture_incomplete` (bool).
        """
        return {}

    def finish_reason(self, run: Run) -> str:
        """Return why a model run stopped, in its provider's words; empty if unknown."""
        return ""


_started_ns = attrgetter("started_ns")


class FinishedRuns:
    """A root run that has ended, with its members: an interaction in the framework's objects."""

    __slots__ = ("_answers", "_is_read", "_record", "_root", "_translator")

    needs_retrieval = True
    """Whether it is no interaction without one."""

    def __init__(self, root: Root, translator: Translator) -> None:
        self._root = root
        self._translator = translator
        self._answers: dict[tuple[str, int], Any] = {}
        """The translator's answers: some are asked for more than once."""
        self._is_read = False
        self._record: Interaction | None = None

    @property
    def framework(self) -> str:
        """The translator's."""
        return self._translator.framework

    @property
    def status(self) -> Status:
        """The way in which the root ended, as far as is known before its texts are read."""
        return self._root.status

    def ending(self) -> Status:
        """Return the way in which the root ended, read off its texts (not in the request path).

        A model that had not ended when the root did has cut the answer short, unless the root's
        own answer is that of a model which had: the open one names the conversation, was hedged
        or given up for another, or was a grader that was read in part.
        """
        root = self._root
        if root.is_cut_short:
            root.is_cut_short = False
            answer = self._told("answer", root)
            if any(
                is_most_of(self._output(run), answer)
                for run in self._models()
                if run.status == "ok" and not run.is_open
            ):
                root.status = "ok"
        return root.status

    @property
    def is_probe(self) -> bool:
        """Whether a golden question is answered here."""
        return bool(self._root.labels and PROBE_BAGGAGE in self._root.labels)

    @property
    def held(self) -> list[Any]:
        """The framework's objects that are held, to be weighed."""
        runs = (self._root, *self._root.members)
        return [[run.inputs, run.outputs, run.pieces] for run in runs]

    @property
    def ended_ns(self) -> int:
        """The time when the root ended."""
        return self._root.ended_ns

    def is_interaction(self, *, in_turn: bool = False) -> bool:
        """Return whether text was retrieved and a model was asked (cheap; in the request path).

        A retrieval that failed counts too, and a failure after it: the application's user saw an
        error instead of an answer, and a monitor that hides it would look healthy.

        Args:
            in_turn: Demand that a model began after something had been retrieved: a step that
                rewrites a question and then retrieves for it is not an interaction.
        """
        retrieved, asked, since = self.course()
        root = self._root
        return retrieved and (since or (not in_turn and (asked or bool(root.error))) or root.asked)

    def has_retrieved(self) -> bool:
        """Return whether text was retrieved, by the root itself perhaps."""
        return any(run.has_retrieved for run in self._root.members)

    def course(self) -> tuple[bool, bool, bool]:
        """Return whether text was retrieved, whether a model was asked, and whether one since."""
        retrieved = asked = since = False
        for run in self._root.members:
            if run.kind == "model":
                if not run.inside_retriever:
                    asked, since = True, retrieved
            elif run.has_retrieved and run is not self._root:
                retrieved = True
                asked = asked or bool(run.error)
        return retrieved, asked, since

    def is_cut_short(self) -> bool:
        """Return whether the root ended before its model did: a stream that was closed early.

        To be asked when the root ends: a model that is still open then may end a moment later.
        """
        open_ns = answered_ns = 0
        for run in self._root.members:
            if run.kind == "model" and not run.inside_retriever:
                if run.is_open or run.status == "partial":
                    open_ns = run.started_ns
                elif run.status == "ok":
                    answered_ns = run.started_ns
        return open_ns > 0 and open_ns >= answered_ns

    def interaction(self) -> Interaction | None:
        """Return the record. The runs are let go of at the first call."""
        if not self._is_read:
            self._is_read = True
            try:
                self._record = self._read()
            finally:
                self.release()
        return self._record

    def release(self) -> None:
        """Let go of the runs: nothing more is to be read of them."""
        self._root.release()

    def _read(self) -> Interaction | None:
        root = self._root
        try:
            record = self._interaction()
        except Exception as error:  # noqa: BLE001 - counted and kept, without what cannot be read
            record_error("capture", error)
            record = replace(
                without_texts(self.framework, root.status, interaction_id(root.id)),
                started_ns=root.started_ns,
                ended_ns=root.ended_ns or time.time_ns(),
                caller=reference(root.caller),
                target=reference(root.target),
            )
        if record is not None and root.lost:
            return replace(record, capture_incomplete=True)
        return record

    def _told(self, question: str, run: Run) -> Any:
        key = question, id(run)
        if key not in self._answers:
            try:
                self._answers[key] = getattr(self._translator, question)(run)
            except Exception as error:  # noqa: BLE001 - objects of the application's own classes
                record_error("capture", error)
                self._root.lost += 1
                self._answers[key] = getattr(Translator, question)(self._translator, run)
        return self._answers[key]

    def _interaction(self) -> Interaction | None:
        root = self._root
        retrievals = self.retrievals()
        if self.needs_retrieval and not retrievals:
            return None
        status = self.ending()
        generations = self.generations()
        shown = self.shown_among(retrievals, generations)
        query = self._told("query", root)
        answer = self.answer()
        # One that was asked later has named the conversation.
        wrote = [each for each in generations if is_most_of(each.output, answer)]
        pieces = (each.first_token_ns for each in reversed(wrote or generations))
        return Interaction(
            id=interaction_id(root.id),
            query=query or next((r.query for r in retrievals if r.query), ""),
            chunks=tuple(with_metadata(shown, generations)),
            not_shown=not_among(shown, self.retrieved_chunks()),
            answer=answer,
            framework=self.framework,
            started_ns=root.started_ns,
            ended_ns=root.ended_ns or time.time_ns(),
            name=root.name,
            status=status,
            error=root.error,
            retrievals=retrievals,
            generations=generations,
            usage=sum((g.usage for g in generations), Usage()),
            caller=reference(root.caller),
            target=reference(root.target),
            first_token_ns=root.first_piece_ns or next(pieces, 0),
            **self.labels(),
        )

    def shown_among(
        self, retrievals: Sequence[Retrieval], generations: Sequence[Generation]
    ) -> Sequence[Chunk]:
        """Return the chunks that the models were shown."""
        shown: Sequence[Chunk] | None = self._told("shown", self._root)
        return shown_of(retrievals, generations) if shown is None else shown

    def labels(self) -> dict[str, Any]:
        """Return what the application and its context say of the interaction.

        As a part of a block it is asked last, when all else has been read.
        """
        labels = merged(self._told("labels", self._root), self._root.labels)
        if self._root.lost:
            labels["capture_incomplete"] = True
        return labels

    def answer(self) -> str:
        """Return the text that the user saw, as far as it is known."""
        root = self._root
        answer: str = self._told("answer", root)
        models = self._models()
        if self.ending() == "partial":
            # LangChain loses the last piece of a stream that is closed early, or all of it.
            seen = "".join(next((run.pieces for run in reversed(models) if run.pieces), ()))
            answer = seen if seen.startswith(answer) else answer
        if not answer and (root.waits or not root.asked):
            # Where the root itself names no answer, the last output of a model is one; unless
            # something failed or was cancelled then, or a retriever or tool was called after it
            # and a model after that: it is a step's.
            failed = root.status in ("error", "cancelled") or (models and models[-1].error)
            called_ns = max(
                (m.started_ns for m in self._members() if m.kind in ("retriever", "tool")),
                default=0,
            )
            after = [model for model in models if model.started_ns >= called_ns]
            candidates = models[-1:] if failed else after or models
            answer = next((text for m in reversed(candidates) if (text := self._output(m))), "")
        return answer

    def retrievals(self) -> tuple[Retrieval, ...]:
        """Return the outermost retriever runs, and the tools that retrieved without one."""
        retrieved = [
            (run, retrieval)
            for run in self._members()
            if run.has_retrieved
            and not run.inside_retriever
            and (retrieval := self._retrieval(run)) is not None
            # A state may name what was found for an earlier question.
            and (
                run is not self._root.named
                or seen_in(self.generations(), retrieval.chunks) is not None
            )
        ]
        known = {_key(c) for run, r in retrieved if run.kind == "retriever" for c in r.chunks}
        return tuple(
            retrieval
            for run, retrieval in retrieved
            if run.kind == "retriever" or self._adds(run, retrieval, known)
        )

    def _adds(self, tool: Run, retrieval: Retrieval, known: set[tuple[str, str]]) -> bool:
        """Return whether a tool gave more than its retrievers did."""
        if isinstance(tool.outputs, str) and (tool.retrieved or self._repeats(tool.outputs)):
            return False  # a retriever's documents, put into one text
        return bool(tool.error) or any(_key(chunk) not in known for chunk in retrieval.chunks)

    def _repeats(self, text: str) -> bool:
        """Return whether a tool's text is what a retriever or a model gave.

        LangGraph hands tools their node's config, and what they call with it starts beside them.
        """
        given = [chunk.text for chunk in self.retrieved_chunks() if chunk.text]
        # Most of it: a question that a model rewrote may stand in a retrieved text.
        given += [out for run in self._models() if len(out := self._output(run)) * 2 > len(text)]
        return not is_too_much(given, text) and any(each in text for each in given)

    def shown(self) -> Sequence[Chunk]:
        """Return what the root's own result names as the model's context; empty if nothing."""
        return self._told("shown", self._root) or ()

    def retrieved_chunks(self) -> list[Chunk]:
        """Return what every retriever gave, those inside others included, in order."""
        return [
            chunk
            for run in self._members()
            if run.kind == "retriever" or (run.kind == "tool" and not isinstance(run.outputs, str))
            for chunk in self._told("chunks", run) or ()
        ]

    def generations(self) -> tuple[Generation, ...]:
        """Return the model calls that worked on the answer."""
        return tuple(self._generation(run) for run in self._models())

    def _members(self) -> list[Run]:
        # What an inner run left to this one was noted when that run ended.
        return sorted(self._root.members, key=_started_ns)

    def _models(self) -> list[Run]:
        return [run for run in self._members() if run.is_generation]

    def _retrieval(self, run: Run) -> Retrieval | None:
        chunks = () if run.outputs == "" else self._told("chunks", run)
        if chunks is None:
            return None
        return Retrieval(
            query=self._told("query", run),
            chunks=tuple(chunks),
            started_ns=run.started_ns,
            ended_ns=run.ended_ns or self._root.ended_ns,
            name=run.name,
            error=run.error,
        )

    def _generation(self, run: Run) -> Generation:
        provider, model = self._told("model", run)
        ended_ns = run.ended_ns or self._root.ended_ns
        # The root's stream had its first text while this model wrote, or it is none of this one's.
        read_ns = self._root.first_piece_ns
        read_ns = read_ns if run.started_ns <= read_ns <= ended_ns else 0
        return Generation(
            input=tuple(self._told("prompt", run)),
            output=self._output(run),
            started_ns=run.started_ns,
            ended_ns=ended_ns,
            model=model,
            provider=provider,
            usage=self._told("usage", run),
            error=run.error,
            first_token_ns=run.first_piece_ns or read_ns,
            finish_reason=self._told("finish_reason", run),
        )

    def _output(self, model: Run) -> str:
        return self._told("answer", model) or "".join(model.pieces)


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


def is_most_of(output: str, answer: str) -> bool:
    """Return whether an answer is a model's output, with less than as much around it."""
    output = output.strip()
    return len(output) * 2 > len(answer.strip()) and output in answer


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


def interaction_id(run_id: Any) -> str:
    """Return the id of the interaction that a root run is."""
    if isinstance(run_id, int):
        # A UUID's number: its hash is cheaper than the UUID's, which is asked at every event.
        return f"{run_id:032x}"
    return str(run_id) or uuid.uuid4().hex
