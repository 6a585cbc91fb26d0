"""Takes OTLP's requests, whatever protocol they came by, and counts what became of them."""

from __future__ import annotations

import hmac
import math
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ragmonitor.capture.otel_spans import convention_of
from ragmonitor.conventions import SCOPE
from ragmonitor.export.server import Rejection
from ragmonitor.metrics import RECEIVED_REQUESTS, RECEIVED_SPANS
from ragmonitor.receive.open_traces import OpenTraces
from ragmonitor.receive.otlp_spans import (
    MAX_SCOPE_CHARACTERS,
    HeldSpan,
    has_sound_ids,
    held_span,
    process_of,
)
from ragmonitor.records import GaugeValue

RequestOutcome = Literal["taken", "partial", "full", "unauthorized"] | Rejection
"""The outcome of a request. `partial`: spans in it had no sound ids; `full`: it is to be sent again
later, as there is no room for open traces; the rest as the server of /metrics counts them."""

_NO_IDS: Final = "spans without a trace id of 16 bytes and a span id of 8"


class FullError(Exception):
    """There is no room for a request; its sender is to try again."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__("as many open traces are held as may be; try again later")
        self.retry_after_s = retry_after_s


class SpanIntake:
    """Takes the requests of the servers of all protocols, from any thread."""

    def __init__(self, traces: OpenTraces, *, token: str | None, retry_after_s: float) -> None:
        """Take nothing yet.

        Args:
            traces: Holds the spans.
            token: That senders must show; None: none.
            retry_after_s: When a sender that was refused is to try again.
        """
        self._traces = traces
        self._token = None if token is None else f"Bearer {token}".encode()
        self._retry_after_s = max(1, math.ceil(retry_after_s))
        self._counting = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._spans: Counter[str] = Counter()
        self.given_up = 0
        """Traces with more spans than are held."""

    def is_authorized(self, authorization: str) -> bool:
        """Return whether the header, or metadata, `Authorization` shows the token."""
        if self._token is None:
            return True
        shown = authorization.encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._token)

    def take(self, request: ExportTraceServiceRequest) -> ExportTraceServiceResponse:
        """Take a request whole, and return the reply.

        Raises:
            FullError: There is no room for it; nothing of it was taken.
        """
        if not self._traces.has_room(request.ByteSize()):
            self.count("full")
            raise FullError(self._retry_after_s)
        spans, outcomes = _sound_spans(request)
        taken, given_up = self._traces.add(spans)
        rejected = outcomes["rejected"]
        reply = ExportTraceServiceResponse()
        if rejected:
            reply.partial_success.rejected_spans = rejected
            reply.partial_success.error_message = _NO_IDS
        self.count("partial" if rejected else "taken")
        self.count_spans(outcomes)
        self.count_spans(taken)
        with self._counting:
            self.given_up += given_up
        return reply

    def count(self, outcome: RequestOutcome) -> None:
        """Count a request."""
        with self._counting:
            self._requests[outcome] += 1

    def count_spans(self, outcomes: Mapping[str, int]) -> None:
        """Count spans by what became of them."""
        with self._counting:
            self._spans.update(outcomes)

    def gauges(self) -> Sequence[GaugeValue]:
        """Return the counts by outcome."""
        with self._counting:
            tables = ((RECEIVED_REQUESTS, self._requests), (RECEIVED_SPANS, self._spans))
            return [
                GaugeValue.of(name, n, outcome=outcome)
                for name, counts in tables
                for outcome, n in counts.items()
            ]


def _sound_spans(
    request: ExportTraceServiceRequest,
) -> tuple[list[tuple[bytes, HeldSpan]], Counter[str]]:
    """Return the spans to be held, each with its trace id, and what became of the others."""
    outcomes: Counter[str] = Counter()
    sound: list[tuple[bytes, HeldSpan]] = []
    for resource in request.resource_spans:
        process = process_of(resource.resource)
        for scope in resource.scope_spans:
            name = scope.scope.name[:MAX_SCOPE_CHARACTERS]
            if name == SCOPE:
                outcomes["own"] += len(scope.spans)
                continue
            for span in scope.spans:
                if not has_sound_ids(span):
                    outcomes["rejected"] += 1
                    continue
                keys = {pair.key: None for pair in span.attributes}
                matches = convention_of(name, keys) is not None
                held = held_span(span, name, process, matches=matches)
                sound.append((span.trace_id, held))
    return sound, outcomes
