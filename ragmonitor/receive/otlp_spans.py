"""Spans as OTLP carries them, in the form that the conventions read.

https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from ragmonitor.capture.coercion import text_in
from ragmonitor.capture.span_readers.dialects import dialect_of
from ragmonitor.capture.span_readers.spans import SpanRecord, with_contents
from ragmonitor.semconv.conventions import SCOPE

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


class Process(NamedTuple):
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


def sound_spans(
    request: ExportTraceServiceRequest,
) -> tuple[list[tuple[bytes, HeldSpan]], Counter[str]]:
    """Return the spans to be held, each with its trace id, and what became of the others."""
    outcomes: Counter[str] = Counter()
    sound: list[tuple[bytes, HeldSpan]] = []
    for resource in request.resource_spans:
        process = _process_of(resource.resource)
        for each in resource.scope_spans:
            # One object for all spans of it: protobuf makes a new one whenever it is asked.
            scope = each.scope.name[:MAX_SCOPE_CHARACTERS]
            for span in each.spans:
                parent_id = span.parent_span_id.hex()
                if scope == SCOPE:
                    outcomes["own"] += 1
                elif not (_is_id(span.trace_id, 16) and _is_id(span.span_id, 8)) or (
                    len(parent_id) not in (0, 16)
                ):
                    outcomes["rejected"] += 1
                else:
                    held = HeldSpan(
                        span_id=span.span_id.hex(),
                        parent_id=parent_id if any(span.parent_span_id) else "",
                        data=span.SerializeToString(),
                        scope=scope,
                        matches=dialect_of(scope, {pair.key: 0 for pair in span.attributes}) != "",
                        process=process,
                    )
                    sound.append((span.trace_id, held))
    return sound, outcomes


def _is_id(value: bytes, length: int) -> bool:
    return len(value) == length and any(value)


def _process_of(resource: Resource) -> Process:
    attributes = {
        pair.key: text[:MAX_RESOURCE_CHARACTERS]
        for pair in resource.attributes
        if pair.key in RESOURCE_ATTRIBUTES and (text := text_in(_plain(pair.value)))
    }
    return Process(
        hash(resource.SerializeToString(deterministic=True)),
        attributes,
        sum(map(sys.getsizeof, attributes.values())),
    )


def span_record(held: HeldSpan) -> SpanRecord:
    """Return a held span in the form that the conventions read."""
    span = Span.FromString(held.data)
    # What other systems write there nobody reads; the library logs what it does not like of it.
    sampling = _SAMPLING.search(span.trace_state)
    # Whatever was exported was sampled; not every SDK says so in the flags.
    context = partial(
        SpanContext,
        int.from_bytes(span.trace_id, "big"),
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    state = None if sampling is None else TraceState([("ot", sampling[1])])
    events = ((each.name, _plain_of(each.attributes)) for each in span.events)
    return SpanRecord(
        span_id=held.span_id,
        parent_id=held.parent_id,
        context=context(int(held.span_id, 16), trace_state=state),
        parent=context(int(held.parent_id, 16)) if held.parent_id else None,
        name=span.name,
        scope=held.scope,
        attributes=with_contents(_plain_of(span.attributes), events),
        started_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        has_failed=span.status.code == Status.STATUS_CODE_ERROR,
        status_text=span.status.message,
        is_whole=not span.dropped_attributes_count,
    )


def _plain_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(value: AnyValue) -> Any:
    """Return a value of OTLP's as one of Python's; protobuf bounds how deep it is nested."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(each) for each in value.array_value.values[:MAX_VALUES]]
    if kind == "kvlist_value":
        return _plain_of(value.kvlist_value.values[:MAX_VALUES])
    found = None if kind is None else getattr(value, kind)
    return found.hex() if isinstance(found, bytes) else found
