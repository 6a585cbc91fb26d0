"""Questions, answers, messages and documents in what instrumentations write as JSON.

They dump the framework's own objects, so the shapes are those of LangChain (`page_content`, in
JavaScript `pageContent`, `{"lc": 1, "kwargs": ...}`, `{"type": "human", "data": ...}`), of
LlamaIndex (`query_str`, `node`, `blocks`) and of the GenAI conventions (`role` and `parts`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ragmonitor.capture.coercion import chunk_in, parsed
from ragmonitor.capture.conversations import (
    answer_in,
    content_text,
    message_of,
    part_text,
    question_in,
)
from ragmonitor.capture.documents import documents_in
from ragmonitor.records import Chunk, Message
from ragmonitor.runtime.patterns import lazy_pattern

_REPR = lazy_pattern(
    r"<(async_)?generator object|<coroutine object|<[\w.]+ object at 0x"
    r"|[A-Z]\w*\((\)$|\w+=.*(\)|\.\.\.)$)",
    re.DOTALL,
)
"""The text that an instrumentation writes of a stream, and of an event or a message it cannot
dump."""


Documents = tuple[Chunk, ...] | None
"""The documents that a span says were found. None: it does not say, or not all of them."""


def question(value: Any) -> str:
    """Return the question in what a root or a retriever was given; empty if there is none."""
    text = question_in(value)
    return "" if is_repr(text) else text


def answer(value: Any) -> str:
    """Return the answer in what a root or a model gave; empty if there is none."""
    text = answer_in(value)
    return "" if is_repr(text) else text


def is_repr(text: str) -> bool:
    """Return whether this is how Python writes an object, and no text."""
    return _REPR.match(text) is not None


def parts_in(text: str) -> Any:
    """Return the parts of a message whose content is their JSON; the text itself if it is none."""
    value = parsed(text) if text.startswith("[") else text
    is_parts = isinstance(value, list) and value and all(isinstance(p, Mapping) for p in value)
    return value if is_parts else text


def messages(value: Any) -> tuple[Message, ...]:
    """Return the messages of a list of them, in order, those without text left out."""
    if not isinstance(value, list | tuple):
        return ()
    parts = (message_of(item) for item in value)
    return tuple(Message(role=role or "user", text=text) for role, text in parts if text)


def documents(value: Any, *, are_stubs: bool = False) -> Documents:
    """Return the documents that a retriever's or reranker's output lists.

    Documents of LangChain's and nodes of LlamaIndex's, perhaps each as a text of JSON.

    Args:
        value: The output.
        are_stubs: What has an id and a score may have no text, which is empty then.
    """
    if isinstance(value, Mapping):
        value = value.get("documents")
    if not isinstance(value, list | tuple):
        return None
    found = []
    for item in value:
        fields = parsed(item) if isinstance(item, str) else item
        chunk = chunk_in(fields) if isinstance(fields, Mapping) else None
        if chunk is None and are_stubs and isinstance(fields, Mapping):
            chunk = chunk_in({**fields, "content": ""})
        if chunk is None:
            return None
        found.append(chunk)
    return tuple(found)


def tool_text(value: Any) -> str:
    """Return the text that a tool gave: LangChain's tool message, LlamaIndex's tool output.

    Of one that gave JSON, the texts of its parts, each on a line, or the JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "blocks" in value:
        return content_text(value["blocks"])
    role, text = message_of(value)
    if role or not value:
        return text
    parts = value.get("content") if isinstance(value, Mapping) else value
    pieces = map(part_text, parts) if isinstance(parts, list) else ()
    return "\n".join(filter(None, pieces)) or json.dumps(value, ensure_ascii=False)


def tool_documents(value: Any) -> Documents:
    """Return the documents that a tool gave beside its text."""
    if isinstance(value, Mapping):
        inner = value.get("kwargs") if "lc" in value else value.get("data")
        if isinstance(inner, Mapping):
            return documents(inner.get("artifact"))
        if "raw_output" in value:
            raw = value["raw_output"]
            return documents(raw.get("source_nodes") if isinstance(raw, Mapping) else raw)
    # Of a tool that is called by itself, what it returned.
    found = documents_in(value)
    return None if found is None else tuple(found)
