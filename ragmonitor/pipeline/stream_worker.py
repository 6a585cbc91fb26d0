"""Takes records off a stream and has the ordinary back half score them: any number of workers."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import uuid4

from pydantic import SecretStr

from ragmonitor.pipeline.back_half import Carried
from ragmonitor.pipeline.judging import MAX_PENDING
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.pipeline.streams import Delivery, RedisStream, StreamState
from ragmonitor.pipeline.worker import deliver
from ragmonitor.records import Cause, GaugeValue
from ragmonitor.runtime.errors import StreamError, WireError
from ragmonitor.runtime.guard import contained, record_outage, record_problem
from ragmonitor.runtime.wire import decode, is_kind
from ragmonitor.semconv.metrics import STREAM_OLDEST_SECONDS, STREAM_RECORDS, STREAM_UP
from ragmonitor.settings import Settings
from ragmonitor.store import Store, StoreUnavailableError, store_at

MAX_OPEN: Final = 256
"""Records that the worker has in hand at once, beside those that wait for the judge."""
MAX_DELIVERIES: Final = 10
"""A record that so many workers died of, or died beside, is given up."""
MAX_SEEN: Final = 100_000
"""Ids of the newest records, by which one that is put twice is known and not read again."""
STALE_S: Final = 15.0
"""Records that were not renewed for so long are taken from their worker."""
RENEW_S: Final = 3.0
CLAIM_S: Final = 5.0
"""Records of dead workers, or whose reply was lost, are looked for this often."""
WAIT_S: Final = 0.5
"""The wait for the first record, where there is none."""
RETRY_S: Final = 1.0
CLOSING_S: Final = 10.0


class StreamWorker:
    """One of the workers of a service: takes, scores, settles.

    The sums of an answer are added to the store as its record is settled there, once, whoever of
    the workers does it. A record of a worker that died is delivered to another.
    """

    def __init__(self, settings: Settings, stream: RedisStream) -> None:
        """Wire the back half; nothing runs yet.

        Args:
            settings: The settings of the back half; without a `state` sums go to the stream's
                server.
            stream: Where records come from.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        url = settings.send_to
        if settings.state is None and url is not None:
            settings = settings.model_copy(update={"state": url})
        self._acknowledges = url is not None and settings.state == url
        """Whether the store's transaction can acknowledge records."""
        store: Store | None = None
        if isinstance(settings.state, SecretStr):
            # It waits for its server: in memory, sums would be missing from those of the others.
            store = store_at(settings.state, settings.service)
        self._stream = stream
        self._state: StreamState | None = None
        self.back = Pipeline(
            settings,
            poll=lambda: 0,
            gauges=self._gauges,
            is_apart=True,
            store=store,
        )
        """Scores what is taken."""
        self.back.estimates.is_of_stream = True
        self._outbox = self.back.estimates.outbox
        self._name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._open: dict[str, str] = {}
        """The ids of the answers in hand, by their numbers on the stream."""
        self._done: deque[str] = deque()
        """The numbers on the stream of what is done."""
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._renewed_s = self._claimed_s = -STALE_S

    def run(self, stop: threading.Event, *, drain: bool = False) -> None:
        """Work until asked to stop.

        Args:
            stop: Ends it; what was taken is scored first, as far as `CLOSING_S` allows.
            drain: End also when nothing is left on the stream.
        """
        try:
            while not stop.is_set():
                try:
                    if not self._step() and drain:
                        state = self._stream.state()
                        if not state.waiting + state.open:
                            return
                except (StreamError, StoreUnavailableError) as error:
                    record_outage(error)
                    self._state = None
                    # All renew what they have before anybody looks for what is stale.
                    self._claimed_s, self._renewed_s = time.monotonic(), -STALE_S
                    stop.wait(RETRY_S)
        finally:
            self._end()

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_s < RENEW_S:
            return
        self._stream.renew(self._name, self._open)
        self._state = self._stream.state()
        self._renewed_s = time.monotonic()
        # Not before the stream answers: where its server has the state, that can be opened now.
        self.back.wake()

    def _step(self) -> bool:
        """Settle what is done and take as much as there is room for; return whether any came."""
        self._renew()
        self._settle()
        # A slow judge holds up nothing: what waits for it is beside what is still to be read.
        queue, open_ = self.back.queue, len(self._open)
        room = min(MAX_OPEN - len(queue), MAX_OPEN + MAX_PENDING - open_, queue.room)
        if room <= 0:
            time.sleep(0.002)  # the back half is busy, or the store is away
            return True
        now = time.monotonic()
        looks = now - self._claimed_s >= CLAIM_S
        taken = self._stream.take(
            self._name,
            room,
            wait_s=0.01 if self._open else WAIT_S,
            stale_s=STALE_S if looks else None,
        )
        if looks and len(taken) < room:
            self._claimed_s = now
        for delivery in taken:
            self._handle(delivery)
        return bool(taken or self._open)

    def _handle(self, delivery: Delivery) -> None:
        if delivery.id in self._open:
            return
        if delivery.deliveries > MAX_DELIVERIES:
            self._give_up(delivery, f"{delivery.deliveries - 1} workers did not settle it")
            return
        done = partial(self._done.append, delivery.id)
        try:
            if not is_kind(delivery.data, b"i"):
                deliver(self.back, delivery.data, done)
                return
            record = decode(delivery.data)
        except WireError as error:
            self._give_up(delivery, str(error))
            return
        if record.id in self._seen:
            done()
            return
        entry = delivery.id if self._acknowledges else ""
        self._outbox.begin(record.id, entry, is_again=delivery.deliveries > 1)
        self._seen[record.id] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        self._open[delivery.id] = record.id
        self.back.put(Carried(record, record.framework, record.status, closed=done))

    def _give_up(self, delivery: Delivery, reason: str) -> None:
        """Settle a record that nobody can score, and count it: an answer as unscored."""
        record_problem("stream", f"a record was given up, and the next ones like it are: {reason}")
        lost = Carried(lost_as="feedback_lost" if is_kind(delivery.data, b"m") else None)
        with contextlib.suppress(WireError):
            record = decode(delivery.data)
            lost = Carried(None, record.framework, record.status)
        self.back.ledger.refuse(lost, Cause.INTERNAL_ERROR)
        self._done.append(delivery.id)

    def _settle(self) -> None:
        """Forget records whose answers are scored, and whose sums the store has."""
        settled: list[str] = []
        for entry in [self._done.popleft() for _ in range(len(self._done))]:
            id_ = self._open.get(entry, "")
            if id_ in self._outbox.taken_over:
                # Left to the worker that drew it; if that dies it is stale, and taken over.
                self._outbox.taken_over.discard(id_)
                self._seen.pop(id_, None)
                self._forget(entry)
            elif self._outbox.waits(id_):
                self._done.append(entry)
            else:
                settled.append(entry)
        try:
            self._stream.settle(settled)
        except StreamError:
            self._done.extend(settled)
            raise
        for entry in settled:
            self._forget(entry)

    def _forget(self, entry: str) -> None:
        self._outbox.end(self._open.pop(entry, ""))

    def _end(self) -> None:
        """Score what is in hand, and settle it."""
        with contained("worker"):
            # What the time does not suffice for is counted here, as `shutdown`, and so is done.
            self.back.close(CLOSING_S)
        with contained("stream"):
            try:
                # What the store could not take comes to the next worker.
                self._settle()
            except StreamError as error:
                record_outage(error)
            finally:
                self._stream.close()

    def _gauges(self) -> Sequence[GaugeValue]:
        state, is_up = self._state, GaugeValue(name=STREAM_UP, value=self._state is not None)
        if state is None:
            return (is_up,)
        return (
            is_up,
            GaugeValue.of(STREAM_RECORDS, state.waiting, state="waiting"),
            GaugeValue.of(STREAM_RECORDS, state.open, state="open"),
            GaugeValue(name=STREAM_OLDEST_SECONDS, value=state.oldest_s),
        )
