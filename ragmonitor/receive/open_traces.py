"""Holds the spans of traces until they are complete: bounded in bytes, traces, spans and age."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

from ragmonitor.receive.otlp_spans import HeldSpan
from ragmonitor.runtime.protocols import Clock

MAX_SPANS_OF_TRACE: Final = 10_000
MAX_BYTES_OF_TRACE: Final = 64 * 2**20
MAX_REMEMBERED_SPANS: Final = 200_000
"""Ids of spans that have left: those of the traces that ended last."""

TRACE_BYTES: Final = 500
"""The memory that an open trace takes beside its spans, estimated."""

Admission = Literal["now", "later", "never"]
"""When there is room for a request. `never`: it takes more than may be held at all."""
SpanOutcome = Literal["taken", "duplicate", "late"]
"""The outcome of a span: held; known already; of a trace that was given up."""
State = Literal["growing", "partial", "whole", "over"]
"""The state of a trace. `whole`: nothing that is named is missing, and it is quiet; `partial`:
quiet, and all that is missing are parents in other processes; `over`: there is no more waiting for
it."""


class OpenTrace:
    """The spans of one trace that have come."""

    __slots__ = ("began_s", "changed_s", "looked_at", "matches", "size_bytes", "spans")

    def __init__(self, now: float) -> None:
        self.spans: dict[str, HeldSpan] = {}
        """The spans by id."""
        self.size_bytes = TRACE_BYTES
        self.began_s = self.changed_s = now
        """The time when its first, and its last span came."""
        self.looked_at = 0
        """The number of spans that it had when it was last looked at in vain."""
        self.matches = False
        """Whether any span follows a convention."""

    def missing(self) -> list[HeldSpan]:
        """Return the spans whose parents have not come."""
        return [
            span
            for span in self.spans.values()
            if span.parent_id and span.parent_id not in self.spans
        ]


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
        self._open: OrderedDict[bytes, OpenTrace] = OrderedDict()
        """Open traces by id; the one that has changed last comes last."""
        self._left: OrderedDict[bytes, set[str] | None] = OrderedDict()
        """The spans' ids of traces that have left; None: it was given up."""
        self._remembered = 0
        self.size_bytes = 0
        """About how much memory the spans and their traces take."""

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    def room(self, size_bytes: int, trace_ids: Collection[bytes]) -> Admission:
        """Return when spans fit in.

        Args:
            size_bytes: About how much memory they take.
            trace_ids: The ids of their traces, each once.
        """
        if (
            size_bytes + len(trace_ids) * TRACE_BYTES > self._max_bytes
            or len(trace_ids) > self._max_traces
        ):
            return "never"
        opened = sum(trace_id not in self._open for trace_id in trace_ids)
        fits = (
            self.size_bytes + size_bytes + opened * TRACE_BYTES <= self._max_bytes
            and len(self._open) + opened <= self._max_traces
        )
        return "now" if fits else "later"

    def now(self) -> float:
        """Return the time by which the traces are held."""
        return self._clock()

    def oldest_s(self) -> float:
        """Return when the oldest open trace began; now, if there is none."""
        with self._lock:
            return min((each.began_s for each in self._open.values()), default=self._clock())

    def drop(self, trace_ids: Iterable[bytes]) -> None:
        """Forget open traces: somebody else reads them."""
        with self._lock:
            for trace_id in trace_ids:
                trace = self._open.pop(trace_id, None)
                if trace is not None:
                    self.size_bytes -= trace.size_bytes

    def add(self, spans: Iterable[tuple[bytes, HeldSpan]]) -> tuple[Counter[str], int]:
        """Take the spans of one request; return what became of them, and the traces given up.

        Args:
            spans: Each with the id of its trace.
        """
        outcomes: Counter[str] = Counter()
        given_up = 0
        with self._lock:
            now = self._clock()
            for trace_id, span in spans:
                outcome = self._add(trace_id, span, now)
                outcomes[outcome] += 1
                trace = self._open.get(trace_id)
                if trace is not None and (
                    len(trace.spans) > MAX_SPANS_OF_TRACE or trace.size_bytes > MAX_BYTES_OF_TRACE
                ):
                    self._leave(trace_id, give_up=True)
                    given_up += 1
        return outcomes, given_up

    def _add(self, trace_id: bytes, span: HeldSpan, now: float) -> SpanOutcome:
        left = self._left.get(trace_id, set())
        if left is None:
            return "late"
        trace = self._open.get(trace_id)
        if span.span_id in left or (trace is not None and span.span_id in trace.spans):
            return "duplicate"
        if trace is None:
            trace = self._open[trace_id] = OpenTrace(now)
            self.size_bytes += trace.size_bytes
        trace.spans[span.span_id] = span
        trace.matches = trace.matches or span.matches
        trace.size_bytes += span.size_bytes
        self.size_bytes += span.size_bytes
        trace.changed_s = now
        self._open.move_to_end(trace_id)
        return "taken"

    def due(self, *, at_end: bool = False) -> Iterator[tuple[bytes, OpenTrace, State]]:
        """Yield the traces that may be complete, those that have waited longest first.

        Args:
            at_end: All of them, as `over`: no more spans are taken.
        """
        now = self._clock()
        with self._lock:
            traces = [*self._open.items()]
        for trace_id, trace in traces:
            with self._lock:
                state = "over" if at_end else self._state(trace, now)
            if state != "growing":
                yield trace_id, trace, state

    def _state(self, trace: OpenTrace, now: float) -> State:
        if now - trace.began_s >= self._age_s:
            return "over"
        quiet_s = now - trace.changed_s
        if quiet_s < self._quiet_s:
            return "growing"
        if quiet_s >= self._wait_s or not trace.matches:
            return "over"
        if trace.looked_at == len(trace.spans):
            return "growing"
        missing = trace.missing()
        if not missing:
            return "whole"
        if all(span.parent_is_remote for span in missing):
            return "partial"
        trace.looked_at = len(trace.spans)
        return "growing"

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
        if not (trace.matches or give_up):
            return  # what it encloses, or is enclosed by, may yet be an interaction
        before = self._left.pop(trace_id, None)
        self._remembered -= len(before or ())
        left = None if give_up else (before or set()) | trace.spans.keys()
        self._left[trace_id] = left
        self._remembered += len(left or ())
        while self._remembered > MAX_REMEMBERED_SPANS or len(self._left) > self._max_traces:
            _, forgotten = self._left.popitem(last=False)
            self._remembered -= len(forgotten or ())
