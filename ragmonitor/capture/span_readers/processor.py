"""Collects the spans that other instrumentations end in this process, by trace.

`on_start` and `on_end` run inside the application's request: dict operations, no lock, nothing is
copied or parsed. What belongs together is found out in `sweep`, by the worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opentelemetry import context as otel
from opentelemetry.sdk.trace import SpanProcessor

from ragmonitor.capture.plain import current_of
from ragmonitor.capture.probe_mark import current_mark
from ragmonitor.capture.recorder import oldest_of, tool_matcher
from ragmonitor.capture.span_readers.dialects import follows
from ragmonitor.capture.span_readers.spans import SpanRecord, span_record
from ragmonitor.capture.span_readers.trees import JoinedTrace
from ragmonitor.runtime.guard import record_error
from ragmonitor.runtime.protocols import Clock, Finished
from ragmonitor.semconv.conventions import SCOPE

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

_SUPPRESSED = "suppress_instrumentation"

QUIET_S: Final = 1.0
"""A tree is complete so long after its last span: spans may come late."""
SPAN_AGE_S: Final = 900.0
"""A span open for longer is taken as never to end."""
MAX_SPANS: Final = 50_000
"""When more spans are held, the oldest traces are forgotten."""


@dataclass(slots=True)
class _Held:
    """A span that is open, or waits for the rest of its interaction."""

    span: ReadableSpan
    stamp: float
    """The time at which it began, or ended."""
    is_open: bool = True
    """It has not ended, and is not yet taken as never to end."""
    record: SpanRecord | None = None
    """What it says, once that has been read."""


@dataclass(slots=True)
class _Trace:
    """The spans of one trace: all that are open, and those that ended and may be needed."""

    spans: dict[int, _Held] = field(default_factory=dict)
    matches: bool = False
    """It has a span of a dialect; what ended before that began is not held."""
    changed: bool = False
    """A span has ended since the last sweep."""
    due: float = 0.0
    """The time at which a sweep may find something complete without a new span."""


class InteractionSpanProcessor(SpanProcessor):
    """Makes interactions of the spans of OpenInference, OpenLLMetry and GenAI instrumentations.

    `provider.add_span_processor(monitor.span_processor())`. Hands over a tree once its root has
    ended, nothing below it is open, and it has been quiet for a moment: spans may end after those
    they belong to.

    It ignores our own spans, spans that start under suppressed instrumentation (a judge's calls),
    and spans that start within a `monitor.interaction` block, which is the interaction itself.
    """

    def __init__(
        self,
        hand_over: Callable[[Finished], None],
        *,
        wake: Callable[[], None] = lambda: None,
        is_claimed: Callable[[str], bool] = lambda _framework: False,
        retrieval_tools: Sequence[str] = (),
        clock: Clock = time.monotonic,
        on_forgotten: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """Begin with nothing noted.

        Args:
            hand_over: Takes a finished interaction; must return at once and never raise.
            wake: Called with the first span, so that somebody calls `sweep` from then on.
            is_claimed: Whether an integration of ours records this framework for the same monitor:
                its trees are left to it.
            retrieval_tools: Patterns (`fnmatch`) of the names of tools that retrieve text.
            clock: Seconds, never going back.
            on_forgotten: Told the reason whenever a trace or a span is given up.
        """
        self._hand_over = hand_over
        self._wake = wake
        self._is_claimed = is_claimed
        self._is_retrieval_tool = tool_matcher(retrieval_tools)
        self._clock = clock
        self._on_forgotten = on_forgotten
        self._traces: dict[int, _Trace] = {}
        self._held = 0
        """About how many spans are held: threads may miscount, and every sweep counts anew."""
        self._awake = False
        self._closed = False
        self._sweeping = threading.Lock()

    # --- the application's side -----------------------------------------------------------------

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that a span began."""
        try:
            scope, context = span.instrumentation_scope, span.context
            current = otel.get_current()
            if (
                self._closed
                or (scope is not None and scope.name == SCOPE)
                or (current and otel.get_value(_SUPPRESSED, current))
                or current_of(self._hand_over) is not None
            ):
                return
            if current_mark(parent_context if parent_context is not None else current):
                if span.parent is None or span.parent.is_remote:
                    self._on_forgotten("probe")
                return
            if self._held >= MAX_SPANS:
                self._forget_oldest()
            trace = self._traces.setdefault(context.trace_id, _Trace())
            trace.spans[context.span_id] = _Held(span, self._clock())
            self._held += 1
            self._traces[context.trace_id] = trace  # which was empty, and may be swept away
            trace.matches = trace.matches or _follows(span)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def on_end(self, span: ReadableSpan) -> None:
        """Keep an ended span of a trace in which one follows a dialect."""
        try:
            context = span.context
            trace = None if context is None else self._traces.get(context.trace_id)
            held = None if trace is None else trace.spans.get(context.span_id)
            # Not seen to start: not ours to read, or seen to end already.
            if trace is None or held is None or not held.is_open:
                return
            trace.matches = trace.matches or _follows(span)
            # In this order, since a sweep may come meanwhile.
            held.span, held.stamp = span, self._clock()
            held.is_open = False
            trace.changed = True
            if trace.matches:
                if not self._awake:
                    self._awake = True
                    self._wake()
                return
            trace.spans.pop(context.span_id, None)
            self._held -= 1
            if not trace.spans:
                self._traces.pop(context.trace_id, None)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def shutdown(self) -> None:
        """Hand over what is complete, and ignore every later span."""
        self._closed = True
        self.drain(1.0)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Hand over what is complete without waiting for it to be quiet."""
        return self.drain(timeout_millis / 1000)

    # --- what polls it --------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many spans wait for their interaction."""
        traces = [*self._traces.copy().values()]
        return sum(not held.is_open for each in traces for held in each.spans.copy().values())

    def sweep(self) -> None:
        """Hand over what is complete and quiet; give up what never ends."""
        self.drain(0.0, QUIET_S)

    def drain(self, timeout_s: float, quiet_s: float = 0.0) -> bool:
        """Hand over what is complete, quiet or not; return whether the time sufficed."""
        sweeping = self._sweeping
        if not sweeping.acquire(timeout=max(0.0, timeout_s)):
            return False
        try:
            self._take(quiet_s)
        finally:
            sweeping.release()
        return True

    def clear(self) -> None:
        """Forget every span; for a forked child, whose parent keeps them."""
        self._sweeping = threading.Lock()
        self._traces.clear()
        self._held = 0
        self._awake = False

    def _take(self, quiet_s: float) -> None:
        now = self._clock()
        count = 0
        for trace_id, trace in [*self._traces.copy().items()]:
            try:
                has_ended = self._age(trace, now)
                if has_ended and (trace.changed or now >= trace.due or not quiet_s):
                    self._take_from(trace, now, quiet_s)
            except Exception as error:  # noqa: BLE001 - a fault that is kept is met at every sweep
                record_error("capture", error)
                for span_id, held in [*trace.spans.copy().items()]:
                    if not held.is_open:
                        trace.spans.pop(span_id, None)
                self._on_forgotten("unreadable")
            if not trace.spans:
                self._traces.pop(trace_id, None)
            count += len(trace.spans)
        self._held = count

    def _age(self, trace: _Trace, now: float) -> bool:
        """Give up what never ends; return whether anything has ended, or is given up."""
        aged = has_ended = False
        for span_id, held in [*trace.spans.copy().items()]:
            if held.is_open and now - held.stamp >= SPAN_AGE_S:
                trace.changed = True
                if _follows(held.span):
                    # Read as it is: an instrumentation that never ends it has said the most by now.
                    held.stamp, held.is_open = now - QUIET_S, False
                    aged = True
                else:
                    trace.spans.pop(span_id, None)
            has_ended = has_ended or not held.is_open
        if aged:
            self._on_forgotten("aged_out")
        return has_ended

    def _take_from(self, trace: _Trace, now: float, quiet_s: float) -> None:
        """Hand over the trees that are complete and quiet, and let go of what will be in none."""
        trace.changed = False
        ages: dict[str, float] = {}
        ended: list[SpanRecord] = []
        still_open: list[SpanRecord] = []
        for held in [*trace.spans.copy().values()]:
            if held.is_open:
                still_open.append(span_record(held.span, is_open=True))
                continue
            held.record = record = held.record or span_record(held.span)
            ended.append(record)
            ages[record.span_id] = now - held.stamp
        joined = JoinedTrace(ended, still_open, is_retrieval_tool=self._is_retrieval_tool)
        kept, gone = set[str](), set[str]()
        for finished in joined.interactions():
            members = {finished.root.span_id, *(step.span.span_id for step in finished.steps)}
            if min(ages[member] for member in members) < quiet_s:
                kept |= members
                continue
            gone |= members
            if not any(self._is_claimed(name) for name in finished.observed):
                self._hand_over(finished)
        # Of the rest, what shares a trace with an open span may yet become a part of a tree.
        rest_s = SPAN_AGE_S if still_open else quiet_s
        rest = {i for i in joined.connecting & ages.keys() - gone if i in kept or ages[i] < rest_s}
        for span_id in ages.keys() - rest:
            trace.spans.pop(int(span_id, 16), None)
        waits = ((quiet_s if ages[i] < quiet_s else SPAN_AGE_S) - ages[i] for i in rest)
        trace.due = now + min(waits, default=0.0)

    # --- bounds ---------------------------------------------------------------------------------

    def _forget_oldest(self) -> None:
        for trace_id, trace in oldest_of(self._traces, 1):  # one in, one out
            if self._traces.pop(trace_id, None) is not None:
                self._held -= len(trace.spans)
                if trace.matches:
                    self._on_forgotten("too_many_open")


def _follows(span: ReadableSpan) -> bool:
    """Return whether a span is, or will be, of a dialect."""
    scope = span.instrumentation_scope
    return follows("" if scope is None else scope.name, span.attributes or {})
