"""Questions, answers, messages and documents in what instrumentations write as JSON.

They dump the framework's own objects, so the shapes are those of LangChain (`page_content`, in
JavaScript `pageContent`, `{"lc": 1, "kwargs": ...}`, `{"type": "human", "data": ...}`), of
LlamaIndex (`query_str`, `node`, `blocks`) and of the GenAI conventions (`role` and `parts`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from ragmonitor.capture.coercion import (
    MAX_JSON_CHARACTERS,
    chunk_in,
    result_texts,
)
from ragmonitor.records import Chunk, Message
from ragmonitor.runtime.patterns import lazy_pattern

_REPR = lazy_pattern(
    r"<(async_)?generator object|<coroutine object|<[\w.]+ object at 0x"
    r"|[A-Z]\w*\((\)$|\w+=.*(\)|\.\.\.)$)",
    re.DOTALL,
)
"""The text that an instrumentation writes of a stream, and of an event or a message it cannot
dump."""

_QUESTION_KEYS = (
    "question",
    "query",
    "input",
    "user_input",
    "user_msg",
    "message",
    "messages",
    "inputs",
    "str_or_query_bundle",
    "query_bundle",
    "query_str",
    "start_event",
    "chat_history",
)
_ANSWER_KEYS = (
    "answer",
    "result",
    "output",
    "outputs",
    "response",
    "output_text",
    "generation",
    "generations",
    "text",
    "messages",
)
_Who = Literal["user", "assistant"]
_KEYS: Final[dict[_Who, tuple[str, ...]]] = {
    "user": _QUESTION_KEYS,
    "assistant": ("message", "update", *_ANSWER_KEYS),  # a candidate's message, a graph's command
}
_ROLES = {
    "user": "user",
    "human": "user",
    "HumanMessageChunk": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "model": "assistant",
    "unknown": "assistant",  # OpenLLMetry's word for a streamed message
    "chatbot": "assistant",
}
_DEEPEST = 12


class Documents(NamedTuple):
    """The documents that a span says were found."""

    chunks: tuple[Chunk, ...]
    complete: bool
    """Whether every text is there. Nothing found is complete; nothing said is not."""


UNKNOWN_DOCUMENTS = Documents((), complete=False)
NO_DOCUMENTS = Documents((), complete=True)


class _Unreadable:
    """No text, no list, no mapping: so nothing is found in it."""


UNREADABLE: Final = _Unreadable()
"""The value of a JSON text that is too long, or too deeply nested."""


def parsed(text: str) -> Any:
    """Return the value of a JSON text; the text itself if it is none."""
    if text[:1] in ("{", "[", '"') or text in ("null", "true", "false"):
        if len(text) > MAX_JSON_CHARACTERS:
            return UNREADABLE
        try:
            return json.loads(text)
        except ValueError:
            return text
        except RecursionError:
            return UNREADABLE
    return text


def question(value: Any) -> str:
    """Return the question in what a root or a retriever was given; empty if there is none."""
    return _said(value, "user")


def answer(value: Any) -> str:
    """Return the answer in what a root or a model gave; empty if there is none."""
    return _said(value, "assistant")


def _said(value: Any, who: _Who, depth: int = 0) -> str:
    if isinstance(value, str):
        return "" if is_repr(value) else value
    if depth > _DEEPEST:
        return ""
    if isinstance(value, Sequence):
        is_answer = who == "assistant" and value and isinstance(value[0], list)
        if is_answer and all(isinstance(v, Mapping) for v in value[0]):
            return _said(value[0], who, depth + 1)  # LangChain's generations, one list per prompt
        return _last_said(value, who, depth)
    if not isinstance(value, Mapping):
        return ""
    role, text = message_of(value)
    if role:
        return text if role == who else ""
    structured = value.get("structured_response") if who == "assistant" else None
    if structured is not None:  # an agent's answer; its messages show a tool that was called
        return _said(structured, who, depth + 1) or json.dumps(structured, ensure_ascii=False)
    for key in _KEYS[who]:
        if value.get(key) is not None and (text := _said(value[key], who, depth + 1)):
            return text
    return _argument(value, depth) if who == "user" else ""


def _argument(value: Mapping[str, Any], depth: int) -> str:
    args = value.get("args")
    if isinstance(args, list) and args and (text := _said(args[0], "user", depth + 1)):
        return text
    if len(value) == 1:  # a prompt with one variable, whatever its name
        (only,) = value.values()
        return only if isinstance(only, str) else ""
    return ""


def is_repr(text: str) -> bool:
    """Return whether this is how Python writes an object, and no text."""
    return _REPR.match(text) is not None


def message_of(value: Any) -> tuple[str, str]:
    """Return (role, text) of a message in any of the forms; empty texts if it is none."""
    if isinstance(value, str):
        return "", ""
    if isinstance(value, Sequence):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str):
            who = _ROLES.get(value[0], "")
            return (who, value[1]) if who else ("", "")
        return "", ""
    if not isinstance(value, Mapping):
        return "", ""
    inner = value.get("kwargs") if "lc" in value else value.get("data")
    fields = inner if isinstance(inner, Mapping) and "content" in inner else value
    role = fields.get("role") or fields.get("type") or value.get("type")
    if not isinstance(role, str):
        return "", ""
    for key in ("parts", "content", "blocks"):
        if key in fields:
            return _ROLES.get(role, role), content_text(fields[key])
    return "", ""


def parts_in(text: str) -> Any:
    """Return the parts of a message whose content is their JSON; the text itself if it is none."""
    value = parsed(text) if text.startswith("[") else text
    is_parts = isinstance(value, list) and value and all(isinstance(p, Mapping) for p in value)
    return value if is_parts else text


def content_text(value: Any) -> str:
    """Return the text of a message's content: a text, or parts of which some are text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        return ""
    return "".join(_part(part) for part in value)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    kind = part.get("type") or part.get("block_type") or "text"
    if kind == "text":
        text = part.get("content", part.get("text"))
    elif kind == "tool_call_response":
        text = part.get("response", part.get("result"))
        return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    else:
        return ""
    return text if isinstance(text, str) else ""


