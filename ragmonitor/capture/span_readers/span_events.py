"""What instrumentations write into a span's events, as the attributes that are read.

Messages stand there in three generations of the GenAI conventions, and what a vector store found in
OpenLLMetry's `db.query.result`. An attribute that the span has itself goes before its events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragmonitor.capture.coercion import MAX_ERROR_CHARACTERS, parsed, text_in
from ragmonitor.capture.span_readers.texts import parts_in
from ragmonitor.semconv import conventions as names

_CONTENTS: Final[Mapping[str, Mapping[str, str]]] = {
    # Of 1.27 of the semantic conventions: the messages in JSON under one attribute of the event.
    "gen_ai.content.prompt": {"gen_ai.prompt": names.GENAI_INPUT_MESSAGES},
    "gen_ai.content.completion": {"gen_ai.completion": names.GENAI_OUTPUT_MESSAGES},
    # Since 1.37: under the names of the span's attributes.
    "gen_ai.client.inference.operation.details": {
        name: name
        for name in (
            "gen_ai.system_instructions",
            names.GENAI_INPUT_MESSAGES,
            names.GENAI_OUTPUT_MESSAGES,
        )
    },
}
"""By event: which of its attributes stands for which one of the span's."""
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
        elif name in _CONTENTS:
            told |= {to: fields[of] for of, to in _CONTENTS[name].items() if of in fields}
        elif name == _FOUND:
            told.setdefault(names.GENAI_RETRIEVAL_DOCUMENTS, []).append(_document(fields))
        elif name in _MESSAGES:
            role, attribute = _MESSAGES[name]
            if isinstance(listed := told.setdefault(attribute, []), list):
                listed.append({"role": role, **_message(fields)})
    return {**told, **attributes}, exception


def _message(fields: Mapping[str, Any]) -> dict[str, Any]:
    whole = {**fields, **_mapping(fields.get("gen_ai.event.content"))}
    inner = whole.get("message")
    if isinstance(inner := parsed(inner) if isinstance(inner, str) else inner, Mapping):
        whole |= inner  # of a choice
    elif inner is not None:
        whole["content"] = inner
    if isinstance(content := whole.get("content"), str):
        whole["content"] = parts_in(content)
    # A tool that is called shows in the message's other fields.
    return {name: whole[name] for name in ("content", "parts", "tool_calls") if name in whole}


def _document(fields: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _mapping(fields.get(f"{_FOUND}.metadata"))
    texts = (fields.get(f"{_FOUND}.document"), *map(metadata.get, _TEXTS_IN_METADATA))
    return {
        "id": fields.get(f"{_FOUND}.id"),
        "score": fields.get(f"{_FOUND}.score"),
        "metadata": metadata,
        "content": next((each for each in texts if isinstance(each, str)), None),
    }


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping, or the one in a text of JSON; an empty one if it is none."""
    value = parsed(value) if isinstance(value, str) else value
    return dict(value) if isinstance(value, Mapping) else {}
