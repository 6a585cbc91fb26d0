"""One call to a model: the notes on it, and how they are read behind the request path."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragmonitor import Chunk
from ragmonitor.integration import Message, Run, Translator, Usage, record_error
from ragmonitor_litellm.extracting import (
    METADATA_KEY,
    Extracted,
    Extractor,
    chunk_of,
    from_metadata,
    last_question,
    text_of,
)

REDACTED = "redacted-by-litellm"
"""litellm puts this in the place of texts that its callbacks must not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The reply of a model, read off litellm's object at once: the application may change it."""

    text: str
    is_answer: bool
    """False: it asks for tools, with or without words."""
    model: str
    usage: Usage


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """The notes on one call while it goes on. Texts are kept by reference and not read yet."""

    run_id: str
    """The recorder's run of the interaction."""
    messages: tuple[Any, ...]
    info: Mapping[str, Any]
    """The facts that litellm tells its callbacks of the call, for extractors; see `KEPT_INFO`."""
    extract: Extractor | None
    model: str
    provider: str
    streams: bool
    is_in_scope: bool
    """The call is a part of a block of plain code."""
    first_token_ns: int = 0
    """The time when the first piece of a stream came."""
    is_cached: bool = False
    """litellm took the reply out of its cache."""
    is_read: bool = False
    """The two below have been read, behind the request path."""
    found: Extracted | None = None
    is_incomplete: bool = False
    """Texts of the call are missing."""

    @property
    def request(self) -> Hashable:
        """The recorder's run of the request."""
        return self.run_id, "request"


class LiteLLMTranslator(Translator):
    """Reads the runs that `RagMonitorLogger` noted.

    The root and its one retriever run stand for the call as a whole. The request is a model run
    with the `Call` as its inputs. Its outputs, and the root's, are a `Reply` if it succeeded.
    """

    framework = "litellm"

    def query(self, run: Run) -> str:
        """Return the question that the last call was about; empty if there is none."""
        found = _extracted(run)
        return "" if found is None else found.query

    def chunks(self, run: Run) -> Sequence[Chunk] | None:
        """Return the chunks that the last call shows; None: it is over no retrieved text."""
        found = _extracted(run)
        return None if found is None else [chunk_of(each) for each in found.chunks]

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the call's chunks; None in a block, where the prompts tell what was shown."""
        return None if _call_of(root).is_in_scope else self.chunks(root)

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return the messages with text."""
        return tuple(
            Message(role=str(message.get("role", "user")), text=text)
            for message in _messages(run.inputs)
            if (text := text_of(message))
        )

    def answer(self, run: Run) -> str:
        """Return the text that the model gave; of the root, only if that is an answer."""
        reply = run.outputs
        if not isinstance(reply, Reply):
            return ""
        return reply.text if reply.is_answer or run.kind == "model" else ""

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model); the model as the reply names it."""
        call: Call = run.inputs
        return call.provider, run.outputs.model if isinstance(run.outputs, Reply) else call.model

    def usage(self, run: Run) -> Usage:
        """Return the tokens; a reply out of a cache has cost none."""
        return (
            run.outputs.usage
            if isinstance(run.outputs, Reply) and not run.inputs.is_cached
            else Usage()
        )

    def labels(self, root: Run) -> dict[str, Any]:
        """Return what the application says of the call in litellm's own words."""
        call = _call_of(root)
        params = call.info.get("litellm_params") or {}
        metadata = [each for each in metadata_of(params) if isinstance(each, Mapping)]

        def first(*names: str) -> str:
            values = (each.get(name) for each in metadata for name in names)
            return next((v for v in values if isinstance(v, str) and v), "")

        attributes: dict[Any, Any] = {"litellm_call_id": call.info.get("litellm_call_id")}
        own = first_marked(metadata)
        if isinstance(own, Mapping) and isinstance(own.get("attributes"), Mapping):
            attributes |= own["attributes"]
        tags = next((t for each in metadata if isinstance(t := each.get("tags"), list | tuple)), ())
        user = (call.info.get("optional_params") or {}).get("user") or call.info.get("user")
        session = params.get("litellm_session_id")
        if session == first("trace_id"):
            session = None  # litellm's own substitute, and one trace is not a session
        return {
            "session_id": first("session_id", "litellm_session_id") or _text(session),
            "user_id": _text(user) or first("user_id", "trace_user_id", "user_api_key_end_user_id"),
            "tags": tuple(tag for tag in tags if isinstance(tag, str)),
            "attributes": attributes,
            "capture_incomplete": _extracted(root) is not None and call.is_incomplete,
        }


def _request_of(run: Run) -> Run:
    return next(each for each in run.root.members if each.kind == "model")


def _call_of(run: Run) -> Call:
    call: Call = _request_of(run).inputs
    return call


def _extracted(run: Run) -> Extracted | None:
    """Return the question and the chunks of the call; None: it is over no retrieved text."""
    call = _call_of(run)
    if not call.is_read:
        call.is_read = True
        messages = _messages(call)
        try:
            call.found = _read(call, messages)
        except Exception as error:  # noqa: BLE001 - an extractor is anybody's code
            # Counted and not scored: with chunks missing, a truthful answer would look invented.
            record_error("capture", error)
            call.found, call.is_incomplete = Extracted(query=last_question(messages)), True
    return call.found


def _read(call: Call, messages: Sequence[Mapping[str, Any]]) -> Extracted | None:
    own = first_marked(metadata_of(call.info.get("litellm_params") or {}))
    if own is not None:
        found: Extracted | None = from_metadata(own, messages)
    else:
        found = None if call.extract is None else call.extract(messages, call.info)
    if found is None:
        return None
    return Extracted(query=str(found.query), chunks=[chunk_of(each) for each in found.chunks])


def _messages(call: Call) -> list[Mapping[str, Any]]:
    read = (
        m if isinstance(m, Mapping) else getattr(m, "model_dump", dict)() for m in call.messages
    )
    return [message for message in read if isinstance(message, Mapping)]


def metadata_of(params: Mapping[str, Any]) -> list[Any]:
    """Return where metadata may stand: what the proxy's client sent, and the call's own."""
    own, proxys = params.get("metadata"), params.get("litellm_metadata")
    asked = [m.get("requester_metadata") for m in (own, proxys) if isinstance(m, Mapping)]
    return [*asked, own, proxys]


def first_marked(metadata: Sequence[Any]) -> Any:
    """Return what stands under our key; False: the call is to be left out; None: nothing."""
    for each in metadata:
        if isinstance(each, Mapping) and each.get(METADATA_KEY) is not None:
            return each[METADATA_KEY]
    return None


def reply_in(response: Any, model: str) -> Reply | None:
    """Return what a chat completion says; None: it is none. In the request path: look-ups only."""
    choices = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        return None
    used = getattr(response, "usage", None)
    inputs = getattr(used, "prompt_tokens", None)
    outputs = getattr(used, "completion_tokens", None)
    # Zero both ways is what litellm fills in where the provider said nothing.
    counted = bool(inputs or outputs)
    asks_for_tools = getattr(message, "tool_calls", None) or getattr(message, "function_call", None)
    return Reply(
        text=_text(getattr(message, "content", None)),
        is_answer=not asks_for_tools,
        model=getattr(response, "model", None) or model,
        usage=Usage(input_tokens=inputs, output_tokens=outputs) if counted else Usage(),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
