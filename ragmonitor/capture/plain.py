"""Interactions of applications without a framework: `with monitor.interaction(...) as i:`.

A block is a root run like any other, whose retrievals and model calls the application notes. Runs
of frameworks that start within it become parts of it: a retriever and a model that are called one
after the other belong to one interaction.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final, Self, cast

from opentelemetry import context, trace

from ragmonitor.capture.assembly import FinishedRuns, Translator, shown_of
from ragmonitor.capture.coercion import (
    FRAMEWORK,
    MAX_CHUNKS,
    MAX_LABELS,
    NotReadableError,
    attributes_in,
    chunks_in,
    error_text,
    items_in,
    note_unreadable,
    status_in,
    status_of,
    text_in,
    without_texts,
)
from ragmonitor.capture.current_id import make_current
from ragmonitor.capture.interaction_labels import labels_in, merged
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.capture.runs import Root, Run, RunKind
from ragmonitor.capture.streams import Listener, read
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    Status,
    Usage,
)
from ragmonitor.runtime.guard import shielded
from ragmonitor.runtime.protocols import Finished

MAX_PARTS: Final = 1_000
"""Runs that one interaction keeps; it has a handful."""
MAX_CHARACTERS: Final = 16_000_000
"""Characters of one stream that are kept."""
PIECE_CHARACTERS: Final = 50
"""Characters that a piece takes the room of, beside its own."""


class Record:
    """An interaction that the application recorded itself."""

    __slots__ = ("framework", "held", "is_probe", "status")

    def __init__(self, interaction: Any) -> None:
        if not isinstance(interaction, Interaction):
            note_unreadable(f"expected an Interaction, got {type(interaction).__name__}")
            interaction = without_texts(FRAMEWORK, "ok")
        self.held: Interaction = interaction
        """The record as it was handed over, to be weighed."""
        self.framework = text_in(self.held.framework) or FRAMEWORK
        self.is_probe = is_probe(self.held)
        self.status: Status = status_in(self.held.status)

    def interaction(self) -> Interaction:
        """Return the record."""
        return self.held


_entered: ContextVar[InteractionRecorder | None] = ContextVar("ragmonitor_entered", default=None)
"""What this thread or task works on. Ours, and no part of OpenTelemetry's context."""
_reading: ContextVar[InteractionRecorder | None] = ContextVar("ragmonitor_reading", default=None)
"""The interaction of the stream that it reads right now."""


def current_interaction() -> InteractionRecorder | None:
    """Return the interaction that this thread or task works on; None: it works on none.

    Code deep in an application, and integrations, may add to it.
    """
    return _entered.get()


def current_of(hand_over: Callable[[Finished], None]) -> InteractionRecorder | None:
    """Return that interaction if it is of this monitor: runs of another one do not belong to it."""
    i = _entered.get()
    # Compared, not identified: a bound method is a new object each time.
    return i if i is not None and i.hand_over == hand_over else None


class _PlainTranslator(Translator):
    """Reads what the application noted.

    Of a model run, `details` is the model's name and its tokens.
    """

    framework = FRAMEWORK

    def query(self, run: Run) -> str:
        query = text_in(run.inputs)
        if query is None:
            raise NotReadableError("expected a text as the question")
        return query

    def chunks(self, run: Run) -> Sequence[Chunk]:
        chunks, whole = chunks_in(run.outputs or ())
        run.root.lost += not whole
        return chunks

    def prompt(self, run: Run) -> Sequence[Message]:
        return tuple(
            Message(role="user", text=item) if isinstance(item, str) else item
            for item in run.inputs
            if isinstance(item, str | Message)
        )

    def answer(self, run: Run) -> str:
        return run.outputs or ""

    def model(self, run: Run) -> tuple[str, str]:
        return "", run.details[0]

    def usage(self, run: Run) -> Usage:
        usage: Usage = run.details[1]
        return usage


_TRANSLATOR = _PlainTranslator()
_capture = shielded("capture")


