"""Interactions of applications without a framework: `with monitor.interaction(...) as i:`.

Framework runs that start within the block become parts of it: a retriever and a model that are
called one after the other belong to one interaction.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from opentelemetry import context, trace
from opentelemetry.trace import SpanContext

from ragmonitor.capture.assembly import FinishedRuns, reference, shown_of
from ragmonitor.capture.coercion import (
    FRAMEWORK,
    MAX_CHUNKS,
    MAX_LABELS,
    attributes_in,
    chunks_in,
    error_text,
    getattr_of,
    items_in,
    messages_in,
    note_unreadable,
    sound,
    status_in,
    text_in,
    without_texts,
)
from ragmonitor.capture.current_id import make_current
from ragmonitor.capture.interaction_labels import labels_in, merged
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.capture.prompts import not_among, with_metadata
from ragmonitor.capture.recorder import status_of
from ragmonitor.capture.scopes import MAX_PARTS, InteractionScope, entered_scope
from ragmonitor.capture.streams import MAX_PIECES, KeptPieces, Listener, read
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    Status,
    Usage,
)
from ragmonitor.runtime.guard import record_error, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.semconv.conventions import PROBE_BAGGAGE


class Record:
    """An interaction that the application recorded itself."""

    __slots__ = ("_interaction", "framework", "is_probe", "status")

    def __init__(self, interaction: Interaction) -> None:
        self._interaction = interaction
        self.framework = text_in(getattr_of(interaction, "framework")) or FRAMEWORK
        self.is_probe = is_probe(interaction)
        self.status: Status = status_in(getattr_of(interaction, "status"))

    @property
    def held(self) -> Interaction:
        """The record as it was handed over, to be weighed."""
        return self._interaction

    def interaction(self) -> Interaction:
        """Return the record."""
        return sound(self._interaction)


_current: ContextVar[InteractionRecorder | None] = ContextVar("ragmonitor_current", default=None)


def current_interaction() -> InteractionRecorder | None:
    """Return the interaction that this thread or task works on; None: it works on none.

    Code deep in an application, and integrations, may add to it.
    """
    return _current.get()


class InteractionRecorder:
    """Notes one interaction of plain code; handed over when the block ends.

    An exception that leaves the block is noted as the interaction's error and goes on its way.
    No method of it raises. `with` and `async with` do the same.

    Runs of instrumented frameworks (LangChain, LlamaIndex and others) within the block, in this
    thread or task and those that inherit its context, become parts of the interaction. What the
    application says here takes precedence over what the parts say.
    """

    framework = "python"

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
        self.id = uuid.uuid4().hex
        """The interaction's id."""
        self._hand_over = hand_over
        self._query: Any = query
        self._name: Any = name
        self._ids: Any = (session_id, user_id)
        self._tags: list[Any] = (
            [] if type(tags) is tuple and not tags else [*items_in(tags, MAX_LABELS)[0]]
        )
        self._attributes = {} if attributes is None else attributes_in(attributes)
        self._retrievals: list[StreamedRetrieval] = []
        self._generations: list[Generation] = []
        self._answer: str | None = None
        self._incomplete = False
        """The application passed a value that cannot be read, or more than is kept."""
        self._unanswered = False
        """The function that was to answer returned a value without a text."""
        self.status: Status = "ok"
        self._ends_with: FinishedRuns | None = None
        """The part whose end is the interaction's."""
        self._error = ""
        self._started_ns = self.step_ns = time.time_ns()
        self.first_token_ns = 0
        """The time when the first text of a streamed answer came; 0: none has."""
        self._ended_ns = 0
        self._is_over = False
        self._record: Interaction | None = None
        """What was read after the end."""
        self._caller: SpanContext | None = None
        self._inherited: Mapping[str, Any] | None = None
        with shielded("capture"):
            current = context.get_current()
            if current:
                self._caller = trace.get_current_span(current).get_span_context()
                self._inherited = labels_in(current)
        self.scope = InteractionScope(hand_over, self._leave)
        """Open until the block has ended, and every stream that began in it."""
        self._before: list[tuple[InteractionScope | None, InteractionRecorder | None]] = []
        self.gives_way = False
        """It is a function's: one that is called in it, and retrieves, answers in its place."""
        self._outer: InteractionRecorder | None = None
        """The function's interaction in which it began, until its end."""
        self._is_answered_within = False
        """An interaction that began in it has retrieved something."""

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_: TracebackType | None,
    ) -> None:
        self.exit()
        self.end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, trace_)

    @property
    def is_probe(self) -> bool:
        """Whether a golden question is answered here."""
        return bool(self._inherited and PROBE_BAGGAGE in self._inherited)

    # --- entering and leaving: generators do both at every step ----------------------------------

    def enter(self) -> None:
        """Make this the current interaction of this thread or task."""
        outer = _current.get()
        self._before.append((entered_scope.get(), outer))
        if outer is not None and outer.gives_way and not self._is_over:
            self._outer = outer
        entered_scope.set(self.scope)
        _current.set(self)
        make_current(self.id)

    def exit(self) -> None:
        """Put back what was current before."""
        if not self._before:
            return
        # Set, not reset by token: a generator may be closed in another context than it began in.
        block, interaction = self._before.pop()
        entered_scope.set(block)
        _current.set(interaction)

    def end(self, error: BaseException | None = None) -> None:
        """End the interaction: now, or when the streams that began in it have been read."""
        with shielded("capture"):
            if error is not None:
                self.failed(error)
            self._ended_ns = self._ended_ns or time.time_ns()
            self.scope.close(wait=error is None)

    # --- called by the application --------------------------------------------------------------

    def asked(self, query: str) -> None:
        """Note the question, if it was not known at the beginning."""
        if self._takes():
            self._query = query

    def retrieved(self, chunks: Sequence[Chunk | str], *, query: str = "", name: str = "") -> None:
        """Note what a retriever gave, in the order the model saw it.

        An iterator is not read, which would take its items from whoever reads it next: pass a list.
        """
        with shielded("capture"):
            started_ns = self.step_ns
            listener = self.streamed_retrieval(query=query, name=name, chunks=None)
            listener.started_ns = started_ns
            listener.give(chunks)

    def streamed_retrieval(
        self, *, query: str, name: str, chunks: Callable[[Any], Sequence[Chunk | str]] | None
    ) -> StreamedRetrieval:
        """Return a listener that notes the chunks that a retriever yields one by one."""
        asked = self._query if type(query) is str and not query else query
        listener = StreamedRetrieval(self, asked, name, chunks)
        if self._takes(len(self._retrievals)):
            self._retrievals.append(listener)
        return listener

    def _takes(self, kept: int = 0) -> bool:
        """Return whether something more can be noted, and count it if it cannot."""
        if self._is_over:
            note_unreadable("noted on an interaction that had ended, and was handed over")
        elif kept >= MAX_PARTS:
            self._miss(f"more than {MAX_PARTS} retrievals, or answers, of one interaction")
        return not self._is_over and kept < MAX_PARTS

    def note_incomplete(self) -> None:
        """Note that a text of the interaction is missing."""
        self._incomplete = True

    def _miss(self, subject: str) -> None:
        self._incomplete = True
        note_unreadable(subject)

    def answered(
        self,
        text: str,
        *,
        model: str = "",
        usage: Usage | None = None,
        prompt: str | Sequence[Message] = (),
    ) -> None:
        """Note the answer. If it is called twice, the user saw the last one.

        After a stream has been read, with its text: what else is known of that model call.
        """
        with shielded("capture"):
            now_ns = time.time_ns()
            answer = text_in(text)
            if answer is None:
                self._miss(f"answered() takes a text, not {type(text).__name__}")
            elif text is not None:
                self._answer = answer
            last = self._generations[-1] if self._generations else None
            repeats = last is not None and bool(last.first_token_ns) and last.output == answer
            streamed = self._generations.pop() if repeats else None
            first_ns = self.first_token_ns if self.first_token_ns >= self.step_ns else 0
            if self._takes(len(self._generations)):
                self._generations.append(
                    Generation(
                        input=prompt if type(prompt) is tuple else items_in(prompt)[0],
                        output=answer or "",
                        started_ns=streamed.started_ns if streamed else self.step_ns,
                        ended_ns=streamed.ended_ns if streamed else now_ns,
                        model=text_in(model) or "",
                        usage=usage if type(usage) is Usage else Usage(),
                        first_token_ns=streamed.first_token_ns if streamed else first_ns,
                    )
                )
            self.step_ns = now_ns

    def returned(self, text: str, *, unreadable: bool) -> None:
        """Note the text in what the function returned that answers the question.

        Args:
            text: Empty if there is none: the answer is then what was noted, or observed.
            unreadable: Something was returned that has no text.
        """
        if text:
            self.answered(text)
        else:
            self._unanswered = unreadable

    def streamed(self, pieces: Iterable[str]) -> Iterator[str]:
        """Return the pieces of an answer unchanged, and note them as they are read.

        They may be read after the block. Not read to the end: the answer is partial.
        """
        observed: Iterator[str] = self._observed(pieces, iter)
        return observed

    def astreamed(self, pieces: AsyncIterable[str]) -> AsyncIterator[str]:
        """Return the pieces of an asynchronous answer unchanged; as `streamed`."""
        observed: AsyncIterator[str] = self._observed(pieces, aiter)
        return observed

    def _observed(self, pieces: Any, iterate: Callable[[Any], Any]) -> Any:
        try:
            inner = iterate(pieces)
        except Exception:  # noqa: BLE001 - the application finds out when it reads them
            self._miss(f"an answer's stream yields texts, and is no {type(pieces).__name__}")
            return pieces
        return read(inner, StreamedAnswer(self, block=True))

    def heard(
        self, pieces: Sequence[str], failure: BaseException | None, *, whole: bool, complete: bool
    ) -> None:
        """Note a stream of the answer that has ended.

        Args:
            pieces: What was read of it.
            failure: What ended it; None: it was read to its end, or closed.
            whole: It was read to its end.
            complete: Every piece that was read is among the pieces.
        """
        if self._is_over:  # it failed, and did not wait for this stream
            return
        self.answered("".join(pieces))
        self._incomplete = self._incomplete or not complete
        if self._ended_ns:
            self._ended_ns = time.time_ns()
        if failure is not None:
            self.failed(failure)
        elif not whole and self.status == "ok":
            self.status = "partial"

    def tag(self, *tags: str, **attributes: str) -> None:
        """Add tags and attributes: `i.tag("beta", route="/ask", tenant="acme")`."""
        with shielded("capture"):
            if not self._takes():
                return
            if len(self._tags) + len(tags) + len(self._attributes) + len(attributes) > MAX_LABELS:
                note_unreadable(f"more than {MAX_LABELS} tags and attributes of one interaction")
                return
            self._tags += tags
            self._attributes |= attributes_in(attributes)

    def failed(self, error: BaseException) -> None:
        """Note that the application failed on this question."""
        with shielded("capture"):
            self.status = status_of(error)
            self._error = error_text(error) if self.status == "error" else ""

    # --- the finished interaction ---------------------------------------------------------------

    def _leave(self) -> None:
        with shielded("capture"):
            self._is_over = True
            for each in self._retrievals:
                each.end()
            if not self._answer and self.status == "ok":
                # The answer is what the last part gave; so its end is the answer's.
                parts = reversed(self.scope.parts)
                self._ends_with = next((part for part in parts if part.status != "error"), None)
                if self._ends_with is not None:
                    self.status = self._ends_with.status
        outer, self._outer = self._outer, None
        retrieved = bool(self._retrievals or self.scope.parts)
        if outer is not None and retrieved:
            outer._is_answered_within = True  # noqa: SLF001 - of our own kind
        if self._is_answered_within and self.status == "ok" and not retrieved:
            self.release()  # the answer was counted where its chunks are
        else:
            self._hand_over(self)

    @property
    def held(self) -> list[Any]:
        """The texts and objects that are held, to be weighed."""
        found = [each.found for each in self._retrievals]
        parts = [getattr(part, "held", ()) for part in self.scope.parts]
        return [self._query, self._answer, self._generations, found, parts]

    def interaction(self) -> Interaction:
        """Return the record, behind the request path. The parts are let go of after the end."""
        if self._record is not None:
            return self._record
        try:
            record = self._read()
        except Exception as error:  # noqa: BLE001 - counted and kept, without what cannot be read
            record_error("capture", error)
            times = {"started_ns": self._started_ns, "ended_ns": self._ended_ns}
            record = without_texts(self.framework, self.status, id=self.id, **times)
        if self._is_over:
            self._record = record
            self.release()
        return record

    def release(self) -> None:
        """Let go of the frameworks' runs: nothing more is to be read of them."""
        self.scope.release()

    def _read(self) -> Interaction:
        parts = self.scope.parts
        observed = tuple(retrieval for part in parts for retrieval in part.retrievals())
        noted = tuple(each.retrieval() for each in self._retrievals)
        # Model calls that were seen have their own times and tokens; `answered` repeats the last.
        generations = tuple(g for part in parts for g in part.generations()) or tuple(
            replace(each, input=messages_in(each.input)) for each in self._generations
        )
        shown: Sequence[Chunk] = [chunk for retrieval in noted for chunk in retrieval.chunks]
        if not noted:
            shown = shown_of(observed, generations, [c for part in parts for c in part.shown()])
        if self._ends_with is not None and self.status == "partial":
            self.status = self._ends_with.ending()
        answer = self._answer
        if answer is None:
            answer = self._said(min((each.ended_ns for each in observed), default=0))
            failed = next((each.error for each in reversed(generations) if each.error), "")
            if failed and not answer and self.status == "ok":  # the application has caught it
                self.status, self._error = "error", failed
        query = text_in(self._query)
        pieces = (each.first_token_ns for each in reversed(generations))
        labels = self._labels(parts)
        return Interaction(
            id=self.id,
            query=query or "",
            chunks=tuple(with_metadata(shown, generations)),
            not_shown=not_among(shown, (c for part in parts for c in part.retrieved())),
            answer=answer,
            framework=self.framework,
            started_ns=self._started_ns,
            ended_ns=max([self._ended_ns, *(part.ended_ns for part in parts)]),
            name=text_in(self._name) or "",
            status=self.status,
            error=self._error,
            retrievals=noted or observed,
            generations=generations,
            usage=sum((g.usage for g in generations), Usage()),
            caller=reference(self._caller),
            first_token_ns=self.first_token_ns or next(filter(None, pieces), 0),
            session_id=labels["session_id"],
            user_id=labels["user_id"],
            tags=labels["tags"],
            attributes=labels["attributes"],
            # Asked last: what could not be read above is noted there.
            capture_incomplete=self._incomplete
            or query is None
            or bool(self.scope.lost)
            or (self._unanswered and not answer)
            or labels["capture_incomplete"],
        )

    def _said(self, since_ns: int) -> str:
        """Return what the parts answered last: one that ended before the retrieval is a step."""
        parts = (part for part in reversed(self.scope.parts) if part.ended_ns >= since_ns)
        return next((text for part in parts if (text := part.answer())), "")

    def _labels(self, parts: Sequence[FinishedRuns]) -> dict[str, Any]:
        session_id, user_id = self._ids
        own = {
            "session_id": session_id,
            "user_id": user_id,
            "tags": self._tags,
            "attributes": self._attributes,
        }
        labels = merged(own, self._inherited)
        theirs = [part.labels() for part in reversed(parts)]
        for key in ("session_id", "user_id"):
            labels[key] = next((each[key] for each in (labels, *theirs) if each.get(key)), "")
        labels["capture_incomplete"] = any(each.get("capture_incomplete") for each in theirs)
        return labels


