"""Takes OTLP's requests, whatever protocol they came by, and counts what became of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragmonitor.capture.span_readers import dialect_of
from ragmonitor.export.server import Rejection
from ragmonitor.receive.open_traces import FullError, OpenTraces
from ragmonitor.receive.otlp_bodies import UnreadableBodyError
from ragmonitor.receive.otlp_spans import (
    MAX_SCOPE_CHARACTERS,
    HeldSpan,
    has_sound_ids,
    held_span,
    process_of,
)
from ragmonitor.records import GaugeValue
from ragmonitor.semconv.conventions import SCOPE
from ragmonitor.semconv.metrics import RECEIVED

RequestOutcome = Literal["taken", "partial", "full", "unauthorized"] | Rejection
"""The outcome of a request. `partial`: spans in it had no sound ids; `full`: it is to be sent again
later, as there is no room for open traces; the rest as the server of /metrics counts them."""

MAX_PARTS: Final = 200_000
"""Spans, attributes, events and links of one request: about a second of one processor."""
_NO_IDS: Final = "spans without a trace id of 16 bytes and a span id of 8"


class SpanIntake:
    """Takes the requests of the servers of all protocols, from any thread."""

    def __init__(self, traces: OpenTraces) -> None:
        """Take nothing yet; the spans will be held in `traces`."""
        self._traces = traces
        self._counting = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._spans: Counter[str] = Counter()
        self.given_up = 0
        """Traces with more spans than are held."""

    def take(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        """Take a request whole, and return the reply.

        Raises:
            FullError: There is no room for it; nothing of it was taken.
            UnreadableBodyError: There will never be.
        """
        _check_parts(request)
        spans, outcomes = _sound_spans(request)
        try:
            taken, given_up = self._traces.add(spans)
        except FullError:
            self.count("full")
            raise
        rejected = outcomes["rejected"]
        reply = ExportTraceServiceResponse()
        if rejected:
            reply.partial_success.rejected_spans = rejected
            reply.partial_success.error_message = _NO_IDS
        self.count("partial" if rejected else "taken")
        with self._counting:
            self._spans.update(outcomes + taken)
            self.given_up += given_up
        return reply

    def count(self, outcome: RequestOutcome) -> None:
        """Count a request."""
        with self._counting:
            self._requests[outcome] += 1

    def gauges(self) -> Sequence[GaugeValue]:
        """Return the counts by outcome."""
        with self._counting:
            tables = (("requests", self._requests), ("spans", self._spans))
            return [
                GaugeValue.of(RECEIVED, n, what=what, outcome=outcome)
                for what, counts in tables
                for outcome, n in counts.items()
            ]


def _check_parts(request: ExportTraceServiceRequest) -> None:
    """See that a request has not so many parts that to read it would keep a processor busy.

    Raises:
        UnreadableBodyError: It has; an empty part takes two bytes.
    """
    parts = len(request.resource_spans)
    for resource in request.resource_spans if parts <= MAX_PARTS else ():
        parts += len(resource.resource.attributes) + len(resource.scope_spans)
        for scope in resource.scope_spans if parts <= MAX_PARTS else ():
            parts += len(scope.spans)
            for span in scope.spans if parts <= MAX_PARTS else ():
                parts += len(span.attributes) + len(span.events) + len(span.links)
    if parts > MAX_PARTS:
        raise UnreadableBodyError(413, f"a request has at most {MAX_PARTS:,} spans and attributes")


def _sound_spans(
    request: ExportTraceServiceRequest,
) -> tuple[list[tuple[bytes, HeldSpan]], Counter[str]]:
    """Return the spans to be held, each with its trace id, and what became of the others."""
    outcomes: Counter[str] = Counter()
    sound: list[tuple[bytes, HeldSpan]] = []
    for resource in request.resource_spans:
        process = process_of(resource.resource)
        for each in resource.scope_spans:
            scope = each.scope.name[:MAX_SCOPE_CHARACTERS]
            for span in each.spans:
                if scope == SCOPE:
                    outcomes["own"] += 1
                elif not has_sound_ids(span):
                    outcomes["rejected"] += 1
                else:
                    keys = {pair.key: None for pair in span.attributes}
                    matches = dialect_of(scope, keys) is not None
                    held = held_span(span, scope, process, matches=matches)
                    sound.append((span.trace_id, held))
    return sound, outcomes
