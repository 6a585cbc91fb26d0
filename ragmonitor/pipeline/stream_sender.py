"""Sends answers to a stream, from which workers take them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ragmonitor.pipeline.build import builtin_judge, meters_of
from ragmonitor.pipeline.sender import Call, Sender
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Cause, GaugeValue, JudgeIdentity, Snapshot
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.guard import contained, errors, record_outage
from ragmonitor.runtime.protocols import Finished
from ragmonitor.semconv.metrics import STREAM_UP
from ragmonitor.settings import Settings

RETRY_S: Final = 1.0
"""The pause between attempts to reach a stream that is down."""
STOP_SHARE: Final = 0.25
"""The share of the time for closing that is left for the thread's end."""


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
        judges = [builtin_judge().identity]
        if settings.judge.name is not None:
            judges.append(JudgeIdentity(name=settings.judge.name, version="", kind="LLM"))
        meters = meters_of(settings)
        meters.is_elsewhere = True
        super().__init__(settings, redacts=True, poll=poll, meters=meters, judges=judges)
        meters.count_first(self.ledger.count_notes)
        self._sending: deque[Finished] = deque()
        """What is being sent: whoever takes it out counts it."""
        self._is_down = False

    @property
    def metrics_url(self) -> str | None:  # type: ignore[override]
        """The address at which /metrics is served; None if it is not."""
        return self._meters.url

    def destination(self) -> str:
        """Say where traces go."""
        return "emitted by the worker"

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; what could not be stored is counted."""
        deadline = time.monotonic() + timeout_s
        flushed = self.flush((1 - STOP_SHARE) * timeout_s)
        self._closed = True
        self._end(deadline)
        self._sent(Cause.SHUTDOWN)  # the thread still waits for the server
        with contained("count"):
            self.ledger.count_notes()
        with contained("stream"):
            self._stream.close()
        return flushed

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        self._refresh()
        finished = self.queue.take()
        if finished is None:
            self._rest()
        elif isinstance(finished, Call) and finished.done is not None:
            finished.done.set_result(True)
        else:
            self._sending.append(finished)
            cause: Cause | None = Cause.INTERNAL_ERROR
            try:
                with contained("capture"):
                    with self.step:
                        packed = self._packed(finished)
                    cause = None if packed is None else self._store(packed[0])
            finally:
                self._sent(cause)
            time.sleep(0)  # the application goes first
        return not self._closed

    def _store(self, data: bytes) -> Cause | None:
        """Store a record, again and again while the stream is down; return why it is not stored."""
        while True:
            try:
                is_stored = self._stream.put([data]) == 1
            except StreamError as error:
                record_outage(error)
                self._is_down = True
                if self._closed:
                    return Cause.SHUTDOWN
                self._refresh()
                self._thread.ending.wait(RETRY_S)
            else:
                self._is_down = False
                return None if is_stored else Cause.QUEUE_FULL

    def _sent(self, cause: Cause | None) -> None:
        """Count what was being sent as unscored, unless it is stored; once, whoever comes first."""
        with suppress(IndexError):
            finished = self._sending.pop()
            if cause is not None:
                self._refuse(finished, cause)

    def _refresh(self) -> None:
        if not self._is_time_to_tick():
            return
        with self.step:
            self.ledger.count_notes()
            is_up = GaugeValue(name=STREAM_UP, value=not self._is_down)
            self._meters.refresh(
                snapshot=Snapshot(gauges=(*self._gauges(), is_up)),
                queue_depth=len(self.queue) + len(self._sending),
                errors=errors,
            )
