"""Holds the spans of traces until they are complete: bounded in bytes, traces, spans and age."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from ragmonitor.receive.otlp_bodies import UnreadableBodyError
from ragmonitor.receive.otlp_spans import HeldSpan
from ragmonitor.runtime.protocols import Clock

MAX_SPANS_OF_TRACE: Final = 10_000
MAX_BYTES_OF_TRACE: Final = 64 * 2**20
MAX_REMEMBERED_SPANS: Final = 200_000
"""Ids of spans that have left: those of the traces that ended last."""

TRACE_BYTES: Final = 500
"""The memory that an open trace takes beside its spans, estimated."""

SpanOutcome = Literal["taken", "duplicate", "late"]
"""The outcome of a span: held; known already; of a trace that was given up."""


class FullError(Exception):
    """There is no room for a request; its sender is to try again."""


class OpenTrace:
    """The spans of one trace that have come."""

    __slots__ = ("awaited", "began_s", "changed_s", "matches", "size_bytes", "spans")

    def __init__(self, now: float) -> None:
        self.spans: dict[str, HeldSpan] = {}
        """The spans by id."""
        self.awaited: set[str] = set()
        """The ids of parents that have not come."""
        self.size_bytes = TRACE_BYTES
        self.began_s = self.changed_s = now
        """The time when its first, and its last span came."""
        self.matches = False
        """Whether any span follows a convention."""

    def add(self, span: HeldSpan, now: float) -> None:
        """Hold a span."""
        self.spans[span.span_id] = span
        self.awaited.discard(span.span_id)
        if span.parent_id and span.parent_id not in self.spans:
            self.awaited.add(span.parent_id)
        self.matches = self.matches or span.matches
        self.size_bytes += span.size_bytes
        self.changed_s = now


class OpenTraces:
    """The traces that are not complete. Methods may be called by any thread.

    A full store refuses: senders keep what they have and try again, so nothing is lost by us. What
    has left is remembered by its ids, so that what is sent twice is taken once.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_traces: int,
        quiet_s: float,
        wait_s: float,
        age_s: float,
        clock: Clock,
    ) -> None:
        """Hold nothing yet.

        Args:
            max_bytes: About how much memory the spans may take together.
            max_traces: That may be open at once.
            quiet_s: A trace that has all it names is complete so long after its last span.
            wait_s: How long after its last span a trace waits for what is missing.
            age_s: A trace that goes on for longer ends all the same.
            clock: Seconds, never going back.
        """
        self._max_bytes = max_bytes
        self._max_traces = max_traces
        self._quiet_s = quiet_s
        self._wait_s = wait_s
        self._age_s = age_s
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[bytes, OpenTrace] = {}
        self._left: OrderedDict[tuple[bytes, str], None] = OrderedDict()
        """Trace and span id of spans that have left; of a trace that was given up, no span id."""
        self.size_bytes = 0
        """About how much memory the spans and their traces take."""

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    def add(self, spans: Sequence[tuple[bytes, HeldSpan]]) -> tuple[Counter[str], int]:
        """Take the spans of one request; return what became of them, and the traces given up.

        Args:
            spans: Each with the id of its trace.

        Raises:
            FullError: There is no room for them yet; none was taken.
            UnreadableBodyError: There will never be.
        """
        trace_ids = {trace_id for trace_id, _ in spans}
        size_bytes = sum(span.size_bytes for _, span in spans)
        outcomes: Counter[str] = Counter()
        given_up = 0
        with self._lock:
            opened = len(trace_ids - self._open.keys())
            if size_bytes + len(trace_ids) * TRACE_BYTES > self._max_bytes or (
                len(trace_ids) > self._max_traces
            ):
                raise UnreadableBodyError(
                    413, "a request cannot have more spans, or traces, than may be held at once"
                )
            if self.size_bytes + size_bytes + opened * TRACE_BYTES > self._max_bytes or (
                len(self._open) + opened > self._max_traces
            ):
                raise FullError("as many open traces are held as may be; try again later")
            now = self._clock()
            for trace_id, span in spans:
                outcomes[self._add(trace_id, span, now)] += 1
                trace = self._open.get(trace_id)
                if trace is not None and (
                    len(trace.spans) > MAX_SPANS_OF_TRACE or trace.size_bytes > MAX_BYTES_OF_TRACE
                ):
                    self._leave(trace_id, give_up=True)
                    given_up += 1
        return outcomes, given_up

    def _add(self, trace_id: bytes, span: HeldSpan, now: float) -> SpanOutcome:
        trace = self._open.get(trace_id)
        if (trace_id, "") in self._left:
            return "late"
        if (trace_id, span.span_id) in self._left or (trace and span.span_id in trace.spans):
            return "duplicate"
        if trace is None:
            trace = self._open[trace_id] = OpenTrace(now)
            self.size_bytes += TRACE_BYTES
        trace.add(span, now)
        self.size_bytes += span.size_bytes
        return "taken"

    def due(self, *, at_end: bool = False) -> Iterator[tuple[bytes, OpenTrace]]:
        """Yield the traces that are complete, or have waited long enough.

        Args:
            at_end: All of them: no more spans are taken.
        """
        now = self._clock()
        with self._lock:
            due = [each for each in self._open.items() if at_end or self._is_due(each[1], now)]
        yield from due

    def _is_due(self, trace: OpenTrace, now: float) -> bool:
        is_whole = not (trace.matches and trace.awaited)
        wait_s = self._quiet_s if is_whole else self._wait_s
        return now - trace.changed_s >= wait_s or now - trace.began_s >= self._age_s

    def release(self, trace_id: bytes, trace: OpenTrace, spans: int) -> bool:
        """Have a trace leave; False: it has grown since it had so many spans, and stays."""
        with self._lock:
            if self._open.get(trace_id) is not trace or len(trace.spans) != spans:
                return False
            self._leave(trace_id)
            return True

    def give_up(self, trace_id: bytes) -> None:
        """Have a trace leave that cannot be read."""
        with self._lock:
            if trace_id in self._open:
                self._leave(trace_id, give_up=True)

    def _leave(self, trace_id: bytes, *, give_up: bool = False) -> None:
        trace = self._open.pop(trace_id)
        self.size_bytes -= trace.size_bytes
        if give_up:
            self._left[trace_id, ""] = None
        elif trace.matches:  # else what it encloses, or is enclosed by, may be an interaction yet
            self._left.update(dict.fromkeys((trace_id, span_id) for span_id in trace.spans))
        while len(self._left) > MAX_REMEMBERED_SPANS:
            self._left.popitem(last=False)
