"""Sends answers to a worker over a socket: a child of the monitor's own, or a shared one.

A frame is its length in four bytes, and bytes of `ragmonitor.runtime.wire`: a monitor sends records
and messages, a worker messages.
"""

from __future__ import annotations

import itertools
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from opentelemetry import context
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor.export.prometheus import Scrape
from ragmonitor.pipeline.build import stages_of, traces_of
from ragmonitor.pipeline.carried_settings import UNIX, described
from ragmonitor.pipeline.judging import MAX_PENDING
from ragmonitor.pipeline.ledger import is_probe
from ragmonitor.pipeline.sender import TICK_S, Call, Sender
from ragmonitor.records import AlarmState, Cause, Report, SpanReference, Status
from ragmonitor.runtime import guard, wire
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.settings import ServerSettings, Settings
from ragmonitor.store import Memory

HEADER_BYTES: Final = 4
MAX_FRAME_BYTES: Final = 2**26
MAX_BYTES: Final = 64 * 2**20
"""Bytes of records that a worker may have in hand."""
STOPPING_S: Final = 1.0
"""Time for a child to end by itself; and the share of the time for closing that is kept for it."""
STOP_SHARE: Final = 0.3
# An application may have SIGPIPE end it.
_FLAGS: Final = getattr(socket, "MSG_NOSIGNAL", 0)


class ChannelError(Exception):
    """The other side is gone."""


class Channel:
    """One end of the socket. Any thread may send; one reads."""

    def __init__(self, sock: socket.socket) -> None:
        """Read nothing yet."""
        sock.settimeout(None)
        self._socket = sock
        self._identity = self._found()
        self._sending = threading.RLock()  # what is logged on the way may be sent, too
        self._is_read = False
        self.is_open = True

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.fstat(self._socket.fileno())
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _let_go(self) -> None:
        """Close the socket, unless its number is another descriptor's by now."""
        if self._found() == self._identity:
            self._socket.close()
        else:
            self._socket.detach()

    def send(self, data: bytes) -> None:
        """Send bytes; waits while the other side does not read. Raises `ChannelError`.

        An application may close all descriptors, as daemons do, and open a file of its own under
        the same number: nothing is written there.
        """
        with self._sending:
            if self._found() != self._identity:
                if self.is_open:
                    self.is_open = False
                    self._let_go()
                    record_problem("worker", "the application has closed the socket of its worker")
                raise ChannelError("the socket was closed")
            try:
                self._socket.sendall(len(data).to_bytes(HEADER_BYTES) + data, _FLAGS)
            except BaseException as error:
                self.close()  # the other side may have half of a frame
                if not isinstance(error, OSError):
                    raise
                raise ChannelError(f"the other side is gone: {error}") from error

    def tell(self, name: str, *args: object) -> None:
        """Send a message. Raises `ChannelError`."""
        self.send(wire.encode_message(name, *args))

    def frames(self) -> Iterator[bytes]:
        """Yield what the other side sends, until it is gone."""
        self._is_read = True
        try:
            while (header := self._read(HEADER_BYTES)) is not None:
                length = int.from_bytes(header)
                if length > MAX_FRAME_BYTES or (data := self._read(length)) is None:
                    return
                yield data
        finally:
            self.close()
            with self._sending:
                self._let_go()

    def _read(self, length: int) -> bytes | None:
        """Return so many bytes; None: the other side is gone."""
        data = bytearray()
        while len(data) < length:
            more = b""
            with suppress(OSError):
                more = self._socket.recv(length - len(data))
            if not more:
                return None
            data += more
        return bytes(data)

    def close(self) -> None:
        """End the connection; the other side sees it at once, and who waits here goes on."""
        self.is_open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if not self._is_read:  # else who reads closes it
            self._let_go()

    def forget(self) -> None:
        """Close a forked child's copy of this end; the connection stays the parent's."""
        self._let_go()
        self.is_open = False


