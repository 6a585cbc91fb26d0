"""Requests and replies of OTLP over HTTP as bytes: protobuf or JSON, plain or compressed by gzip.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import base64
import codecs
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MAX_MESSAGES: Final = 500_000
"""Of protobuf's, in one request: spans, attributes, values. An empty one is two bytes of a body and
a hundred times as much once it is parsed, so they are counted before. A Collector's batch of 8,192
spans with 25 attributes each has fewer."""
_FIELDS_OF_MESSAGE: Final = 4
"""On average; of a request with as many messages as may be."""
_SMALL_BYTES: Final = 64
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


def _check_count(messages: int) -> None:
    if messages > MAX_MESSAGES:
        raise UnreadableBodyError(
            413, f"a request has at most {MAX_MESSAGES:,} spans, attributes and values"
        )


def _from_protobuf(body: bytes) -> ExportTraceServiceRequest:
    # Two looks that are nearly always enough, as the third takes longer than to parse.
    if (
        len(body) // 2 > MAX_MESSAGES
        and messages_in(body, MAX_MESSAGES, closed_bytes=_SMALL_BYTES) > MAX_MESSAGES
    ):
        _check_count(messages_in(body, MAX_MESSAGES))
    request = ExportTraceServiceRequest()
    try:
        try:
            request.ParseFromString(body)
        except DecodeError:
            request.ParseFromString(_with_texts_repaired(body))
    except (DecodeError, RecursionError, IndexError):
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest") from None
    return request


def _with_texts_repaired(body: bytes) -> bytes:
    """Return a request in which each byte of a text that is no UTF-8 is a question mark.

    A Collector passes on what it got, of all its senders together, and protobuf refuses the whole.

    Raises:
        IndexError: It is no protobuf.
        RecursionError: It is nested too deeply.
    """
    repaired = bytearray(body)
    for start, end in _texts_in(body, ExportTraceServiceRequest.DESCRIPTOR, 0, len(body)):
        text = body[start:end]
        # As many bytes as before: the lengths that stand around it hold.
        repaired[start:end] = text.decode("utf-8", _QUESTION_MARKS).encode()
    return bytes(repaired)


def _texts_in(
    body: bytes, descriptor: Descriptor, at: int, end: int, depth: int = 0
) -> Iterator[tuple[int, int]]:
    if depth > _DEEPEST:
        raise RecursionError
    while at < end:
        tag, at = _varint(body, at)
        kind = tag & 7
        if kind == _DELIMITED:
            size, at = _varint(body, at)
            if at + size > end:
                raise IndexError
            field = descriptor.fields_by_number.get(tag >> 3)
            if field is not None and field.type == FieldDescriptor.TYPE_STRING:
                yield at, at + size
            elif field is not None and field.message_type is not None:
                yield from _texts_in(body, field.message_type, at, at + size, depth + 1)
            at += size
        elif kind == _VARINT:
            _, at = _varint(body, at)
        elif kind in _FIXED_BYTES:
            at += _FIXED_BYTES[kind]
        else:
            raise IndexError


_DEEPEST: Final = 100
"""Messages in each other; protobuf parses no more."""
_QUESTION_MARKS: Final = "ragmonitor.question_marks"


def _question_marks(error: UnicodeError) -> tuple[str, int]:
    """Return a mark for each byte that is no UTF-8, and where to go on."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 - for the type
    return "?" * (error.end - error.start), error.end


codecs.register_error(_QUESTION_MARKS, _question_marks)


_Nested = dict[int, "_Nested"]
"""By the tag of a field that holds a message, the same for that message's fields."""


def _nested_in(descriptor: Descriptor, known: dict[str, _Nested]) -> _Nested:
    nested = known.get(descriptor.full_name)
    if nested is None:
        nested = known[descriptor.full_name] = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                tag = field.number << 3 | _DELIMITED
                nested[tag] = _nested_in(field.message_type, known)
    return nested


