"""Listens to LlamaIndex's dispatcher and reports to a `Recorder`.

Spans carry nearly everything: the inputs, the real results, parents and failures. Events are read
for two things only that spans do not carry: the final output of a streamed model call, with its
token counts (the span exits before the first token), and the pieces of a chat's stream.

No class is patched, no lock is held, no context is attached; whatever goes wrong here is logged
and counted by `record_error` (LlamaIndex itself would swallow it silently).
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Mapping
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
from llama_index_instrumentation.base import BaseEvent
from llama_index_instrumentation.dispatcher import active_instrument_tags

from ragmonitor import current_interaction
from ragmonitor.integration import (
    ForkSafeLock,
    Recorder,
    RunKind,
    StreamListener,
    oldest_of,
    read_stream,
    record_error,
    shielded,
)
from ragmonitor_llama_index.roles import Role, reranks, role_of
from ragmonitor_llama_index.translate import (
    LlamaIndexTranslator,
    Note,
    NotedReply,
    note_answer,
    note_nodes,
    note_prompt,
    note_reply,
    note_sources,
    note_stop_event,
    note_tool_nodes,
    note_tool_query,
    note_tool_text,
    tags_in,
)

if TYPE_CHECKING:
    from ragmonitor import Monitor

_GENERATORS = frozenset({GeneratorType, AsyncGeneratorType})
_capture = shielded("capture")
_MAX_PLACES = 200_000
_FORGOTTEN_AT_ONCE = 200
_places: dict[str, _Place] = {}
"""The places by span id, for every open span below a root, and the root itself.

Of this module and not of a handler: handlers are pydantic models, whose attributes are slow.
"""

# Names of this module: an enumeration's own are looked up at twice the price, 50 times per query.
_OTHER, _ENGINE, _WORKFLOW, _RETRIEVER, _MODEL, _TOOL, _SYNTHESIS, _WRITER, _RERANKER, _ASKING = (
    Role
)


@dataclass(slots=True, eq=False)
class _Place:
    """The recorded run that a span belongs to: the nearest one above it, or itself."""

    id: str
    role: Role
    # None instead of itself: a cycle would wait for the garbage collector, with its texts.
    above: _Root | None = None
    run_id: str = ""
    """The recorder's run: the span's own, except for a chat's writer and a reranker."""
    instance: Any = None
    """The model, by which a stream is told from its own inner calls."""
    inner: NotedReply | None = None
    """The reply within a structured model's call, which drops it."""
    answered: bool = False
    """Whether an engine in this tool is an interaction of its own, whose answer is no retrieval."""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or self.id

    @property
    def root(self) -> _Root:
        """The interaction that it belongs to."""
        return self if self.above is None else self.above  # type: ignore[return-value]