class Line(Channel):
    """A connection to a worker with what it was sent: what is owed when it ends is unscored."""

    def __init__(self, sock: socket.socket, child: subprocess.Popen[bytes] | None = None) -> None:
        """Read nothing yet.

        Args:
            sock: The connection.
            child: The worker, where it is this process's own.
        """
        super().__init__(sock)
        self.child = child
        self.owed: dict[int, tuple[tuple[str, Status] | None, int]] = {}
        """Framework and status, None where nothing counts, and bytes of each record that is owed.
        """
        self.is_heard = False
        """Whether the worker has said that it works."""
        self._sent = self._bytes = 0

    def has_room(self, records: int) -> bool:
        """Return whether one more may be sent while so many may be open."""
        return len(self.owed) < records and self._bytes < MAX_BYTES

    def put(self, data: bytes, owed: tuple[str, Status] | None) -> None:
        """Send a record, and have it owed: also if the worker has gone by then.

        Args:
            data: Its bytes.
            owed: Its framework and status; None: nothing is owed of it.
        """
        self._sent += 1
        self.owed[self._sent] = owed, len(data)
        self._bytes += len(data)
        try:
            with suppress(ChannelError):
                self.send(data)
        except BaseException:  # raised again: whoever sends counts it
            self.settled([self._sent])
            raise

    def settled(self, numbers: Iterable[int]) -> None:
        """Note of which records the worker owes nothing more."""
        for number in numbers:
            self._bytes -= self.owed.pop(number, (None, 0))[1]

    def listen(
        self, handle: Callable[[Line, str, Sequence[Any]], object], gone: Callable[[], object]
    ) -> None:
        """Start to read what the worker says, until it is gone. Raises `RuntimeError`."""

        def work() -> None:
            context.attach(context.set_value("suppress_instrumentation", True))
            for data in self.frames():
                with contained("worker"):
                    handle(self, *wire.decode_message(data))
            gone()

        threading.Thread(target=work, name="ragmonitor-replies", daemon=True).start()

    def end(self, within_s: float) -> int | None:
        """End the connection, and a child with it; return its exit status."""
        self.close()
        if self.child is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return self.child.wait(max(0.0, within_s))
        self.child.kill()
        return self.child.wait()


def line_to(address: str) -> Line:
    """Return a line to this user's worker that listens at `unix:/path`. Raises `OSError`."""
    path = Path(address.removeprefix(UNIX))
    if path.stat().st_uid != os.geteuid():
        raise PermissionError("the socket is another user's")
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(str(path))
    except BaseException:  # whatever it is, the socket is closed before it goes on
        sock.close()
        raise
    return Line(sock)


