"""The process of `ragmonitor worker`: the pipeline of a thread, fed by monitors over sockets.

A monitor's own child serves one connection and ends with it; a worker at `unix:/path` serves all
that come until it is told to end. Records of another source are put the same way: as something
finished whose `closed` is called when nothing more is owed of it.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from ragmonitor.export import OtelExporter
from ragmonitor.pipeline.back_half.channel import Channel, ChannelError
from ragmonitor.pipeline.back_half.setup import restored
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.pipeline.wiring import redactor_of, restrict_logs, traces_of
from ragmonitor.records import AlarmEvent, Cause, Interaction, Report, SpanReference, Status
from ragmonitor.runtime import guard, wire
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem
from ragmonitor.settings import Settings

NICENESS: Final = 5
"""Where there is too little CPU for both, the application comes first: from the imports on."""
EMIT_S: Final = 10.0
"""Time for the application to emit one trace."""
LAST_S: Final = 5.0
"""Time for what is left when the application is gone without a word."""
PAUSE_S: Final = 0.05
"""A monitor is told no more often: each message takes its interpreter's lock."""
ACCEPT_S: Final = 0.5
MAX_LOGS: Final = 1_000
CLOSING_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record that came from elsewhere, as something finished."""

    record: Interaction | None
    framework: str
    status: Status
    closed: Callable[[], object] | None = None
    """Called when nothing more is owed for it."""

    @property
    def held(self) -> Interaction | None:
        """The record, to be weighed."""
        return self.record

    def interaction(self) -> Interaction | None:
        """Return the record."""
        return self.record


def deliver(back: Pipeline, data: bytes, closed: Callable[[], object]) -> None:
    """Hand bytes to the pipeline, from whatever source; what cannot be read is counted there.

    Args:
        back: The pipeline.
        data: Bytes of `ragmonitor.runtime.wire`.
        closed: Called when nothing more is owed for a record.
    """
    if wire.is_kind(data, b"f"):
        back.feedback(wire.decode_feedback(data))
    else:
        try:
            record = wire.decode(data)
            back.put(Delivered(record, record.framework, record.status, closed))
        except WireError:
            back.ledger.refuse(Delivered(None, "unknown", "error", closed), Cause.INTERNAL_ERROR)
            raise


class Session:
    """One monitor's connection: carries out what it says, and tells it what becomes of it."""

    def __init__(self, channel: Channel, back: Pipeline, *, owns: bool) -> None:
        """Serve nothing yet.

        Args:
            channel: The connection.
            back: The pipeline.
            owns: It is this monitor's alone, and ends with it.
        """
        self.channel, self.back, self._owns = channel, back, owns
        self._received = 0
        self._closed: deque[int] = deque()
        """Numbers of records of which nothing more is owed, and the monitor was not told yet."""
        self.has_news = threading.Event()
        self.waiting = 0
        """What waits in the application."""
        self.was_closed = False
        """Whether the monitor has asked for the last numbers."""
        self._telling = threading.Lock()
        self._told: object = None

    def serve(self) -> None:
        """Work until the monitor is gone."""
        threading.Thread(target=self._tell_news, daemon=True).start()
        self.has_news.set()
        self.back.wake()
        self.channel.serve(
            {
                "counts": self._counts,
                "event": self.back.event,
                "flush": self._flush,
                "close": self._close,
                "families": lambda _timeout_s: plain_families(self.back.registry),
            },
            self._take,
        )
        self.has_news.set()

    def _take(self, data: bytes) -> None:
        if wire.is_kind(data, b"i"):
            self._received += 1
        deliver(self.back, data, partial(self._note_closed, self._received))

    def _note_closed(self, number: int) -> None:
        self._closed.append(number)
        self.has_news.set()

    def _counts(self, counts: Mapping[str, Any]) -> None:
        self.waiting = counts["waiting"]
        guard.errors.update(Counter(counts["errors"]))
        if self._owns:
            logger.setLevel(counts["level"])
            traces = self.back.traces
            if isinstance(traces, Traces):
                traces.channel = self.channel if counts["has_provider"] else None
        given_up, refused, checks = counts["noted"]
        self.back.ledger.take_over(
            dict(given_up),
            {(framework, status, Cause(cause)): n for (framework, status, cause), n in refused},
            {tuple(key): n for key, n in checks},
        )

    def _flush(self, timeout_s: float) -> tuple[bool, bytes | None]:
        flushed = self.back.flush(timeout_s)
        self.tell()
        report = self.back.newest()
        return flushed, None if report is None else wire.encode_report(report)

    def _close(self, timeout_s: float) -> tuple[bool, bytes | None, list[Any]]:
        self.was_closed = True
        closed = self.back.close(timeout_s) if self._owns else True
        return *self._flush(timeout_s if closed else 0.0), plain_families(self.back.registry)

    # --- to the monitor -------------------------------------------------------------------------

    def _tell_news(self) -> None:
        while self.channel.is_open:
            self.has_news.wait()
            time.sleep(PAUSE_S)
            with contained("worker"):
                self.tell()

    def tell(self) -> None:
        """Tell what became of records, and what is served, if that has changed."""
        self.has_news.clear()
        with self._telling, suppress(ChannelError):
            if closed := [self._closed.popleft() for _ in range(len(self._closed))]:
                self.channel.tell("closed", closed)
            back = self.back
            state = (tuple(back.alarms), back.metrics_url, back.ui_url, back.destination())
            if state != self._told:
                self.channel.tell("state", *state)
                self._told = state
            while self._owns and waiting_logs:
                self.channel.tell("log", *waiting_logs.popleft())


