"""One call to a model: the notes on it, and how they are read behind the request path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ragmonitor import Chunk
from ragmonitor.integration import Message, Run, Translator, Usage, record_error, usage_of
from ragmonitor_litellm.extracting import (
    METADATA_KEY,
    Extracted,
    Extractor,
    chunk_of,
    from_metadata,
    last_question,
    text_of,
)


class Reply(NamedTuple):
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
    is_incomplete: bool = False
    """Texts of the call are missing."""

    @cached_property
    def read_messages(self) -> list[Mapping[str, Any]]:
        """The messages as mappings; what is none is left out."""
        read = (
            m if isinstance(m, Mapping) else getattr(m, "model_dump", dict)() for m in self.messages
        )
        return [message for message in read if isinstance(message, Mapping)]

    @cached_property
    def found(self) -> Extracted | None:
        """The question and the chunks; None: it is over no retrieved text. Off the request path."""
        messages, own = self.read_messages, self.info["metadata"].get(METADATA_KEY)
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
    """Reads the runs that `RagMonitorLogger` noted, each with its `Call` as details.

    The root and its one retriever run stand for the call as a whole, a model run for the request.
    Outputs of the root and of the model are a `Reply` if it succeeded.
    """

    framework = "litellm"

    def query(self, run: Run) -> str:
        """Return the question that the call was about; empty if there is none."""
        found = run.details.found
        return "" if found is None else found.query

    def chunks(self, run: Run) -> Sequence[Chunk] | None:
        """Return the chunks that the call shows; None: it is over no retrieved text."""
        found = run.details.found
        return None if found is None else found.chunks

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the call's chunks; None in a block, where the prompts tell what was shown."""
        return None if root.details.is_in_scope else self.chunks(root)

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return the messages with text."""
        return tuple(
            Message(role=str(message.get("role", "user")), text=text)
            for message in run.details.read_messages
            if (text := text_of(message))
        )

    def answer(self, run: Run) -> str:
        """Return the text that the model gave; of the root, only if that is an answer."""
        reply = run.outputs
        return reply.text if reply and (reply.is_answer or run.kind == "model") else ""

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model); the model as the reply names it."""
        info = run.details.info
        params = info.get("litellm_params") or {}
        provider = info.get("custom_llm_provider") or params.get("custom_llm_provider") or ""
        return provider, (run.outputs and run.outputs.model) or info.get("model") or ""

    def usage(self, run: Run) -> Usage:
        """Return the tokens."""
        return run.outputs.usage if run.outputs else Usage()

    def labels(self, root: Run) -> dict[str, Any]:
        """Return what the application says of the call in litellm's own words."""
        call: Call = root.details
        params, metadata = call.info.get("litellm_params") or {}, call.info["metadata"]

        def first(*names: str) -> Any:
            return next((metadata[name] for name in names if metadata.get(name)), None)

        attributes: dict[Any, Any] = {"litellm_call_id": call.info.get("litellm_call_id")}
        own = metadata.get(METADATA_KEY)
        if isinstance(own, Mapping) and isinstance(own.get("attributes"), Mapping):
            attributes |= own["attributes"]
        session = params.get("litellm_session_id")
        if session == first("trace_id"):
            session = None  # litellm's own substitute, and one trace is not a session
        user = (call.info.get("optional_params") or {}).get("user") or call.info.get("user")
        return {
            "session_id": first("session_id", "litellm_session_id") or session,
            "user_id": user or first("user_id", "trace_user_id", "user_api_key_end_user_id"),
            "tags": first("tags") or (),
            "attributes": attributes,
            "capture_incomplete": call.found is not None and call.is_incomplete,
        }


def metadata_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return all metadata of a call: what the proxy's client sent goes before the call's own."""
    own, proxys = params.get("metadata"), params.get("litellm_metadata")
    asked = [m.get("requester_metadata") for m in (proxys, own) if isinstance(m, Mapping)]
    merged: dict[str, Any] = {}
    for each in (proxys, own, *asked):
        if isinstance(each, Mapping):
            merged |= {name: value for name, value in each.items() if value is not None}
    return merged


def reply_in(response: Any, *, is_cached: bool) -> Reply | None:
    """Return what a chat completion says; None: it is none. In the request path: look-ups only."""
    choices = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        return None
    usage = usage_of(getattr(response, "usage", None))
    # Zero both ways is what litellm fills in where the provider said nothing; a reply out of a
    # cache has cost none.
    is_counted = not is_cached and (usage.input_tokens or usage.output_tokens)
    text = getattr(message, "content", None)
    asks_for_tools = getattr(message, "tool_calls", None) or getattr(message, "function_call", None)
    return Reply(
        text=text if isinstance(text, str) else "",
        is_answer=not asks_for_tools,
        model=getattr(response, "model", None) or "",
        usage=usage if is_counted else Usage(),
    )