def line_to_child(service: str) -> Line:
    """Return a line to a worker that is started. Raises `OSError`."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            number = theirs.fileno()
            child = subprocess.Popen(  # noqa: S603 - ourselves
                [
                    *(sys.executable, "-P", "-m", "ragmonitor", "worker"),
                    *("--service", service, "--descriptor", str(number)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(number,),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_path())},
            )
    except BaseException:  # whatever it is, the socket is closed before it goes on
        ours.close()
        raise
    return Line(ours, child)


def _path() -> Iterator[str]:
    """Yield where modules are found, but where one lies that would instrument any interpreter."""
    for each in sys.path:
        place = Path(each)
        if not (place / "sitecustomize.py").exists() and not (place / "usercustomize.py").exists():
            yield str(place.absolute())


class WorkerSender(Sender):
    """Sends answers to a worker, which starts with the first of them if it is this monitor's own.

    What was sent and is still open when a worker ends is unscored.
    """

    def __init__(self, settings: Settings, *, poll: Callable[[], object]) -> None:
        """Start nothing yet.

        Args:
            settings: The settings; nothing in them has to stay in this process.
            poll: Called now and then; gives up abandoned runs.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._settings = settings
        url = settings.send_to
        self._address = None if url is None else url.get_secret_value()
        self._traces = traces_of(settings)
        # So that settings which the worker could not carry out are refused here.
        quiet = {"server": ServerSettings(enabled=False, ui=False), "state": None}
        stages = stages_of(
            settings.model_copy(update=quiet),
            feedback=lambda _: False,
            emitter=lambda own: own,
            store=Memory(),
        )
        super().__init__(
            settings,
            redacts=self._address is not None,
            poll=poll,
            meters=stages.exports.meters,
            judges=stages.judges,
        )
        self.registry = CollectorRegistry()
        self.registry.register(Scrape(self._families))
        self._room = settings.capture.queue_size
        if settings.judge.model is not None:
            self._room += MAX_PENDING
        self._opening = threading.Lock()
        """Held while a line is made the one to use, or the last one."""
        self._line: Line | None = None
        self._deaths = 0
        self._errors = Counter(guard.errors)
        self._newest: Report | None = None
        self._known_families: Sequence[Any] = ()
        """Every series, as the worker gave them last."""
        self._numbers = itertools.count(1)
        self._awaited: dict[int, Future[bool | None]] = {}
        """The requests that the worker has, by number."""

    # --- the application's side -----------------------------------------------------------------

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored by the last flush."""
        return self._newest

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        return "emitted by the worker" if self._address else self._traces.destination()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is judged and exported; return whether it is."""
        deadline = time.monotonic() + timeout_s
        if not self._is_working():
            return True
        is_done = self._asked("flush", deadline)
        if self._traces.is_applications:
            is_done = self._traces.flush(max(0.1, deadline - time.monotonic())) and is_done
        return is_done

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; late interactions count as `shutdown`."""
        deadline = time.monotonic() + timeout_s
        is_closed = True
        if self._is_working():
            last = deadline - min(STOPPING_S, STOP_SHARE * timeout_s)
            is_closed = self._asked("close", last)
        with self._opening:
            self._closed = True
            line = self._line
        left_s = deadline - time.monotonic()
        if line is not None:
            line.close()  # whoever waits for it goes on
        self._end(deadline - left_s / 2)
        if line is not None:
            self._bury(line, Cause.SHUTDOWN, min(STOPPING_S, deadline - time.monotonic()))
        with shielded("close"):
            self.ledger.count_notes()
            self._traces.close()
        return is_closed

    def _families(self) -> list[Metric]:
        """Return the worker's series of the last seconds, with what was counted here."""
        with shielded("count"):
            if self._line is None or not self._line.is_heard:
                self.ledger.count_notes()
        return _summed(_metrics(self._known_families), self._meters.registry.collect())

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool | None:
        """Serve one worker to its end or ours; return None: another one is to follow, later."""
        line = self._line
        if line is None:
            line = self._opened()
        while line is not None and line.is_open and not self._closed:
            self._serve(line)
        if self._closed:
            return False
        if line is not None:
            self._bury(line, Cause.INTERNAL_ERROR, 0.0)
        return None

    def _opened(self) -> Line | None:
        """Return a line to a worker that knows what it is to do; None: there is none for now."""
        try:
            with self.step:
                if self._address is None:
                    told = described(self._settings)
                    line = line_to_child(self._settings.service)
                else:
                    line, told = line_to(self._address), {}
            try:
                line.listen(self._handle, lambda: self._wakes.put(None))
                line.tell("begin", self._settings.service, told, self._deaths)
            except BaseException:  # whatever it is, the worker ends before it goes on
                line.end(0.0)
                raise
        except (OSError, ChannelError) as error:
            record_problem("worker", f"no worker can be reached: {guard.reason(error)}")
            return None
        with self._opening:
            if not self._closed:
                self._ticked_s = 0.0
                self._line = line
                return line
        line.end(0.0)
        return None

    def _bury(self, line: Line, cause: Cause, within_s: float) -> None:
        """Count what a worker had that is gone, or is to go."""
        self._line = None
        status = line.end(within_s)
        while line.owed:
            with suppress(KeyError):  # a reply still came in
                _, (owed, _) = line.owed.popitem()
                if owed is not None:
                    self.ledger.note_refused(*owed, cause)
        if cause is Cause.INTERNAL_ERROR:
            self._deaths += 1
            self._known_families = ()
            ended = "the worker has gone" if status is None else f"the worker ended ({status})"
            record_problem(
                "worker",
                f"{ended}; another is looked for, and what it had in hand is counted as "
                "internal_error",
            )
        while self._awaited:
            with suppress(KeyError):  # as above
                self._awaited.popitem()[1].set_result(None)

    def _serve(self, line: Line) -> None:
        """Send what there is room for, then wait for more."""
        with suppress(ChannelError):  # `_work` sees that it is gone
            if self._is_time_to_tick():
                self._tell_counts(line)
            while line.has_room(self._room) and (finished := self.queue.take()) is not None:
                if isinstance(finished, Call) and finished.done is not None:
                    self._ask(line, finished, finished.done)
                    continue
                is_counted = False
                try:
                    is_counted = self._send(line, finished)
                finally:
                    if not is_counted:
                        self._refuse(finished, Cause.INTERNAL_ERROR)
                if self._closed or not line.is_open:
                    return
                time.sleep(0)  # the application goes first
            self._rest()

    def _ask(self, line: Line, call: Call, done: Future[bool | None]) -> None:
        """Request something of the worker, once it works: what was counted here goes first."""
        number = next(self._numbers)
        self._awaited[number] = done
        try:
            while line.is_open and not (line.is_heard or self._closed):
                with suppress(queue.Empty):
                    self._wakes.get(timeout=TICK_S)
            self._tell_counts(line)
            # It keeps a little for the way back.
            line.tell(call.name, number, 0.95 * (call.deadline - time.monotonic()))
        except BaseException:  # raised again: whoever waits asks once more
            if self._awaited.pop(number, None) is not None:
                done.set_result(None)
            raise

    def _send(self, line: Line, finished: Finished) -> bool:
        """Send one; return False: it is still to be counted."""
        with contained("worker"):
            packed = self._packed(finished)
            if packed is None:
                return True
            data, framework, status = packed
            if isinstance(finished, Call):
                line.send(data)
            else:
                line.put(data, None if is_probe(finished) else (framework, status))
            return True
        if not isinstance(finished, Call):
            self.ledger.give_up("unreadable")
        return False

    def _tell_counts(self, line: Line) -> None:
        """Tell the worker what was counted here, or have the next told. Raises `ChannelError`."""
        # A worker that never works takes no counts along.
        noted = self.ledger.take() if line.is_heard else []
        errors = Counter(guard.errors)
        try:
            line.tell(
                "counts",
                {
                    "errors": errors - self._errors,
                    "has_provider": self._address is None and self._traces.is_applications,
                    "noted": noted,
                },
            )
        except ChannelError:
            self.ledger.take_over(noted)
            raise
        self._errors = errors

    # --- from the worker ------------------------------------------------------------------------

    def _handle(self, line: Line, name: str, told: Sequence[Any]) -> None:
        """Take what the worker says: of answers and numbers, or what is to be emitted here."""
        if name == "log":
            logger.log(told[0], "%s", told[1])
            return
        if name != "news":
            number, reference = told[0], None
            with contained("export"):
                reference = self._emitted(name, *told[1:])
            with suppress(ChannelError):
                line.tell("emitted", number, reference)
            return
        closed, state, requests = told
        line.settled(closed)
        if state is not None:
            alarms, self.metrics_url, self.ui_url, families, newest = state
            self.alarms = msgspec.convert(alarms, tuple[AlarmState, ...])
            self._known_families = families
            self._newest = None if newest is None else _report(*newest)
        if not line.is_heard:
            line.is_heard = True
            self._wakes.put(None)
        for number, is_done in requests:
            if (done := self._awaited.pop(number, None)) is not None:
                done.set_result(is_done)

    def _emitted(self, name: str, first: Any, told: Sequence[Any] = ()) -> SpanReference | None:
        """Emit by the application's own provider of traces; return the reference of a new trace."""
        if name == "said":
            self._traces.feedback(msgspec.convert(first, JoinedFeedback))
            return None
        reports = [_report(first, each) for each in told]
        if not reports[0].late:
            return self._traces.emit(reports[0].interaction, reports)
        self._traces.export(reports[0])
        return None

    # --- forks ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of the parent's worker, in a forked child that begins anew."""
        super().forget()
        line = self._line
        if line is not None:
            line.forget()
            if line.child is not None:
                line.child.poll()  # finds out that it is no child of ours, so that nobody warns


