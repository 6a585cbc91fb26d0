"""A span of another instrumentation, in the form that it is read in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext, StatusCode, format_span_id

from ragmonitor.capture.coercion import parsed, token_count
from ragmonitor.capture.span_readers.span_events import with_contents

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

REDACTED: Final = "__REDACTED__"
"""The mark that stands where OPENINFERENCE_HIDE_* hides a text: as if there were none."""


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
    exception: tuple[str, str] = ("", "")
    """Type and message of the last exception event."""
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


def span_record(span: ReadableSpan) -> SpanRecord:
    """Return an SDK's span in our form.

    Also one that is open still: what it says by now is read, and its end is 0.
    """
    context, parent, scope = span.context, span.parent, span.instrumentation_scope
    contents = [(each.name, each.attributes or {}) for each in span.events]
    attributes, exception = with_contents(dict(span.attributes or {}), contents)
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
        exception=exception,
        is_whole=not span.dropped_attributes,
        max_text=most,
    )
