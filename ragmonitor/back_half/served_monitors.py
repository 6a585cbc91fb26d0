"""The monitors that a helper process serves: their records, and what they are told of them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from ragmonitor import guard, wire
from ragmonitor.back_half.host_exporters import NewestByMonitor, TracesStandIn, exporter_stand_in
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.setup import Setup
from ragmonitor.export import NewestReports
from ragmonitor.queues import MemoryQueue
from ragmonitor.records import Interaction, Report, SpanReference, Status
from ragmonitor.wiring import redactor_of, traces_of

EMIT_S = 10.0
"""Time for the application to emit one trace."""
SHARED_EMIT_S = 1.0
"""The same limit where other applications wait for it; then nothing waits until it answers
again."""
LAST_S = 5.0
"""Time for what is left when the application is gone without a word."""
BUFFER_BYTES = 64 << 20
"""The bytes that wait for one application that does not read, where others are served too."""
MAX_LOGS = 1_000
PROGRESS = 32
"""The application is told after so many records at the latest."""
PAUSE_S = 0.1
"""It is told no more often than that otherwise: each message takes its interpreter's lock."""
_NOTHING: Final = Interaction(
    id="", query="", chunks=(), answer="", framework="", started_ns=0, ended_ns=0
)
"""Stands in a report for the interaction that the application has."""
waiting_logs: deque[tuple[int, str]] = deque(maxlen=MAX_LOGS)
"""The lines that the application is to log; whichever connection looks first takes it."""


class Received:
    """A record that the application has sent; decoded by the worker."""

    __slots__ = ("_data", "framework", "is_kept", "number", "record", "sender", "status")

    def __init__(
        self,
        sender: MonitorConnection,
        number: int,
        framework: str,
        status: Status,
        data: bytes,
        *,
        is_kept: bool,
    ) -> None:
        self.sender = sender
        """The connection that it came by."""
        self.framework, self.status = framework, status
        self.number, self._data = number, data
        self.is_kept = is_kept
        """Whether the application keeps it until it is emitted there."""
        self.record: Interaction | None = None
        """The record as it came."""

    def interaction(self) -> Interaction:
        """Return the record. Raises `WireError`."""
        data, self._data = self._data, b""
        self.record = record = wire.decode(data)
        self.sender.work.senders[record.id] = self
        return record

    def closed(self) -> None:
        """Note that nothing more is owed of it."""
        senders = self.sender.work.senders
        if self.record is not None and senders.get(self.record.id) is self:
            senders.pop(self.record.id, None)
        self.sender.settled(self.number)


class _Queue(MemoryQueue):
    """Takes what the connections have sent, from each in turn.

    It has no bound of its own: each application sends no more than there is room for.
    """

    def __init__(self, work: ServedBackHalf) -> None:
        super().__init__(1)
        self._work = work
        self._turn = 0

    def take(self, max_items: int) -> Sequence[Any]:
        """Return up to `max_items`, of each connection the oldest first; empty if none waits."""
        taken: list[Received] = []
        while len(taken) < max_items and (received := self._take_one()) is not None:
            taken.append(received)
        for each in self._work.connections:
            each.tell_if_due(is_empty=not taken)
        return taken

    def _take_one(self) -> Received | None:
        senders = self._work.connections
        for _ in senders:
            self._turn += 1
            sender = senders[self._turn % len(senders)]
            with suppress(IndexError):
                received = sender.waiting.popleft()
                sender.taken += 1
                return received
        return None

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(len(each.waiting) for each in self._work.connections)


