"""Bodies that are small as sent and would take far more memory and time once they are read."""

from __future__ import annotations

import gzip
import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmonitor.receive.otlp_bodies import (
    JSON,
    MAX_BYTES,
    MAX_JSON_BRACKETS,
    MAX_PARTS,
    PROTOBUF,
    UnreadableBodyError,
)
from ragmonitor.receive.otlp_bodies import request_of as request_in
from tests.support.receiving import answer, json_of, request_of

ANSWER = request_of(*answer())


def refused(body: bytes, *, kind: str = PROTOBUF, encoding: str = "") -> int:
    """Return the status with which a body is refused."""
    with pytest.raises(UnreadableBodyError) as failure:
        request_in(body, content_type=kind, encoding=encoding)
    return failure.value.status


@pytest.mark.parametrize("bracket", [b"[", b"{", b"[],", b'{"a":'])
def test_json_has_a_bounded_number_of_brackets(bracket: bytes) -> None:
    """It is refused before it is read; as gzip it has a few bytes."""
    packed = gzip.compress(bracket * (MAX_JSON_BRACKETS + 1), 1)
    assert refused(packed, kind=JSON, encoding="gzip") == 413


def test_gzip_is_unpacked_up_to_the_limit() -> None:
    """And is one whole gzip: what stands behind it would be lost without a word."""
    assert refused(gzip.compress(bytes(MAX_BYTES + 1)), encoding="gzip") == 413
    packed = gzip.compress(ANSWER.SerializeToString())
    assert refused(packed + packed, encoding="gzip") == 400
    assert refused(packed[:-9], encoding="gzip") == 400
    assert refused(b"no gzip", encoding="gzip") == 400
    read = request_in(packed, content_type=PROTOBUF, encoding="gzip")
    assert read == ANSWER


def test_ids_are_hexadecimal_in_json() -> None:
    """Also those of links; in base64, as protobuf's own JSON has them, they are refused."""
    value = json.loads(json_of(ANSWER))
    (scope, *_) = value["resourceSpans"][0]["scopeSpans"]
    scope["spans"][0]["links"] = [{"traceId": "AB" * 16, "spanId": "cd" * 8}]
    body = json.dumps(value).encode()
    read = request_in(body, content_type=JSON, encoding="")
    (link,) = read.resource_spans[0].scope_spans[0].spans[0].links
    assert (link.trace_id, link.span_id) == (b"\xab" * 16, b"\xcd" * 8)
    scope["spans"][0]["traceId"] = "CvdlGRbNQ92ESOshHIAxnA=="
    assert refused(json.dumps(value).encode(), kind=JSON) == 400


def nested_json(depth: int) -> bytes:
    value = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    attribute = f'{{"key":"x","value":{value}}}'
    return f'{{"resourceSpans":[{{"resource":{{"attributes":[{attribute}]}}}}]}}'.encode()


def nested_protobuf(depth: int) -> bytes:
    value = b""
    for number in (1, 5) * depth + (2, 1, 1, 1):
        value = field(number, value)
    return value


def field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_nesting_is_bounded() -> None:
    """In both kinds, far from what a stack holds."""
    for depth, kind, body in ((20, JSON, nested_json(20)), (20, PROTOBUF, nested_protobuf(20))):
        read = request_in(body, content_type=kind, encoding="")
        assert str(read).count("array_value") == depth
    assert refused(nested_json(20_000), kind=JSON) == 400
    assert refused(nested_protobuf(200), kind=PROTOBUF) == 400


def test_a_request_has_a_bounded_number_of_parts() -> None:
    """Ten million empty spans have twenty megabytes, and would keep a processor busy."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(MAX_PARTS + 1):
        spans.add()
    assert refused(request.SerializeToString()) == 413
