"""Finds the question and the answer in what an application was given, and what it gave.

One reader for objects of frameworks and for what instrumentations dump of them: texts, messages and
lists of them, and whatever holds these under a known name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal

from ragmonitor.capture.coercion import json_of, member_in

_QUESTION_KEYS: Final = (
    *("question", "query", "input", "user_input", "user_msg", "message", "messages", "inputs"),
    *("str_or_query_bundle", "query_bundle", "query_str", "start_event", "chat_history"),
)
ANSWER_KEYS: Final = (
    *("answer", "result", "output", "outputs", "response", "output_text", "generation"),
    *("generations", "text", "messages"),
)
_Who = Literal["user", "assistant"]
_KEYS: Final[dict[_Who, tuple[str, ...]]] = {
    "user": _QUESTION_KEYS,
    "assistant": (*ANSWER_KEYS, "message", "update"),  # a candidate's message, a graph's command
}
_ROLES: Final = {
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
_MAX_LEVELS: Final = 32
_MAX_VALUES: Final = 10_000
"""Values that are looked into for one text."""


def question_in(value: Any) -> str:
    """Return the question in what a root or a retriever was given; empty if there is none."""
    return _said(value, "user", 0, set())


def answer_in(value: Any) -> str:
    """Return the answer in what a root or a model gave; empty if there is none."""
    return _said(value, "assistant", 0, set())


def _said(value: Any, who: _Who, level: int, visited: set[int]) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or level > _MAX_LEVELS or len(visited) > _MAX_VALUES or id(value) in visited:
        return ""
    role, text = message_of(value)
    if role:
        return text if role == who else ""
    # Each once: so cycles end, and shared parts cost once.
    visited.add(id(value))
    if isinstance(value, Sequence):
        is_answer = who == "assistant" and value and isinstance(value[0], list)
        if is_answer and all(isinstance(v, Mapping) for v in value[0]):
            return _said(value[0], who, level + 1, visited)  # generations, one list per prompt
        return _last_said(value, who, level, visited)
    structured = member_in(value, "structured_response") if who == "assistant" else None
    if structured is not None:  # an agent's answer; its messages show a tool that was called
        return _said(structured, who, level + 1, visited) or json_of(structured)
    for key in _KEYS[who]:
        inner = member_in(value, key)
        if inner is not None and (text := _said(inner, who, level + 1, visited)):
            return text
    if who == "assistant":
        return _said(parsed_in(value), who, level + 1, visited)
    return _argument(value, level, visited) if isinstance(value, Mapping) else ""


def parsed_in(value: Any) -> Any:
    """Return the object in what `with_structured_output(..., include_raw=True)` gives."""
    return value.get("parsed") if isinstance(value, Mapping) and "parsing_error" in value else None


def values_in(value: Any, leaves: tuple[type, ...] = ()) -> Iterator[Any]:
    """Yield a value and what it holds, mappings, lists and objects of fields, each of these once.

    At most `_MAX_VALUES`, and nothing inside of what is one of the leaves.
    """
    pending, visited, left = [value], set[int](), _MAX_VALUES
    while pending and left:
        value = pending.pop()
        left -= 1
        yield value
        kind = type(value)
        if isinstance(value, (str, *leaves)) or id(value) in visited:
            continue
        inner: Any = ()
        if isinstance(value, Mapping):
            inner = value.values()
        elif isinstance(value, list | tuple):
            inner = value
        elif hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_fields"):
            inner = getattr(value, "__dict__", {}).values()
        visited.add(id(value))
        pending += islice(inner, left)


def holds(value: Any, *kinds: type) -> bool:
    """Return whether a value is of one of these types, or holds one that is."""
    return any(isinstance(each, kinds) for each in values_in(value))


def _argument(value: Mapping[str, Any], level: int, visited: set[int]) -> str:
    args = value.get("args")
    if isinstance(args, list) and args and (text := _said(args[0], "user", level + 1, visited)):
        return text
    if len(value) == 1:  # a prompt with one variable, whatever its name
        (only,) = value.values()
        return only if isinstance(only, str) else ""
    return ""


def message_of(value: Any) -> tuple[str, str]:
    """Return (role, text) of a message in any of the forms; empty texts if it is none.

    The role is `user`, `assistant` or the message's own word.
    """
    if isinstance(value, str):
        return "", ""
    if isinstance(value, Sequence):
        if len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES:
            return _ROLES[value[0]], content_text(value[1])
        return "", ""
    if isinstance(value, Mapping):
        inner = value.get("kwargs") if "lc" in value else value.get("data")
        fields = inner if isinstance(inner, Mapping) and "content" in inner else value
        role = fields.get("role") or fields.get("type") or value.get("type")
        content = next((fields[k] for k in ("parts", "content", "blocks") if k in fields), None)
    else:
        role = getattr(value, "role", None) or getattr(value, "type", None)
        content = getattr(value, "content", None)
    if not isinstance(role, str) or content is None:
        return "", ""
    return _ROLES.get(role, role), content_text(content)


def content_text(value: Any) -> str:
    """Return the text of a message's content: a text, or parts of which some are text."""
    if isinstance(value, str):
        return str.__str__(value)
    if not isinstance(value, Sequence):
        return ""
    return "".join(part_text(part) for part in value)


def part_text(part: Any) -> str:
    """Return the text of one part of a content; empty for images, reasoning and tool calls."""
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


def calls_tools(message: Any) -> bool:
    """Return whether a message has a tool called, in any of the forms."""
    if not isinstance(message, Mapping):
        return bool(getattr(message, "tool_calls", None))
    inner = message.get("kwargs") if "lc" in message else message.get("data")
    fields = inner if isinstance(inner, Mapping) else message
    parts = fields.get("parts")
    return bool(fields.get("tool_calls")) or (
        isinstance(parts, list)
        and any(isinstance(part, Mapping) and part.get("type") == "tool_call" for part in parts)
    )


def _last_said(items: Sequence[Any], who: _Who, level: int, visited: set[int]) -> str:
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
        if isinstance(item, str):
            role, text = "user", item
        elif not role and isinstance(item, Mapping):
            role, text = who, _said(item, who, level + 1, visited)
        if role == who and text:
            return text
        if role == "user" and who == "assistant":
            return ""
        is_silent = is_silent or role == who
    return ""
