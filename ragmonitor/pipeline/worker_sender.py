"""Sends answers to a worker over a socket: a child of the monitor's own, or a shared one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec
from opentelemetry import context
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor.export.otel import OtelExporter
from ragmonitor.export.prometheus import Scrape
from ragmonitor.pipeline.back_half import Request
from ragmonitor.pipeline.build import Stages
from ragmonitor.pipeline.channel import Channel, ChannelError
from ragmonitor.pipeline.judging import MAX_PENDING
from ragmonitor.pipeline.ledger import Account
from ragmonitor.pipeline.sender import Sender
from ragmonitor.records import (
    AlarmState,
    Cause,
    Evaluation,
    Report,
    Scored,
    SpanReference,
    Unscored,
)
from ragmonitor.runtime import guard
from ragmonitor.runtime.addresses import UNIX
from ragmonitor.runtime.errors import WireError
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem, shielded
from ragmonitor.runtime.queues import MAX_BYTES
from ragmonitor.settings import ServerSettings, Settings
from ragmonitor.store import Memory

STOPPING_S: Final = 1.0
"""Time for a child to end by itself."""


class Line(Channel):
    """A connection to a worker."""

    def __init__(self, sock: socket.socket, child: subprocess.Popen[bytes] | None = None) -> None:
        """Read nothing yet.

        Args:
            sock: The connection.
            child: The worker, where it is this process's own.
        """
        super().__init__(sock)
        self.child = child
        self.begun: Future[Any] = Future()
        """Whether the worker works: known once it says so, or is gone."""

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

    A record is owed until the worker says that its account is closed: also when the worker dies.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        poll: Callable[[], object],
        told: Mapping[str, Any],
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings; nothing in them has to stay in this process.
            poll: Called now and then; gives up abandoned runs.
            told: The settings as plain values, for a child.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._service, self._told = settings.service, told
        url = settings.send_to
        self._address = None if url is None else url.get_secret_value()
        self._traces = OtelExporter(settings)
        # So that settings which the worker could not carry out are refused here.
        quiet = {"server": ServerSettings(enabled=False, ui=False), "state": None}
        there = Stages(settings.model_copy(update=quiet), store=Memory())
        super().__init__(
            settings,
            redacts=self._address is not None,
            poll=poll,
            meters=there.exports.meters,
            judges=there.judges,
        )
        self.registry = CollectorRegistry()
        self.registry.register(Scrape(self._families))
        self._room = settings.capture.queue_size
        if settings.judge.model is not None:
            self._room += MAX_PENDING
        self._line: Line | None = None
        self._bytes = 0
        """Of what the worker has in hand."""
        self._errors = Counter(guard.errors)
        self._newest: Report | None = None
        self._known_families: Sequence[Any] = ()
        """Every series, as the worker gave them last."""

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
        is_done = super().flush(timeout_s)
        if self._traces.is_applications:
            is_done = self._traces.flush(max(0.1, deadline - time.monotonic())) and is_done
        return is_done

    def _families(self) -> list[Metric]:
        """Return the worker's series of the last seconds, with what was counted here."""
        with shielded("count"):
            line = self._line
            if line is None or not (line.is_open and line.begun.done()):
                self.ledger.count_notes()  # else the worker is told
        return _summed(map(_metric, self._known_families), self.meters.registry.collect())

    def forget(self) -> None:
        """Let go of the parent's worker, in a forked child that begins anew."""
        super().forget()
        line = self._line
        if line is not None:
            line.forget()
            if line.child is not None:
                line.child.poll()  # finds out that it is no child of ours, so that nobody warns

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool | None:
        """Serve one worker to its end or ours; return None: another one is to follow, later."""
        while goes_on := super()._work():
            pass
        return goes_on

    def _is_ready(self) -> bool:
        """Return whether there is a worker that knows what it is to do, and works."""
        line = self._line or self._opened()
        if line is None or (line.begun.result() and line.is_open) or self.is_closed:
            return line is not None
        self._bury(line)
        return False

    def _opened(self) -> Line | None:
        line: Line | None = None
        try:
            with self.step:
                if self._address is None:
                    line = line_to_child(self._service)
                else:
                    line = line_to(self._address)
            threading.Thread(
                target=self._listen, args=(line,), name="ragmonitor-replies", daemon=True
            ).start()
            line.begun = line.ask("begin", self._service, self._told)
        except BaseException as error:
            if line is not None:
                line.end(0.0)
            if not isinstance(error, OSError):
                raise
            record_problem("worker", f"no worker can be reached: {guard.reason(error)}")
            return None
        self._ticked_s = 0.0
        self._line = line
        if self.is_closed:
            line.end(0.0)
        return line

    def _bury(self, line: Line) -> None:
        """Count what a worker had that is gone."""
        status = line.end(0.0)
        self._line = None
        self._known_families = ()
        ended = "the worker has gone" if status is None else f"the worker ended ({status})"
        record_problem(
            "worker_restart",
            f"{ended}; another is looked for, and what it had in hand is counted as internal_error",
        )

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()

    def _end(self, deadline: float) -> None:
        super()._end(deadline)
        if self._line is not None:
            self._line.end(min(STOPPING_S, deadline - time.monotonic()))
        self._traces.close()

    def _has_room(self) -> bool:
        return (
            self._line is not None
            and self._line.is_open
            and len(self._line.asked) < self._room
            and self._bytes < MAX_BYTES
        )

    def _send(self, account: Account, data: bytes) -> None:
        if self._line is not None:
            self._bytes += len(data)
            closed = partial(self._close_account, account, len(data))
            self._line.ask("record", data).add_done_callback(closed)

    def _close_account(self, account: Account, size: int, reply: Future[bool | None]) -> None:
        """Close what the worker has counted, or count what was lost with it."""
        self._bytes -= size
        lost = Cause.SHUTDOWN if self.is_closed else Cause.INTERNAL_ERROR
        account.close(None if reply.result() else lost)

    def _carry_out(self, request: Request) -> None:
        """Request something of the worker: what was counted here goes first."""
        self._tick()
        if self._line is None:
            return

        def replied(reply: Future[bool | None]) -> None:
            is_done = reply.result()
            if is_done is None and not self.is_closed:  # the next worker is asked
                self._requests.append(request)
            else:
                request.reply(is_done=bool(is_done))

        # It keeps a little for the way back.
        left_s = 0.95 * (request.deadline - time.monotonic())
        self._line.ask(request.name, left_s).add_done_callback(replied)

    def _tick(self) -> None:
        """Tell the worker what was counted here, or have the next told."""
        line, noted, errors = self._line, self.ledger.take(), Counter(guard.errors)
        if line is not None and not line.asked:
            self._bytes = 0  # two threads that add at once may have lost something
        try:
            if line is not None:
                has_provider = self._address is None and self._traces.is_applications
                line.tell("counts", noted, errors - self._errors, has_provider)
            self._errors = errors
        except BaseException as error:
            self.ledger.take_over(noted)
            if isinstance(error, WireError):
                self.ledger.count_notes()  # here: a name among them cannot be told
            if not isinstance(error, ChannelError):
                raise

    # --- from the worker ------------------------------------------------------------------------

    def _listen(self, line: Line) -> None:
        """Take what the worker says, until it is gone."""
        context.attach(context.set_value("suppress_instrumentation", True))
        with contained("worker"):
            line.listen(partial(self._handle, line))
        line.close()
        self._signal()

    def _handle(self, line: Line, name: str, *told: Any) -> None:
        """Take what the worker says: of answers and numbers, or what is to be emitted here."""
        if name == "log":
            logger.log(told[0], "%s", told[1])
        elif name == "news":
            replies, state = told
            if state is not None:
                alarms, self.metrics_url, self.ui_url, families, newest = state
                self.alarms = msgspec.convert(alarms, tuple[AlarmState, ...])
                self._known_families = families
                self._newest = None if newest is None else _report(*newest)
            for number, is_done, _ in replies:
                line.replied(number, is_done)
        else:
            reference = None
            with contained("export"):
                reference = self._emitted(name, *told[1:])
            line.reply(told[0], reference)

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


