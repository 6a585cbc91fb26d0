"""A span of another instrumentation, in the form that the dialects read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    SpanContext,
    StatusCode,
    format_span_id,
)

from ragmonitor.capture.coercion import parsed, token_count
from ragmonitor.capture.span_readers.span_events import with_contents

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_STATUS: dict[StatusCode, Literal["unset", "ok", "error"]] = {
    StatusCode.UNSET: "unset",
    StatusCode.OK: "ok",
    StatusCode.ERROR: "error",
}


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
    """0: it was never ended, and is given up."""
    status: Literal["unset", "ok", "error"] = "unset"
    status_text: str = ""
    exception: tuple[str, str] = ("", "")
    """Type and message of the last exception event."""
    is_whole: bool = True
    """Whether the SDK had room for all of its attributes: it drops the oldest."""
    max_text: int = sys.maxsize
    """Characters after which the SDK cuts texts, as far as is known."""
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Values that were read off it before: it is read many times, and its JSON may be long."""

    def is_cut(self, text: str) -> bool:
        """Return whether the SDK may have cut this text."""
        return len(text) >= self.max_text

    def parsed(self, name: str) -> Any:
        """Return the value of a text attribute in JSON, the text itself if it is none.

        What a sender has written as lists and maps, and not as a text, is returned as it is.
        """
        value = self.attributes.get(name)
        if isinstance(value, list | tuple | Mapping):
            return value
        key = f"json:{name}"
        if key not in self.memo:
            self.memo[key] = parsed(self.text(name))
        return self.memo[key]

    def text(self, name: str) -> str:
        """Return a text attribute; empty if it is none."""
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""

    def first_text(self, names: Iterable[str]) -> str:
        """Return the first of several text attributes that is set; empty if none is."""
        return next((text for name in names if (text := self.text(name))), "")

    def count(self, name: str) -> int | None:
        """Return an attribute that counts tokens; None if it is none."""
        return token_count(self.attributes.get(name))

    def numbered(self, prefix: str, infix: str = ".") -> list[dict[str, Any]]:
        """Return the fields in attributes `{prefix}{n}{infix}{field}`, by ascending n."""
        fields: dict[int, dict[str, Any]] = {}
        for key, value in self.attributes.items():
            if key.startswith(prefix):
                number, _, field_name = key[len(prefix) :].partition(infix)
                if number.isdecimal():
                    fields.setdefault(int(number), {})[field_name] = value
        return [fields[number] for number in sorted(fields)]


def local_parent_id(span: ReadableSpan) -> str:
    """Return the id of a span's parent in this process; empty: it has none."""
    parent = span.parent
    return "" if parent is None or parent.is_remote else format_span_id(parent.span_id)


def span_record(span: ReadableSpan) -> SpanRecord:
    """Return an SDK's span in our form.

    Also one that is open still: what it says by now is read, and its end is 0.
    """
    context, scope = span.context, span.instrumentation_scope
    contents = [(each.name, each.attributes or {}) for each in span.events]
    attributes, exception = with_contents(dict(span.attributes or {}), contents)
    # No public way leads to it. A version without it costs the notice that texts were cut.
    most = getattr(getattr(span, "_attributes", None), "max_value_len", None) or sys.maxsize
    return SpanRecord(
        span_id=format_span_id(context.span_id),
        parent_id=local_parent_id(span),
        context=context,
        parent=span.parent,
        name=span.name,
        scope="" if scope is None else scope.name,
        attributes=attributes,
        started_ns=span.start_time or 0,
        ended_ns=span.end_time or 0,
        status=_STATUS[span.status.status_code],
        status_text=span.status.description or "",
        exception=exception,
        is_whole=not span.dropped_attributes,
        max_text=most,
    )
