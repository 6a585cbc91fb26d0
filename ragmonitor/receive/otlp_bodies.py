"""Requests and replies of OTLP over HTTP as bytes: protobuf or JSON, plain or compressed by gzip.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_GZIP: Final = 16 + zlib.MAX_WBITS
_HEX_IDS: Final = ("traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id")


class UnreadableBodyError(Exception):
    """A body cannot be taken; the message says why, and quotes nothing of it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP reply."""


def media_type(content_type: str) -> str:
    """Return the media type of a `Content-Type`, in lower case and without parameters."""
    return content_type.partition(";")[0].strip().lower()


def request_of(
    body: bytes, *, content_type: str, encoding: str, max_bytes: int
) -> ExportTraceServiceRequest:
    """Return what a body says.

    Args:
        body: As it came.
        content_type: The header of that name.
        encoding: The header `Content-Encoding`; empty: there is none.
        max_bytes: Of the body once it is unpacked.

    Raises:
        UnreadableBodyError: It is of another kind, too large, or broken.
    """
    kind = media_type(content_type)
    if kind not in (PROTOBUF, JSON):
        raise UnreadableBodyError(415, f"the body is to be {PROTOBUF} or {JSON}")
    packing = encoding.strip().lower()
    if packing == "gzip":
        body = _unpacked(body, max_bytes)
    elif packing not in ("", "identity"):
        raise UnreadableBodyError(415, "the body is to be plain or compressed by gzip")
    if len(body) > max_bytes:
        raise UnreadableBodyError(413, f"a request has at most {max_bytes:,} bytes")
    return _from_json(body) if kind == JSON else _from_protobuf(body)


def _unpacked(body: bytes, max_bytes: int) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacking.decompress(body, max_bytes + 1)
    except zlib.error:
        raise UnreadableBodyError(400, "the body is no gzip") from None
    if len(unpacked) <= max_bytes and not unpacking.eof:
        raise UnreadableBodyError(400, "the gzip of the body breaks off")
    return unpacked


def _from_protobuf(body: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except (DecodeError, RecursionError):
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest") from None
    return request


def _from_json(body: bytes) -> ExportTraceServiceRequest:
    try:
        value = json.loads(body)
        for holder in _holders_of_ids(value):
            for name in _HEX_IDS:
                if name in holder:
                    # OTLP's JSON has ids in hex, and protobuf's has bytes in base64.
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
        request = ExportTraceServiceRequest()
        json_format.ParseDict(value, request, ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, RecursionError, json_format.ParseError):
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest in JSON") from None
    return request


def _holders_of_ids(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the spans, and their links, of a request in JSON. Raises where it has another shape."""
    for resource in _items(value, "resourceSpans", "resource_spans"):
        for scope in _items(resource, "scopeSpans", "scope_spans"):
            for span in _items(scope, "spans"):
                yield span
                yield from _items(span, "links")


def _items(holder: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    return next((found for name in names if (found := holder.get(name)) is not None), [])


def reply_body(message: Message, content_type: str) -> tuple[str, bytes]:
    """Return (content type, body) of a reply, in the kind of the request."""
    if media_type(content_type) == JSON:
        return JSON, json_format.MessageToJson(message, indent=None).encode()
    return PROTOBUF, message.SerializeToString()