class StreamedRetrieval(Listener):
    """Notes a retrieval, whose chunks the application may read one by one.

    The model can have been shown only those that were read when the interaction ends.
    """

    def __init__(
        self,
        recorder: InteractionRecorder,
        query: Any,
        name: str,
        chunks: Callable[[Any], Sequence[Chunk | str]] | None,
    ) -> None:
        self._recorder: InteractionRecorder | None = recorder
        self._of = recorder
        self._query = query
        self._name = name
        self._chunks = chunks
        self._kept = KeptPieces(MAX_CHUNKS)
        self.found: tuple[Any, ...] = ()
        self.started_ns = time.time_ns()
        self._ended_ns = 0
        self._error = ""

    def take(self, item: Any) -> None:
        """Note one chunk, while the interaction goes on."""
        if not self._ended_ns:
            text = item.text if type(item) is Chunk else item
            self._kept.add(item, len(text) if type(text) is str else 0)

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:  # noqa: ARG002
        """Note that nothing more comes; the application need not have read all of it."""
        if self._recorder is not None:
            if failure is not None and status_of(failure) == "error":
                self._error = error_text(failure)
            self._note(self._kept.pieces, complete=self._kept.complete)

    def give(self, result: Any) -> None:
        """Note a result that is there at once."""
        self._note(result, complete=True)

    def _note(self, result: Any, *, complete: bool) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self._ended_ns = recorder.step_ns = time.time_ns()
        whole = False
        with shielded("capture"):  # `chunks` is the application's code
            retrieved = result if self._chunks is None else self._chunks(result)
            items, whole = items_in(retrieved)
            self.found = tuple(map(_as_now, items))
            if not whole:
                note_unreadable(
                    f"expected a list of at most {MAX_CHUNKS} chunks or texts, not"
                    f" {type(retrieved).__name__}; of an iterator, pass `list(...)` of it"
                )
        if not (whole and complete):
            recorder.note_incomplete()

    def retrieval(self) -> Retrieval:
        """Return the record, behind the request path."""
        chunks, whole = chunks_in(self.found)
        if not whole:
            self._of.note_incomplete()
        return Retrieval(
            query=text_in(self._query) or "",
            chunks=chunks,
            started_ns=self.started_ns,
            ended_ns=self._ended_ns or time.time_ns(),
            name=text_in(self._name) or "",
            error=self._error,
        )


