"""What a monitor hands answers to whose work is done by a worker: a bounded queue, and one thread.

The thread turns what has finished into records and sends them, as far as the worker has room. What
was sent and is still open when a worker ends is unscored: captured = scored + unscored.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor.capture import sound
from ragmonitor.evaluators import table
from ragmonitor.export.prometheus import Scrape
from ragmonitor.pipeline.back_half.channel import ChannelError
from ragmonitor.pipeline.back_half.line import Line, line_to, line_to_child
from ragmonitor.pipeline.back_half.setup import UNIX, described
from ragmonitor.pipeline.judging import MAX_PENDING
from ragmonitor.pipeline.ledger import Ledger, is_probe
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
    AlarmEvent,
    AlarmState,
    Cause,
    JudgeIdentity,
    Report,
    SpanReference,
    Status,
)
from ragmonitor.redaction import Redactor
from ragmonitor.runtime import guard, supervised, wire
from ragmonitor.runtime.apart import EXECUTOR, is_on_a_loop
from ragmonitor.runtime.feedback import Feedback, JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem, shielded
from ragmonitor.runtime.protocols import Finished
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.runtime.supervised import SupervisedThread
from ragmonitor.settings import ServerSettings, Settings

LINGER_S: Final = 0.01
"""Pause between waking and working: the request that woke us finishes undisturbed."""
TICK_S: Final = 2.0
SCRAPE_S: Final = 5.0
STOPPING_S: Final = 1.0
"""Time for a child to end by itself; and the share of the time for closing that is kept for it."""
STOP_SHARE: Final = 0.3
LATER_S: Final = 0.005
"""The pause between looks of somebody who waits for the thread."""


@dataclass(frozen=True)
class _Data:
    """What else is sent to the worker, in its turn."""

    kind: str
    data: bytes
    framework: str = ""
    status: Status = "ok"

    def interaction(self) -> None:
        """Return None: it is none."""


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A judge of the worker."""

    identity: JudgeIdentity


