"""Sends answers to a worker over a socket: a child of the monitor's own, or a shared one."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor.export.prometheus import Scrape
from ragmonitor.pipeline.back_half.channel import ChannelError
from ragmonitor.pipeline.back_half.line import Line, line_to, line_to_child
from ragmonitor.pipeline.back_half.sender import LATER_S, Data, Sender
from ragmonitor.pipeline.back_half.setup import UNIX, described
from ragmonitor.pipeline.judging import MAX_PENDING
from ragmonitor.pipeline.ledger import is_probe
from ragmonitor.pipeline.wiring import (
    builtin_judge,
    estimates_of,
    exporters_of,
    incidents_of,
    judging_of,
    meters_of,
    reader_of,
    traces_of,
)
from ragmonitor.records import (
    AlarmState,
    Cause,
    JudgeIdentity,
    Report,
    SpanReference,
)
from ragmonitor.redaction import Redactor
from ragmonitor.runtime import guard, supervised, wire
from ragmonitor.runtime.apart import EXECUTOR, is_on_a_loop
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.settings import ServerSettings, Settings

SCRAPE_S: Final = 5.0
STOPPING_S: Final = 1.0
"""Time for a child to end by itself; and the share of the time for closing that is kept for it."""
STOP_SHARE: Final = 0.3


class WorkerSender(Sender):
    """Sends answers to a worker, which starts with the first of them if it is this monitor's own.

    What was sent and is still open when a worker ends is unscored.
    """

    def __init__(
        self, settings: Settings, *, redactor: Redactor, poll: Callable[[], object]
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings; `setup.reason_to_stay` is empty for them.
            redactor: What every text passes before it goes to a worker with settings of its own.
            poll: Called now and then; gives up abandoned runs.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._settings = settings
        url = settings.send_to
        self._address = None if url is None else url.get_secret_value().removeprefix(UNIX)
        self._traces = traces_of(settings)
        quiet = {"server": ServerSettings(enabled=False), "state": None}
        plain = settings.model_copy(update=quiet)
        super().__init__(
            settings,
            redactor=None if self._address is None else redactor,
            poll=poll,
            meters=meters_of(plain, None),
            judges=_checked(plain),
            compressed=False,
        )
        self.registry = CollectorRegistry()
        self.registry.register(Scrape(self._families))
        self._room = settings.capture.queue_size
        if settings.judge.model is not None:
            self._room += MAX_PENDING
        self._line: Line | None = None
        self._deaths = 0
        self._pause_s = supervised.FIRST_PAUSE_S
        self._errors = Counter(guard.errors)
        self._newest: Report | None = None
        self._families_known: list[Metric] = []
        """Every series, as the worker gave them last."""
        self._destination = ""

    # --- the application's side -----------------------------------------------------------------

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored by the last flush."""
        return self._newest

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        return self._destination or self._traces.destination()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is judged and exported; return whether it is."""
        deadline = time.monotonic() + timeout_s
        if not self._is_working():
            return True
        self.wake()
        if not self._is_handed(deadline):
            return False
        if (reply := self._asked(deadline - time.monotonic(), "flush")) is None:
            return False
        self._newest = _report(reply[1])
        return reply[0] and (
            not self._traces.is_applications
            or self._traces.flush(max(0.1, deadline - time.monotonic()))
        )

    def _asked(self, timeout_s: float, name: str) -> Any:
        """Return the worker's reply to a request; None: there is none in time."""
        deadline = time.monotonic() + timeout_s
        while self._thread.is_started and (left_s := deadline - time.monotonic()) > 0:
            line = self._line
            try:
                if line is not None and not line.is_gone:
                    self._tell_counts(line, within_s=left_s)
                    # It keeps a little for the way back.
                    asked = line.channel.request(name, 0.95 * left_s, within_s=left_s)
                    return asked.result(left_s)
            except ChannelError:  # the next one is asked
                pass
            except TimeoutError:
                return None
            time.sleep(LATER_S)
        return None

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; late interactions count as `shutdown`."""
        deadline = time.monotonic() + timeout_s
        is_closed = True
        if self._is_working():
            self.wake()
            last = deadline - min(STOPPING_S, STOP_SHARE * timeout_s)
            is_handed = self._is_handed(deadline - 2 * STOP_SHARE * timeout_s)
            ended = self._asked(last - time.monotonic(), "close")
            is_closed = is_handed and bool(ended and ended[0])
            if ended:
                self._newest, self._families_known = _report(ended[1]), _metrics(ended[2])
        with self._counting:
            self._closed = True
            line = self._line
        left_s = deadline - time.monotonic()
        if line is not None:
            line.channel.close()  # whoever waits for it goes on
        self._end(deadline - left_s / 2)
        if line is not None:
            self._bury(line, Cause.SHUTDOWN, min(STOPPING_S, deadline - time.monotonic()))
        with shielded("close"):
            self.ledger.count_notes()
            self._traces.close()
        return is_closed

    # --- series ---------------------------------------------------------------------------------

    def _families(self) -> list[Metric]:
        """Return the worker's series, with what was counted here.

        An application that mounts our registry may collect on its event loop, which must not stand
        still until a worker answers: it gets those that were there last.
        """
        if self._is_working():
            fetching = EXECUTOR.submit(self._fetch)
            if not is_on_a_loop():
                fetching.result()
        with shielded("count"):
            if self._line is None or not self._line.is_heard:
                self.ledger.count_notes()
        return _summed(self._families_known, self._meters.registry.collect())

    def _fetch(self) -> None:
        given = self._asked(SCRAPE_S, "families")
        if given is not None:
            self._families_known = _metrics(given)

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        """Serve one worker to its end or ours; return False: no further one is to be started."""
        line = self._line
        if line is None:
            line = self._opened()
        began_s = time.monotonic()
        while line is not None and not (self._closed or line.is_gone):
            self._serve(line)
        if time.monotonic() - began_s > supervised.MAX_PAUSE_S:
            self._pause_s = supervised.FIRST_PAUSE_S
        if not self._closed:
            if line is not None:
                self._bury(line, Cause.INTERNAL_ERROR, 0.0)
            self._thread.ending.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, supervised.MAX_PAUSE_S)
        return not self._closed

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
                told |= {"restarts": self._deaths}
                line.listen(self._handlers(line), lambda: self._wakes.put(None))
                line.channel.tell("begin", self._settings.service, told)
            except BaseException:  # whatever it is, the worker ends before it goes on
                line.end(0.0)
                raise
        except (OSError, ChannelError) as error:
            record_problem("worker", f"no worker can be reached: {guard.reason(error)}")
            return None
        with self._counting:
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
        while line.open:
            with suppress(KeyError):  # a reply still came in
                _, owed = line.open.popitem()
                if owed is not None:
                    self.ledger.note_refused(*owed, cause)
        if cause is Cause.INTERNAL_ERROR:
            self._deaths += 1
            self._families_known = []
            ended = "the worker has gone" if status is None else f"the worker ended ({status})"
            record_problem(
                "worker",
                f"{ended}; another is looked for, and what it had in hand is counted as "
                "internal_error",
            )

    def _serve(self, line: Line) -> None:
        """Send what there is room for, then wait for more. Raises `ChannelError`."""
        with suppress(ChannelError):  # `_work` sees that it is gone
            if self._is_time_to_tick():
                self._tell_counts(line)
            while line.has_room(self._room) and (taken := self._take(1)):
                is_counted = False
                try:
                    is_counted = self._send(line, taken[0])
                finally:
                    if not is_counted:
                        self._refuse(taken[0], Cause.INTERNAL_ERROR)
                    self._handed += 1
                if self._closed or line.is_gone:
                    return
                time.sleep(0)  # the application goes first
            self._rest()

    def _send(self, line: Line, finished: Finished) -> bool:
        """Send one; return False: it is still to be counted."""
        with contained("worker"):
            packed = self._packed(finished)
            if packed is None:
                return True
            data, framework, status = packed
            if isinstance(finished, Data):
                line.channel.send(data)
            else:
                line.put(data, None if is_probe(finished) else (framework, status))
            return True
        if not isinstance(finished, Data):
            self.ledger.give_up("unreadable")
        return False

    def _tell_counts(self, line: Line, within_s: float = threading.TIMEOUT_MAX) -> None:
        """Tell the worker what was counted here, or have it told the next. Raises as `tell`."""
        # A worker that never works takes no counts along.
        noted = self.ledger.take() if line.is_heard else ({}, {}, {})
        errors = Counter(guard.errors)
        try:
            line.channel.tell(
                "counts",
                {
                    "waiting": len(self.queue),
                    "errors": errors - self._errors,
                    "level": logging.getLogger("ragmonitor").getEffectiveLevel(),
                    "has_provider": self._address is None and self._traces.is_applications,
                    "noted": [[*each.items()] for each in noted],
                },
                within_s=within_s,
            )
        except ChannelError:
            self.ledger.take_over(*noted)
            raise
        self._errors = errors

    # --- from the worker ------------------------------------------------------------------------

    def _handlers(self, line: Line) -> dict[str, Callable[..., object]]:
        return {
            "state": partial(self._state, line),
            "log": lambda level, text: logger.log(level, "%s", text),
            "emit": self._emit,
            "late": lambda report: self._traces.export(wire.decode_report(report)),
            "told": lambda told: self._traces.feedback(msgspec.convert(told, JoinedFeedback)),
        }

    def _state(
        self, line: Line, alarms: Any, metrics_url: str | None, ui_url: str | None, destination: str
    ) -> None:
        line.is_heard = True
        self.alarms = msgspec.convert(alarms, tuple[AlarmState, ...])
        self.metrics_url, self.ui_url, self._destination = metrics_url, ui_url, destination

    def _emit(self, reports: Sequence[bytes]) -> SpanReference | None:
        """Emit a trace by the application's own provider; the first report has the record."""
        first, *others = map(wire.decode_report, reports)
        record = first.interaction
        return self._traces.emit(
            record, [first, *(replace(each, interaction=record) for each in others)]
        )

    # --- forks ----------------------------------------------------------------------------------

    def forget(self) -> None:
        """Let go of the parent's worker, in a forked child that begins anew."""
        super().forget()
        if self._line is not None:
            self._line.forget()


def _checked(settings: Settings) -> list[JudgeIdentity]:
    """Find out here what the worker could not do, and return who judges there.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    judging, reader = judging_of(settings), reader_of(settings) or builtin_judge()
    estimates_of(settings, reader, judging)
    incidents_of(settings, judging, lambda _reason, _n: None)
    exporters_of(settings, lambda _reason, _n: None)
    judges = [reader] if judging is None else [reader, judging.judge]
    return [each.identity for each in judges]


def _report(data: bytes | None) -> Report | None:
    return None if data is None else wire.decode_report(data)


def _metrics(families: Sequence[Any]) -> list[Metric]:
    """Return the families that `worker_process.plain_families` has made plain."""
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
        summed = Metric(family.name, family.documentation, "counter")
        summed.samples = list(samples.values())
        result[family.name] = summed
    return list(result.values())
