"""The callback handler, and the hook that gives it to every run of the process.

Each callback runs inside the application's request. It notes references and returns: no span, no
context, no lock. Reading what was noted is `translate.py`'s work, behind the request.
"""

# ruff: noqa: ARG002 - LangChain's signatures, named in full: what `**_` catches costs more

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.tracers import context as tracer_context
from langchain_core.tracers.context import register_configure_hook

from ragmonitor.integration import (
    ForkSafeLock,
    KeptDocuments,
    RunKind,
    part_text,
    record_error,
    shielded,
)
from ragmonitor_langchain.stores import forget_stores, watch_stores
from ragmonitor_langchain.translate import (
    LangChainTranslator,
    LastPiece,
    keep,
    kept_in,
    named_documents,
    tool_messages,
    tool_text,
)

if TYPE_CHECKING:
    from ragmonitor import Monitor

_STAGE = "capture"
_capture = shielded(_STAGE)
_ABSENT: Any = object()
_DEFERRED = {"input": ""}
"""LangChain's placeholder for the input of a stream, which is known only at its end."""

_EACH = "RunnableEach<"
"""The beginning of the name of `chain.map()`."""

_lock = ForkSafeLock()


class RagMonitorHandler(BaseCallbackHandler):
    """Observes the calls it is given to: `chain.invoke(x, {"callbacks": [handler]})`.

    The handlers of one monitor are equal: LangChain keeps out what equals a handler that it already
    holds, and so a call is counted once even if `instrument` is on as well.
    """

    raise_error = False
    run_inline = True
    # Plain attributes: LangChain asks for one of them at every event, and a property is a call.
    ignore_llm = False
    ignore_chain = False
    ignore_agent = False
    ignore_retriever = False
    ignore_chat_model = False
    ignore_retry = True
    ignore_custom_event = True

    def __init__(self, monitor: Monitor) -> None:
        """Report to this monitor."""
        super().__init__()
        self.monitor = monitor
        recorder = monitor.recorder(LangChainTranslator())
        # Bound once: these are called some twenty times per request, and once per token.
        self._started = recorder.started
        self._pieces = recorder.pieces
        self._writing: tuple[UUID | None, Callable[[str], None]] = (None, list[str]().append)
        self._ended = recorder.ended
        self._run = recorder.run
        self._follow, self._picks = recorder.follow, recorder.picks
        self.recorder = recorder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RagMonitorHandler) and other.recorder is self.recorder

    def __hash__(self) -> int:
        return hash(self.recorder)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # --- chains -----------------------------------------------------------------------------

    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        name: str | None = None,
        defers_inputs: Any = _ABSENT,
        **_: Any,
    ) -> None:
        """Note that a chain, a graph or one of its nodes began."""
        try:
            # As `_key`, written out in the callbacks that run most often.
            key = run_id.int if type(run_id) is UUID else run_id
            parent = parent_run_id.int if type(parent_run_id) is UUID else parent_run_id
            called = name or _name_in(serialized)
            picked = self._picks(called, tags, parent)
            above = None if parent is None else self._run(parent)
            if above is not None and not picked:
                self._follow(key, above)
                return
            if parent is None and not picked and called.startswith(_EACH):
                return  # many questions at once: each of its own runs is a root
            kept = None
            if defers_inputs is _ABSENT or inputs != _DEFERRED:
                kept = _safely(keep, inputs)
            thread = resumes = None
            if metadata and "thread_id" in metadata:
                thread = str(metadata["thread_id"]), metadata.get("checkpoint_ns"), called
                # LangGraph goes on with a thread that is given a command, or nothing; an agent with
                # what a tool gave that runs elsewhere, in the user's browser for one.
                if (
                    inputs is None
                    or type(inputs).__name__ == "Command"
                    or isinstance(_last_message(inputs), ToolMessage)
                ):
                    resumes = thread
            self._started(
                key,
                parent,
                "chain",
                called,
                kept,
                (tags, metadata, None),
                picked=picked,
                thread=thread,
                resumes=resumes,
            )
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def on_chain_end(
        self,
        outputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        inputs: Any = None,
        **_: Any,
    ) -> None:
        """Note a chain's output, and the input of a stream, which is known only now."""
        try:
            key = run_id.int if type(run_id) is UUID else run_id
            run = self._run(key)
            if run is None or run.id != key:
                self._ended(key)  # between root and retriever or model
                return
            kept = _safely(keep, outputs)
            if inputs is not None and kept is not None and not hasattr(type(outputs), "__add__"):
                kept = LastPiece(kept)
            is_search = parent_run_id is None and type(kept) is KeptDocuments
            if is_search and self.recorder.scope() is None:
                self.recorder.forget(key)  # a search, perhaps with its question rewritten
                return
            self._ended(
                key,
                kept,
                inputs=_safely(keep, inputs),
                waits=_waits_for_tools,
                named=named_documents,
            )
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def on_chain_error(
        self, error: BaseException, *, run_id: UUID, inputs: Any = None, **_: Any
    ) -> None:
        """Note that a chain failed, was cancelled, or that its stream was closed early."""
        with _capture:
            key = _key(run_id)
            bubbling = _bubbling(error)
            if bubbling == "":
                self.recorder.failed(key, error, inputs=_safely(keep, inputs))
            elif bubbling == "ParentCommand":
                self._ended(key)
            else:
                self.recorder.interrupted(key)

    # --- retrievers, models and tools: LangChain asks `ignore_agent` for these -------------------

    def on_retriever_start(
        self, serialized: dict[str, Any] | None, query: str, **event: Any
    ) -> None:
        """Note the query of a search."""
        with _capture:
            self._begin("retriever", serialized, query, event)

    def _begin(
        self, kind: RunKind, called: Any, inputs: Any, event: dict[str, Any], details: Any = None
    ) -> None:
        name = event.get("name") or _name_in(called)
        run_id, parent_id = _key(event["run_id"]), _key(event.get("parent_run_id"))
        self._started(run_id, parent_id, kind, name, inputs, details)

    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        """Note the documents, before the application can change them."""
        with _capture:
            self._ended(_key(run_id), _safely(kept_in, documents))

    def on_retriever_error(
        self, error: BaseException, *, run_id: UUID, response: LLMResult | None = None, **_: Any
    ) -> None:
        """Note that a search or a model failed, with what it had said by then."""
        with _capture:
            self.recorder.failed(_key(run_id), error, response)

    on_llm_error = on_retriever_error

    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: Sequence[Sequence[BaseMessage] | Sequence[str]],
        *,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        invocation_params: dict[str, Any] | None = None,
        **event: Any,
    ) -> None:
        """Note that a model is asked."""
        with _capture:
            asked = [*messages[0]] if messages else None  # a copy: agents append to their list
            details = tags, metadata, invocation_params
            self._begin("model", serialized, asked, event, details)

    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], **event: Any
    ) -> None:
        """Note that a completion model is asked."""
        self.on_chat_model_start(serialized, [prompts], **event)

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        run_id: UUID,
        chunk: Any = None,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        **_: Any,
    ) -> None:
        """Note a piece of a stream."""
        try:
            if type(token) is not str:
                token = "".join(map(part_text, token))
            # A hundred times per answer, and nearly always of the run that the last one was of.
            writing = self._writing
            if writing[0] is not run_id:
                if not token:
                    return  # a stream may begin with pieces without text
                append = self._pieces(_key(run_id), began=True).append
                writing = self._writing = (run_id, append)
            writing[1](token)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error(_STAGE, error)

    def on_stream_event(self, event: Any, *, run_id: UUID, **_: Any) -> None:
        """Note a piece of a stream of protocol events (`stream_events`, v3)."""
        with _capture:
            if event["event"] == "content-block-delta" and event["delta"]["type"] == "text-delta":
                self.recorder.piece(_key(run_id), event["delta"]["text"])

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Note a model's reply."""
        with _capture:
            self._ended(_key(run_id), response)

    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        inputs: dict[str, Any] | None = None,
        **event: Any,
    ) -> None:
        """Note that an agent uses a tool, so that a retriever in it finds its parent."""
        with _capture:
            self._begin("tool", serialized, _safely(keep, inputs) or input_str, event)

    def on_tool_end(self, output: Any, *, run_id: UUID, name: str | None = None, **_: Any) -> None:
        """Note the documents that a tool returned, or a search tool's text."""
        with _capture:
            retrieved: Any = None
            for message in tool_messages(output):
                found = getattr(message, "artifact", message)
                retrieved = _safely(kept_in, found)
                if retrieved is None and name and self.recorder.is_retrieval_tool(name):
                    retrieved = _safely(tool_text, message)
                if retrieved is not None:
                    break
            self._ended(_key(run_id), retrieved)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Note that a tool failed, or waits for a person."""
        with _capture:
            if _bubbling(error):
                self._ended(_key(run_id))
            else:
                self.recorder.failed(_key(run_id), error)


def _key(run_id: Any) -> Any:
    # The number, not the UUID: every look-up would call its `__hash__`, which is Python code.
    return run_id.int if type(run_id) is UUID else run_id


def _bubbling(error: BaseException) -> str:
    """Return the name of the LangGraph signal that came as an exception; empty: it is an error.

    `GraphInterrupt` and `GraphDrained` end a graph half-way, to be resumed later; `ParentCommand`
    hands over to another node. (Its callbacks `on_interrupt` and `on_resume` are called on handlers
    in the call's own config alone, and not on those of a hook; both are in the runs as well.)
    """
    module = sys.modules.get("langgraph.errors")
    if module is None or not isinstance(error, module.GraphBubbleUp):
        return ""
    return "ParentCommand" if isinstance(error, module.ParentCommand) else "GraphInterrupt"


def _last_message(state: Any) -> Any:
    """Return the last message of a graph's input or state; None: it has none."""
    messages = state.get("messages") if type(state) is dict else None
    return messages[-1] if type(messages) is list and messages else None


def _waits_for_tools(kept: Any) -> bool:
    """Return whether an agent has called tools and ended before these ran: at a breakpoint."""
    return bool(getattr(_last_message(kept), "tool_calls", None))


def _safely(read: Callable[[Any], Any], value: Any) -> Any:
    # Shielded apart: a run whose values cannot be kept must start and end all the same.
    if value is None:
        return None
    try:
        return read(value)
    except Exception as error:  # noqa: BLE001 - anybody's objects
        record_error(_STAGE, error)
        return None


def _name_in(serialized: dict[str, Any] | None) -> str:
    if not serialized:
        return ""
    name = serialized.get("name") or (serialized.get("id") or ("",))[-1]
    return name if isinstance(name, str) else ""


_installed: ContextVar[Any] | None = None


def instrument(monitor: Monitor, *, run_inline: bool = True) -> RagMonitorHandler:
    """Observe every chain, retriever and agent of this process from now on; return the handler.

    Nothing is patched: LangChain itself gives the handler to every run, on every thread and task.
    Called again in the same way it changes nothing; with another monitor, that one takes over.

    Args:
        monitor: Where interactions go.
        run_inline: Whether asynchronous calls run the handler on their event loop, which is the
            fast way, or on a thread. While an inline handler is on, LangChain (1.7, 1.8) does not
            tell other handlers of the start of asynchronous completion models; chat models are not
            concerned. False is for applications that have both.
    """
    global _installed  # noqa: PLW0603 - LangChain's hooks are global too
    handler = RagMonitorHandler(monitor)
    with _lock:
        installed = None if _installed is None else _installed.get()
        if installed != handler:
            _remove_hook()
            # A default is seen by all threads and tasks, a set value only by its own context.
            _installed = ContextVar("ragmonitor_langchain", default=handler)
            register_configure_hook(_installed, inheritable=True)
            watch_stores(handler.recorder)
            installed = handler
        installed.run_inline = run_inline
        return installed


def uninstrument() -> None:
    """Stop observing the process; runs that are under way are noted to their end."""
    with _lock, shielded("start"):
        _remove_hook()


def _remove_hook() -> None:
    global _installed
    hook, _installed = _installed, None
    forget_stores()
    if hook is not None:
        # LangChain has no public way back; without this one, the handler stays on.
        hooks = tracer_context._configure_hooks  # noqa: SLF001
        hooks[:] = [entry for entry in hooks if entry[0] is not hook]