waiting_logs: deque[tuple[int, str]] = deque(maxlen=MAX_LOGS)
"""Lines for the log of the application whose child this is."""


class _LogHandler(logging.Handler):
    """Keeps what is logged here for the application's logger."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line with its traceback."""
        waiting_logs.append((record.levelno, self.format(record)))


class Traces:
    """Emits here; or by the application's own provider of traces, where it has one."""

    def __init__(self, own: OtelExporter) -> None:
        self._own = own
        self.channel: Channel | None = None
        """To the application that emits; None: this process does."""

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        if self.channel is None:
            return self._own.emit(interaction, reports)
        with suppress(ChannelError, TimeoutError):
            asked = self.channel.request("emit", [wire.encode_report(each) for each in reports])
            return msgspec.convert(asked.result(EMIT_S), SpanReference | None)
        return None

    def export(self, report: Report) -> None:
        """Emit a late report."""
        if self.channel is None:
            self._own.export(report)
        else:
            self._tell("late", wire.encode_report(report))

    def alarm(self, event: AlarmEvent) -> None:
        """Emit an alarm."""
        if self.channel is None:
            self._own.alarm(event)
        else:
            self._tell("alarm", event)

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said."""
        if self.channel is None:
            self._own.feedback(joined)
        else:
            self._tell("told", joined)

    def _tell(self, name: str, news: object) -> None:
        if self.channel is not None:
            with suppress(ChannelError):
                self.channel.tell(name, news)

    def destination(self) -> str:
        """Say where traces go."""
        there = "the application's tracer provider"
        return self._own.destination() if self.channel is None else there

    def flush(self, timeout_s: float) -> bool:
        """Send what is buffered here; the application flushes its own provider."""
        return self._own.flush(timeout_s)

    def close(self) -> None:
        """Shut down what is ours."""
        self._own.close()


def plain_families(registry: CollectorRegistry) -> list[Any]:
    """Return every series as plain values."""
    return [
        (
            *(family.name, family.documentation, family.type, family.unit),
            [
                (s.name, s.labels, s.value, s.timestamp, s.exemplar and tuple(s.exemplar))
                for s in family.samples
            ],
        )
        for family in registry.collect()
    ]


def be_child(descriptor: int) -> None:
    """Be the worker of one monitor, at the other end of a socket, until that is gone."""
    with suppress(OSError):
        os.nice(NICENESS)
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    log = logging.getLogger("ragmonitor")
    log.propagate = False
    log.addHandler(_LogHandler())
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        first = channel.first()
        with contained("worker"):
            if first is not None:
                _serve_parent(channel, first[1])
        with suppress(ChannelError):
            for line in waiting_logs:
                channel.tell("log", *line)
    finally:
        os._exit(0)  # threads of client libraries must not keep it


def _serve_parent(channel: Channel, setup: Mapping[str, Any]) -> None:
    """Serve the monitor that started this process. Raises `RagMonitorError`."""
    parent = os.getppid()
    settings = restored(setup)
    restrict_logs(settings)
    sessions: list[Session] = []

    def poll() -> None:
        if os.getppid() != parent:
            channel.close()  # another process has a copy of the application's end
        _polled(back, sessions)

    def lose(reason: str, n: int) -> None:
        back.meters.dropped(reason, n)

    back = Pipeline(
        settings,
        redactor=redactor_of(settings),
        poll=poll,
        traces=Traces(traces_of(settings, lose)),
        is_apart=True,
    )
    for _ in range(setup["restarts"]):
        back.meters.restarted()
    session = Session(channel, back, owns=True)
    sessions.append(session)
    session.serve()
    # Gone without a word: what came is scored all the same, as far as the time suffices.
    if not session.was_closed:
        back.close(LAST_S)
    # Exporters that are still closing count what did not arrive.
    back.has_closed.wait(LAST_S)


def serve_at(path: Path, settings: Settings, stop: threading.Event) -> None:
    """Score for all monitors that connect to a Unix socket, until asked to stop.

    Raises:
        OSError: Another worker listens there, or nobody can.
    """
    sessions: list[Session] = []
    back = Pipeline(
        settings,
        redactor=redactor_of(settings),
        poll=lambda: _polled(back, sessions),
        is_apart=True,
    )
    back.wake()

    def serve(channel: Channel) -> None:
        service, _ = channel.first() or ("", {})
        if service != settings.service:
            record_problem("worker", f"a monitor of another service, {service!r}, is refused")
            channel.close()
            return
        session = Session(channel, back, owns=False)
        sessions.append(session)
        session.serve()
        sessions.remove(session)

    with _listening(path) as server:
        while not stop.is_set():
            with suppress(TimeoutError):
                sock, _ = server.accept()
                sock.settimeout(None)
                threading.Thread(target=serve, args=(Channel(sock),), daemon=True).start()
    back.close(CLOSING_S)
    for session in tuple(sessions):
        session.tell()
        session.channel.close()


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at a path, for processes of this user. Raises `OSError`."""
    server = socket.socket(socket.AF_UNIX)
    try:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            server.connect(str(path))
            raise OSError(errno.EADDRINUSE, "another worker listens there", str(path))
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            server.bind(str(path))
        finally:
            os.umask(before)
        server.listen()
        server.settimeout(ACCEPT_S)
    except BaseException:  # whatever it is, the socket is closed before it goes on
        server.close()
        raise
    return server


def _polled(back: Pipeline, sessions: Sequence[Session]) -> None:
    back.queue.upstream = sum(each.waiting for each in sessions)
    for each in sessions:
        each.has_news.set()
