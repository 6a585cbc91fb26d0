"""A monitor that a helper process serves: its records, and what it is told of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from ragmonitor import guard, wire
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.setup import Setup
from ragmonitor.export import OtelExporter
from ragmonitor.feedback import JoinedFeedback
from ragmonitor.protocols import Finished
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import AlarmEvent, Interaction, Report, SpanReference, Status
from ragmonitor.wiring import redactor_of, traces_of

EMIT_S = 10.0
"""Time for the application to emit one trace."""
LAST_S = 5.0
"""Time for what is left when the application is gone without a word."""
MAX_LOGS = 1_000
PROGRESS = 32
"""The application is told after so many records at the latest."""
PAUSE_S = 0.1
"""It is told no more often than that otherwise: each message takes its interpreter's lock."""
_NOTHING: Final = Interaction(
    id="", query="", chunks=(), answer="", framework="", started_ns=0, ended_ns=0
)
"""Stands in a report for the interaction that is sent beside it."""


class _ApplicationErrors:
    """Counts the application's errors once: each of its monitors says how many there are."""

    def __init__(self) -> None:
        self._known: Counter[str] | None = None

    def begin(self, errors: Mapping[str, int]) -> None:
        """Leave out what was before the first monitor."""
        if self._known is None:
            self._known = Counter(errors)
        self.count(errors)

    def count(self, errors: Mapping[str, int]) -> None:
        """Count those that are new."""
        known = self._known or Counter()
        more = Counter(errors) - known
        guard.errors.update(more)
        self._known = known + more


_errors = _ApplicationErrors()
waiting_logs: deque[tuple[int, str]] = deque(maxlen=MAX_LOGS)
"""The lines that the application is to log; whichever of its monitors looks first takes it."""


class Received:
    """A record that the application has sent; decoded by the worker."""

    __slots__ = ("_data", "_number", "_settled", "framework", "status")

    def __init__(
        self, settled: deque[int], number: int, framework: str, status: Status, data: bytes
    ) -> None:
        self._settled, self._number, self._data = settled, number, data
        self.framework, self.status = framework, status

    def interaction(self) -> Interaction:
        """Return the record. Raises `WireError`."""
        data, self._data = self._data, b""
        return wire.decode(data)

    def closed(self) -> None:
        """Note that nothing more is owed of it."""
        self._settled.append(self._number)


class _Queue(MemoryQueue):
    """Says what was taken. The application sends no more than there is room for."""

    def __init__(self, size: int, monitor: ServedMonitor) -> None:
        super().__init__(size)
        self._monitor = monitor

    def take(self, max_items: int) -> Sequence[Finished]:
        """Return up to `max_items`, oldest first; empty if none waits."""
        taken = super().take(max_items)
        self._monitor.taken += len(taken)
        self._monitor.tell_if_due(is_empty=not taken)
        return taken