class WorkerSender:
    """Sends answers to a worker, which starts with the first of them if it is this monitor's own.

    Methods may be called by any thread.
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
        self._redactor = redactor
        self._poll = poll
        self._traces = traces_of(settings)
        quiet = {"server": ServerSettings(enabled=False), "state": None}
        plain = settings.model_copy(update=quiet)
        judges = _checked(plain)
        self._meters = meters_of(plain, None)
        """What is counted here: without a worker, and after the end."""
        self._ledger = Ledger(self._meters, table.select(settings.evaluators), lambda: judges)
        self.registry = CollectorRegistry()
        """Every series, to be mounted in an application's own metrics endpoint."""
        self.registry.register(Scrape(self._families))
        self._room = settings.capture.queue_size
        if settings.judge.model is not None:
            self._room += MAX_PENDING
        self._queue: MemoryQueue = MemoryQueue(settings.capture.queue_size)
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = SupervisedThread(self._work)
        self.step = threading.Lock()
        """Held while a worker is started: a child that is forked then would hold copies of its
        pipes, of which nobody knows."""
        self._line: Line | None = None
        self._counting = threading.Lock()
        self._taken = self._handed = self._deaths = 0
        """Interactions that were taken from the queue, and that were sent or counted since; and
        workers that died."""
        self._pause_s = supervised.FIRST_PAUSE_S
        self._idle = self._closed = False
        self._ticked_s = 0.0
        self._errors = Counter(guard.errors)
        self._newest: Report | None = None
        self._families_known: list[Metric] = []
        """Every series, as the worker gave them last."""
        self.alarms: Sequence[AlarmState] = ()
        """The state of each signal's evidence, as of a few seconds ago."""
        self.metrics_url: str | None = None
        """The address at which the worker serves /metrics; None if it does not."""
        self.ui_url: str | None = None
        """The address at which it serves the page; None if it does not."""
        self._destination = ""

    # --- the application's side -----------------------------------------------------------------

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as `queue_full`."""
        if not self._queue.put(finished):
            self._ledger.refuse(finished, Cause.QUEUE_FULL)
        elif self._closed:
            self._refuse_left()  # nobody looks into the queue any more
        else:
            self.wake()

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        if not self._thread.is_started:
            self._thread.start()
        elif self._idle:
            self._idle = False
            # Takes no lock: a finaliser may run this while its own thread does, too.
            self._wakes.put(None)

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, so that nothing is missing from the sums."""
        self._ledger.refuse(finished, cause)

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        self._ledger.give_up(reason)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of an answer, or of a sentence, before it was seen."""
        self._ledger.note_check(of, outcome)

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application, without waiting for it."""
        self._queue_data("event", wire.encode_message((0, "event", (name, attributes, at_s))))

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting, and it is counted."""
        redacted = feedback if self._address is None else feedback.redacted(self._redactor.text)
        return self._queue_data("feedback", wire.encode_feedback(redacted))

    def refreeze(self) -> None:
        """Accept the judge as it judges now."""
        self._queue_data("refreeze", wire.encode_refreeze())

    def _queue_data(self, kind: str, data: bytes) -> bool:
        """Have bytes sent behind what waits; False: there is no room, and it is counted."""
        is_taken = not self._closed and self._queue.put(_Data(kind, data))
        if is_taken:
            self.wake()
        else:
            self._ledger.give_up(f"{kind}_{'late' if self._closed else 'full'}")
        return is_taken

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

    def _is_working(self) -> bool:
        return not self._closed and bool(self._thread.is_started or len(self._queue))

    def _is_handed(self, deadline: float) -> bool:
        """Wait until what is in the queue by now was sent or counted; return whether it was."""
        with self._counting:
            until = self._taken + len(self._queue)
        while self._handed < until:
            if time.monotonic() > deadline:
                return False
            time.sleep(LATER_S)
        return True

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
        self._thread.close()
        self._wakes.put(None)
        if line is not None:
            line.channel.close()  # whoever waits for it goes on
        self._thread.join((deadline - time.monotonic()) / 2)
        if line is not None:
            self._bury(line, Cause.SHUTDOWN, min(STOPPING_S, deadline - time.monotonic()))
        self._refuse_left()
        with shielded("close"):
            self._ledger.count_notes()
            self._meters.close()
            self._traces.close()
        return is_closed

    def _refuse_left(self) -> None:
        while left := self._queue.take(1):
            self._refuse(left[0], Cause.SHUTDOWN)

    def _refuse(self, finished: Finished, cause: Cause) -> None:
        if isinstance(finished, _Data):
            self._ledger.give_up(f"{finished.kind}_lost")
        else:
            self._ledger.refuse(finished, cause)

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
                self._ledger.count_notes()
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
                    self._ledger.note_refused(*owed, cause)
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
            if time.monotonic() - self._ticked_s >= TICK_S:
                self._ticked_s = time.monotonic()
                with contained("capture"):
                    self._poll()
                self._tell_counts(line)
            while line.has_room(self._room):
                with self._counting:
                    taken = self._queue.take(1)
                    self._taken += len(taken)
                if not taken:
                    break
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
            self._idle = not len(self._queue)
            # What came between the look and the note has seen that we were not idle.
            if self._idle and not len(self._queue):
                with suppress(queue.Empty):
                    self._wakes.get(timeout=TICK_S)
                self._idle = False
            time.sleep(LINGER_S)

    def _send(self, line: Line, finished: Finished) -> bool:
        """Send one; return False: it is still to be counted."""
        if isinstance(finished, _Data):
            with suppress(ChannelError):
                line.channel.send(finished.data)
                return True
            return False
        with contained("worker"):
            record = finished.interaction()
            if record is None:
                return True
            record = sound(record)
            if self._address is not None:
                record = self._redactor(record)
            owed = None if is_probe(finished) else (record.framework, record.status)
            line.put(wire.encode(record), owed)
            return True
        self._ledger.give_up("unreadable")
        return False

    def _tell_counts(self, line: Line, within_s: float = threading.TIMEOUT_MAX) -> None:
        """Tell the worker what was counted here, or have it told the next. Raises as `tell`."""
        # A worker that never works takes no counts along.
        noted = self._ledger.take() if line.is_heard else ({}, {}, {})
        errors = Counter(guard.errors)
        try:
            line.channel.tell(
                "counts",
                {
                    "waiting": len(self._queue),
                    "errors": errors - self._errors,
                    "level": logging.getLogger("ragmonitor").getEffectiveLevel(),
                    "has_provider": self._address is None and self._traces.is_applications,
                    "noted": [[*each.items()] for each in noted],
                },
                within_s=within_s,
            )
        except ChannelError:
            self._ledger.take_over(*noted)
            raise
        self._errors = errors

    # --- from the worker ------------------------------------------------------------------------

    def _handlers(self, line: Line) -> dict[str, Callable[..., object]]:
        return {
            "state": partial(self._state, line),
            "log": lambda level, text: logger.log(level, "%s", text),
            "emit": self._emit,
            "late": lambda report: self._traces.export(wire.decode_report(report)),
            "alarm": lambda event: self._traces.alarm(msgspec.convert(event, AlarmEvent)),
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
        self._closed = True
        if self._line is not None:
            self._line.forget()


def _checked(settings: Settings) -> list[Any]:
    """Find out here what the worker could not do, and return who judges there.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    judging, reader = judging_of(settings), reader_of(settings) or builtin_judge()
    estimates_of(settings, reader, judging)
    incidents_of(settings, judging, lambda _reason, _n: None)
    exporters_of(settings, lambda _reason, _n: None)
    judges = [reader] if judging is None else [reader, judging.judge]
    return [_Elsewhere(each.identity) for each in judges]


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