class ServedBackHalf:
    """One back half, and the connections whose records it works off."""

    def __init__(self, setup: Setup, *, is_shared: bool) -> None:
        """Build the back half; it starts with the first record.

        Raises:
            RagMonitorError: It cannot be built here.
        """
        self.is_shared = is_shared
        """Whether it goes on without the connection for which it was built."""
        self.connections: tuple[MonitorConnection, ...] = ()
        """Those that are open, and those of which records wait; the oldest first."""
        self.senders: dict[str, Received] = {}
        """The records in hand, by the id of the interaction."""
        self.used_s = time.monotonic()
        """The time when it was last seen that somebody uses it."""
        self._changing = threading.Lock()
        self._restarts = 0
        self.queue = _Queue(self)
        self.back = LocalBackHalf(
            setup.settings,
            redactor=redactor_of(setup.settings),
            poll=self._poll,
            queue=self.queue,
            traces=TracesStandIn(self, traces_of(setup.settings, self.lose)),
            exporters=[
                *(exporter_stand_in(self, n, each) for n, each in enumerate(setup.exporters)),
                NewestByMonitor(self),
            ],
            is_apart=True,
        )
        if not is_shared:  # else those of other processes have numbers of their own
            self.back.meters.number(setup.number)

    def lose(self, reason: str, n: int) -> None:
        """Count what did not arrive."""
        self.back.meters.dropped(reason, n)

    def joined(self, connection: MonitorConnection, setup: Setup) -> None:
        """Take one more connection."""
        with self._changing:
            left = (each for each in self.connections if not each.is_done)
            self.connections = (*left, connection)
            # All workers have seen the same deaths.
            more, self._restarts = (
                setup.restarts - self._restarts,
                max(setup.restarts, self._restarts),
            )
        for _ in range(more):
            self.back.meters.restarted()

    def is_unused(self, for_s: float) -> bool:
        """Return whether nobody has used it for so long."""
        now = time.monotonic()
        if any(not each.is_gone for each in self.connections):
            self.used_s = now
        return now - self.used_s > for_s

    def first(self) -> MonitorConnection | None:
        """Return the oldest connection that is heard: what is told once is told to it."""
        heard = (each for each in self.connections if not each.is_gone)
        return next(heard, None)

    def sender_of(self, interaction: Interaction) -> MonitorConnection | None:
        """Return the connection that an interaction came by."""
        received = self.senders.get(interaction.id)
        return self.first() if received is None else received.sender

    def first_provider(self) -> MonitorConnection | None:
        """Return a connection to an application with a tracer provider of its own."""
        heard = (each for each in self.connections if each.has_provider and not each.is_gone)
        return next(heard, None)

    def _poll(self) -> int:
        for each in self.connections:
            each.look()
        with self._changing:
            self.connections = tuple(each for each in self.connections if not each.is_done)
        return sum(each.open_runs for each in self.connections)


