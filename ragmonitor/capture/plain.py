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
from types import TracebackType
from typing import Any, Self

from opentelemetry import context, trace

from ragmonitor.capture.assembly import reference, shown_of
from ragmonitor.capture.gathering import Gathering, gathering
from ragmonitor.capture.labels import labels_in, merged
from ragmonitor.capture.prompts import not_among
from ragmonitor.capture.recorder import status_of
from ragmonitor.guard import record_error, shielded
from ragmonitor.protocols import Finished
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
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


_current: ContextVar[InteractionRecorder | None] = ContextVar("ragmonitor_current", default=None)


def current_interaction() -> InteractionRecorder | None:
    """Return the interaction whose block this thread or task is in; None: it is in none.

    For code deep in an application, and for integrations that have something to add.
    """
    return _current.get()


class InteractionRecorder:
    """Notes one interaction of plain code; handed over when the block ends.

    An exception that leaves the block is noted as the interaction's error and goes on its way.
    No method of it raises. `with` and `async with` do the same.

    What LangChain, LlamaIndex and others run within the block, in this thread or task and those
    that inherit its context, is gathered into it, if they are instrumented. What is said here goes
    before what was gathered.
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
        self._hand_over = hand_over
        self._query = query
        self._name = name
        self._labels: dict[str, Any] = {
            "session_id": session_id,
            "user_id": user_id,
            "tags": tuple(tags),
            "attributes": dict(attributes or {}),
        }
        self._retrievals: list[Retrieval] = []
        self._generations: list[Generation] = []
        self._answer: str | None = None
        self.status: Status = "ok"
        self._error = ""
        self._started_ns = self._step_ns = time.time_ns()
        self._ended_ns = 0
        current = context.get_current()
        self._caller = trace.get_current_span(current).get_span_context()
        self._inherited = labels_in(current) if current else None
        self._gathering = Gathering(hand_over, self._leave)
        self._before: tuple[Gathering | None, InteractionRecorder | None] = (None, None)

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

    # --- what a block is made of: for generators, which enter and leave it at every step --------

    def enter(self) -> None:
        """Make this the current interaction of this thread or task."""
        self._before = gathering.get(), _current.get()
        gathering.set(self._gathering)
        _current.set(self)

    def exit(self) -> None:
        """Put back what was current before."""
        # Set, not reset by token: a generator may be closed in another context than it began in.
        gathering.set(self._before[0])
        _current.set(self._before[1])

    def end(self, error: BaseException | None = None) -> None:
        """End the interaction: now, or when the streams that began in it have been read."""
        try:
            if error is not None:
                self.failed(error)
            self._ended_ns = self._ended_ns or time.time_ns()
            self._gathering.close(wait=error is None)
        except Exception as problem:  # noqa: BLE001 - the border to the host application
            record_error("capture", problem)

    # --- what the application says --------------------------------------------------------------

    def asked(self, query: str) -> None:
        """Note the question, where it was not known at the beginning."""
        self._query = query

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

    def answered(
        self,
        text: str,
        *,
        model: str = "",
        usage: Usage | None = None,
        prompt: str | Sequence[Message] = (),
    ) -> None:
        """Note the answer. Said twice: the last one is what the user saw."""
        with shielded("capture"):
            now_ns = time.time_ns()
            self._answer = text
            self._generations.append(
                Generation(
                    input=(Message(role="user", text=prompt),)
                    if isinstance(prompt, str)
                    else tuple(prompt),
                    output=text,
                    started_ns=self._step_ns,
                    ended_ns=now_ns,
                    model=model,
                    usage=usage or Usage(),
                )
            )
            self._step_ns = now_ns

    def generated(self, generation: Generation) -> None:
        """Note a model call: what it gave is the answer, unless `answered` says otherwise."""
        with shielded("capture"):
            self._generations.append(generation)

    def streamed(self, pieces: Iterable[str]) -> Iterator[str]:
        """Return the pieces of an answer unchanged, and note them as they are read.

        They may be read after the block. Not read to the end: the answer is partial.
        """
        return HeardPieces(self, self._gathering, pieces)

    def astreamed(self, pieces: AsyncIterable[str]) -> AsyncIterator[str]:
        """Return the pieces of an answer unchanged; as `streamed`."""
        return HeardAsyncPieces(self, self._gathering, pieces)

    def heard(self, pieces: Sequence[str], failure: BaseException | None, *, whole: bool) -> None:
        """Note a stream of the answer that has ended."""
        self.answered("".join(pieces))
        if self._ended_ns:
            self._ended_ns = time.time_ns()
        if failure is not None:
            self.failed(failure)
        elif not whole and self.status == "ok":
            self.status = "partial"

    def tag(self, *tags: str, **attributes: str) -> None:
        """Add tags and attributes: `i.tag("beta", route="/ask", tenant="acme")`."""
        with shielded("capture"):
            self._labels["tags"] += tags
            self._labels["attributes"].update(attributes)

    def failed(self, error: BaseException) -> None:
        """Note that the application failed on this question."""
        with shielded("capture"):
            self.status = status_of(error)
            self._error = f"{type(error).__name__}: {error}" if self.status == "error" else ""

    # --- what became of it ----------------------------------------------------------------------

    def _leave(self) -> None:
        if not self._answer and self.status == "ok":
            # The answer is what the last part gave; so its end is the answer's.
            last = next((p for p in reversed(self._gathering.parts) if p.status != "error"), None)
            if last is not None:
                self.status = last.status
        self._hand_over(self)

    def interaction(self) -> Interaction:
        """Return the record. Called once, behind the request path."""
        parts = self._gathering.parts
        gathered = tuple(retrieval for part in parts for retrieval in part.retrievals())
        retrievals = gathered or tuple(self._retrievals)
        # Model calls that were seen have their own times and tokens; `answered` repeats the last.
        generations = tuple(g for part in parts for g in part.generations()) or tuple(
            self._generations
        )
        said = [chunk for retrieval in self._retrievals for chunk in retrieval.chunks]
        named = [chunk for part in parts for chunk in part.shown()]
        shown = said if self._retrievals else shown_of(gathered, generations, named)
        answer = self._answer
        if answer is None:
            answers = (part.answer() for part in reversed(parts))
            answer = next((text for text in answers if text), "")
        if not answer and self._answer is None:
            answer = next((g.output for g in reversed(self._generations) if g.output), "")
        failure = "" if self._answer is not None else _unanswered(gathered, generations)
        if failure:
            answer = ""  # what was said before is a step's
            if self.status == "ok":  # the application has caught it
                self.status, self._error = "error", failure
        labels = merged(self._labels, self._inherited)
        for part in reversed(parts):
            theirs = part.labels()
            for key in ("session_id", "user_id"):
                labels[key] = labels[key] or theirs.get(key, "")
        return Interaction(
            id=uuid.uuid4().hex,
            query=self._query,
            chunks=tuple(shown),
            not_shown=not_among(shown, (c for part in parts for c in part.retrieved())),
            answer=answer,
            framework=self.framework,
            started_ns=self._started_ns,
            ended_ns=max([self._ended_ns, *(part.ended_ns for part in parts)]),
            name=self._name,
            status=self.status,
            error=self._error,
            retrievals=retrievals,
            generations=generations,
            usage=sum((g.usage for g in generations), Usage()),
            caller=reference(self._caller),
            session_id=labels["session_id"],
            user_id=labels["user_id"],
            tags=labels["tags"],
            attributes=labels["attributes"],
            capture_incomplete=any(part.labels().get("capture_incomplete") for part in parts),
        )


def _unanswered(retrievals: Sequence[Retrieval], generations: Sequence[Generation]) -> str:
    """Return the error of the model call that was to answer; empty if it or another one did.

    It is the last one, and none has said anything since the first retrieval: a failure after the
    answer, in a call that names the conversation for one, changes nothing.
    """
    last = max(generations, key=lambda each: each.started_ns, default=None)
    if last is None or not last.error or last.output:
        return ""
    first_ns = min((each.started_ns for each in retrievals), default=last.started_ns)
    said = any(each.output and each.started_ns >= first_ns for each in generations)
    return "" if said else last.error


class _Heard:
    """What both kinds of stream share: the end is noted once, however it comes."""

    def __init__(self, recorder: InteractionRecorder, block: Gathering, inner: Any) -> None:
        self._recorder: InteractionRecorder | None = recorder
        self._block = block
        self._inner = inner
        self._heard: list[str] = []
        block.joins(id(self))

    def _end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        with shielded("capture"):
            recorder.heard(self._heard, failure, whole=whole)
            self._block.leaves(id(self))

    def __del__(self) -> None:
        self._end()


class HeardPieces(_Heard, Iterator[str]):
    """An answer's pieces on their way to the user."""

    def __init__(
        self, recorder: InteractionRecorder, block: Gathering, pieces: Iterable[str]
    ) -> None:
        super().__init__(recorder, block, iter(pieces))

    def __next__(self) -> str:
        try:
            piece: str = next(self._inner)
        except StopIteration:
            self._end(whole=True)
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._heard.append(piece)
        return piece

    def close(self) -> None:
        """Close the stream: what was read is what the user saw."""
        try:
            if hasattr(self._inner, "close"):
                self._inner.close()
        finally:
            self._end()


class HeardAsyncPieces(_Heard, AsyncIterator[str]):
    """An answer's pieces on their way to the user."""

    def __init__(
        self, recorder: InteractionRecorder, block: Gathering, pieces: AsyncIterable[str]
    ) -> None:
        super().__init__(recorder, block, aiter(pieces))

    async def __anext__(self) -> str:
        try:
            piece: str = await anext(self._inner)
        except StopAsyncIteration:
            self._end(whole=True)
            raise
        except BaseException as error:
            self._end(error)
            raise
        self._heard.append(piece)
        return piece

    async def aclose(self) -> None:
        """Close the stream: what was read is what the user saw."""
        try:
            if hasattr(self._inner, "aclose"):
                await self._inner.aclose()
        finally:
            self._end()