@dataclass(slots=True, eq=False, kw_only=True)
class _Root(_Place, StreamListener):
    """An interaction, from its engine's call to the last token; or a part of a block's.

    It listens to the stream of its answer: LlamaIndex's query span exits before a token exists, and
    its model's span opens only while the stream is consumed, without a parent.
    """

    recorder: Recorder
    note: Note
    streams: dict[str, _Place] = field(default_factory=dict)
    """Streamed model runs that are still open."""
    generators: list[str] = field(default_factory=list)
    """Calls below it that returned a generator."""
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

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that nothing more comes, or that nobody reads on."""
        self.finish(failure, whole=whole)

    def finish(
        self,
        failure: BaseException | None = None,
        *,
        whole: bool = True,
        outputs: Any = None,
        asked: bool = True,
    ) -> None:
        """End the interaction; only the first call counts."""
        if self.finished:
            return
        self.finished = True
        with _capture:
            self.result = None  # whose callback holds this object
            for id_ in (self.id, *self.generators, *self.streams):
                _places.pop(id_, None)
            while self.streams:
                # The root knows by itself whether its answer is whole; no stream may stay open.
                id_, _ = self.streams.popitem()
                if id_ != self.id:
                    self.recorder.ended(id_)
            if failure is not None:
                self.recorder.failed(self.id, failure)
                return
            self.recorder.ended(
                self.id,
                outputs,
                status="ok" if whole else "partial",
                asked=asked,
                named=lambda _: self.note.shown or None,
            )

    def keeps(self, id_: str) -> bool:
        """Keep the place of a call that returned a generator until the root ends.

        A reader of the generator in the call's own context, such as OpenInference, lets the model
        begin as this call's child, though it has returned. Returns whether the root is open.
        """
        if not self.finished:
            self.generators.append(id_)
        return not self.finished

    def finish_chat(self) -> None:
        """Hand a streaming chat over as soon as both its call and its writer are done.

        They end in different threads, in either order; each sets its mark before it looks.
        """
        if self.returned and self.written:
            self.finish(self.failure)


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
        try:
            role = role_of(id_, instance)
            place = None if parent_id is None else _places.get(parent_id)
            if role is _OTHER or (role is _ASKING and not reranks(bound_args.arguments)):
                if place is not None:
                    _keep(id_, place)
                return
            if role is _MODEL and (place is None or place.role is _WRITER):
                # A model is asked while a stream is read, or by a chat that drains the stream of an
                # engine which is an interaction of its own.
                place = _pulled.get() or place
            call = _Call(id_, role, bound_args.arguments, instance, tags)
            recorder = _listening.recorder
            if place is not None:
                _begin_member(call, parent_id, place)
            elif recorder is None:
                pass
            elif role is _ENGINE or role is _WORKFLOW:
                _begin_root(call, recorder, None)
            else:
                _begin_part(call, recorder)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)
            _note_loss(parent_id)

    def span_exit(
        self,
        id_: str,
        bound_args: inspect.BoundArguments,  # noqa: ARG002
        instance: Any | None = None,  # noqa: ARG002
        result: Any | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Note that a span's call returned."""
        try:
            place = _places.get(id_)
            if place is None:
                return
            if place.id != id_:
                if isinstance(place.instance, StructuredLLM) and _is_reply(result):
                    place.inner = note_reply(result)
                if type(result) not in _GENERATORS or not place.root.keeps(id_):
                    del _places[id_]
                return
            role, root = place.role, place.root
            if role is _MODEL and not _is_reply(result):
                root.streams[id_] = place
                _listening.hear_events()
            elif role is _ENGINE or role is _WORKFLOW or role is _SYNTHESIS:
                _returned(root, result)
            elif role is _WRITER:
                del _places[id_]
                root.written = True
                root.finish_chat()
            else:
                outputs = _given(place, result)
                if place is root:
                    root.finish(outputs=outputs)
                else:
                    del _places[id_]
                    root.recorder.ended(id_, outputs)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)
            _note_loss(id_)

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
            place = _places.pop(id_, None)
            if place is None or place.id != id_:
                return
            root = place.root
            failure = RuntimeError("dropped") if err is None else err
            if place is root:
                _note_synthesized(root)
                root.finish(failure)
            elif place.role is _WRITER:
                root.failure = failure
                root.written = True
                root.finish_chat()
            else:  # unknown to the recorder, if it is a reranker
                root.recorder.failed(id_, failure)

    def new_span(self, *args: Any, **kwargs: Any) -> None:
        """Build nothing: spans are followed by id alone."""

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; see `span_exit`."""

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing; see `span_drop`."""


def _begin_root(call: _Call, recorder: Recorder, place: _Place | None) -> bool:
    """Start an interaction; below another, only if the application chooses so."""
    id_, role, arguments, instance, tags = call
    name = type(instance).__name__
    query = next(iter(arguments.values()), None)
    if role is _WORKFLOW:
        tags = active_instrument_tags.get()
        query = arguments.get("start_event")
    parent_id = None if place is None else place.run_id
    picked = (recorder.chooses or bool(tags)) and recorder.picks(
        name, tags_in(tags) if tags else None, parent_id
    )
    if place is not None and not picked:
        return False
    note = Note(dict(tags) if tags else None)
    recorder.started(
        id_, parent_id, "chain", name, query, note, asked=role is _ENGINE, picked=picked
    )
    if place is not None:
        if recorder.is_step(id_):  # within a retriever
            recorder.ended(id_)
            return False
        place.answered = True
    _keep(id_, _Root(id=id_, role=role, recorder=recorder, note=note))
    return True


def _begin_part(call: _Call, recorder: Recorder) -> None:
    """Start a run that the application calls by itself: a part of its interaction."""
    id_, role, arguments, instance, tags = call
    if current_interaction() is None or role is _WRITER:
        return
    note = Note(dict(tags) if tags else None, instance if role is _MODEL else None)
    root = _Root(id=id_, role=_RERANKER if role is _ASKING else role, recorder=recorder, note=note)
    root.instance = instance
    if role is _SYNTHESIS:
        note.synthesized = [arguments.get("nodes") or ()]
        query = arguments.get("query")
        recorder.started(id_, None, "chain", type(instance).__name__, query, note, asked=True)
    elif root.role is not _RERANKER:  # whose own models are parts
        kind, name, inputs = _called(role, instance, arguments)
        recorder.started(id_, None, kind, name, inputs, note)
    _keep(id_, root)