class MonitorConnection:
    """Carries out the messages of one monitor."""

    def __init__(self, connection: Connection, setup: Setup, work: ServedBackHalf) -> None:
        self._setup = setup
        self.work = work
        self._back = work.back
        self.waiting: deque[Received] = deque()
        self._open: dict[int, None] = {}
        """Numbers of records of which something is owed."""
        self._received = 0
        self._settled: deque[int] = deque()
        """Numbers of records of which nothing more is owed, and of which the application was not
        told yet."""
        self.taken = self._told = 0
        """Records that the worker has taken, and of how many the application knows."""
        self.open_runs = self.upstream = 0
        self._told_s = 0.0
        self._telling = threading.Lock()
        """Held until what is to be told is sent: a reply of another thread does not overtake it."""
        self._is_closed = False
        """Whether the application has asked for the last numbers."""
        self.is_gone = False
        """Whether the connection has ended."""
        self._is_silent = False
        """Whether it did not answer in time, and has not since."""
        self._stated: object = None
        self.has_provider = False
        """Whether the application has a tracer provider of its own."""
        self.newest = NewestReports()
        """The newest reports on its own answers."""
        size = setup.settings.capture.queue_size
        self._at_most = min(PROGRESS, max(1, size // 4))
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
                "newest": self.newest.newest,
                "families": self._families,
            },
            apart=frozenset({"flush", "close", "newest", "families"}),
            buffer_bytes=BUFFER_BYTES if work.is_shared else 0,
        )
        work.joined(self, setup)

    def serve(self) -> None:
        """Work until the application is gone."""
        self.tell("ready")
        try:
            self.link.serve()
        finally:
            self.is_gone = True
        if self.work.is_shared:
            self.open_runs = self.upstream = 0
            self._back.wake()
            return
        # Gone without a word: what came is scored all the same, as far as the time suffices.
        if not self._is_closed:
            self._back.close(LAST_S)
        # Exporters that are still closing count what did not arrive.
        self._back.worker.has_closed.wait(LAST_S)

    @property
    def is_done(self) -> bool:
        """Whether it has ended, and nothing that came by it waits."""
        return self.is_gone and not self.waiting

    # --- from the application -------------------------------------------------------------------

    def _record(
        self, number: int, framework: str, status: Status, data: bytes, is_kept: bool
    ) -> None:
        # There is room: the application waits until what it sent was taken. What comes too late to
        # be taken is counted by the application, which is told how many were.
        self._open[number] = None
        self._received = number
        self.waiting.append(Received(self, number, framework, status, data, is_kept=is_kept))
        self._back.wake()

    def settled(self, number: int) -> None:
        """Note that nothing more is owed of a record."""
        self._open.pop(number, None)
        self._settled.append(number)

    def _tick(self, open_runs: int, waiting: int, errors: Mapping[str, int], level: int) -> None:
        self.open_runs, self.upstream = open_runs, waiting
        self.work.queue.upstream = sum(each.upstream for each in self.work.connections)
        count_errors(self._setup.host, errors)
        logging.getLogger("ragmonitor").setLevel(level)

    def _provider(self, has_provider: bool) -> None:
        self.has_provider = has_provider

    def _flush(self, timeout_s: float) -> bool:
        flush = self._flush_own if self.work.is_shared else self._back.flush
        flushed = flush(timeout_s)
        self._tell_state()
        return flushed

    def _flush_own(self, timeout_s: float) -> bool:
        """Wait for what this application has sent so far, and for no other's."""
        until, last = time.monotonic() + timeout_s, self._received
        flushed = self._back.flush(
            timeout_s, is_settled=lambda: all(number > last for number in tuple(self._open))
        )
        for number in range(len(self._setup.exporters)):
            flushed = self.flush_exporter(number, until - time.monotonic()) and flushed
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
        left_s = max(0.0, deadline - time.monotonic())
        closed = self._flush_own(left_s) if self.work.is_shared else self._back.close(left_s)
        self.tell_progress()
        return closed, self._families(), self.newest.newest()

    def _families(self) -> list[Metric]:
        return list(self._back.registry.collect())

    # --- to the application ---------------------------------------------------------------------

    def tell(self, name: str, *args: object) -> bool:
        """Send a message; return whether it will arrive, or none is needed."""
        try:
            self.link.send(name, *args)
        except LinkError:
            return self.is_gone
        return True

    @property
    def silent_s(self) -> float:
        """Seconds since the application was told of progress."""
        return time.monotonic() - self._told_s

    def tell_if_due(self, *, is_empty: bool) -> None:
        """Say which records were taken, if many were or nothing else is to be done."""
        if self.is_gone:
            return
        untold = self.taken - self._told
        may_wait = not (is_empty or self.work.is_shared)
        is_due = self._is_closed or self.silent_s > PAUSE_S
        if untold >= self._at_most or (is_due and not may_wait):
            # At the end, too: the application counts what it does not know to be counted here, and
            # may not wait for the last numbers.
            self.tell_progress()

    def tell_progress(self) -> None:
        """Say which records were taken, and of which nothing more is owed."""
        with self._telling:
            settled = [self._settled.popleft() for _ in range(len(self._settled))]
            if settled or self.taken != self._told:
                taken = self.taken
                if self.tell("progress", taken, settled):
                    self._told, self._told_s = taken, time.monotonic()
                else:  # it is told once it reads again
                    self._settled.extendleft(reversed(settled))
            if not self._is_silent:
                with suppress(IndexError):
                    while True:
                        self.tell("log", *waiting_logs.popleft())

    def look(self) -> None:
        """Tell what is new; end the connection of an application that has ended."""
        if self.is_gone:
            return
        if not self.work.is_shared and os.getppid() != self._setup.host:
            # Another process has a copy of the application's end, and it would never be seen.
            self.link.close()
        self._tell_state()

    def _tell_state(self) -> None:
        """Say where the evidence stands and what is served, if that has changed."""
        self.tell_progress()
        back = self._back
        with self._telling:
            stated = (tuple(back.alarms), back.metrics_url, back.ui_url, back.destination())
            if stated != self._stated and self.tell("state", *stated):
                self._stated = stated

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Have a trace emitted there; return its root's reference, if it comes in time."""
        if self.silent_s > PAUSE_S / 2:
            # With what is sent anyway: a message by itself wakes a thread of the application's.
            self.tell_progress()
        received = self.work.senders.get(interaction.id)
        with suppress(LinkError, TimeoutError):
            bare = tuple(replace(each, interaction=_NOTHING) for each in reports)
            # What no redaction has changed is not sent back: it is most of what there is to send.
            if received is not None and received.is_kept and received.record == interaction:
                received.is_kept = False
                asked = self.link.request("emit_kept", received.number, bare)
            else:
                asked = self.link.request("emit", interaction, bare)
            return self._awaited(asked)
        return None

    def _awaited(self, asked: Future[SpanReference | None]) -> SpanReference | None:
        """Return a reply; others do not wait for an application that does not answer."""
        if not self.work.is_shared:
            return asked.result(EMIT_S)

        def heard(_: object) -> None:
            self._is_silent = False

        if self._is_silent:
            asked.add_done_callback(heard)
            return None
        try:
            return asked.result(SHARED_EMIT_S)
        except TimeoutError:
            self._is_silent = True
            asked.add_done_callback(heard)
            raise


_errors: dict[int, Counter[str]] = {}
"""The errors of each application's process that were counted here, or were not to be."""


def begin_count(host: int, errors: Mapping[str, int]) -> None:
    """Leave out what was before the first monitor of a process."""
    if host in _errors:
        count_errors(host, errors)
    else:
        _errors[host] = Counter(errors)


def count_errors(host: int, errors: Mapping[str, int]) -> None:
    """Count an application's errors once: each of its monitors says how many there are."""
    known = _errors.setdefault(host, Counter())
    more = Counter(errors) - known
    guard.errors.update(more)
    known.update(more)


def forget_errors(hosts: Collection[int]) -> None:
    """Forget those of processes that are not among `hosts` any more."""
    for host in tuple(_errors):
        if host not in hosts:
            _errors.pop(host, None)
