"""One call to a model: the notes on it, and how they are read behind the request path."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(kw_only=True, eq=False)
class Call:
    """The notes on one call while it goes on. Texts are kept by reference and not read yet."""

    run_id: str
    """The recorder's run of the interaction."""
    messages: tuple[Any, ...]
    info: Mapping[str, Any]
    """The facts that litellm tells its callbacks of the call, for extractors; see `KEPT_INFO`."""
    extract: Extractor | None
    is_in_scope: bool
    """The call is a part of a block of plain code."""
    is_cached: bool = False
    """litellm took the reply out of its cache."""
    is_incomplete: bool = False
    """Texts of the call are missing."""

    @property
    def request(self) -> Hashable:
        """The recorder's run of the request."""
        return self.run_id, "request"

    @cached_property
    def found(self) -> Extracted | None:
        """The question and the chunks; None: it is over no retrieved text. Off the request path."""
        messages = _messages(self)
        own = first_marked(metadata_of(self.info.get("litellm_params") or {}))
        try:
            if own is not None:
                return from_metadata(own, messages)
            found = None if self.extract is None else self.extract(messages, self.info)
            if found is None:
                return None
            return Extracted(query=str(found.query), chunks=[*map(chunk_of, found.chunks)])
        except Exception as error:  # noqa: BLE001 - an extractor is anybody's code
            # Counted and not scored: with chunks missing, a truthful answer would look invented.
            record_error("capture", error)
            self.is_incomplete = True
            return Extracted(query=last_question(messages))


class LiteLLMTranslator(Translator):
    """Reads the runs that `RagMonitorLogger` noted.

    The root and its one retriever run stand for the call as a whole. The request is a model run
    with the `Call` as its inputs. Its outputs, and the root's, are a `Reply` if it succeeded.
    """

    framework = "litellm"

    def query(self, run: Run) -> str:
        """Return the question that the last call was about; empty if there is none."""
        found = _call_of(run).found
        return "" if found is None else found.query

    def chunks(self, run: Run) -> Sequence[Chunk] | None:
        """Return the chunks that the last call shows; None: it is over no retrieved text."""
        found = _call_of(run).found
        return None if found is None else [*map(chunk_of, found.chunks)]

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
        info = run.inputs.info
        params = info.get("litellm_params") or {}
        provider = info.get("custom_llm_provider") or params.get("custom_llm_provider") or ""
        told = run.outputs.model if isinstance(run.outputs, Reply) else ""
        return provider, told or info.get("model") or ""

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
            "capture_incomplete": call.found is not None and call.is_incomplete,
        }


def _call_of(run: Run) -> Call:
    call: Call = next(each for each in run.root.members if each.kind == "model").inputs
    return call


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


def reply_in(response: Any) -> Reply | None:
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
        model=getattr(response, "model", None) or "",
        usage=Usage(input_tokens=inputs, output_tokens=outputs) if counted else Usage(),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