def _begin_member(call: _Call, parent_id: str | None, place: _Place) -> None:
    """Start a run below another one, or keep the place of what is none."""
    id_, role, arguments, instance, _ = call
    root = place.root
    is_run = (
        role is _RETRIEVER
        or (role is _TOOL and place.role is not _TOOL)
        or (
            role is _MODEL
            and place.role is not _MODEL
            and not (root.streams and _is_inner(root.streams, instance))
        )
    )
    if is_run:
        kind, name, inputs = _called(role, instance, arguments)
        own = _Place(id_, role, root, instance=instance if role is _MODEL else None)
        _keep(id_, own)
        if role is _MODEL and place.role is _RERANKER:
            inputs = None  # what a reranker asks shows the model that answers nothing
        root.recorder.started(id_, place.run_id, kind, name, inputs, own.instance)
    elif role is _WRITER and parent_id == root.id:
        _keep(id_, _Place(id_, role, root, run_id=root.id))
        _listening.hear_events()
    elif role is _RERANKER or role is _ASKING:
        _keep(id_, _Place(id_, _RERANKER, root, run_id=place.run_id))
    elif not ((role is _ENGINE or role is _WORKFLOW) and _begin_root(call, root.recorder, place)):
        # An engine inside an agent, a model inside a model, a synthesizer.
        _keep(id_, place)
        if role is _SYNTHESIS and place is root and root.role is _ENGINE:
            nodes = arguments.get("nodes")
            if nodes is not None:
                note = root.note
                note.synthesized = [*(note.synthesized or ()), nodes]
            root.asks = not isinstance(instance, (ContextOnly, NoText))


class EventListener(BaseEventHandler):
    """Reads a few kinds of events; see the module's docstring for why.

    On the dispatcher from the first stream on: without one there is nothing that it could tell.
    """

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return "RagMonitorEventListener"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:  # noqa: ARG002
        """Note one event."""
        kind = type(event)
        if kind not in _READ:
            return
        try:
            span_id = event.span_id
            place = None if span_id is None else _places.get(span_id)
            if place is None or span_id is None:
                return
            root = place.root
            if place.role is _MODEL and place.id in root.streams:
                span_id = place.id  # of a call within it: a subclass tells by its base's alone
            if kind is StreamChatDeltaReceivedEvent:
                if place.role is _WRITER:
                    root.recorder.piece(root.id, event.delta)  # type: ignore[attr-defined]
            elif span_id in root.streams:
                del root.streams[span_id]
                _hear_end(root, span_id, event)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)


_READ = frozenset(
    {LLMChatEndEvent, LLMCompletionEndEvent, ExceptionEvent, StreamChatDeltaReceivedEvent}
)


def _hear_end(root: _Root, span_id: str, event: Any) -> None:
    failure = event.exception if isinstance(event, ExceptionEvent) else None
    reply = None if failure is not None else note_reply(event.response)
    if span_id == root.id:
        root.finish(failure, outputs=reply)
        return
    _places.pop(span_id, None)
    if failure is None or isinstance(failure, GeneratorExit):
        # Whoever reads a model's stream may stop when it has enough; whether the answer is whole,
        # the root knows.
        root.recorder.ended(span_id, reply)
    else:
        root.recorder.failed(span_id, failure)
    if root.result is not None and not root.streams:  # a workflow's, which ends with its stream
        root.finish(failure)


def _is_inner(streams: Mapping[str, _Place], instance: Any) -> bool:
    """Return whether this call belongs to a stream of the same model that is being read.

    An asynchronous stream over a model's own synchronous one: two calls to LlamaIndex, one to the
    model.
    """
    return any(p.instance is instance and ".astream_" in p.id for p in [*streams.values()])


def _called(role: Role, instance: Any, arguments: Mapping[str, Any]) -> tuple[RunKind, str, Any]:
    """Return the kind, the name and the inputs of the run that a call is."""
    if role is _MODEL:
        return "model", type(instance).__name__, note_prompt(arguments)
    if role is _TOOL:
        return "tool", _tool_name(instance), note_tool_query(arguments)
    return "retriever", type(instance).__name__, next(iter(arguments.values()), None)


def _given(place: _Place, result: Any) -> Any:
    """Return what the recorder keeps of a call's result."""
    if place.role is _MODEL:
        reply = note_reply(result)
        if reply is not None and place.inner is not None:
            reply = reply._replace(extra=place.inner.raw)  # the tokens' counts
        return reply
    if place.role is _RETRIEVER:
        return note_nodes(result or ())
    if place.role is _TOOL and not place.answered:
        return _retrieved(place.root.recorder, result)
    return None


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


def _retrieved(recorder: Recorder, output: Any) -> Any:
    """Return what a tool retrieved: nodes, or the text of a retrieval tool; None: nothing."""
    nodes = note_tool_nodes(output)
    if nodes:
        return note_nodes(nodes)
    name = getattr(output, "tool_name", None)
    return note_tool_text(output) if name and recorder.is_retrieval_tool(name) else None