class ServedMonitor:
    """Carries out the messages of one monitor."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        """Build the back half; it starts with the first record.

        Raises:
            RagMonitorError: It cannot be built here.
        """
        self._setup = setup
        _errors.begin(setup.errors)
        self._settled: deque[int] = deque()
        """Numbers of records of which nothing more is owed, and of which the application was not
        told yet."""
        self.taken = self._told = 0
        """Records that the worker has taken, and of how many the application knows."""
        self._open_runs = 0
        self._told_s = 0.0
        self._telling = threading.Lock()
        """Held until what is to be told is sent: a reply of another thread does not overtake it."""
        self._is_closed = False
        """Whether the application has asked for the last numbers."""
        self._stated: object = None
        self.has_provider = False
        """Whether the application has a tracer provider of its own."""
        size = setup.settings.capture.queue_size
        self._at_most = min(PROGRESS, max(1, size // 4))
        self._queue = _Queue(size, self)
        self._back = LocalBackHalf(
            setup.settings,
            redactor=redactor_of(setup.settings),
            poll=self._poll,
            queue=self._queue,
            traces=_Traces(self, traces_of(setup.settings, self._lose)),
            exporters=[_Exporter(self, n, hears) for n, hears in enumerate(setup.exporters)],
            is_apart=True,
        )
        for _ in range(setup.restarts):
            self._back.meters.restarted()
        self.link = Link(
            connection,
            {
                "record": self._record,
                "note": self._back.worker.ledger.take_over,
                "tick": self._tick,
                "provider": self._provider,
                "refreeze": self._back.refreeze,
                "event": self._back.event,
                "feedback": self._back.feedback,
                "wake": self._back.wake,
                "flush": self._flush,
                "close": self._close,
                "newest": self._back.newest,
                "families": self._families,
            },
            apart=frozenset({"flush", "close", "newest", "families"}),
        )

    def serve(self) -> None:
        """Work until the application is gone."""
        self.tell("ready")
        self.link.serve()
        # Gone without a word: what came is scored all the same, as far as the time suffices.
        if not self._is_closed:
            self._back.close(LAST_S)
        # Exporters that are still closing count what did not arrive.
        self._back.worker.has_closed.wait(LAST_S)

    # --- from the application -------------------------------------------------------------------

    def _record(self, number: int, framework: str, status: Status, data: bytes) -> None:
        # There is room: the application waits until what it sent was taken. What comes too late to
        # be taken is counted by the application, which is told how many were.
        self._queue.put(Received(self._settled, number, framework, status, data))
        self._back.wake()

    def _tick(self, open_runs: int, waiting: int, errors: Mapping[str, int], level: int) -> None:
        self._open_runs, self._queue.upstream = open_runs, waiting
        _errors.count(errors)
        logging.getLogger("ragmonitor").setLevel(level)

    def _provider(self, has_provider: bool) -> None:
        self.has_provider = has_provider

    def _flush(self, timeout_s: float) -> bool:
        flushed = self._back.flush(timeout_s)
        self._tell_state()
        return flushed

    def flush_exporter(self, number: int, timeout_s: float) -> bool:
        """Have an exporter in the application flush, after all that it was sent."""
        with suppress(LinkError, TimeoutError):
            asked = self.link.request("flush_exporter", number, timeout_s)
            return bool(asked.result(max(0.0, timeout_s)))
        return False

    def _close(self, deadline: float) -> tuple[bool, list[Metric], Report | None]:
        self._is_closed = True
        # The clock of `time.monotonic` is the same in all processes of a machine.
        closed = self._back.close(max(0.0, deadline - time.monotonic()))
        self._tell_progress()
        return closed, self._families(), self._back.newest()

    def _families(self) -> list[Metric]:
        return list(self._back.registry.collect())

    # --- to the application ---------------------------------------------------------------------

    def _lose(self, reason: str, n: int) -> None:
        """Count what did not arrive."""
        self._back.meters.dropped(reason, n)

    def tell(self, name: str, *args: object) -> None:
        """Send a message; an application that is gone needs none."""
        with suppress(LinkError):
            self.link.send(name, *args)

    def tell_if_due(self, *, is_empty: bool) -> None:
        """Say which records were taken, if many were or nothing else is to be done."""
        untold = self.taken - self._told
        is_due = self._is_closed or time.monotonic() - self._told_s > PAUSE_S
        if untold >= self._at_most or (is_empty and is_due):
            # At the end, too: the application counts what it does not know to be counted here, and
            # may not wait for the last numbers.
            self._tell_progress()

    def _tell_progress(self) -> None:
        """Say which records were taken, and of which nothing more is owed."""
        with self._telling:
            settled = [self._settled.popleft() for _ in range(len(self._settled))]
            if settled or self.taken != self._told:
                self._told, self._told_s = self.taken, time.monotonic()
                self.tell("progress", self._told, settled)
            with suppress(IndexError):
                while True:
                    self.tell("log", *waiting_logs.popleft())

    def _poll(self) -> int:
        """Tell what is new; end the connection of an application that has ended."""
        if os.getppid() != self._setup.host:
            # Another process has a copy of the application's end, and it would never be seen.
            self.link.close()
        self._tell_state()
        return self._open_runs

    def _tell_state(self) -> None:
        """Say where the evidence stands and what is served, if that has changed."""
        self._tell_progress()
        back = self._back
        with self._telling:
            stated = (tuple(back.alarms), back.metrics_url, back.ui_url, back.destination())
            if stated != self._stated:
                self._stated = stated
                self.tell("state", *stated)

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Have a trace emitted there; return its root's reference, if it comes in time."""
        with suppress(LinkError, TimeoutError):
            bare = tuple(replace(each, interaction=_NOTHING) for each in reports)
            asked = self.link.request("emit", interaction, bare)
            reference: SpanReference | None = asked.result(EMIT_S)
            return reference
        return None


class _Exporter:
    """Stands for an exporter in the application, with the same optional methods."""

    def __init__(self, monitor: ServedMonitor, number: int, hears: Sequence[str]) -> None:
        self._monitor, self._number = monitor, number
        for method in hears:
            setattr(self, method, partial(monitor.tell, "export", number, method))

    def export(self, report: Report) -> None:
        """Have it export there."""
        self._monitor.tell("export", self._number, "export", report)

    def flush(self, timeout_s: float) -> bool:
        """Have it flush there, after all that it was sent."""
        return self._monitor.flush_exporter(self._number, timeout_s)

    def close(self) -> None:
        """Leave it open: the application closes its own exporters."""


class _Traces:
    """Emits here; or in the application, where that has a tracer provider of its own."""

    def __init__(self, monitor: ServedMonitor, own: OtelExporter) -> None:
        self._monitor, self._own = monitor, own

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        if self._monitor.has_provider:
            return self._monitor.emit(interaction, reports)
        return self._own.emit(interaction, reports)

    def export(self, report: Report) -> None:
        """Emit a late report."""
        self._tell("late", self._own.export, report)

    def alarm(self, event: AlarmEvent) -> None:
        """Emit an alarm."""
        self._tell("alarm", self._own.alarm, event)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said."""
        self._tell("told", self._own.feedback, joined)

    def _tell(self, name: str, own: Any, news: object) -> None:
        if self._monitor.has_provider:
            self._monitor.tell(name, news)
        else:
            own(news)

    def destination(self) -> str:
        """Say where traces go."""
        if self._monitor.has_provider:
            return "the application's tracer provider"
        return self._own.destination()

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered here; the application flushes its own provider."""
        return self._own.flush(timeout_s)

    def close(self) -> None:
        """Shut down what is ours."""
        self._own.close()