class InteractionRecorder(FinishedRuns):
    """Notes one interaction of plain code; handed over when the block ends.

    An exception that leaves the block is noted as the interaction's error and goes on its way.
    No method of it raises. `with` and `async with` do the same.

    Runs of instrumented frameworks (LangChain, LlamaIndex and others) within the block, in this
    thread or task and those that inherit its context, become parts of the interaction. What the
    application says here takes precedence over what the parts say.
    """

    needs_retrieval = False

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
        root = Root(uuid.uuid4().hex, None, "chain", text_in(name) or "", query)
        super().__init__(root, _TRANSLATOR)
        self.id = str(root.id)
        """The interaction's id."""
        self.hand_over = hand_over
        """Takes it when it is over."""
        self._labels: dict[str, Any] = {
            "session_id": session_id,
            "user_id": user_id,
            "tags": [*items_in(tags, MAX_LABELS)[0]],
            "attributes": attributes_in(attributes),
        }
        self.is_unreadable = False
        """The function that was to answer returned a value without a text."""
        self._ends_with: FinishedRuns | None = None
        """The part whose end is the interaction's."""
        self.step_ns = root.started_ns
        self._is_over = False
        with _capture:
            current = context.get_current()
            if current:
                root.caller = trace.get_current_span(current).get_span_context()
                root.labels = labels_in(current)
        self._before: list[InteractionRecorder | None] = []
        self.parts: list[Any] = []
        """The runs of frameworks (`FinishedRuns`), in the order in which they ended."""
        self._open: set[Hashable] = {self}
        """What has not ended: the block itself, parts and streams."""
        self._ticket = [None]  # taken once, by whichever thread is last: `pop` is atomic
        self._is_released = False
        self.reads: Callable[[Any], Any] | None = None
        """Of a function's interaction: from what it returns, or a piece of that, to its text.

        A function that is called in it, and retrieves, answers in its place."""
        self._outer: InteractionRecorder | None = None
        """The function's interaction in which it began, until its end."""
        self._is_answered_within = False
        """An interaction that began in it has retrieved something."""

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.exit()
        self.end(error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace_: object) -> None:
        self.__exit__(kind, error, trace_)

    # --- entering, leaving, and what goes on within ----------------------------------------------

    def enter(self) -> None:
        """Make this the current interaction of this thread or task."""
        outer = _entered.get()
        self._before.append(outer)
        if outer is not None and outer.reads is not None and not self._is_over:
            self._outer = outer
        _entered.set(self)
        make_current(self.id)

    def exit(self) -> None:
        """Put back what was current before."""
        if self._before:
            # Set, not reset by token: a generator may be closed in another context than its own.
            _entered.set(self._before.pop())

    def end(self, error: BaseException | None = None) -> None:
        """End the interaction: now, or when the parts and streams that began in it have ended."""
        with _capture:
            if error is not None:
                self.failed(error)
                self._open.clear()
            self._root.ended_ns = self._root.ended_ns or time.time_ns()
            self.finish(self)

    def add(self, part: Hashable) -> bool:
        """Add an open part or stream; return whether it belongs to the interaction.

        After the block has ended, what runs while its stream is read does, and not what it left
        at work.
        One beyond `MAX_PARTS` does, so that it is no interaction of its own, and is not kept.
        """
        if self not in self._open and (not self._open or _reading.get() is not self):
            return False
        if len(self.parts) + len(self._open) > MAX_PARTS:
            self.miss()
        else:
            self._open.add(part)
        return True

    def finish(self, part: Hashable, finished: Any = None) -> None:
        """Note that a part has ended, and keep what it became."""
        if finished is not None:
            if part in self._open and not self._is_released:
                self.parts.append(finished)
            else:
                finished.release()
        self._open.discard(part)
        if not self._open:
            self._leave()

    # --- called by the application --------------------------------------------------------------

    def asked(self, query: str) -> None:
        """Note the question, if it was not known at the beginning."""
        if not self._is_over:
            self._root.inputs = query

    def retrieved(self, chunks: Sequence[Chunk | str], *, query: str = "", name: str = "") -> None:
        """Note what a retriever gave, in the order the model saw it.

        An iterator is not read, which would take its items from whoever reads it next: pass a list.
        """
        with _capture:
            self.found(self.noted("retriever", name, query), chunks)

    def found(self, run: Run, result: Any, chunks: Callable[[Any], Any] | None = None) -> None:
        """Note what a retrieval gave, read by `chunks` if that is given."""
        if self._is_over:
            return
        run.ended_ns = self.step_ns = time.time_ns()
        retrieved, whole = None, False
        with _capture:  # `chunks` is the application's code
            retrieved = result if chunks is None else chunks(result)
            items, whole = items_in(retrieved)
            run.outputs = tuple(map(_as_now, items))
        if not whole:
            self.miss()
            with _capture:  # a class may not even tell its name
                note_unreadable(
                    f"expected a list of at most {MAX_CHUNKS} chunks or texts, not"
                    f" {type(retrieved).__name__}; of an iterator, pass `list(...)` of it"
                )

    def noted(self, kind: RunKind, name: str = "", query: Any = "") -> Run:
        """Return a run that begins where the last one ended, and keep it if there is room."""
        run = Run("", self._root, kind, text_in(name) or "", query or self._root.inputs)
        run.started_ns = self.step_ns
        if self._is_over:
            note_unreadable("noted on an interaction that had ended, and was handed over")
        elif len(self._root.members) >= 2 * MAX_PARTS:
            self.miss(f"more than {MAX_PARTS} retrievals and answers of one interaction")
        else:
            self._root.members.append(run)
        return run

    def miss(self, subject: str = "") -> None:
        """Note that a text of the interaction is missing."""
        self._root.lost += 1
        if subject:
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
        with _capture:
            answer = text_in(text)
            if answer is None:
                self.miss(f"answered() takes a text, not {type(text).__name__}")
            elif text is not None and not self._is_over:
                self._root.outputs = answer
            members = self._root.members
            run = members[-1] if members else None
            if run is None or not run.first_piece_ns or run.outputs != answer:
                run = self.noted("model")
                run.ended_ns, run.outputs = time.time_ns(), answer
                first_ns = self._root.first_piece_ns
                run.first_piece_ns = first_ns if first_ns >= self.step_ns else 0
                self.step_ns = run.ended_ns
            run.inputs = prompt if type(prompt) is tuple else items_in(prompt)[0]
            run.details = text_in(model) or "", usage if type(usage) is Usage else Usage()

    def streamed(self, pieces: Iterable[str]) -> Iterator[str]:
        """Return the pieces of an answer unchanged, and note them as they are read.

        They may be read after the block. Not read to the end: the answer is partial.
        """
        observed: Iterator[str] = self.observed(pieces, waits=False)
        return observed

    def astreamed(self, pieces: AsyncIterable[str]) -> AsyncIterator[str]:
        """Return the pieces of an asynchronous answer unchanged; as `streamed`."""
        observed: AsyncIterator[str] = self.observed(pieces, waits=True)
        return observed

    def observed(self, pieces: Any, text: Callable[[Any], Any] = text_in, *, waits: bool) -> Any:
        """Return an answer's pieces, unchanged.

        Args:
            pieces: Read by the application; clients' streams can be read in both ways.
            text: Gives a piece's text, or None.
            waits: Whether they are read asynchronously.
        """
        try:
            inner = aiter(pieces) if waits else iter(pieces)
        except Exception:  # noqa: BLE001 - the application finds out when it reads them
            self.miss(f"an answer's stream yields texts, and is no {type(pieces).__name__}")
            return pieces
        return read(inner, StreamedAnswer(self, text), waits=waits)

    def give(self, result: Any) -> Any:
        """Note what its function returned; return what is passed on, and end.

        A generator, or an iterator of Python's own, which can be read once only, is read through
        another one. Anything else is returned as it is: a cursor or a client's stream is more than
        an iterator, and nothing could stand in its place.
        """
        kind, reads = type(result), self.reads or text_in
        if kind in (GeneratorType, AsyncGeneratorType) or (
            kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")
        ):
            result = self.observed(result, reads, waits=kind is AsyncGeneratorType)
        else:
            text = reads(result)
            self.is_unreadable = text is None and result is not None
            if text:
                self.answered(text)
        self.end()
        return result

    def first_piece(self) -> None:
        """Note that the first text of a streamed answer has come."""
        self._root.first_piece_ns = self._root.first_piece_ns or time.time_ns()

    def heard(self, text: str | None, failure: BaseException | None, *, whole: bool) -> None:
        """Note a stream of the answer that has ended.

        Args:
            text: What was read of it; None: nothing.
            failure: What ended it; None: it was read to its end, or dropped.
            whole: It was read to its end.
        """
        root = self._root
        if self._is_over:  # it failed, and did not wait for this stream
            return
        if text is not None:
            self.answered(text)
        if root.ended_ns:
            root.ended_ns = time.time_ns()
        if failure is not None:
            self.failed(failure)
        elif not whole and root.status == "ok":
            root.status = "partial"

    def tag(self, *tags: str, **attributes: str) -> None:
        """Add tags and attributes: `i.tag("beta", route="/ask", tenant="acme")`."""
        with _capture:
            own_tags, own_attributes = self._labels["tags"], self._labels["attributes"]
            if len(own_tags) + len(tags) + len(own_attributes) + len(attributes) > MAX_LABELS:
                note_unreadable(f"more than {MAX_LABELS} tags and attributes of one interaction")
            elif not self._is_over:
                own_tags += tags
                own_attributes |= attributes_in(attributes)

    def failed(self, error: BaseException) -> None:
        """Note that the application failed on this question."""
        with _capture:
            if not self._is_over:
                self._root.status = status_of(error)
                self._root.error = error_text(error) if self.status == "error" else ""

    # --- the finished interaction ---------------------------------------------------------------

    def _leave(self) -> None:
        try:
            self._ticket.pop()
        except IndexError:
            return
        root, parts = self._root, self.parts
        with _capture:
            self._is_over = True
            if not root.outputs and root.status == "ok":
                # The answer is what the last part gave; so its end is the answer's.
                self._ends_with = next((p for p in reversed(parts) if p.status != "error"), None)
                if self._ends_with is not None:
                    root.status = self._ends_with.status
            root.ended_ns = max([root.ended_ns, *(part.ended_ns for part in parts)])
        outer, self._outer = self._outer, None
        retrieved = bool(parts) or any(run.kind == "retriever" for run in root.members)
        if outer is not None and retrieved:
            outer._is_answered_within = True  # noqa: SLF001 - of our own kind
        if self._is_answered_within and root.status == "ok" and not retrieved:
            self.release()  # the answer was counted where its chunks are
        else:
            self.hand_over(self)

    @property
    def held(self) -> list[Any]:
        """The texts and objects that are held, to be weighed."""
        return [*super().held, *(part.held for part in self.parts)]

    def interaction(self) -> Interaction:
        """Return the record, behind the request path; before the end, as it stands."""
        self._answers.clear()  # more may have been noted since it was read
        record = super().interaction() if self._is_over else self._read()
        return cast("Interaction", record)

    def release(self) -> None:
        """Let go of the frameworks' runs: nothing more is to be read of them."""
        super().release()
        self._is_released = True
        for part in self.parts:
            part.release()

    def ending(self) -> Status:
        """Return the way in which it ended, read off the texts."""
        root = self._root
        if self._ends_with is not None and root.status == "partial":
            root.status = self._ends_with.ending()
        if root.status == "ok" and not self.answer():  # the application has caught a failure
            failed = (each.error for each in reversed(self.generations()) if each.error)
            root.error = next(failed, "")
            root.status = "error" if root.error else "ok"
        return root.status

    def answer(self) -> str:
        """Return what was noted, or what the parts answered last.

        What a part said that ended before the first retrieval is a step's.
        """
        if self._root.outputs is not None:
            return str(self._root.outputs)
        parts = self.parts
        since_ns = next((part.ended_ns for part in parts if part.has_retrieved()), 0)
        said = (part.answer() for part in reversed(parts) if part.ended_ns >= since_ns)
        return next(filter(None, said), "")

    def retrievals(self) -> tuple[Retrieval, ...]:
        """Return what was noted, or what was observed."""
        observed = (each for part in self.parts for each in part.retrievals())
        return super().retrievals() or tuple(observed)

    def generations(self) -> tuple[Generation, ...]:
        """Return the model calls: those that were seen have their own times and tokens."""
        observed = tuple(each for part in self.parts for each in part.generations())
        return observed or super().generations()

    def retrieved_chunks(self) -> list[Chunk]:
        """Return what every retriever gave."""
        parts = (chunk for part in self.parts for chunk in part.retrieved_chunks())
        return [*super().retrieved_chunks(), *parts]

    def shown_among(
        self, retrievals: Sequence[Retrieval], generations: Sequence[Generation]
    ) -> Sequence[Chunk]:
        """Return what was noted as retrieved, or what was shown of the rest."""
        if any(run.kind == "retriever" for run in self._root.members):
            return [chunk for retrieval in retrievals for chunk in retrieval.chunks]
        named = [chunk for part in self.parts for chunk in part.shown()]
        return shown_of(retrievals, generations, named)

    def labels(self) -> dict[str, Any]:
        """Return what the block says of it, then its context, then the parts' session and user."""
        labels = merged(self._labels, self._root.labels)
        theirs = [part.labels() for part in reversed(self.parts)]
        for key in ("session_id", "user_id"):
            labels[key] = next((each[key] for each in (labels, *theirs) if each[key]), "")
        labels["capture_incomplete"] = (self.is_unreadable and not self.answer()) or any(
            each["capture_incomplete"] for each in theirs
        )
        return labels


