"""Listens to LlamaIndex's dispatcher and reports to a `Recorder`.

Spans carry nearly everything: the inputs, the real results, parents and failures. Events are read
for two things only that spans do not carry: the final output of a streamed model call, with its
token counts (the span exits before the first token), and the pieces of a chat's stream.

No class is patched, no lock is held, no context is attached; whatever goes wrong here is logged
and counted by `record_error` (LlamaIndex itself would swallow it silently).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import weakref
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine.types import StreamingAgentChatResponse
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.chat_engine import StreamChatDeltaReceivedEvent
from llama_index.core.instrumentation.events.exception import ExceptionEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMCompletionEndEvent,
)
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.response_synthesizers.context_only import ContextOnly
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import active_instrument_tags

from ragmonitor import current_interaction
from ragmonitor.integration import (
    ForkSafeLock,
    Recorder,
    Run,
    RunKind,
    StreamListener,
    read_stream,
    record_error,
    shielded,
)
from ragmonitor_llama_index.roles import Role, reranks, role_of
from ragmonitor_llama_index.translate import (
    LlamaIndexTranslator,
    Note,
    note_nodes,
    note_prompt,
    note_reply,
    note_sources,
    note_stop_event,
    note_tool_nodes,
    tags_in,
)

if TYPE_CHECKING:
    from ragmonitor import Monitor

_GENERATORS = frozenset({GeneratorType, AsyncGeneratorType})
_capture = shielded("capture")

# Names of this module: an enumeration's own are looked up at twice the price, 50 times per query.
_OTHER, _ENGINE, _WORKFLOW, _RETRIEVER, _MODEL, _TOOL, _SYNTHESIS, _WRITER, _RERANKER, _ASKING = (
    Role
)


@dataclass(slots=True, eq=False, kw_only=True)
class _Root(Note, StreamListener):
    """Notes on an interaction, from its engine's call to the last token; or on a part of a block's.

    It listens to the stream of its answer: LlamaIndex's query span exits before a token exists, and
    its model's span opens only while the stream is consumed, without a parent. It does not hold its
    run: a cycle would wait for the garbage collector, with its texts.
    """

    id: str
    recorder: Recorder
    synthesized: list[Iterable[Any]] | None = None
    """The lists of nodes that synthesizers got; released when the root's call returns."""
    streams: dict[str, Any] = field(default_factory=dict)
    """The models of streamed runs that are still open, by span id."""
    generators: list[str] = field(default_factory=list)
    """Steps below it that returned a generator.

    They stay open until the root ends: a reader of the generator in the call's own context, such as
    OpenInference, lets the model begin as this call's child, though it has returned.
    """
    returned: bool = False
    written: bool = False
    """Whether the writer of this streaming chat has drained the model."""
    asks: bool = True
    """Whether its synthesizer asks a model: `context_only` and `no_text` do not."""
    failure: BaseException | None = None
    result: weakref.ref[Any] | None = None
    """The stream that a workflow has returned, which is its model's or is made of it."""
    pulled_before: _Root | None = None
    pieces: list[str] | None = None
    """The texts of its stream so far."""
    finished: bool = False

    def enter(self) -> None:
        """Note that the application asks for the next piece, in this thread or task."""
        self.pulled_before = _pulled.get()
        _pulled.set(self)

    def exit(self) -> None:
        """Note that the piece has come."""
        _pulled.set(self.pulled_before)

    def take(self, item: Any) -> None:
        """Note one piece: a text, or a chat's reply."""
        try:
            text = item if type(item) is str else item.delta
            pieces = self.pieces
            if pieces is not None:
                pieces.append(text or "")
            elif text:
                self.pieces = pieces = self.recorder.pieces(self.id, began=True)
                pieces.append(text)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def end(
        self,
        failure: BaseException | None = None,
        *,
        whole: bool = False,
        outputs: Any = None,
        asked: bool = True,
    ) -> None:
        """End the interaction: nothing more comes, or nobody reads on."""
        if self.finished:
            return
        self.finished = True
        with _capture:
            self.result = None  # whose callback holds this object
            # The root knows by itself whether its answer is whole; no stream may stay open.
            for id_ in [*self.generators, *self.streams]:
                if id_ != self.id:
                    self.recorder.ended(id_)
            self.streams.clear()
            if failure is not None and not isinstance(failure, GeneratorExit):
                self.recorder.failed(self.id, failure)
                return
            self.recorder.ended(
                self.id,
                outputs,
                status="ok" if whole else "partial",
                asked=asked,
                named=lambda _: self.shown or None,
            )

    def finish_chat(self) -> None:
        """Hand a streaming chat over as soon as both its call and its writer are done.

        They end in different threads, in either order; each sets its mark before it looks.
        """
        if self.returned and self.written:
            self.end(self.failure, whole=self.failure is None)

    def note_synthesized(self) -> None:
        """Note what the synthesizer was given as what the model saw.

        Nothing was found, an engine names no sources, or it failed after retrieval.
        """
        if self.synthesized is not None:
            self.shown = note_nodes(node for nodes in self.synthesized for node in nodes)


