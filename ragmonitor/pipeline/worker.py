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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Self

import msgspec

from ragmonitor.export import OtelExporter
from ragmonitor.pipeline.back_half import TICK_S
from ragmonitor.pipeline.carried_settings import restored
from ragmonitor.pipeline.channel import Channel, ChannelError
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.records import Cause, Interaction, Report, SpanReference, Status
from ragmonitor.runtime import guard, wire
from ragmonitor.runtime.apart import EXECUTOR
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import Feedback, JoinedFeedback
from ragmonitor.runtime.guard import contained, record_problem
from ragmonitor.settings import Settings

NICENESS: Final = 5
"""Where there is too little CPU for both, the application comes first: from the imports on."""
EMIT_S: Final = 5.0
"""Time for the application to emit one trace."""
LAST_S: Final = 5.0
"""Time for what is left when the application is gone without a word."""
PAUSE_S: Final = 0.05
"""A monitor is told no more often: each message takes its interpreter's lock."""
ACCEPT_S: Final = 0.5
CLOSING_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record that came from elsewhere, as something finished."""

    held: Interaction | None
    """The record, which is weighed; None: it cannot be read."""
    closed: Callable[[], object] | None = None
    """Called when nothing more is owed for it."""
    framework: str = "unknown"
    status: Status = "error"

    @classmethod
    def of(cls, record: Interaction, closed: Callable[[], object] | None = None) -> Self:
        """Return a record with what is known of it."""
        return cls(record, closed, record.framework, record.status)

    def interaction(self) -> Interaction | None:
        """Return the record."""
        return self.held


def deliver(back: Pipeline, data: bytes, closed: Callable[[], object]) -> None:
    """Hand bytes to the pipeline, from whatever source; what cannot be read is counted there.

    Args:
        back: The pipeline.
        data: Bytes of `ragmonitor.runtime.wire`.
        closed: Called when nothing more is owed for a record.
    """
    if wire.is_kind(data, b"i"):
        try:
            back.put(Delivered.of(wire.decode(data), closed))
        except WireError:
            back.ledger.refuse(Delivered(None, closed), Cause.INTERNAL_ERROR)
            raise
        return
    name, _ = wire.decode_message(data)
    if name == "feedback":
        back.feedback(*wire.decode_message(data, Feedback)[1])
    elif name == "event":
        back.event(*wire.decode_message(data, str, dict[str, str], float)[1])


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
        self._closed: deque[int] = deque()
        """Numbers of records of which nothing more is owed, and the monitor was not told yet."""
        self._done: deque[tuple[int, bool]] = deque()
        """Likewise of requests, each with its success."""
        self.has_news = threading.Event()
        self._told_s = 0.0

    def serve(self, frames: Iterator[bytes]) -> None:
        """Work until the monitor is gone."""
        threading.Thread(target=self._tell_news, daemon=True).start()
        self.has_news.set()
        self.back.wake()
        for data in frames:
            with contained("worker"):
                self._take(data)
        self.has_news.set()

    def _take(self, data: bytes) -> None:
        name, args = wire.decode_message(data)
        if name == "record":
            number, record = args
            deliver(self.back, record, partial(self._note, self._closed, number))
        elif name == "counts":
            self._count(*args)
        elif name == "emitted" and isinstance(self.back.traces, Traces):
            self.back.traces.replies.put(args)
        elif name in ("flush", "close"):  # it may take its time
            EXECUTOR.submit(self._finish, name, *args)
        else:
            deliver(self.back, data, lambda: None)

    def _note(self, notes: deque[Any], note: object) -> None:
        notes.append(note)
        self.has_news.set()

    def _count(self, noted: Sequence[Any], errors: Mapping[str, int], has_provider: bool) -> None:
        guard.errors.update(errors)
        self.back.ledger.take_over(noted)
        if isinstance(self.back.traces, Traces):
            self.back.traces.channel = self.channel if has_provider else None

    def _finish(self, name: str, number: int, timeout_s: float) -> None:
        """Flush, or close at a monitor's end what is its own, and say whether all is done."""
        is_done = False
        with contained("worker"):
            is_last = name == "close" and self._owns
            is_done = (self.back.close if is_last else self.back.flush)(timeout_s)
        self._note(self._done, (number, is_done))

    # --- to the monitor -------------------------------------------------------------------------

    def _tell_news(self) -> None:
        while self.channel.is_open:
            self.has_news.wait(TICK_S)
            time.sleep(PAUSE_S)
            with contained("worker"):
                self.tell()

    def tell(self) -> None:
        """Tell what became of records and requests, and now and then every number."""
        self.has_news.clear()
        done, closed = _taken(self._done), _taken(self._closed)
        state = None
        if done or time.monotonic() - self._told_s > TICK_S / 2:
            with contained("worker"):
                state, self._told_s = self._state(), time.monotonic()
        with suppress(ChannelError):
            self.channel.tell("news", closed, state, done)

    def _state(self) -> tuple[Any, ...]:
        back = self.back
        newest = back.newest() if self._owns else None
        found = back.registry.collect()
        return (
            *(tuple(back.alarms), back.metrics_url, back.ui_url),
            [(each.name, each.documentation, each.type, each.unit, each.samples) for each in found],
            None if newest is None else (newest.interaction, wire.without_interaction(newest)),
        )


