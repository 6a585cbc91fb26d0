"""Sends answers to a stream, from which workers take them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ragmonitor.pipeline.build import builtin_judge, meters_of
from ragmonitor.pipeline.sender import Sender
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Cause, GaugeValue, JudgeIdentity, Snapshot
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.guard import contained, errors, record_error, record_outage
from ragmonitor.runtime.protocols import Finished
from ragmonitor.semconv.metrics import STREAM_UP
from ragmonitor.settings import Settings

BATCH: Final = 64
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
        redactor: Redactor,
        poll: Callable[[], object],
        open_stream: Callable[[], RedisStream] | None = None,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
    ) -> None:
        """Connect to nothing yet.

        Args:
            settings: The settings.
            redactor: What every text passes before it leaves.
            poll: Called now and then; gives up abandoned runs.
            open_stream: Opens the stream, also in a forked child; None: as the settings say.
            gauges: As in `Pipeline`.

        Raises:
            SettingsError: There is no stream at that address, or texts may not leave.
            MissingExtraError: A library for it is not installed.
        """
        self._stream = RedisStream.of(settings) if open_stream is None else open_stream()
        self._gauges = gauges
        judges = [builtin_judge().identity]
        if settings.judge.name is not None:
            judges.append(JudgeIdentity(name=settings.judge.name, version="", kind="LLM"))
        meters = meters_of(settings)
        meters.is_elsewhere = True
        super().__init__(settings, redactor=redactor, poll=poll, meters=meters, judges=judges)
        meters.count_first(self.ledger.count_notes)
        self._losing = threading.Lock()
        self._sending: Sequence[Finished] = ()
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
        self._lose_sending(Cause.SHUTDOWN)  # the thread still waits for the server
        with contained("count"):
            self.ledger.count_notes()
        with contained("stream"):
            self._stream.close()
        return flushed

    def _lose_sending(self, cause: Cause) -> None:
        """Count what is being sent and will not be; once, whoever comes first."""
        with self._losing:
            batch, self._sending = self._sending, ()
        for record in batch:
            self._refuse(record, cause)

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        self._refresh()
        taken = self._take(BATCH)
        try:
            self._send([pair for each in taken if (pair := self._encoded(each)) is not None])
        except BaseException:  # goes on to be recorded; nobody sends these again
            self._lose_sending(Cause.INTERNAL_ERROR)
            raise
        finally:
            self._handed += len(taken)
        if not taken:
            self._rest()
        return not self._closed

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

    def _encoded(self, finished: Finished) -> tuple[Finished, bytes] | None:
        """Return a record with its bytes; None: it is none, or was counted."""
        time.sleep(0)  # the application goes first
        try:
            with self.step:
                packed = self._packed(finished)
        except BaseException as error:  # noqa: BLE001 - one that is unreadable costs only itself
            self._refuse(finished, Cause.INTERNAL_ERROR)
            record_error("capture", error)
            return None
        return None if packed is None else (finished, packed[0])

    def _send(self, batch: Sequence[tuple[Finished, bytes]]) -> None:
        """Store a batch: again and again while the stream is down, until the monitor closes."""
        self._sending = [record for record, _ in batch]
        while batch:
            try:
                stored = self._stream.put([data for _, data in batch])
            except StreamError as error:
                record_outage(error)
                self._is_down = True
                if self._closed:
                    self._lose_sending(Cause.SHUTDOWN)
                    return
                self._refresh()
                self._thread.ending.wait(RETRY_S)
                continue
            self._is_down = False
            self._sending = ()
            for record, _ in batch[stored:]:
                self._refuse(record, Cause.QUEUE_FULL)
            return