def _report(interaction: Any, told: Any) -> Report:
    """Return the report of plain values."""
    return msgspec.convert({**told, "interaction": interaction}, Report)


def _metrics(families: Sequence[Any]) -> list[Metric]:
    """Return the families of plain values."""
    metrics = []
    for *named, samples in families:
        metric = Metric(*named)
        for name, labels, value, timestamp, exemplar in samples:
            there = None if exemplar is None else Exemplar(*exemplar)
            metric.samples.append(Sample(name, labels, value, timestamp, there))
        metrics.append(metric)
    return metrics


def _summed(families: Sequence[Metric], own: Iterable[Metric]) -> list[Metric]:
    """Return the families, with the counters of `own` added to theirs."""
    if not families:
        return list(own)
    result = {family.name: family for family in families}
    for family in (each for each in own if each.type == "counter"):
        known = result.setdefault(family.name, Metric(family.name, family.documentation, "counter"))
        samples = {(each.name, *sorted(each.labels.items())): each for each in known.samples}
        for sample in family.samples:
            key = sample.name, *sorted(sample.labels.items())
            before = samples.get(key)
            if before is None:
                samples[key] = sample
            elif sample.name.endswith("_total"):
                samples[key] = before._replace(value=before.value + sample.value)
        known.samples = list(samples.values())
    return list(result.values())
