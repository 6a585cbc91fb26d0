"""Takes OTLP's requests, and holds the spans of traces until they are complete.

What is held is bounded in bytes, traces, spans and age.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragmonitor.capture.recorder import OPEN_RUN_AGE_S
from ragmonitor.receive.otlp_spans import HeldSpan, sound_spans
from ragmonitor.records import GaugeValue
from ragmonitor.runtime.protocols import Clock
from ragmonitor.semconv.metrics import RECEIVED

QUIET_S: Final = 6.0
"""How long after its last span a trace of which nothing is missing is read: longer than exporters'
pause between batches, which is 5 s by default."""
WAIT_S: Final = 120.0
"""How long after its last span a trace waits for a root or a parent."""
MAX_TRACES: Final = 50_000
"""Traces that may be open at once; beyond, senders are to try again later."""
MAX_HELD_BYTES: Final = 256 * 2**20
"""Memory that the spans of open traces may take; likewise."""
MAX_SPANS_OF_TRACE: Final = 10_000
MAX_REMEMBERED_SPANS: Final = 200_000
"""Ids of spans that have left: those of the traces that ended last."""

TRACE_BYTES: Final = 500
"""The memory that an open trace takes beside its spans, estimated."""
_NO_IDS: Final = "spans without a trace id of 16 bytes and a span id of 8"


class FullError(Exception):
    """There is no room for a request; its sender is to try again."""


class OpenTrace:
    """The spans of one trace that have come."""

    __slots__ = ("began_s", "changed_s", "matches", "size_bytes", "spans")

    def __init__(self, now: float) -> None:
        self.spans: dict[str, HeldSpan] = {}
        """The spans by id."""
        self.size_bytes = TRACE_BYTES
        self.began_s = self.changed_s = now
        """The time when its first, and its last span came."""
        self.matches = False
        """Whether any span follows a convention."""

    @property
    def is_whole(self) -> bool:
        """Whether every parent that its spans name has come."""
        return all(
            not each.parent_id or each.parent_id in self.spans for each in self.spans.values()
        )


class OpenTraces:
    """The traces that are not complete. Methods may be called by any thread.

    A full store refuses: senders keep what they have and try again, so nothing is lost by us. What
    has left is remembered by its ids, so that what is sent twice is taken once.
    """

    def __init__(self, clock: Clock) -> None:
        """Hold nothing yet; the clock's seconds never go back."""
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[bytes, OpenTrace] = {}
        self._left: OrderedDict[tuple[bytes, str], None] = OrderedDict()
        """Trace and span id of spans that have left; of a trace that was given up, no span id."""
        self._counts: Counter[tuple[str, str]] = Counter()
        """Requests, spans and traces, by what became of them."""
        self.size_bytes = 0
        """About how much memory the spans and their traces take."""

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    def count(self, outcome: str, what: str = "requests") -> None:
        """Count a request, or a trace, by what became of it."""
        with self._lock:
            self._counts[what, outcome] += 1

    def gauges(self) -> Sequence[GaugeValue]:
        """Return the counts."""
        with self._lock:
            return [
                GaugeValue.of(RECEIVED, n, what=what, outcome=outcome)
                for (what, outcome), n in self._counts.items()
            ]

    def take(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        """Take a request whole, and return the reply.

        Raises:
            FullError: There is no room for it yet; nothing of it was taken.
        """
        spans, outcomes = sound_spans(request)
        trace_ids = {trace_id for trace_id, _ in spans}
        size_bytes = sum(span.size_bytes for _, span in spans)
        rejected = outcomes["rejected"]
        with self._lock:
            opened = len(trace_ids - self._open.keys())
            held = self.size_bytes + size_bytes + opened * TRACE_BYTES
            if held > MAX_HELD_BYTES or len(self._open) + opened > MAX_TRACES:
                self._counts["requests", "full"] += 1
                raise FullError("as many open traces are held as may be; try again later")
            now = self._clock()
            for trace_id, span in spans:
                outcomes[self._add(trace_id, span, now)] += 1
            self._counts["requests", "partial" if rejected else "taken"] += 1
            self._counts.update({("spans", name): n for name, n in outcomes.items()})
        reply = ExportTraceServiceResponse()
        if rejected:
            reply.partial_success.rejected_spans = rejected
            reply.partial_success.error_message = _NO_IDS
        return reply

    def _add(self, trace_id: bytes, span: HeldSpan, now: float) -> str:
        """Return what became of a span: held, known already, or of a trace that was given up."""
        trace = self._open.get(trace_id)
        if (trace_id, "") in self._left:
            return "late"
        if (trace_id, span.span_id) in self._left or (trace and span.span_id in trace.spans):
            return "duplicate"
        if trace is None:
            trace = self._open[trace_id] = OpenTrace(now)
            self.size_bytes += TRACE_BYTES
        trace.spans[span.span_id] = span
        trace.matches = trace.matches or span.matches
        trace.size_bytes += span.size_bytes
        trace.changed_s = now
        self.size_bytes += span.size_bytes
        if len(trace.spans) > MAX_SPANS_OF_TRACE:
            self._leave(trace_id)
            self._remember([(trace_id, "")])
            self._counts["traces", "too_large"] += 1
        return "taken"

    def due(self, *, at_end: bool = False) -> Sequence[bytes]:
        """Return the ids of traces that are complete, or have waited long enough.

        Args:
            at_end: All of them: no more spans are taken.
        """
        now = self._clock()
        with self._lock:
            return [i for i, each in self._open.items() if at_end or self._is_due(each, now)]

    def _is_due(self, trace: OpenTrace, now: float) -> bool:
        quiet_s = now - trace.changed_s
        if quiet_s >= WAIT_S or now - trace.began_s >= OPEN_RUN_AGE_S:
            return True
        return quiet_s >= QUIET_S and (not trace.matches or trace.is_whole)

    def pop(self, trace_id: bytes) -> OpenTrace | None:
        """Have a trace leave; what comes later of it is looked at by itself. None: it is gone."""
        with self._lock:
            trace = self._leave(trace_id) if trace_id in self._open else None
            # Of another trace, what it encloses, or is enclosed by, may be an interaction yet.
            if trace is not None and trace.matches:
                self._remember((trace_id, span_id) for span_id in trace.spans)
            return trace

    def _leave(self, trace_id: bytes) -> OpenTrace:
        trace = self._open.pop(trace_id)
        self.size_bytes -= trace.size_bytes
        return trace

    def _remember(self, ids: Iterable[tuple[bytes, str]]) -> None:
        self._left.update(dict.fromkeys(ids))
        while len(self._left) > MAX_REMEMBERED_SPANS:
            self._left.popitem(last=False)
