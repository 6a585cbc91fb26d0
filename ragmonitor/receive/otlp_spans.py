"""Spans as OTLP carries them, in the form that the conventions read.

https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from ragmonitor.capture.coercion import text_in
from ragmonitor.capture.span_readers.span_events import with_contents
from ragmonitor.capture.span_readers.spans import SpanRecord

OVERHEAD_BYTES: Final = 500
"""The memory that a held span takes beside its contents, estimated."""
MAX_SCOPE_CHARACTERS: Final = 200
MAX_RESOURCE_CHARACTERS: Final = 1_000
"""The length of each attribute of a resource."""
RESOURCE_ATTRIBUTES: Final = (
    "service.name",
    "service.version",
    "deployment.environment.name",
)
"""Those of a process that its interactions get as attributes."""
MAX_VALUES: Final = 10_000
"""The values of one list of an attribute; further ones are not read."""
_SAMPLING: Final = re.compile(r"(?:^|,)[ \t]*ot=([a-z0-9:;.]{1,256})[ \t]*(?:,|$)")
"""The member of a trace state that OpenTelemetry's probability sampling writes."""


@dataclass(frozen=True, slots=True)
class Process:
    """The sender of a span: its resource."""

    identity: int
    """The identity of a process: two processes of one application differ in it, two requests of one
    do not."""
    attributes: dict[str, str]
    """The attributes among `RESOURCE_ATTRIBUTES` that it has."""
    size_bytes: int
    """The memory that these take."""


@dataclass(slots=True)
class HeldSpan:
    """A span that waits for the rest of its trace, as bytes."""

    span_id: str
    """16 lower-case hex digits."""
    parent_id: str
    """The id of its parent; empty: it is its trace's root."""
    data: bytes
    scope: str
    matches: bool
    """It follows a convention."""
    process: Process = field(repr=False)

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes, with what it shares with others, who may go before it."""
        shared = sys.getsizeof(self.scope) + self.process.size_bytes
        return len(self.data) + OVERHEAD_BYTES + shared


def process_of(resource: Resource) -> Process:
    """Return who sent the spans of a resource."""
    attributes = {
        pair.key: text[:MAX_RESOURCE_CHARACTERS]
        for pair in resource.attributes
        if pair.key in RESOURCE_ATTRIBUTES and (text := text_in(plain(pair.value)))
    }
    return Process(
        hash(resource.SerializeToString(deterministic=True)),
        attributes,
        sum(map(sys.getsizeof, attributes.values())),
    )


def held_span(span: Span, scope: str, process: Process, *, matches: bool) -> HeldSpan:
    """Return a span with sound ids as it is held.

    Args:
        span: The span.
        scope: The name of its scope: one object for all spans of it, as protobuf makes a new one
            whenever it is asked.
        process: Its sender.
        matches: Whether it follows a convention.
    """
    return HeldSpan(
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex() if any(span.parent_span_id) else "",
        data=span.SerializeToString(),
        scope=scope,
        matches=matches,
        process=process,
    )


def has_sound_ids(span: Span) -> bool:
    """Return whether trace, span and parent have ids of the right length that are not zero."""
    return (
        len(span.trace_id) == 16
        and any(span.trace_id)
        and len(span.span_id) == 8
        and any(span.span_id)
        and len(span.parent_span_id) in (0, 8)
    )


def span_record(held: HeldSpan) -> SpanRecord:
    """Return a held span in the form that the conventions read."""
    span = Span.FromString(held.data)
    trace_id = int.from_bytes(span.trace_id, "big")
    parent = None
    if held.parent_id:
        parent = _context(trace_id, int(held.parent_id, 16), None)
    events = ((each.name, _plain_of(each.attributes)) for each in span.events)
    attributes, exception = with_contents(_plain_of(span.attributes), events)
    return SpanRecord(
        span_id=held.span_id,
        parent_id=held.parent_id,
        context=_context(trace_id, int(held.span_id, 16), _trace_state(span.trace_state)),
        parent=parent,
        name=span.name,
        scope=held.scope,
        attributes=attributes,
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        has_failed=span.status.code == Status.STATUS_CODE_ERROR,
        status_text=span.status.message,
        exception=exception,
        is_whole=not span.dropped_attributes_count,
    )


def _trace_state(header: str) -> TraceState | None:
    # What other systems write there nobody reads; the library logs what it does not like of it.
    found = _SAMPLING.search(header)
    return None if found is None else TraceState([("ot", found[1])])


def _context(trace_id: int, span_id: int, state: TraceState | None) -> SpanContext:
    # Whatever was exported was sampled; not every SDK says so in the flags.
    return SpanContext(
        trace_id,
        span_id,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=state,
    )


def _plain_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: plain(pair.value) for pair in pairs}


def plain(value: AnyValue) -> Any:
    """Return a value of OTLP's as one of Python's; protobuf bounds how deep it is nested."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(each) for each in value.array_value.values[:MAX_VALUES]]
    if kind == "kvlist_value":
        return _plain_of(value.kvlist_value.values[:MAX_VALUES])
    found = None if kind is None else getattr(value, kind)
    return found.hex() if isinstance(found, bytes) else found