def _as_now(item: Any) -> Any:
    """Return a mapping or a document as it is now: the application may shorten it to show it."""
    if type(item) is tuple and len(item) == 2:
        return _as_now(item[0]), item[1]
    fields = item if type(item) is dict else getattr_of(item, "__dict__")
    is_document = type(fields) is dict and (fields is item or "page_content" in fields)
    return dict(fields) if is_document else item


class StreamedAnswer(Listener):
    """Notes an answer that the application reads piece by piece."""

    def __init__(
        self,
        recorder: InteractionRecorder,
        *,
        block: bool = False,
        text: Callable[[Any], Any] = text_in,
    ) -> None:
        """Begin.

        Args:
            recorder: The interaction's.
            block: The interaction is a block of code, which may end before the stream. Otherwise
                it is this stream: current while the stream goes on, and ended with it.
            text: From a piece to its text; None: it cannot be read. Must not raise.
        """
        self._recorder: InteractionRecorder | None = recorder
        self._block = block
        self._text = text
        self._kept = KeptPieces(MAX_PIECES)
        self._entered = recorder
        if block:
            recorder.scope.add(self)

    def enter(self) -> None:
        """Make the interaction the current one, if it is this stream."""
        if not self._block:
            self._entered.enter()

    def exit(self) -> None:
        """Put back what was current before."""
        if not self._block:
            self._entered.exit()

    def take(self, item: Any) -> None:
        """Note one piece."""
        recorder = self._recorder  # another thread may end it meanwhile
        if recorder is None:
            return
        text = self._text(item)
        if text is None:
            self._kept.complete = False
        elif text:
            if not recorder.first_token_ns:
                recorder.first_token_ns = time.time_ns()
            self._kept.add(text, len(text))

    def give(self, result: Any) -> None:
        """Note an answer that was there at once."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            text = self._text(result)
            recorder.returned(text or "", unreadable=text is None and result is not None)
            recorder.end()

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note the answer, however it ended."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        with shielded("capture"):
            kept = self._kept
            if self._block or whole or kept.pieces or not kept.complete:
                recorder.heard(kept.pieces, failure, whole=whole, complete=kept.complete)
            if self._block:
                recorder.scope.finish(self)
            else:
                recorder.end(failure if failure is not None or whole else GeneratorExit())