def _report(interaction: Any, told: Any) -> Report:
    """Return the report of plain values."""
    values = {**told, "interaction": interaction}
    # Of two kinds of records the library cannot tell which one it reads.
    evaluations: list[Evaluation] = [
        msgspec.convert(each, Unscored) if "cause" in each else msgspec.convert(each, Scored)
        for each in values.pop("evaluations")
    ]
    values = {name: msgspec.convert(value, _OF_REPORT[name]) for name, value in values.items()}
    return Report(evaluations=tuple(evaluations), **values)


_OF_REPORT: Final = get_type_hints(Report)


def _metric(told: Sequence[Any]) -> Metric:
    """Return the family of plain values."""
    *named, samples = told
    metric = Metric(*named)
    for name, labels, value, timestamp, exemplar, *_ in samples:
        there = None if exemplar is None else Exemplar(*exemplar)
        metric.samples.append(Sample(name, labels, value, timestamp, there))
    return metric


def _summed(families: Iterable[Metric], own: Iterable[Metric]) -> list[Metric]:
    """Return the families, with the counters of `own` added to theirs; or `own`, without any."""
    result = {family.name: family for family in families}
    for family in own:
        known = result.setdefault(family.name, family)
        if known is not family and family.type == "counter":
            sums: defaultdict[tuple[Any, ...], float] = defaultdict(float)
            for name, labels, value, *_ in (*known.samples, *family.samples):
                sums[name, *labels.items()] += value
            known.samples = [Sample(name, dict(of), value) for (name, *of), value in sums.items()]
    return list(result.values())
