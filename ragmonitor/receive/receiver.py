"""Runs `ragmonitor receive`: servers, open traces, and the ordinary back half behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragmonitor.capture.recorder import tool_matcher
from ragmonitor.export.view.access import Access, is_loopback
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.pipeline.sender import StreamSender
from ragmonitor.receive.http_receiver import HttpReceiver
from ragmonitor.receive.open_traces import OpenTraces
from ragmonitor.receive.trace_assembly import assembled
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.guard import contained, record_error
from ragmonitor.runtime.protocols import Clock
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from ragmonitor.receive.kafka_receiver import KafkaReceiver

SWEEP_S: Final = 0.25
"""The pause between looks at the open traces."""
CLOSING_S: Final = 10.0


class Receiver:
    """Takes spans, joins them to interactions and has these scored, here or by a stream's worker.

    Where the back half has no room, traces stay open, and where those are too many, senders are
    told to try again later: nothing is lost by waiting.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        host: str = "127.0.0.1",
        http_port: int = 4318,
        clock: Clock = time.monotonic,
    ) -> None:
        """Wire the stages; nothing listens yet.

        Args:
            settings: The settings; with `send_to`, interactions are put there.
            host: Where to listen for spans; another than loopback only with `server.token`.
            http_port: For OTLP over HTTP; 0: any free one.
            clock: Seconds, never going back.

        Raises:
            SettingsError: The settings cannot be carried out, or would let anybody on the network
                send spans.
            MissingExtraError: A library for the stream is not installed.
        """
        token = settings.server.token
        self._access = Access(token)
        self._kafka = settings.receive.kafka
        self._host, self._http_port = host, http_port
        self._service = settings.service
        if token is None and not is_loopback(host):
            raise SettingsError(
                f"--host: on {host} anybody could send spans; set server.token "
                "(RAGMONITOR_SERVER__TOKEN), or listen on 127.0.0.1"
            )
        self.traces = OpenTraces(clock)
        """Takes the requests, and holds the traces that are not complete."""
        self._is_retrieval_tool = tool_matcher(settings.capture.retrieval_tools)
        back_half = Pipeline if settings.send_to is None else StreamSender
        self.back: Pipeline | StreamSender = back_half(
            settings, poll=lambda: 0, gauges=self.traces.gauges
        )
        """Scores interactions, or puts them on the stream."""
        self.listeners: Sequence[HttpReceiver | KafkaReceiver] = ()
        """The servers that take spans, once they listen."""

    def listen(self) -> None:
        """Listen for spans.

        Raises:
            SettingsError: An address cannot be listened on, or names no topic of Kafka.
            MissingExtraError: A library for Kafka is not installed.
        """
        try:
            http = HttpReceiver(self.traces, self._host, self._http_port, self._access)
        except OSError as error:
            place = f"{self._host}:{self._http_port}"
            raise SettingsError(f"{place} cannot be listened on: {error.strerror}") from None
        self.listeners = (http,)
        if self._kafka is not None:
            from ragmonitor.receive.kafka_receiver import KafkaReceiver

            address = self._kafka.get_secret_value()
            self.listeners = (http, KafkaReceiver(self.traces, address, self._service))
        self.back.wake()

    def run(self, stop: threading.Event) -> None:
        """Work until asked to stop; then read what is held, as it is, and have it scored."""
        try:
            while not stop.wait(SWEEP_S):
                with contained("capture"):
                    self.sweep()
        finally:
            self.close()

    def sweep(self) -> None:
        """Hand over what is complete, as far as there is room for it."""
        for trace_id in self.traces.due():
            if not self.back.queue.room:
                return
            self._hand_over(trace_id)

    def close(self, timeout_s: float = CLOSING_S) -> bool:
        """Stop listening, read what is held and have it scored; return whether all of it was."""
        deadline = time.monotonic() + timeout_s
        for listener in self.listeners:
            with contained("close"):
                listener.close()
        for trace_id in self.traces.due(at_end=True):
            while not self.back.queue.room and time.monotonic() < deadline - timeout_s / 2:
                time.sleep(0.01)
            # Beyond what there is room for, it is counted as unscored, `queue_full`.
            self._hand_over(trace_id)
        return self.back.close(max(0.0, deadline - time.monotonic()))

    def _hand_over(self, trace_id: bytes) -> None:
        """Hand over the interactions of a trace."""
        trace = self.traces.pop(trace_id)
        if trace is None:  # it has had too many spans
            return
        spans = trace.spans.values() if trace.matches else ()
        try:
            found = assembled(spans, is_retrieval_tool=self._is_retrieval_tool)
        except Exception as error:  # noqa: BLE001 - a trace must cost only itself
            record_error("capture", error)
            self.traces.count("unreadable", "traces")
            self.back.ledger.give_up("unreadable")
            return
        # `none`: no text was retrieved for a model's answer, or the spans that say so are missing.
        self.traces.count("interaction" if found else "none", "traces")
        for received in found:
            if received.is_probe:
                received.release()
                self.back.ledger.give_up("probe")
            else:
                self.back.put(received)
