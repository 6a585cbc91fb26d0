"""Takes records off a stream and has the ordinary back half score them: one process a service."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.worker_process import Delivered
from ragmonitor.errors import StreamError, WireError
from ragmonitor.guard import contained, record_outage
from ragmonitor.judging import MAX_PENDING
from ragmonitor.metrics import STREAM_UP
from ragmonitor.records import Cause, GaugeValue
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import Consumer, Delivery, Stream, StreamState, log_burial
from ragmonitor.wire import decode, decode_feedback, is_kind
from ragmonitor.wiring import traces_of

MAX_OPEN: Final = 256
"""Records that the worker has in hand at once, beside those that wait for the judge."""
MAX_SEEN: Final = 100_000
"""Ids of the newest records, by which one that is put or delivered twice is known."""
LEASE_S: Final = 15.0
RENEW_S: Final = 3.0
CLAIM_S: Final = 5.0
"""Records that another worker let lie are looked for this often."""
WAIT_S: Final = 0.5
"""The wait for the first record, where there is none."""
RETRY_S: Final = 1.0
CLOSING_S: Final = 10.0


class LeaseLostError(StreamError):
    """Another worker has the stream."""


class StreamWorker:
    """The one worker of a service: takes, scores, settles.

    It holds the stream's lease, since statistics, budget and alarms are kept by one process. A
    record is settled once it is counted; one that a worker died of is delivered again.
    """

    def __init__(self, settings: Settings, stream: Stream, *, redactor: Redactor) -> None:
        """Wire the back half; nothing runs yet.

        Args:
            settings: The settings of the back half.
            stream: Where records come from.
            redactor: What every text passes once more, by this process's settings.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._stream = stream
        self._state: StreamState | None = None
        self.back = LocalBackHalf(
            settings,
            redactor=redactor,
            poll=lambda: 0,
            # What a dead one had in hand is emitted again.
            traces=traces_of(settings, self._lose, is_repeated=True),
            gauges=self._gauges,
            is_apart=True,
        )
        """Scores what is taken."""
        self._max_open = MAX_OPEN + MAX_PENDING
        self._consumer = Consumer()
        self._open: dict[str, None] = {}
        self._done: deque[str] = deque()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._has_lease = False
        self._renewed_s = self._claimed_s = -LEASE_S

    def run(self, stop: threading.Event, *, drain: bool = False) -> None:
        """Work until asked to stop.

        Args:
            stop: Ends it; what was taken is scored first, as far as `CLOSING_S` allows.
            drain: End also when nothing is left on the stream.

        Raises:
            LeaseLostError: Another worker has the stream, or took it over.
        """
        try:
            self._begin(stop)
            while not stop.is_set():
                try:
                    if not self._step() and drain and not self._left():
                        return
                except LeaseLostError:
                    raise
                except StreamError as error:
                    record_outage(error)
                    self._state = None
                    self._consumer.begin_anew()
                    self._claimed_s = -LEASE_S
                    stop.wait(RETRY_S)
        finally:
            self._end()

    def _begin(self, stop: threading.Event) -> None:
        """Take the lease; one of a worker that died ends in time."""
        self.back.wake()
        until_s = time.monotonic() + LEASE_S + RENEW_S
        while not stop.is_set():
            try:
                if self._stream.hold(self._consumer.owner, LEASE_S):
                    self._has_lease = True
                    return
            except StreamError as error:
                record_outage(error)
                until_s = time.monotonic() + LEASE_S + RENEW_S
            if time.monotonic() > until_s:
                raise LeaseLostError(
                    "another worker has this service's stream: statistics, budget and alarms are "
                    "kept by one process; docs/scaling.md says what a second one would need"
                )
            stop.wait(RETRY_S)

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_s < RENEW_S:
            return
        if not self._stream.hold(self._consumer.owner, LEASE_S):
            self._has_lease = False
            raise LeaseLostError("another worker took this service's stream over")
        self._renewed_s = time.monotonic()
        self._state = self._stream.state()

    def _step(self) -> bool:
        """Settle what is done and take as much as there is room for; return whether any came."""
        self._renew()
        self._settle()
        # A slow judge holds up nothing: what waits for it is beside what is still to be read.
        unread, back = len(self.back.queue), self.back
        room = min(MAX_OPEN - unread, self._max_open - len(self._open), back.room())
        if room <= 0:
            time.sleep(0.002)  # the back half is busy
            return True
        now = time.monotonic()
        looks = now - self._claimed_s >= CLAIM_S
        taken = self._stream.take(
            self._consumer.name,
            room,
            wait_s=0.01 if self._open else WAIT_S,
            # Whoever has the lease is the only one alive, or will notice that it is not.
            stale_s=0.0 if looks else None,
        )
        if looks and len(taken) < room:
            self._claimed_s = now
        for delivery in taken:
            self._handle(delivery)
        return bool(taken or self._open)

    def _left(self) -> int:
        state = self._stream.state()
        return state.waiting + state.open

    def _handle(self, delivery: Delivery) -> None:
        if delivery.id in self._open:
            return  # under an earlier name
        if why := self._consumer.died_of(delivery):
            self._bury(delivery, why)
            return
        try:
            if is_kind(delivery.data, b"f"):
                self.back.feedback(decode_feedback(delivery.data))
                self._done.append(delivery.id)
                return
            if is_kind(delivery.data, b"j"):
                self.back.refreeze()
                self._done.append(delivery.id)
                return
            if is_kind(delivery.data, b"r"):  # asked for by a fleet that was here before
                self._done.append(delivery.id)
                return
            record = decode(delivery.data)
        except WireError as error:
            self._bury(delivery, str(error))
            return
        if record.id in self._seen:
            self._done.append(delivery.id)
            return
        self._seen[record.id] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        self._open[delivery.id] = None
        self.back.put(
            Delivered(
                record,
                record.framework,
                record.status,
                lambda: self._done.append(delivery.id),
            )
        )

    def _bury(self, delivery: Delivery, reason: str) -> None:
        """Put a record aside, and count it: an answer as unscored."""
        counted = Delivered(None, "unknown", "error")
        with contextlib.suppress(WireError):
            record = decode(delivery.data)
            counted = Delivered(None, record.framework, record.status)
        self._stream.bury(delivery, reason)
        log_burial(reason)
        if is_kind(delivery.data, b"f"):
            self.back.give_up("feedback_lost")
        else:
            self.back.refuse(counted, Cause.INTERNAL_ERROR)

    def _settle(self) -> None:
        ids = [self._done[n] for n in range(len(self._done))]
        if ids:
            self._stream.settle(ids)
            for id_ in ids:
                self._done.popleft()
                self._open.pop(id_, None)

    def _end(self) -> None:
        """Score what is in hand, settle it, and give the lease back."""
        with contained("worker"):
            # What the time does not suffice for is counted here, as `shutdown`, and so is done.
            self.back.close(CLOSING_S)
        if self._has_lease:
            with contained("stream"):
                try:
                    # Whether it was scored or not: it is counted, and would be counted twice.
                    self._stream.settle([*self._open, *self._done])
                    self._stream.release(self._consumer.owner)
                except StreamError as error:
                    record_outage(error)
        with contained("stream"):
            self._stream.close()

    def _lose(self, reason: str, n: int) -> None:
        self.back.meters.dropped(reason, n)

    def _gauges(self) -> Sequence[GaugeValue]:
        state = self._state
        if state is None:
            return (GaugeValue(name=STREAM_UP, value=0),)
        return state.gauges()
