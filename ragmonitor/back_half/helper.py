"""The helper process: the same back half as on a thread, fed by its application."""

from __future__ import annotations

import gc
import logging
import os
import pickle
import signal
import socket
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

from ragmonitor import guard, imports, wire
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.setup import HostExporter, Setup
from ragmonitor.errors import RagMonitorError
from ragmonitor.export import OtelExporter
from ragmonitor.feedback import JoinedFeedback
from ragmonitor.protocols import Exporter
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import (
    AlarmEvent,
    Interaction,
    Report,
    SpanReference,
    Status,
)
from ragmonitor.wiring import redactor_of, restrict_logs, traces_of

LAST_S = 5.0
"""Time for what is left when the application is gone without a word."""
EMIT_S = 10.0
"""Time for the application to emit one trace."""
MAX_LOGS = 1_000
PROGRESS = 32
"""The application is told after so many records at the latest."""
GC_THRESHOLD = 10_000
"""Objects between two collections, which nobody waits for here: some 2 to 4 % of an answer's CPU
goes to them at the interpreter's own 700."""
PAUSE_S = 0.1
"""It is told no more often than that otherwise: each message takes its interpreter's lock."""


_NOTHING: Final = Interaction(
    id="", query="", chunks=(), answer="", framework="", started_ns=0, ended_ns=0
)
"""Stands in a report for the interaction that the application has."""

_logs: deque[tuple[int, str]] = deque(maxlen=MAX_LOGS)
"""What the application is to log; whichever connection looks first takes it."""
_errors: Counter[str] = Counter()
"""The application's own errors that were counted here."""


class Received:
    """A record that the application has sent; decoded by the worker."""

    __slots__ = ("_closed", "_data", "_kept", "framework", "number", "record", "status")

    def __init__(
        self,
        number: int,
        framework: str,
        status: Status,
        data: bytes,
        *,
        closed: deque[int],
        kept: dict[str, Received] | None,
    ) -> None:
        self.framework, self.status = framework, status
        self.number, self._data, self._closed = number, data, closed
        self._kept = kept
        """Where it is to be found by its id; None: the application does not keep it."""
        self.record: Interaction | None = None
        """It as it came, if the application keeps it until it is emitted there."""

    def interaction(self) -> Interaction:
        """Return the record. Raises `WireError`."""
        data, self._data = self._data, b""
        record = wire.decode(data)
        if self._kept is not None:
            self.record = record
            self._kept[record.id] = self
        return record

    def closed(self) -> None:
        """Note that nothing more is owed of it."""
        self._closed.append(self.number)
        if self._kept is not None and self.record is not None:
            self._kept.pop(self.record.id, None)


