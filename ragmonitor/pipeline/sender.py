"""Hands answers to whoever scores them elsewhere: a bounded queue, and one thread that sends.

Whatever was taken is owed until the other side has it, or says that its account is closed. What is
owed when that cannot be any more is counted here as unscored: captured = scored + unscored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from ragmonitor.capture.coercion import sound
from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.judges import BuiltinJudge
from ragmonitor.pipeline.back_half import LINGER_S, TICK_S, BackHalf, Carried, Request
from ragmonitor.pipeline.build import redactor_of
from ragmonitor.pipeline.ledger import Account
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Cause, GaugeValue, JudgeIdentity, Report, Snapshot
from ragmonitor.runtime import wire
from ragmonitor.runtime.errors import SettingsError, StreamError
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import contained, record_outage
from ragmonitor.runtime.protocols import Finished
from ragmonitor.semconv.metrics import STREAM_UP
from ragmonitor.settings import Settings

RETRY_S: Final = 1.0
"""The pause between attempts to reach a stream that is down."""


class Sender(BackHalf):
    """Takes what has finished, and sends it as plain bytes."""

    def __init__(
        self,
        settings: Settings,
        *,
        redacts: bool,
        poll: Callable[[], object],
        meters: PrometheusExporter,
        judges: Sequence[JudgeIdentity],
    ) -> None:
        """Start nothing yet.

        Args:
            settings: The settings.
            redacts: Texts leave for a worker with settings of its own, which are redacted here.
            poll: As in `BackHalf`, and so the rest.
            meters: What is counted here.
            judges: Who scores every answer there.

        Raises:
            SettingsError: Texts may not leave.
        """
        if redacts and settings.content.shown != "all":
            raise SettingsError(
                "send_to: a worker elsewhere scores texts, and content.policy is "
                f"{settings.content.shown!r}: nothing could be scored; use content='all', with "
                "redaction, or score in this process"
            )
        super().__init__(settings, poll=poll, meters=meters, judges=judges)
        self._redactor = redactor_of(settings) if redacts else None
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._ticked_s = 0.0

    # --- the application's side -----------------------------------------------------------------

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application, without waiting for it."""
        data = wire.encode_message("event", name, attributes, at_s)
        self.put(Carried(data, lost_as="event_lost"))

    def feedback(self, feedback: Feedback) -> None:
        """Take what a person said of an answer; what finds no room is counted."""
        if self._redactor is not None:
            feedback = feedback.redacted(self._redactor.text)
        data = wire.encode_message("feedback", feedback)
        self.put(Carried(data, lost_as="feedback_lost"))

    def newest(self) -> Report | None:
        """Return the report on the newest answer, as far as it is known here."""
        return None

    def _end(self, deadline: float) -> None:  # noqa: ARG002 - for those that wait for somebody
        self.ledger.close_all(Cause.SHUTDOWN)
        self.meters.close()

    def _signal(self) -> None:
        # Takes no lock: a finaliser may run this while its own thread does, too.
        self._wakes.put(None)

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool | None:
        """Send what there is room for, then wait for more."""
        if not self._is_ready():
            return None
        if self._is_time_to_tick():
            self._tick()
        while not self.is_closed and self._has_room():
            if (finished := self.queue.take()) is None:
                while self._requests and self._has_room():  # not if nobody is there any more
                    self._carry_out(self._requests[0])
                    self._requests.popleft()
                break
            self._hand_on(finished)
            time.sleep(0)  # the application goes first
        self._idle = not len(self.queue) and not self._requests
        # What came between the look and the note has seen that we were not idle.
        if self._idle and not (len(self.queue) or self._requests or self.is_closed):
            with suppress(Empty):
                self._wakes.get(timeout=TICK_S)
        self._idle = False
        time.sleep(LINGER_S)
        return not self.is_closed

    def _is_time_to_tick(self) -> bool:
        if time.monotonic() - self._ticked_s < TICK_S:
            return False
        self._ticked_s = time.monotonic()
        with contained("capture"):
            self._poll()
        return True

    def _hand_on(self, finished: Finished) -> None:
        """Send one; what fails before it is sent is counted here."""
        account = self.ledger.open(finished)
        with contained("worker"):
            with self.step:
                data = self._packed(finished)
            if data is None:
                account.close(None)
            else:
                self._send(account, data)
            return
        account.close(Cause.INTERNAL_ERROR)

    def _packed(self, finished: Finished) -> bytes | None:
        """Return what to send; None: it is no interaction."""
        if isinstance(finished, Carried) and isinstance(finished.held, bytes):
            return finished.held
        record = finished.interaction()
        if record is None:
            return None
        record = sound(record)
        if self._redactor is not None:
            record = self._redactor(record)
        return wire.encode(record)

    # --- where it is sent -----------------------------------------------------------------------

    def _is_ready(self) -> bool:
        """Return whether there is somebody to send to; False: to be tried again later."""
        return True

    def _tick(self) -> None:
        """Show or tell what was counted here."""
        raise NotImplementedError

    def _has_room(self) -> bool:
        """Return whether one more may be sent now."""
        return True

    def _send(self, account: Account, data: bytes) -> None:
        """Send one, and close its account as soon as the other side has it, or never will."""
        raise NotImplementedError

    def _carry_out(self, request: Request) -> None:
        """Reply to a request, or see that it is replied to: all is sent that was taken before."""
        request.reply(is_done=True)


class StreamSender(Sender):
    """Captures, redacts and puts finished records on a stream; reads, judges, estimates nothing.

    What is not stored is counted as unscored here; what is stored the worker counts. A record whose
    storing failed halfway is put again: the worker drops those that it has seen.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        poll: Callable[[], object],
        stream: RedisStream | None = None,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
    ) -> None:
        """Connect to nothing yet.

        Args:
            settings: The settings.
            poll: Called now and then; gives up abandoned runs.
            stream: The stream; None: as the settings say.
            gauges: As in `Pipeline`.

        Raises:
            SettingsError: There is no stream at that address, or texts may not leave.
            MissingExtraError: A library for it is not installed.
        """
        self._stream = stream or RedisStream.of(settings)
        self._gauges = gauges
        judges = [BuiltinJudge().identity]
        if settings.judge.name is not None:
            judges.append(JudgeIdentity(name=settings.judge.name, version="", kind="LLM"))
        meters = PrometheusExporter(settings)
        meters.is_elsewhere = True
        super().__init__(settings, redacts=True, poll=poll, meters=meters, judges=judges)
        meters.count_first(self.ledger.count_notes)
        self._is_down = False

    def destination(self) -> str:
        """Say where traces go."""
        return "emitted by the worker"

    # --- the thread -----------------------------------------------------------------------------

    def _send(self, account: Account, data: bytes) -> None:
        """Store a record, again and again while the stream is down."""
        while not self.is_closed:
            try:
                is_stored = self._stream.put(data)
            except StreamError as error:
                record_outage(error)
                self._is_down = True
                if self._is_time_to_tick():
                    self._tick()
                self._thread.ending.wait(RETRY_S)
            else:
                self._is_down = False
                account.close(None if is_stored else Cause.QUEUE_FULL)
                return
        account.close(Cause.SHUTDOWN)

    def _tick(self) -> None:
        with self.step:
            self.ledger.count_notes()
            is_up = GaugeValue(name=STREAM_UP, value=not self._is_down)
            snapshot = Snapshot(gauges=(*self._gauges(), is_up))
            self.meters.refresh(snapshot=snapshot, queue_depth=len(self.queue))
        self.metrics_url = self.meters.url

    def _end(self, deadline: float) -> None:
        super()._end(deadline)
        self._stream.close()