def _as_now(item: Any) -> Any:
    """Return a mapping or a document as it is now: the application may shorten it to show it."""
    if type(item) is tuple and len(item) == 2:
        return _as_now(item[0]), item[1]
    with _capture:  # anybody's object
        fields = item if type(item) is dict else getattr(item, "__dict__", {})
        return dict(fields) if fields is item or "page_content" in fields else item
    return item


class StreamedAnswer(Listener):
    """Notes an answer that the application reads piece by piece."""

    def __init__(self, recorder: InteractionRecorder, text: Callable[[Any], Any] = text_in) -> None:
        """Begin.

        Args:
            recorder: The interaction's, which is current while the stream goes on.
            text: From a piece to its text; None: it cannot be read. Must not raise.
        """
        self._recorder: InteractionRecorder | None = recorder
        self._entered = recorder
        self._before: tuple[InteractionRecorder | None, ...] = (None, None)
        self._text = text
        self._pieces: list[str] = []
        self._characters = 0
        self._is_missing = False
        """A piece of it was not kept."""
        recorder.add(self)

    def enter(self) -> None:
        """Make the interaction the current one."""
        self._before = _entered.get(), _reading.get()
        _entered.set(self._entered)
        _reading.set(self._entered)

    def exit(self) -> None:
        """Put back what was current before."""
        before, was_read = self._before
        _entered.set(before)
        _reading.set(was_read)

    def take(self, item: Any) -> None:
        """Note one piece."""
        recorder = self._recorder  # another thread may end it meanwhile
        if recorder is None:
            return
        text = self._text(item)
        if not text:
            self._is_missing = self._is_missing or text is None
            return
        if not self._characters:
            recorder.first_piece()
        self._characters += len(text) + PIECE_CHARACTERS
        if self._characters > MAX_CHARACTERS:
            self._is_missing = True
        else:
            self._pieces.append(text)

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note the answer, however it ended."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        with _capture:
            if self._is_missing:
                recorder.miss()
            is_answer = whole or self._pieces or self._is_missing
            recorder.heard("".join(self._pieces) if is_answer else None, failure, whole=whole)
            recorder.finish(self)
