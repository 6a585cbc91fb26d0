"""Requests of OTLP over HTTP as bytes: protobuf or JSON, plain or compressed by gzip.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MAX_BYTES: Final = 20 * 2**20
"""Of one request, as it is sent and unpacked."""
MAX_PARTS: Final = 200_000
"""Spans, attributes, events and links of one request: about a second of one processor."""
MAX_JSON_BRACKETS: Final = 200_000
"""Opening ones in a body of JSON, those in texts too: it is read value by value, in Python."""
_IDS: Final = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
"""`json_format` takes both spellings."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_BROKEN_JSON: Final = (
    ValueError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    json_format.ParseError,
)


class UnreadableBodyError(Exception):
    """A body cannot be taken; the message says why, and quotes nothing of it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP reply."""


def media_type(content_type: str) -> str:
    """Return the media type of a `Content-Type`, in lower case and without parameters."""
    return content_type.partition(";")[0].strip().lower()


def request_of(body: bytes, *, content_type: str, encoding: str = "") -> ExportTraceServiceRequest:
    """Return what a body says. Both libraries read a message that is nested 100 deep at most.

    Args:
        body: As it came.
        content_type: The header of that name.
        encoding: The header `Content-Encoding`; empty: there is none.

    Raises:
        UnreadableBodyError: It is of another kind, too large, or broken.
    """
    kind = media_type(content_type)
    if kind not in (PROTOBUF, JSON):
        raise UnreadableBodyError(415, f"the body is to be {PROTOBUF} or {JSON}")
    packing = encoding.strip().lower()
    if packing == "gzip":
        body = _unpacked(body)
    elif packing not in ("", "identity"):
        raise UnreadableBodyError(415, "the body is to be plain or compressed by gzip")
    if len(body) > MAX_BYTES:
        raise UnreadableBodyError(413, f"a request has at most {MAX_BYTES:,} bytes")
    if kind == JSON:
        return _from_json(body)
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError:
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest") from None
    if any(count > MAX_PARTS for count in accumulate(_parts(request))):
        raise UnreadableBodyError(413, f"a request has at most {MAX_PARTS:,} spans and attributes")
    return request


def _parts(request: ExportTraceServiceRequest) -> Iterator[int]:
    """Yield how many parts there are, piece by piece: an empty part takes two bytes."""
    for resource in request.resource_spans:
        yield 1 + len(resource.resource.attributes)
        for scope in resource.scope_spans:
            yield 1
            for span in scope.spans:
                yield 1 + len(span.attributes) + len(span.events) + len(span.links)


def _unpacked(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacking.decompress(body, MAX_BYTES + 1)
    except zlib.error:
        raise UnreadableBodyError(400, "the body is no gzip") from None
    if len(unpacked) <= MAX_BYTES and not unpacking.eof:
        raise UnreadableBodyError(400, "the gzip of the body breaks off")
    if unpacking.unused_data:
        raise UnreadableBodyError(400, "the body is more than one gzip")
    return unpacked


def _from_json(body: bytes) -> ExportTraceServiceRequest:
    if body.count(b"{") + body.count(b"[") > MAX_JSON_BRACKETS:
        raise UnreadableBodyError(413, f"JSON has at most {MAX_JSON_BRACKETS:,} brackets")
    try:
        value = json.loads(body, object_hook=_with_ids)
        try:
            return _from_value(value)
        except json_format.ParseError:  # of whatever kind; the library does not tell them apart
            return _from_value(json.loads(_without_surrogates(value)))
    except _BROKEN_JSON:
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest in JSON") from None


def _from_value(value: Any) -> ExportTraceServiceRequest:
    if not isinstance(value, dict):
        raise TypeError  # an empty list would be taken as an empty request
    request = ExportTraceServiceRequest()
    json_format.ParseDict(value, request, ignore_unknown_fields=True)
    return request


def _with_ids(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a span, or a link, with its ids in base64, as protobuf's JSON has them."""
    try:
        ids = {k: bytes.fromhex(v) for k in _IDS if isinstance(v := fields.get(k), str)}
    except ValueError:
        why = "ids of traces and spans are hexadecimal in OTLP's JSON, and not base64"
        raise UnreadableBodyError(400, why) from None
    return fields | {name: base64.b64encode(taken).decode() for name, taken in ids.items()}


def _without_surrogates(value: Any) -> str:
    """Return JSON in which halves of a character, where JavaScript cut a text, are U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
