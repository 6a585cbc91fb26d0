"""What instrumentations write into a span's events, as the attributes that dialects read.

Messages stand there in three generations of the GenAI conventions, and what a vector store found in
OpenLLMetry's `db.query.result`. An attribute that the span has itself goes before its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragmonitor.capture.coercion import MAX_ERROR_CHARACTERS, parsed, text_in
from ragmonitor.capture.span_readers.texts import parts_in
from ragmonitor.semconv import conventions as names

_DETAILS: Final = "gen_ai.client.inference.operation.details"
"""Since 1.37 of the semantic conventions: messages under the names of the span's attributes."""
_DETAILED: Final = (
    "gen_ai.system_instructions",
    names.GENAI_INPUT_MESSAGES,
    names.GENAI_OUTPUT_MESSAGES,
)
_CONTENTS: Final = {
    "gen_ai.content.prompt": ("gen_ai.prompt", names.GENAI_INPUT_MESSAGES),
    "gen_ai.content.completion": ("gen_ai.completion", names.GENAI_OUTPUT_MESSAGES),
}
"""Of 1.27: the messages in JSON under one attribute of the event."""
_MESSAGES: Final = {
    "gen_ai.system.message": ("system", names.GENAI_INPUT_MESSAGES),
    "gen_ai.user.message": ("user", names.GENAI_INPUT_MESSAGES),
    "gen_ai.assistant.message": ("assistant", names.GENAI_INPUT_MESSAGES),
    "gen_ai.tool.message": ("tool", names.GENAI_INPUT_MESSAGES),
    "gen_ai.choice": ("assistant", names.GENAI_OUTPUT_MESSAGES),
}
"""Of 1.28 to 1.36: an event each. Some put the message's JSON under `gen_ai.event.content`."""
_FOUND: Final = "db.query.result"
_TEXTS_IN_METADATA: Final = ("text", "page_content", "content")
"""Where vector stores without texts of their own keep them."""


def with_contents(
    attributes: dict[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[dict[str, Any], tuple[str, str]]:
    """Return a span's attributes with what its events say, and its exception's type and message.

    Args:
        attributes: The span's own.
        events: Name and attributes of each of its events, in order.
    """
    told: dict[str, Any] = {}
    exception = ("", "")
    for name, fields in events:
        if name == "exception":
            kind = text_in(fields.get("exception.type")) or ""
            text = text_in(fields.get("exception.message")) or ""
            exception = kind.rpartition(".")[2], text[:MAX_ERROR_CHARACTERS]
        elif name == _DETAILS:
            told |= {each: fields[each] for each in _DETAILED if each in fields}
        elif name in _CONTENTS:
            written, attribute = _CONTENTS[name]
            if written in fields:
                told[attribute] = fields[written]
        elif name == _FOUND:
            told.setdefault(names.GENAI_RETRIEVAL_DOCUMENTS, []).append(_document(fields))
        elif name in _MESSAGES:
            role, attribute = _MESSAGES[name]
            # A tool that is called shows in the message's other fields.
            message = {"role": role, **_message(fields)}
            told.setdefault(attribute, [])
            if isinstance(told[attribute], list):
                told[attribute].append(message)
    return {**told, **attributes}, exception


def _message(fields: Mapping[str, Any]) -> dict[str, Any]:
    body = (
        parsed(fields["gen_ai.event.content"]) if _is_text(fields, "gen_ai.event.content") else {}
    )
    whole = {**fields, **body} if isinstance(body, Mapping) else dict(fields)
    inner = parsed(whole["message"]) if _is_text(whole, "message") else whole.get("message")
    if isinstance(inner, Mapping):  # of a choice
        whole = {**whole, **inner}
    elif inner is not None:
        whole["content"] = inner
    if _is_text(whole, "content"):
        whole["content"] = parts_in(whole["content"])
    return {name: whole[name] for name in ("content", "parts", "tool_calls") if name in whole}


def _document(fields: Mapping[str, Any]) -> dict[str, Any]:
    metadata = fields.get(f"{_FOUND}.metadata")
    metadata = parsed(metadata) if isinstance(metadata, str) else metadata
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    texts = (fields.get(f"{_FOUND}.document"), *map(metadata.get, _TEXTS_IN_METADATA))
    text = next((each for each in texts if isinstance(each, str)), None)
    found = {
        "id": fields.get(f"{_FOUND}.id"),
        "score": fields.get(f"{_FOUND}.score"),
        "metadata": metadata,
    }
    return found if text is None else {**found, "content": text}


def _is_text(fields: Mapping[str, Any], name: str) -> bool:
    return isinstance(fields.get(name), str)