class _Queue(MemoryQueue):
    """Tells the application what was taken, so that it sends no more than there is room for."""

    def __init__(self, size: int, helper: _Helper) -> None:
        super().__init__(size)
        self._helper = helper
        self._at_most = min(PROGRESS, max(1, size // 4))

    def take(self, max_items: int) -> Sequence[Any]:
        """Return up to `max_items`, oldest first; empty if none waits."""
        taken = super().take(max_items)
        self._helper.taken += len(taken)
        untold = self._helper.taken - self._helper.told
        is_due = self._helper.is_closed or self._helper.silent_s > PAUSE_S
        if untold >= self._at_most or (not taken and is_due):
            # At the end, too: the application counts what it does not know to be counted here, and
            # may not wait for the last numbers.
            self._helper.tell_progress()
        return taken


class _Helper:
    """What the messages of one application do here."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        """Build the back half; it starts with the first record.

        Raises:
            RagMonitorError: It cannot be built here.
        """
        self._setup = setup
        self._closed: deque[int] = deque()
        self.kept: dict[str, Received] = {}
        """What the application keeps, too, by the id of the interaction."""
        self.taken = self.told = 0
        """Records that the worker has taken, and of how many the application knows."""
        self._open_runs, self._told_s = 0, 0.0
        self._telling = threading.Lock()
        """Held until what is to be told is sent: a reply of another thread does not overtake it."""
        self.is_closed = False
        """Whether the application has asked for the last numbers."""
        self._stated: object = None
        self.has_provider = False
        """Whether the application has a tracer provider of its own."""
        self._queue = _Queue(setup.settings.capture.queue_size, self)
        self._back = LocalBackHalf(
            setup.settings,
            redactor=redactor_of(setup.settings, None),
            poll=self._poll,
            queue=self._queue,
            traces=_Traces(self, traces_of(setup.settings, self._lose)),
            exporters=[_exporter(self, n, each) for n, each in enumerate(setup.exporters)],
            is_apart=True,
        )
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
        self._back.meters.number(setup.number)
        for _ in range(setup.restarts):
            self._back.meters.restarted()

    def serve(self) -> None:
        """Work until the application is gone."""
        self.link.send("ready")
        self.link.serve()
        # Gone without a word: what came is scored all the same, as far as the time suffices.
        if not self.is_closed:
            self._back.close(LAST_S)
        # Exporters that are still closing count what did not arrive.
        self._back.worker.has_closed.wait(LAST_S)

    # --- from the application -------------------------------------------------------------------

    def _record(
        self, number: int, framework: str, status: Status, data: bytes, is_kept: bool
    ) -> None:
        # There is room: the application waits until what it sent was taken. What comes too late to
        # be taken is counted by the application, which is told how many were.
        kept = self.kept if is_kept else None
        self._queue.put(Received(number, framework, status, data, closed=self._closed, kept=kept))
        self._back.wake()

    def _tick(self, open_runs: int, waiting: int, errors: Mapping[str, int], level: int) -> None:
        self._open_runs, self._queue.upstream = open_runs, waiting
        _count(errors)
        logging.getLogger("ragmonitor").setLevel(level)

    def _provider(self, has_provider: bool) -> None:
        self.has_provider = has_provider

    def _lose(self, reason: str, n: int) -> None:
        """Count spans and events that did not arrive."""
        self._back.meters.dropped(reason, n)

    def _flush(self, timeout_s: float) -> bool:
        flushed = self._back.flush(timeout_s)
        self._tell_state()
        return flushed

    def _close(self, deadline: float) -> tuple[bool, list[Metric], Report | None]:
        self.is_closed = True
        # The clock of `time.monotonic` is the same in all processes of a machine.
        closed = self._back.close(max(0.0, deadline - time.monotonic()))
        self.tell_progress()
        return closed, self._families(), self._back.newest()

    def _families(self) -> list[Metric]:
        return list(self._back.registry.collect())

    # --- to the application ---------------------------------------------------------------------

    def tell(self, name: str, *args: object) -> None:
        """Send a message; one that is gone already needs none."""
        with suppress(LinkError):
            self.link.send(name, *args)

    @property
    def silent_s(self) -> float:
        """Seconds since the application was told of progress."""
        return time.monotonic() - self._told_s

    def tell_progress(self) -> None:
        """Say which records were taken, and of which nothing more is owed."""
        with self._telling:
            closed = [self._closed.popleft() for _ in range(len(self._closed))]
            if closed or self.taken != self.told:
                self.told, self._told_s = self.taken, time.monotonic()
                self.tell("progress", self.told, closed)
            with suppress(IndexError):
                while True:
                    self.tell("log", *_logs.popleft())

    def _poll(self) -> int:
        if os.getppid() != self._setup.host:
            # Another process has a copy of the application's end, and it would never be seen.
            self.link.close()
        self._tell_state()
        return self._open_runs

    def _tell_state(self) -> None:
        """Say where the evidence stands and what is served, if that has changed."""
        self.tell_progress()
        back = self._back
        with self._telling:
            stated = (tuple(back.alarms), back.metrics_url, back.ui_url, back.destination())
            if stated != self._stated:
                self._stated = stated
                self.tell("state", *stated)


class _HostExporter:
    """Stands for an exporter in the application."""

    def __init__(self, helper: _Helper, number: int) -> None:
        self._helper, self._number = helper, number

    def export(self, report: Report) -> None:
        """Have it export there."""
        self._helper.tell("export", self._number, "export", report)

    def flush(self, timeout_s: float) -> bool:
        """Have it flush there, after all that it was sent."""
        with suppress(LinkError, TimeoutError):
            asked = self._helper.link.request("flush_exporter", self._number, timeout_s)
            return bool(asked.result(timeout_s))
        return False

    def close(self) -> None:
        """Leave it open: the application closes its own exporters."""


def _exporter(helper: _Helper, number: int, given: HostExporter) -> Exporter:
    """Return what stands for an exporter in the application, with the same optional methods."""
    stand_in = _HostExporter(helper, number)
    for method in given.hears:
        setattr(stand_in, method, partial(helper.tell, "export", number, method))
    return stand_in


class _Traces:
    """Emits here; or in the application, where that has a tracer provider of its own."""

    def __init__(self, helper: _Helper, own: OtelExporter) -> None:
        self._helper, self._own = helper, own

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        helper = self._helper
        if not helper.has_provider:
            return self._own.emit(interaction, reports)
        if helper.silent_s > PAUSE_S / 2:
            # With what is sent anyway: a message by itself wakes a thread of the application's.
            helper.tell_progress()
        received = helper.kept.pop(interaction.id, None)
        with suppress(LinkError, TimeoutError):
            # What no redaction has changed is not sent back: it is most of what there is to send.
            if received is not None and received.record == interaction:
                bare = tuple(replace(each, interaction=_NOTHING) for each in reports)
                asked = helper.link.request("emit_kept", received.number, bare)
            else:
                asked = helper.link.request("emit", interaction, tuple(reports))
            target: SpanReference | None = asked.result(EMIT_S)
            return target
        return None

    def export(self, report: Report) -> None:
        """Emit a late report."""
        if self._helper.has_provider:
            self._helper.tell("late", report)
        else:
            self._own.export(report)

    def alarm(self, event: AlarmEvent) -> None:
        """Emit an alarm."""
        if self._helper.has_provider:
            self._helper.tell("alarm", event)
        else:
            self._own.alarm(event)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said."""
        if self._helper.has_provider:
            self._helper.tell("told", joined)
        else:
            self._own.feedback(joined)

    def destination(self) -> str:
        """Say where traces go."""
        return (
            "the application's tracer provider"
            if self._helper.has_provider
            else (self._own.destination())
        )

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered here; the application flushes its own provider."""
        return self._own.flush(timeout_s)

    def close(self) -> None:
        """Shut down what is ours."""
        self._own.close()


class _LogHandler(logging.Handler):
    """Keeps what is logged here for the application's logger."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line with its traceback."""
        _logs.append((record.levelno, self.format(record)))


def main(told: Connection) -> None:
    """Be the helper process, from its start to its end.

    Args:
        told: Connections of monitors come this way; the process ends with it.
    """
    gc.freeze()  # modules are no garbage
    gc.set_threshold(GC_THRESHOLD)
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored. This process ends when its connections do.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    logger = logging.getLogger("ragmonitor")
    logger.propagate = False
    logger.addHandler(_LogHandler())
    sessions: list[threading.Thread] = []
    control = socket.socket(fileno=told.fileno())
    try:
        while True:
            taken, descriptors, *_ = socket.recv_fds(control, 1, 1)
            if not taken:
                break
            session = threading.Thread(
                target=_session, args=(Connection(descriptors[0]),), daemon=True
            )
            session.start()
            sessions = [each for each in sessions if each.is_alive()] + [session]
    finally:
        # The application is gone, or has closed its last monitor.
        until = time.monotonic() + LAST_S + 1.0
        for each in sessions:
            each.join(max(0.0, until - time.monotonic()))
        os._exit(0)  # threads of client libraries must not keep it


def _session(connection: Connection) -> None:
    """Serve one monitor, until its connection ends."""
    with suppress(EOFError, OSError, LinkError):
        setup: Setup = pickle.loads(connection.recv_bytes())  # noqa: S301 - our application's
        restrict_logs(setup.settings, None)
        _count(setup.errors)
        _take_over(setup.litellm)
        try:
            helper = _Helper(connection, setup)
        except RagMonitorError as error:
            Link(connection, {}).send("failed", str(error))
            return
        helper.serve()


def _count(errors: Mapping[str, int]) -> None:
    """Count the application's errors once: each of its monitors says how many there are."""
    more = Counter(errors) - _errors
    guard.errors.update(more)
    _errors.update(more)


def _take_over(settings: Mapping[str, object]) -> None:
    """Set up litellm as in the application, when it is imported."""

    def apply(module: Any) -> None:
        for name, value in settings.items():
            if getattr(module, name, None) != value:
                setattr(module, name, value)

    if settings:
        imports.after("litellm", apply)
