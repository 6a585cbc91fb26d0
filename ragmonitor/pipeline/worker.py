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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from ragmonitor.export import OtelExporter
from ragmonitor.pipeline.back_half import TICK_S, Carried
from ragmonitor.pipeline.channel import Channel, ChannelError
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.pipeline.placement import restored
from ragmonitor.records import Cause, Interaction, Report, SpanReference
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


def deliver(back: Pipeline, data: bytes, closed: Callable[[], object]) -> None:
    """Hand bytes to the pipeline, from whatever source; a record that cannot be read is counted.

    Args:
        back: The pipeline.
        data: Bytes of `ragmonitor.runtime.wire`.
        closed: Called when nothing more is owed for them.

    Raises:
        WireError: They cannot be read.
    """
    if wire.is_kind(data, b"i"):
        try:
            record = wire.decode(data)
        except WireError:
            back.ledger.refuse(Carried(closed=closed), Cause.INTERNAL_ERROR)
            raise
        back.put(Carried(record, record.framework, record.status, closed=closed))
        return
    closed()
    name, _ = wire.decode_message(data)
    if name == "feedback":
        back.feedback(*wire.decode_message(data, Feedback)[1])
    elif name == "event":
        back.event(*wire.decode_message(data, str, dict[str, str], float)[1])


class Session:
    """One monitor's connection: carries out what it says, and tells it what becomes of it."""

    back: Pipeline | None = None
    """Scores what comes, from the monitor's first message on."""

    def __init__(
        self, channel: Channel, begin: Callable[[str, Any], Pipeline | None], *, owns: bool
    ) -> None:
        """Serve nothing yet.

        Args:
            channel: The connection.
            begin: From the service and the settings of the monitor to the pipeline; None: it is
                not served.
            owns: The pipeline is this monitor's alone, and ends with it.
        """
        self.channel, self._begin, self._owns = channel, begin, owns
        self._replies: deque[tuple[int, bool, bool]] = deque()
        """The next ones, each with whether it is about a request; else nothing more is owed of a
        record."""
        self._has_news = threading.Event()
        self._told_s = 0.0

    def take(self, name: str, *args: Any) -> None:
        """Carry out one message of the monitor's."""
        if self.back is None:
            number, *told = args
            with contained("worker"):
                self.back = self._begin(*told)
            if self.back is None:
                self.channel.close()
                return
            threading.Thread(target=self._tell_news, args=(self.back,), daemon=True).start()
            self._reply(number)
            self.back.wake()
        elif name == "record":
            number, data = args
            deliver(self.back, data, partial(self._reply, number))
        elif name == "counts":
            noted, errors, has_provider = args
            guard.errors.update(errors)
            self.back.ledger.take_over(noted)
            if isinstance(self.back.traces, Traces):
                self.back.traces.channel = self.channel if has_provider else None
        elif name in ("flush", "close"):  # it may take its time
            EXECUTOR.submit(self._finish, self.back, name, *args)

    def _reply(self, number: int, is_done: bool = True, is_request: bool = False) -> None:
        self._replies.append((number, is_done, is_request))
        self._has_news.set()

    def _finish(self, back: Pipeline, name: str, number: int, timeout_s: float) -> None:
        """Flush, or close at a monitor's end what is its own, and say whether all is done."""
        is_done = False
        with contained("worker"):
            is_last = name == "close" and self._owns
            is_done = (back.close if is_last else back.flush)(timeout_s)
        self._reply(number, is_done, is_request=True)

    def _tell_news(self, back: Pipeline) -> None:
        while self.channel.is_open:
            self._has_news.wait(TICK_S)
            time.sleep(PAUSE_S)
            with contained("worker"):
                self.tell(back)

    def tell(self, back: Pipeline) -> None:
        """Reply to what was asked, and now and then, and after a request, tell every number."""
        self._has_news.clear()
        replies = [self._replies.popleft() for _ in range(len(self._replies))]
        state, is_asked = None, any(is_request for *_, is_request in replies)
        if is_asked or time.monotonic() - self._told_s > TICK_S / 2:
            with contained("worker"):
                state, self._told_s = self._state(back), time.monotonic()
        with suppress(ChannelError):
            try:
                self.channel.tell("news", replies, state)
            except WireError as error:  # what a judge wrote; the rest is told all the same
                record_problem("worker", f"the newest report cannot be told: {error}")
                self.channel.tell("news", replies, state and (*state[:-1], None))

    def _state(self, back: Pipeline) -> tuple[Any, ...]:
        newest = back.newest() if self._owns else None
        found = back.registry.collect()
        return (
            *(tuple(back.alarms), back.metrics_url, back.ui_url),
            [(each.name, each.documentation, each.type, each.unit, each.samples) for each in found],
            None if newest is None else (newest.interaction, wire.without_interaction(newest)),
        )


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

    def emit(self, interaction: Interaction, reports: Sequence[Report]) -> SpanReference | None:
        """Emit the trace, and return its root's reference."""
        if (channel := self.channel) is None:
            return self._own.emit(interaction, reports)
        told = map(wire.without_interaction, reports)
        with suppress(TimeoutError):
            reply = channel.ask("emit", interaction, [*told]).result(EMIT_S)
            return msgspec.convert(reply, SpanReference | None)
        return None

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
            with suppress(TimeoutError):
                channel.ask("said", joined).result(EMIT_S)