_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
"""https://protobuf.dev/programming-guides/encoding/#structure"""
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_IN_REQUEST: Final = _nested_in(ExportTraceServiceRequest.DESCRIPTOR, {})


def messages_in(body: bytes, limit: int, *, closed_bytes: int = 0) -> int:
    """Return how many messages are in a request, without parsing it; beyond the limit, it stops.

    Args:
        body: The request as protobuf.
        limit: The number beyond which it does not matter how many there are. Four times as many
            fields of any kind are beyond it, too.
        closed_bytes: Messages that are not longer are not looked into, and count as if they
            consisted of others: the result is then an upper bound.

    Raises:
        UnreadableBodyError: It is no protobuf, or has groups, which OTLP has not.
    """
    messages, fields = 0, 0
    nested, at, end = _IN_REQUEST, 0, len(body)
    outer: list[tuple[_Nested, int]] = []
    try:
        while True:
            while at >= end:
                if at > end:
                    raise IndexError
                if not outer:
                    return messages
                nested, end = outer.pop()
            fields += 1
            if fields > _FIELDS_OF_MESSAGE * limit:
                return limit + 1
            tag = body[at]
            at += 1
            if tag > 0x7F:
                tag, at = _varint(body, at - 1)
            kind = tag & 7
            if kind == _DELIMITED:
                size = body[at]
                at += 1
                if size > 0x7F:
                    size, at = _varint(body, at - 1)
                inner = nested.get(tag)
                if inner is None:
                    at += size
                    continue
                messages += 1 if size > closed_bytes else 1 + size // 2
                if messages > limit:
                    return messages
                if size <= closed_bytes:
                    at += size
                    continue
                outer.append((nested, end))
                nested, end = inner, at + size
                if end > outer[-1][1]:
                    raise IndexError
            elif kind == _VARINT:
                while body[at] > 0x7F:
                    at += 1
                at += 1
            elif kind == _FIXED64:
                at += 8
            elif kind == _FIXED32:
                at += 4
            else:
                raise IndexError
    except IndexError:
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest") from None


def _varint(body: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it. Raises IndexError where it has more than 64 bits."""
    number = 0
    for shift in range(0, 64, 7):
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise IndexError


_JSON_TOKENS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]', re.DOTALL)
"""A text, or the beginning of an object or a list."""


_BROKEN_JSON: Final = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)


def _from_json(body: bytes) -> ExportTraceServiceRequest:
    if body.count(b"{") + body.count(b"[") > MAX_MESSAGES:  # texts may hold some, too
        _check_count(sum(match[0] in b"{[" for match in _JSON_TOKENS.finditer(body)))
    try:
        value = json.loads(body)
        for holder in _holders_of_ids(value):
            for name in _HEX_IDS:
                if (found := holder.get(name)) is not None:
                    holder[name] = _in_base64(found)
        try:
            return _from_value(value)
        except json_format.ParseError:  # of whatever kind; the library does not tell them apart
            written = _without_surrogates(value)
            return _from_value(json.loads(written, object_hook=_within_64_bits))
    except (*_BROKEN_JSON, json_format.ParseError):
        raise UnreadableBodyError(400, "the body is no ExportTraceServiceRequest in JSON") from None


def _from_value(value: Any) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    json_format.ParseDict(value, request, ignore_unknown_fields=True)
    return request


def _in_base64(written: str) -> str:
    """Return an id, which OTLP's JSON has in hex, as protobuf's JSON has bytes: in base64."""
    try:
        return base64.b64encode(bytes.fromhex(written)).decode()
    except ValueError:
        why = "ids of traces and spans are hexadecimal in OTLP's JSON, and not base64"
        raise UnreadableBodyError(400, why) from None


def _within_64_bits(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value; JavaScript writes what is no fraction as an integer, of any size."""
    number = value.get("intValue")
    if isinstance(number, int | float) and not -(2**63) <= number < 2**63:
        return {"doubleValue": float(number)}
    return value


def _without_surrogates(value: Any) -> str:
    """Return JSON in which halves of a character, where JavaScript cut a text, are U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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
