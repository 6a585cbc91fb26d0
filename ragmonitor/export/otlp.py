"""Our own sender of spans and log events, for applications that have set no provider.

It writes OTLP's messages as the bytes of protobuf at once, and posts them in batches over HTTP.
OpenTelemetry's SDK takes three times as long for the same: it checks, copies and locks what many
threads may change.
"""

from __future__ import annotations

import gzip
import secrets
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from ragmonitor.export.batcher import Batcher, DeliveryError, Lost
from ragmonitor.export.content import package_version
from ragmonitor.export.otel_environment import Signal, is_compressed, otlp_server, otlp_url
from ragmonitor.export.span_attributes import Attributes
from ragmonitor.export.spans import OutgoingSpan
from ragmonitor.records import SpanReference
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv.conventions import GENAI_EVALUATION_EVENT, OTEL_EXCEPTION_EVENT, SCOPE

_SAMPLED: Final = 1
"""The flag of W3C trace context."""
_KNOWS_IS_REMOTE: Final = 0x100
_INTERNAL, _CLIENT, _ERROR, _INFO = 1, 3, 2, 9
"""Kinds of spans, the status of one that failed, the severity of an event: OTLP's numbers."""
_MAX_USUAL: Final = 64
"""Shorter values are mostly the same in each trace, so that their bytes are kept."""


class OtlpSender:
    """Posts the spans or the log events of this process, and counts those that do not arrive."""

    def __init__(self, signal: Signal, resource: Mapping[str, str], lost: Lost | None) -> None:
        """Connect to nothing yet.

        Args:
            signal: It is sent where the environment says.
            resource: The attributes of the service.
            lost: Counts what does not arrive, by reason, from any thread.
        """
        self._url = otlp_url(signal)
        self._server = otlp_server(signal)
        self._compressed = gzip.compress if is_compressed(signal) else bytes
        self._resource = _part(1, _attributes(1, resource))
        self._scope = _part(1, _part(1, SCOPE.encode()) + _part(2, package_version().encode()))
        self.batches = Batcher("OTLP", self._post, lost)

    def emit(self, span: OutgoingSpan, parent: SpanReference | None) -> SpanReference:
        """Send a span and those below it, unless their trace is not sampled; return its reference.

        A trace is sampled unless its caller was not.
        """
        own = SpanReference(
            trace_id=secrets.token_hex(16) if parent is None else parent.trace_id,
            span_id=secrets.token_hex(8),
            sampled=parent is None or parent.sampled,
            trace_state="" if parent is None else parent.trace_state,
        )
        if not own.sampled:
            return own
        parts = [
            _part(1, bytes.fromhex(own.trace_id)),
            _part(2, bytes.fromhex(own.span_id)),
            _part(3, own.trace_state.encode()),
            _part(4, b"" if parent is None else bytes.fromhex(parent.span_id)),
            _part(5, encodable(span.name).encode()),
            _number(6, _CLIENT if span.is_call else _INTERNAL),
            _fixed64(7, span.started_ns),
            _fixed64(8, span.ended_ns),
            _attributes(9, span.attributes()),
            _fixed32(16, _SAMPLED | _KNOWS_IS_REMOTE),
        ]
        if span.link is not None:
            trace_id, span_id = map(bytes.fromhex, (span.link.trace_id, span.link.span_id))
            parts.append(_part(13, _part(1, trace_id) + _part(2, span_id)))
        if span.error:
            status = _part(2, encodable(span.error).encode()) + _number(3, _ERROR)
            parts.append(_part(15, status))
        if span.exception is not None:
            name = _part(2, OTEL_EXCEPTION_EVENT.encode())
            event = _fixed64(1, span.ended_ns) + name + _attributes(3, span.exception)
            parts.append(_part(11, event))
        for child in span.children:
            self.emit(child, own)
        self._put(parts)
        return own

    def log(self, at_ns: int, attributes: Attributes, target: SpanReference | None) -> None:
        """Send the event of an evaluation in the context of a span; None: of none."""
        parts = [
            _fixed64(1, at_ns),
            _number(2, _INFO),
            _attributes(6, attributes),
            _fixed64(11, at_ns),
            _part(12, GENAI_EVALUATION_EVENT.encode()),
        ]
        if target is not None:
            parts += [
                _fixed32(8, _SAMPLED if target.sampled else 0),
                _part(9, bytes.fromhex(target.trace_id)),
                _part(10, bytes.fromhex(target.span_id)),
            ]
        self._put(parts)

    def _put(self, parts: Sequence[bytes]) -> None:
        message = _part(2, b"".join(parts))
        self.batches.put(message, len(message))

    def _post(self, batch: Sequence[bytes], timeout_s: float) -> None:
        # Requests of spans and of log records have the same numbers, and so have their replies.
        body = _part(1, self._resource + _part(2, self._scope + b"".join(batch)))
        reply = self._server.ask(self._url, self._compressed(body), timeout_s=timeout_s)
        if not reply.data:  # all were taken
            return
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceResponse,
        )

        with suppress(DecodeError):  # of a server that answers otherwise, and took all
            part = ExportTraceServiceResponse.FromString(reply.data).partial_success
            if part.rejected_spans > 0:
                raise DeliveryError(
                    f"OTLP at {shown(self._url)} refused {part.rejected_spans} of {len(batch)}",
                    lost=min(part.rejected_spans, len(batch)),
                )

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        self.batches.close()
        self._server.close()


# --- protobuf: https://protobuf.dev/programming-guides/encoding/ ----------------------------------


def _attributes(field: int, attributes: Mapping[str, Any]) -> bytes:
    """Return attributes, each in the field of that number."""
    pairs = [
        _usual_pair(field, name, value)
        if isinstance(value, int) or (isinstance(value, str) and len(value) <= _MAX_USUAL)
        else _pair(field, name, value)
        for name, value in attributes.items()
    ]
    return b"".join(pairs)


def _pair(field: int, name: str, value: Any) -> bytes:
    return _part(field, _name(name) + _part(2, _value(value)))


_usual_pair = lru_cache(1024, typed=True)(_pair)


@lru_cache(1024)
def _name(name: str) -> bytes:
    return _part(1, name.encode())


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return _part(1, value.encode())
    if isinstance(value, int):  # a bool, too
        return _number(2 if isinstance(value, bool) else 3, value & 2**64 - 1)
    if isinstance(value, float):
        return b"\x21" + struct.pack("<d", value)
    return _part(5, b"".join(_part(1, _value(each)) for each in value))


def _part(field: int, data: bytes) -> bytes:
    """Return a text or a message as a field."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, n: int) -> bytes:
    return _varint(field << 3) + _varint(n)


def _fixed64(field: int, n: int) -> bytes:
    return _varint(field << 3 | 1) + n.to_bytes(8, "little")


def _fixed32(field: int, n: int) -> bytes:
    return _varint(field << 3 | 5) + n.to_bytes(4, "little")


@lru_cache(4096)
def _varint(n: int) -> bytes:
    data = bytearray()
    while n > 127:
        data.append(n & 127 | 128)
        n >>= 7
    return bytes((*data, n))