def be_child(descriptor: int) -> None:
    """Be the worker of one monitor, at the other end of a socket, until that is gone."""
    with suppress(OSError):
        os.nice(NICENESS)
    # A terminal's Ctrl-C and a service manager's SIGTERM go to whole groups of processes; the
    # application may want its last answers scored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    channel = Channel(socket.socket(fileno=descriptor))
    log = logging.getLogger("ragmonitor")
    log.propagate = False
    log.addHandler(_LogHandler(channel))

    def poll() -> None:
        if os.getppid() != parent:
            channel.close()  # another process has a copy of the application's end

    def begin(_service: str, told: Mapping[str, Any]) -> Pipeline:
        return Pipeline(restored(told), poll=poll, emitter=Traces, is_apart=True)

    session = Session(channel, begin, owns=True)
    try:
        channel.listen(session.take)
        if session.back is not None:
            # Gone without a word: what came is scored all the same, as far as the time suffices.
            session.back.close(LAST_S)
            # Exporters that are still closing count what did not arrive.
            session.back.has_closed.wait(LAST_S)
    finally:
        os._exit(0)  # threads of client libraries must not keep it


def serve_at(path: Path, settings: Settings, stop: threading.Event) -> None:
    """Score for all monitors that connect to a Unix socket, until asked to stop.

    Raises:
        OSError: Another worker listens there, or nobody can.
    """
    sessions: list[Session] = []
    back = Pipeline(settings, poll=lambda: None, is_apart=True)
    back.wake()

    def begin(service: str, _told: object) -> Pipeline | None:
        if service == settings.service:
            return back
        record_problem("worker", f"a monitor of another service, {service!r}, is refused")
        return None

    def serve(sock: socket.socket) -> None:
        session = Session(Channel(sock), begin, owns=False)
        sessions.append(session)
        session.channel.listen(session.take)
        sessions.remove(session)

    with _listening(path) as server:
        while not stop.is_set():
            with suppress(TimeoutError):
                threading.Thread(target=serve, args=server.accept()[:1], daemon=True).start()
    back.close(CLOSING_S)
    for session in tuple(sessions):
        session.tell(back)
        session.channel.close()


def _listening(path: Path) -> socket.socket:
    """Return a socket that listens at a path, for processes of this user. Raises `OSError`."""
    with socket.socket(socket.AF_UNIX) as other:
        error = other.connect_ex(str(path))
        if error not in (errno.ENOENT, errno.ECONNREFUSED):  # it may be another user's
            reason = os.strerror(error) if error else "another worker listens there"
            raise OSError(error or errno.EADDRINUSE, reason, str(path))
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        server.bind(str(path))
    finally:
        os.umask(before)
    server.listen()
    server.settimeout(ACCEPT_S)
    return server
