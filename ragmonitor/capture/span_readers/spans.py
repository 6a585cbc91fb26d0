"""A span of another instrumentation, in the form that it is read in.

Instrumentations write messages into a span's events, in three generations of the GenAI conventions,
and OpenLLMetry what a vector store found, as `db.query.result`. These are read as attributes of the
span; one that it has itself goes before its events.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, StatusCode, format_span_id

from ragmonitor.capture.coercion import parsed, token_count
from ragmonitor.capture.span_readers.texts import parts_in
from ragmonitor.semconv import conventions as names

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

REDACTED: Final = "__REDACTED__"
"""The mark that stands where OPENINFERENCE_HIDE_* hides a text: as if there were none."""


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
    "exception": {name: name for name in ("exception.type", "exception.message")},
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """The contents of a span that was ended in this process or came over the wire."""

    span_id: str
    """16 lower-case hex digits."""
    parent_id: str = ""
    """16 lower-case hex digits; empty: it has none in this process."""
    context: SpanContext = INVALID_SPAN_CONTEXT
    """Its own, to be linked to."""
    parent: SpanContext | None = None
    """Its parent's, in this process or another; None: it has none."""
    name: str
    scope: str
    """Name of the instrumentation scope."""
    attributes: Mapping[str, Any]
    started_ns: int
    ended_ns: int
    """0: it is open still, or was never ended and is given up."""
    has_failed: bool = False
    status_text: str = ""
    is_whole: bool = True
    """Whether the SDK had room for all of its attributes: it drops the oldest."""
    max_text: int = sys.maxsize
    """Characters after which the SDK cuts texts, as far as is known."""
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Its step, once that is known: a trace is looked at again whenever it has grown."""

    def is_cut(self, text: str) -> bool:
        """Return whether the SDK may have cut this text."""
        return len(text) >= self.max_text

    def text(self, *names: str) -> str:
        """Return the first of these attributes that is a text, and not empty; else ""."""
        values = map(self.attributes.get, names)
        return next((v for v in values if v and isinstance(v, str) and v != REDACTED), "")

    def parsed(self, *names: str) -> Any:
        """Return the value of the first of these attributes that is set, of a text in JSON.

        Of another text, itself. What a sender has written as lists and maps is returned as it is.
        """
        for name in names:
            value = self.attributes.get(name)
            if isinstance(value, list | tuple | Mapping):
                return value
            if text := self.text(name):
                return parsed(text)
        return None

    def count(self, *names: str) -> int | None:
        """Return the first of these attributes that counts tokens; None if none does."""
        counts = (token_count(self.attributes.get(name)) for name in names)
        return next((count for count in counts if count is not None), None)


def under(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the attributes whose names begin so, by the rest of their names."""
    of = (each for each in attributes.items() if each[0].startswith(prefix))
    return {name[len(prefix) :]: value for name, value in of if value != REDACTED}


def numbered(attributes: Mapping[str, Any], prefix: str, infix: str = ".") -> list[dict[str, Any]]:
    """Return the fields in attributes `{prefix}{n}{infix}{field}`, by ascending n."""
    fields: dict[int, dict[str, Any]] = {}
    for key, value in under(attributes, prefix).items():
        number, _, name = key.partition(infix)
        if number.isdecimal():
            fields.setdefault(int(number), {})[name] = value
    return [fields[number] for number in sorted(fields)]


def span_record(span: ReadableSpan, *, is_open: bool = False) -> SpanRecord:
    """Return an SDK's span in our form.

    Args:
        span: One that has ended, or never will: what it says by now is read, and its end is 0.
        is_open: The application may write to it at this moment: its texts are not read.
    """
    context, parent, scope = span.context, span.parent, span.instrumentation_scope
    attributes: Mapping[str, Any] = span.attributes or {}
    if not is_open:
        contents = [(each.name, each.attributes or {}) for each in span.events]
        attributes = with_contents(dict(attributes), contents)
    # No public way leads to it. A version without it costs the notice that texts were cut.
    most = getattr(getattr(span, "_attributes", None), "max_value_len", None) or sys.maxsize
    is_local = parent is not None and not parent.is_remote
    return SpanRecord(
        span_id=format_span_id(context.span_id),
        parent_id=format_span_id(parent.span_id) if parent is not None and is_local else "",
        context=context,
        parent=parent,
        name=span.name,
        scope="" if scope is None else scope.name,
        attributes=attributes,
        started_ns=span.start_time or 0,
        ended_ns=span.end_time or 0,
        has_failed=span.status.status_code is StatusCode.ERROR,
        status_text=span.status.description or "",
        is_whole=not span.dropped_attributes,
        max_text=most,
    )


# --- what stands in events ---------------------------------------------------------------------


def with_contents(
    attributes: dict[str, Any], events: Iterable[tuple[str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a span's attributes with what its events say.

    Args:
        attributes: The span's own.
        events: Name and attributes of each of its events, in order.
    """
    told: dict[str, Any] = {}
    for name, fields in events:
        if name in _CONTENTS:
            told |= {to: fields[of] for of, to in _CONTENTS[name].items() if of in fields}
        elif name == _FOUND:
            told.setdefault(names.GENAI_RETRIEVAL_DOCUMENTS, []).append(_document(fields))
        elif name in _MESSAGES:
            role, attribute = _MESSAGES[name]
            if isinstance(listed := told.setdefault(attribute, []), list):
                listed.append({"role": role, **_message(fields)})
    return {**told, **attributes}


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
