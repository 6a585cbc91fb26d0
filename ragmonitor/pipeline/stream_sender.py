"""Sends answers to a stream, from which workers take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ragmonitor.export.prometheus import PrometheusExporter
from ragmonitor.judges import BuiltinJudge
from ragmonitor.pipeline.ledger import Account
from ragmonitor.pipeline.sender import Sender
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Cause, GaugeValue, JudgeIdentity, Snapshot
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.guard import errors, record_outage
from ragmonitor.semconv.metrics import STREAM_UP
from ragmonitor.settings import Settings

RETRY_S: Final = 1.0
"""The pause between attempts to reach a stream that is down."""


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
            self.meters.refresh(
                snapshot=Snapshot(gauges=(*self._gauges(), is_up)),
                queue_depth=len(self.queue),
                errors=errors,
            )
        self.metrics_url = self.meters.url

    def _end(self, deadline: float) -> None:
        super()._end(deadline)
        self._stream.close()