def messages(value: Any) -> tuple[Message, ...]:
    """Return the messages of a list of them, in order, those without text left out."""
    if not isinstance(value, list):
        return ()
    parts = (message_of(item) for item in value)
    return tuple(Message(role=role or "user", text=text) for role, text in parts if text)


def documents(value: Any) -> Documents:
    """Return the documents that a retriever's or reranker's output lists."""
    if isinstance(value, Mapping):
        value = value.get("documents")
    if not isinstance(value, list):
        return UNKNOWN_DOCUMENTS
    chunks = [document(item) for item in value]
    return Documents(tuple(c for c in chunks if c is not None), complete=None not in chunks)


def calls_tools(message: Any) -> bool:
    """Return whether a message has a tool called, in any of the forms."""
    if not isinstance(message, Mapping):
        return False
    inner = message.get("kwargs") if "lc" in message else message.get("data")
    fields = inner if isinstance(inner, Mapping) else message
    parts = fields.get("parts")
    return bool(fields.get("tool_calls")) or (
        isinstance(parts, list)
        and any(isinstance(part, Mapping) and part.get("type") == "tool_call" for part in parts)
    )


def tool_text(value: Any) -> str:
    """Return the text that a tool gave: LangChain's tool message, LlamaIndex's tool output.

    Of a tool that gave search results as JSON, and no text, the text of each stands on a line.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and "blocks" in value:
        return content_text(value["blocks"])
    role, text = message_of(value)
    if role or not isinstance(value, Mapping | Sequence) or not value:
        return text
    if found := result_texts(value):
        return "\n".join(found)
    parts = value.get("content") if isinstance(value, Mapping) else value
    is_media = isinstance(parts, list) and all(
        isinstance(p, Mapping) and "type" in p for p in parts
    )
    return "" if is_media else json.dumps(value, ensure_ascii=False)


def tool_documents(value: Any) -> Documents:
    """Return the documents that a tool gave beside its text."""
    if not isinstance(value, Mapping):
        # Of a LangChain tool that is called by itself, what it returned.
        is_listed = isinstance(value, list) and value and "page_content" in _kwargs_of(value[0])
        return documents(value) if is_listed else UNKNOWN_DOCUMENTS
    inner = value.get("kwargs") if "lc" in value else value.get("data")
    if isinstance(inner, Mapping):
        return documents(inner.get("artifact"))
    raw = value.get("raw_output")
    return documents(raw.get("source_nodes") if isinstance(raw, Mapping) else raw)


def _kwargs_of(value: Any) -> Any:
    """Return the fields of an object that LangChain has dumped; empty: it is no object."""
    if not isinstance(value, Mapping):
        return {}
    inner = value.get("kwargs") if "lc" in value else None
    return inner if isinstance(inner, Mapping) else value


def document(value: Any) -> Chunk | None:
    """Return one document of LangChain's or node of LlamaIndex's; None if its text is not there."""
    if isinstance(value, str):
        value = parsed(value)
    return chunk_in(value) if isinstance(value, Mapping) else None


def _last_said(items: Sequence[Any], who: _Who, depth: int) -> str:
    """Return the last text that the user, or the model, said, or a tool that it left the last word.

    A model's text from before the user's last message belongs to an earlier question, and one from
    before a tool on whose text the model then said nothing is a step's.
    """
    of_tool, is_silent = "", False
    for item in reversed(items):
        role, text = message_of(item)
        if who == "assistant":
            if role == "tool":
                if is_silent:
                    return ""
                of_tool = of_tool or text
            elif role == who and of_tool and calls_tools(item):
                return of_tool
        if not role and isinstance(item, Mapping):
            text = _said(item, who, depth + 1)
            role = who
        if not role and isinstance(item, str) and who == "user" and len(items) == 1:
            return item
        if role == who and text:
            return text
        if role == "user" and who == "assistant":
            return ""
        is_silent = is_silent or role == who
    return ""