class _Call(NamedTuple):
    """A call that LlamaIndex tells of as a span that began."""

    id: str
    role: Role
    arguments: Mapping[str, Any]
    instance: Any
    tags: Mapping[str, Any] | None


class SpanListener(BaseSpanHandler[BaseSpan]):
    """Follows spans from their parent links; builds no span of its own."""

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "RagMonitorSpanListener"

    def span_enter(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note that a span began."""
        recorder = _listening.recorder
        if recorder is None:
            return
        try:
            role = role_of(id_, instance)
            above = None if parent_id is None else recorder.run(parent_id)
            if role is _OTHER or (role is _ASKING and not reranks(bound_args.arguments)):
                if above is not None:
                    recorder.follow(id_, above)
                return
            if above is not None and above.root.ended_ns:
                # It has ended, and left something at work, which may be a part of a block.
                if role not in (_RETRIEVER, _MODEL, _TOOL):
                    return
                above = None
            if role is _MODEL and (above is None or above.details.role is _WRITER):
                # A model is asked while a stream is read, or by a chat that drains the stream of an
                # engine which is an interaction of its own.
                pulled = _pulled.get()
                above = (pulled and recorder.run(pulled.id)) or above
            call = _Call(id_, role, bound_args.arguments, instance, tags)
            if above is not None:
                _begin_member(call, parent_id, above, recorder)
            elif (
                role is _ENGINE
                or role is _WORKFLOW
                or (current_interaction() is not None and role is not _WRITER)
            ):
                _begin_root(call, None, recorder)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            _note_loss(parent_id, error)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,  # noqa: ARG002
        result: Any | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note that a span's call returned."""
        recorder = _listening.recorder
        try:
            run = None if recorder is None else recorder.run(id_)
            if recorder is None or run is None:
                return
            note, root = run.details, run.root.details
            if root is None:
                recorder.ended(id_)  # the root ended before it
            elif run.id != id_:
                if isinstance(note.instance, StructuredLLM) and _is_reply(result):
                    note.inner = note_reply(result)
                if type(result) in _GENERATORS and not root.finished:
                    root.generators.append(id_)
                else:
                    recorder.ended(id_)
            elif note.role is _MODEL and not _is_reply(result):
                root.streams[id_] = note.instance
                _hear_events()
            elif note.role is _WRITER:
                recorder.ended(id_)
                root.written = True
                root.finish_chat()
            elif note is not root:
                recorder.ended(id_, _given(run, result, recorder))
            elif note.role is _ENGINE or note.role is _WORKFLOW or note.role is _SYNTHESIS:
                _returned(root, result)
            else:
                root.end(whole=True, outputs=_given(run, result, recorder))
        except Exception as error:  # noqa: BLE001 - the border to the host application
            _note_loss(id_, error)

    def span_drop(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,  # noqa: ARG002
        err: BaseException | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note that a span's call raised."""
        with _capture:
            recorder = _listening.recorder
            run = None if recorder is None else recorder.run(id_)
            if recorder is None or run is None:
                return
            root = run.root.details
            failure = RuntimeError("dropped") if err is None else err
            if run.id != id_ or root is None:
                recorder.ended(id_)
            elif run.details is root:
                root.note_synthesized()
                root.end(failure)
            elif run.details.role is _WRITER:
                recorder.ended(id_)
                root.failure = failure
                root.written = True
                root.finish_chat()
            else:
                recorder.failed(id_, failure)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Build nothing: spans are followed by id alone."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; see `span_exit`."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; see `span_drop`."""


def _begin_root(call: _Call, above: Run | None, recorder: Recorder) -> bool:
    """Start an interaction, or a run that the application calls by itself: a part of a block's.

    Below another run only if the application chooses so.
    """
    id_, role, arguments, instance, tags = call
    if role is _WORKFLOW:
        tags = active_instrument_tags.get()
    kind, name, inputs = _called(role, instance, arguments)
    parent_id = None if above is None else above.id
    picked = recorder.picks(name, tags_in(tags) if tags else None, parent_id)
    if above is not None and not picked:
        return False
    root = _Root(
        role=_RERANKER if role is _ASKING else role,
        id=id_,
        recorder=recorder,
        tags=dict(tags) if tags else None,
        instance=instance,
        synthesized=[arguments.get("nodes") or ()] if role is _SYNTHESIS else None,
    )
    asked = role is _ENGINE or role is _SYNTHESIS
    run = recorder.started(id_, parent_id, kind, name, inputs, root, asked=asked, picked=picked)
    if above is not None and run is not above:
        above.details.answered = True
    return run is not None


def _begin_member(call: _Call, parent_id: str | None, above: Run, recorder: Recorder) -> None:
    """Start a run below another one, or a step."""
    id_, role, arguments, instance, _ = call
    root, place = above.root.details, above.details.role
    # An asynchronous stream over a model's own synchronous one is two calls to LlamaIndex, one to
    # the model.
    streams = root.streams and [*root.streams.items()]
    is_inner = streams and any(llm is instance and ".astream_" in id_ for id_, llm in streams)
    if (
        role is _RETRIEVER
        or (role is _TOOL and place is not _TOOL)
        or (role is _MODEL and place is not _MODEL and not is_inner)
    ):
        kind, name, inputs = _called(role, instance, arguments)
        if role is _MODEL and place is _RERANKER:
            inputs = None  # what a reranker asks shows the model that answers nothing
        note = Note(role, instance if role is _MODEL else None)
        recorder.started(id_, above.id, kind, name, inputs, note)
    elif role is _RERANKER or role is _ASKING or (role is _WRITER and parent_id == root.id):
        if role is _WRITER:
            _hear_events()
        run = Run(id_, above, "chain", "", None)
        run.details = Note(role if role is _WRITER else _RERANKER)
        recorder.follow(id_, run)
    elif not ((role is _ENGINE or role is _WORKFLOW) and _begin_root(call, above, recorder)):
        # An engine inside an agent, a model inside a model, a synthesizer.
        recorder.follow(id_, above)
        if role is _SYNTHESIS and above.details is root and root.role is _ENGINE:
            nodes = arguments.get("nodes")
            if nodes is not None:
                root.synthesized = [*(root.synthesized or ()), nodes]
            root.asks = not isinstance(instance, (ContextOnly, NoText))


class EventListener(BaseEventHandler):
    """Reads a few kinds of events; see the module's docstring for why.

    On the dispatcher from the first stream on: without one there is nothing that it could tell.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "RagMonitorEventListener"

    def handle(self, event: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Note one event."""
        kind, recorder = type(event), _listening.recorder
        if kind not in _READ or recorder is None:
            return
        try:
            span_id = event.span_id
            run = None if span_id is None else recorder.run(span_id)
            root = None if run is None else run.root.details
            if run is None or root is None:
                return
            if kind is StreamChatDeltaReceivedEvent:
                if run.details.role is _WRITER:
                    recorder.piece(root.id, event.delta)
            # A subclass tells of a call within its own by its base's event alone.
            elif (id_ := str(run.id if run.details.role is _MODEL else span_id)) in root.streams:
                del root.streams[id_]
                failure = event.exception if isinstance(event, ExceptionEvent) else None
                reply = None if failure is not None else note_reply(event.response)
                if id_ == root.id:
                    root.end(failure, whole=failure is None, outputs=reply)
                elif failure is None or isinstance(failure, GeneratorExit):
                    # Whoever reads a model's stream may stop when it has enough; whether the answer
                    # is whole, the root knows.
                    recorder.ended(id_, reply)
                else:
                    recorder.failed(id_, failure)
                if root.result is not None and not root.streams:
                    root.end(failure, whole=failure is None)  # a workflow's, as its stream
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)


_READ = frozenset(
    {LLMChatEndEvent, LLMCompletionEndEvent, ExceptionEvent, StreamChatDeltaReceivedEvent}
)


def _called(role: Role, instance: Any, arguments: Mapping[str, Any]) -> tuple[RunKind, str, Any]:
    """Return the kind, the name and the inputs of the run that a call is."""
    name = type(instance).__name__
    if role is _MODEL:
        return "model", name, note_prompt(arguments)
    if role is _TOOL:
        with contextlib.suppress(Exception):  # a tool of the application's own may not say
            name = instance.metadata.name or name
        passed = (*arguments.get("args", ()), *arguments.get("kwargs", {}).values())
        texts = (each for each in passed or arguments.values() if isinstance(each, str))
        return "tool", name, next(texts, "")
    if role is _WORKFLOW:
        return "chain", name, arguments.get("start_event")
    if role is _SYNTHESIS:
        return "chain", name, arguments.get("query")
    query = next(iter(arguments.values()), None)
    return ("retriever" if role is _RETRIEVER else "chain"), name, query


def _given(run: Run, result: Any, recorder: Recorder) -> Any:
    """Return what the recorder keeps of a call's result."""
    note = run.details
    if note.role is _MODEL:
        reply = note_reply(result)
        if reply is not None and note.inner is not None:
            reply = reply._replace(extra=note.inner.raw)  # the tokens' counts
        return reply
    if note.role is _RETRIEVER:
        return note_nodes(result or ())
    if note.role is not _TOOL or note.answered:
        return None
    nodes = note_tool_nodes(result)
    if nodes:
        return note_nodes(nodes)
    called = getattr(result, "tool_name", None)
    if not called or not recorder.is_retrieval_tool(called) or getattr(result, "is_error", False):
        return None
    return getattr(result, "content", None) or None


def _is_reply(result: Any) -> bool:
    """Return whether a model gave all it will give, and not a stream."""
    # By type: asking a pydantic model for what it lacks costs as much as all of this, and so does
    # `isinstance` of a pydantic class that it is not.
    return (
        (kind := type(result)) is CompletionResponse
        or kind is ChatResponse
        or result is None
        or isinstance(result, (CompletionResponse, ChatResponse))
    )


def _note_loss(span_id: str | None, error: Exception) -> None:
    """Note an error; the interaction is incomplete, and must not be scored as if it were whole."""
    record_error("capture", error)
    with _capture:
        recorder = _listening.recorder
        run = None if recorder is None or span_id is None else recorder.run(span_id)
        if run is not None:
            run.root.lost += 1


def _returned(root: _Root, result: Any) -> None:
    """Note the result of a root's call: the answer, or a stream that is yet to be read."""
    if root.role is _WORKFLOW:
        if result is None:  # a run that its user cancelled; every other one gives a `StopEvent`
            root.end(asyncio.CancelledError())
            return
        result = note_stop_event(result)
        values = result.values() if type(result) is dict else (result,)
        stream = next((each for each in values if type(each) in _GENERATORS), None)
        if root.streams and stream is not None:
            # Read after the workflow has ended: its model's end, or that nobody reads it, is the
            # answer's.
            root.result = weakref.ref(stream, lambda _: root.end())
            return
    sources = note_sources(result)
    if sources:
        root.shown = note_nodes(sources)
    else:
        root.note_synthesized()
    root.synthesized = None
    if isinstance(result, (StreamingResponse, AsyncStreamingResponse)):
        if result.response_txt is None:
            result.response_gen = read_stream(result.response_gen, root)
        else:
            root.end(whole=True, outputs=result.response_txt)
    elif not isinstance(result, StreamingAgentChatResponse):
        # As it is now: the application may change it.
        answer = {**result} if isinstance(result, Mapping) else getattr(result, "response", result)
        root.end(whole=True, outputs=answer, asked=bool(answer) and root.asks)
    else:
        root.returned = True
        writers = result.write_response_to_history_thread, result.awrite_response_to_history_task
        if not root.written and writers == (None, None):
            # LlamaIndex's own engines drain each of their streams.
            root.end(whole=True, outputs=result.response)
        root.finish_chat()


class _Listening:
    """The state of listening in this process: for which monitor."""

    recorder: Recorder | None = None


_listening = _Listening()
_spans, _events = SpanListener(), EventListener()
_lock = ForkSafeLock()  # around (un)instrument only, never around a call
_pulled: ContextVar[_Root | None] = ContextVar("ragmonitor_llama_index_pulled", default=None)
"""The interaction whose stream is being advanced right now, in this thread or task.

Set and put back within one call of the application's, and only read by spans without a parent.
"""
_translator = LlamaIndexTranslator()


def instrument(monitor: Monitor) -> None:
    """Record every query, chat and agent run in this process from now on.

    Called again it changes nothing; with another monitor, that one records instead.
    """
    with _lock:
        _listening.recorder = monitor.recorder(_translator)
        dispatcher = get_dispatcher()
        if not any(h is _spans for h in dispatcher.span_handlers):
            dispatcher.add_span_handler(_spans)


def _hear_events() -> None:
    """Attach the event handler, if it is not. A stream has begun; its events are yet to come.

    Not from the beginning: an application without streams need not pay for its every event.
    """
    dispatcher = get_dispatcher()
    if not any(h is _events for h in dispatcher.event_handlers):
        dispatcher.add_event_handler(_events)


def uninstrument() -> None:
    """Record nothing new; of a stream that is being read, what is known without its events."""
    with _lock:
        _listening.recorder = None
        # New lists: LlamaIndex may be walking the old ones in another thread.
        dispatcher = get_dispatcher()
        dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not _spans]
        dispatcher.event_handlers = [h for h in dispatcher.event_handlers if h is not _events]