def _tool_name(instance: Any) -> str:
    try:
        name = instance.metadata.name
    except Exception:  # noqa: BLE001 - a tool of the application's own may not say
        name = None
    return name or type(instance).__name__


def _keep(id_: str, place: _Place) -> None:
    if len(_places) >= _MAX_PLACES:
        _forget_oldest()
    _places[id_] = place


def _forget_oldest() -> None:
    """Forget spans that never ended, some at once; their runs age out of the recorder."""
    for id_, place in oldest_of(_places, _FORGOTTEN_AT_ONCE):
        if _places.pop(id_, None) is not None:
            place.root.recorder.lost(place.run_id)


def _note_loss(span_id: str | None) -> None:
    """Note that an interaction is incomplete: it must not be scored as if it were whole."""
    with _capture:
        place = None if span_id is None else _places.get(span_id)
        if place is not None:
            place.root.note.incomplete = True


def _returned(root: _Root, result: Any) -> None:
    """Note the result of a root's call: the answer, or a stream that is yet to be read."""
    if root.role is _WORKFLOW:
        if result is None:  # a run that its user cancelled; every other one gives a `StopEvent`
            root.finish(asyncio.CancelledError())
            return
        result = note_stop_event(result)
        if root.streams and (stream := _stream_in(result)) is not None:
            # Read after the workflow has ended: its model's end, or that nobody reads it, is the
            # answer's.
            root.result = weakref.ref(stream, lambda _: root.finish(whole=False))
            return
    sources = note_sources(result)
    if sources:
        root.note.shown = note_nodes(sources)
    else:
        _note_synthesized(root)
    root.note.synthesized = None
    if isinstance(result, (StreamingResponse, AsyncStreamingResponse)):
        if result.response_txt is None:
            result.response_gen = read_stream(result.response_gen, root)
        else:
            root.finish(outputs=result.response_txt)
    elif isinstance(result, StreamingAgentChatResponse):
        _returned_chat(root, result)
    else:
        answer = note_answer(result)
        root.finish(outputs=answer, asked=bool(answer) and root.asks)


def _stream_in(result: Any) -> Any:
    """Return the generator that a workflow has returned, perhaps in a dict; None: there is none."""
    values = result.values() if type(result) is dict else (result,)
    return next((value for value in values if type(value) in _GENERATORS), None)


def _returned_chat(root: _Root, chat: StreamingAgentChatResponse) -> None:
    root.returned = True
    if (
        root.written
        or chat.write_response_to_history_thread is not None
        or chat.awrite_response_to_history_task is not None
    ):
        root.finish_chat()
    else:
        root.finish(outputs=chat.response)  # LlamaIndex's own engines drain each of their streams


def _note_synthesized(root: _Root) -> None:
    # Nothing was found, an engine that names no sources, or a failure after retrieval: what the
    # synthesizer was given is what the model saw.
    lists = root.note.synthesized
    if lists is not None:
        root.note.shown = note_nodes(node for nodes in lists for node in nodes)


class _Listening:
    """The state of listening in this process: whether, and for which monitor."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.spans = SpanListener()
        self.events = EventListener()
        self.hears_events = False
        self._lock = ForkSafeLock()  # around (un)instrument only, never around a call

    def listen(self, recorder: Recorder) -> None:
        with self._lock:
            self.recorder = recorder
            dispatcher = get_dispatcher()
            if not any(h is self.spans for h in dispatcher.span_handlers):
                dispatcher.add_span_handler(self.spans)

    def hear_events(self) -> None:
        """Attach the event handler, if it is not. A stream has begun; its events are yet to come.

        Not from the beginning: an application without streams need not pay for its every event.
        """
        if not self.hears_events:
            self.hears_events = True
            get_dispatcher().add_event_handler(self.events)

    def stop(self) -> None:
        with self._lock:
            self.recorder = None
            # New lists: LlamaIndex may be walking the old ones in another thread.
            dispatcher = get_dispatcher()
            dispatcher.span_handlers = [h for h in dispatcher.span_handlers if h is not self.spans]
            dispatcher.event_handlers = [
                h for h in dispatcher.event_handlers if h is not self.events
            ]
            self.hears_events = False
            _places.clear()


_listening = _Listening()
_pulled: ContextVar[_Root | None] = ContextVar("ragmonitor_llama_index_pulled", default=None)
"""The interaction whose stream is being advanced right now, in this thread or task.

Set and put back within one call of the application's, and only read by spans without a parent.
"""
_translator = LlamaIndexTranslator()


def instrument(monitor: Monitor) -> None:
    """Record every query, chat and agent run in this process from now on.

    Called again it changes nothing; with another monitor, that one records instead.
    """
    _listening.listen(monitor.recorder(_translator))


def uninstrument() -> None:
    """Record nothing new; of a stream that is being read, what is known without its events."""
    _listening.stop()
