"""Bodies that are small as sent and would take far more memory and time once they are parsed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest

from ragmonitor.receive.otlp_bodies import JSON, MAX_MESSAGES, PROTOBUF, UnreadableBodyError
from ragmonitor.receive.otlp_bodies import request_of as request_in
from tests.support.receiving import request_of, span

MAX_BYTES = 20 * 2**20


def field(number: int, content: bytes = b"") -> bytes:
    """Return a field of protobuf that holds a message or text."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def of_span(content: bytes) -> bytes:
    return field(1, field(2, field(2, content)))


BODIES: list[tuple[str, str, Callable[[int], bytes]]] = [
    ("resources", PROTOBUF, lambda n: field(1) * n),
    ("scopes", PROTOBUF, lambda n: field(1, field(2) * n)),
    ("spans", PROTOBUF, lambda n: field(1, field(2, field(2) * n))),
    ("attributes", PROTOBUF, lambda n: of_span(field(9) * n)),
    ("events", PROTOBUF, lambda n: of_span(field(11) * n)),
    ("values", PROTOBUF, lambda n: of_span(field(9, field(2, field(5, field(1) * n))))),
    ("small spans", PROTOBUF, lambda n: field(1, field(2, field(2, field(9)) * (n // 2)))),
    ("numbers", PROTOBUF, lambda n: of_span(b"\x38\x00" * 4 * n)),
    ("spans", JSON, lambda n: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans(n)),
    ("arrays", JSON, lambda n: b'{"x":[' + b"[]," * n + b"[]]}"),
]


def spans(count: int) -> bytes:
    return b"{}," * count + b"{}]}]}]}"


@pytest.mark.parametrize(
    ("kind", "body"), [pytest.param(kind, body, id=f"{kind} {name}") for name, kind, body in BODIES]
)
def test_a_request_has_a_bounded_number_of_messages(
    kind: str, body: Callable[[int], bytes]
) -> None:
    """More of them are refused before they are parsed, however small they are."""
    packed = gzip.compress(body(MAX_MESSAGES + 1), 1)
    with pytest.raises(UnreadableBodyError) as failure:
        request_in(packed, content_type=kind, encoding="gzip", max_bytes=MAX_BYTES)
    assert failure.value.status == 413


def test_brackets_in_texts_are_no_messages() -> None:
    """A span may hold a document in JSON, with more of them than a request has messages."""
    document = "[" * (MAX_MESSAGES // 2) + '\\"' + "{" * (MAX_MESSAGES // 2 + 1)
    written = {"attributes": [{"key": "output.value", "value": {"stringValue": document}}]}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [written]}]}]}).encode()
    taken = request_in(body, content_type=JSON, encoding="", max_bytes=MAX_BYTES)
    (attribute,) = taken.resource_spans[0].scope_spans[0].spans[0].attributes
    assert attribute.value.string_value == document


def test_a_large_batch_is_taken() -> None:
    """8,192 spans, which is a Collector's batch, with 25 attributes each."""
    attributes = {f"attribute.{number}": "value" for number in range(24)}
    request = request_of(*(span(number, attributes=attributes) for number in range(1, 8_193)))
    body = request.SerializeToString()
    assert len(body) > 2 * MAX_MESSAGES
    taken = request_in(body, content_type=PROTOBUF, encoding="", max_bytes=MAX_BYTES)
    assert taken == request


@pytest.mark.parametrize("start", [b"", b"\x0a"], ids=["tag", "size"])
def test_a_number_without_an_end_is_refused(start: bytes) -> None:
    """It is not read on: each of its bytes would make it larger."""
    with pytest.raises(UnreadableBodyError) as failure:
        request_in(
            start + b"\x80" * (MAX_BYTES - 1),
            content_type=PROTOBUF,
            encoding="",
            max_bytes=MAX_BYTES,
        )
    assert failure.value.status == 400


@pytest.mark.parametrize("text", [b"caf\xe9 \xc3\xa9", b"\xff", b"\xe4\xb8", b"\xed\xa0\xbd."])
def test_a_text_that_is_no_utf8_costs_no_batch(text: bytes) -> None:
    """A Collector passes on what one of its senders wrote, in one request with all the others'."""
    named = request_of(span(1), span(2, attributes={"input.value": "How?"}))
    broken = of_span(field(5, text) + field(9, field(1, b"note") + field(2, field(1, text))))
    body = named.SerializeToString() + broken
    read = request_in(body, content_type=PROTOBUF, encoding="", max_bytes=MAX_BYTES)
    assert read.resource_spans[0] == named.resource_spans[0]
    (found,) = read.resource_spans[1].scope_spans[0].spans
    assert found.name == found.attributes[0].value.string_value
    assert found.name.replace("?", "") == text.decode("utf-8", "ignore")
    assert len(found.name.encode()) == len(text)