def _taken(notes: deque[Any]) -> list[Any]:
    return [notes.popleft() for _ in range(len(notes))]


class _LogHandler(logging.Handler):
    """Hands what is logged here to the application's logger."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line with its traceback."""
        with suppress(ChannelError, WireError):
            self._channel.tell("log", record.levelno, self.format(record))


class Traces:
    """Emits here; or by the application's own provider of traces, where it has one."""

    def __init__(self, own: OtelExporter) -> None:
        self._own = own
        self.flush, self.close, self.destination = own.flush, own.close, own.destination
        self.channel: Channel | None = None
        """To the application that emits; None: this process does."""
        self._number = 0
        self.replies: SimpleQueue[Sequence[Any]] = SimpleQueue()
        """What the application's emissions came to, each with its number."""

    def _call(self, channel: Channel, method: str, *args: object) -> Any:
        """Return the reply, None if there is none in time; one call at a time."""
        self._number += 1
        with suppress(ChannelError, Empty):
            channel.tell(method, self._number, *args)
            while True:
                number, reply = self.replies.get(timeout=EMIT_S)
                if number == self._number:  # else it is a late one
                    return reply
        return None

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        if (channel := self.channel) is None:
            return self._own.emit(interaction, reports)
        told = [wire.without_interaction(each) for each in reports]
        return msgspec.convert(self._call(channel, "emit", interaction, told), SpanReference | None)

    def export(self, report: Report) -> None:
        """Emit a late report."""
        if self.channel is None:
            self._own.export(report)
        else:
            self.emit(report.interaction, [report])

    def feedback(self, joined: JoinedFeedback) -> None:
        """Emit what a person said."""
        if (channel := self.channel) is None:
            self._own.feedback(joined)
        else:
            self._call(channel, "said", joined)


def be_child(descriptor: int) -> None:
    """Be the worker of one monitor, at the other end of a socket, until that is gone."""
    with suppress(OSError):
        os.nice(NICENESS)
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel = Channel(socket.socket(fileno=descriptor))
    log = logging.getLogger("ragmonitor")
    log.propagate = False
    log.addHandler(_LogHandler(channel))
    frames = channel.frames()  # which close it once they are gone
    try:
        with contained("worker"):
            _serve_parent(channel, frames)
    finally:
        os._exit(0)  # threads of client libraries must not keep it


def _serve_parent(channel: Channel, frames: Iterator[bytes]) -> None:
    """Serve the monitor that started this process. Raises `RagMonitorError`."""
    parent = os.getppid()
    first = next(frames, None)
    if first is None:
        return
    _, (_, told) = wire.decode_message(first)
    settings = restored(told)

    def poll() -> None:
        if os.getppid() != parent:
            channel.close()  # another process has a copy of the application's end

    back = Pipeline(settings, poll=poll, emitter=Traces, is_apart=True)
    Session(channel, back, owns=True).serve(frames)
    # Gone without a word: what came is scored all the same, as far as the time suffices.
    back.close(LAST_S)
    # Exporters that are still closing count what did not arrive.
    back.has_closed.wait(LAST_S)


def serve_at(path: Path, settings: Settings, stop: threading.Event) -> None:
    """Score for all monitors that connect to a Unix socket, until asked to stop.

    Raises:
        OSError: Another worker listens there, or nobody can.
    """
    sessions: list[Session] = []
    back = Pipeline(settings, poll=lambda: None, is_apart=True)
    back.wake()

    def serve(channel: Channel) -> None:
        frames = channel.frames()
        service = next((wire.decode_message(first)[1][0] for first in frames), "")
        if service != settings.service:
            record_problem("worker", f"a monitor of another service, {service!r}, is refused")
            channel.close()
            return
        session = Session(channel, back, owns=False)
        sessions.append(session)
        session.serve(frames)
        sessions.remove(session)

    with _listening(path) as server:
        while not stop.is_set():
            with suppress(TimeoutError):
                sock, _ = server.accept()
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
