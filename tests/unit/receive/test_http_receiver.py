"""The server for OTLP over HTTP: who may send, what is too large, and what is no request."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator

import pytest
from google.rpc.status_pb2 import Status
from pydantic import SecretStr

from ragmonitor import SettingsError
from ragmonitor.export.view.access import Access
from tests.support.receiving import (
    ANSWER,
    PROTOBUF,
    Receiving,
    answer,
    json_of,
    model,
    receiving,
    request_of,
    retrieval,
    span,
)

TOKEN = "correct-horse-battery"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def here() -> Iterator[Receiving]:
    with receiving() as made:
        yield made


def body() -> bytes:
    return request_of(*answer()).SerializeToString()


def requests_counted(made: Receiving) -> dict[str, float]:
    made.receiver.close()
    outcomes = ("taken", "partial", "full", "unauthorized", "malformed", "too_large")
    sample = "ragmonitor_received_total"
    return {o: n for o in outcomes if (n := made.counted(sample, what="requests", outcome=o))}


@pytest.mark.parametrize(
    ("sent", "headers", "status"),
    [
        (b"\xff\xff", PROTOBUF, 400),
        (b"[", {"Content-Type": "application/json"}, 400),
        (b"[]", {"Content-Type": "application/json"}, 400),
        (b'{"resourceSpans": 7}', {"Content-Type": "application/json"}, 400),
        (b'{"resourceSpans": [' * 9, {"Content-Type": "application/json"}, 400),
        (b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        (b"no gzip", {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (gzip.compress(b"x" * 999, mtime=0)[:-9], {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (body(), {**PROTOBUF, "Content-Encoding": "br"}, 415),
        (body(), {"Content-Type": "text/plain"}, 415),
    ],
)
def test_what_is_no_request_is_refused(
    here: Receiving, sent: bytes, headers: dict[str, str], status: int
) -> None:
    """With a Status that says why, in the request's own kind; and it is counted."""
    got, reply, answered = here.post(sent, headers)
    assert got == status
    if answered["Content-Type"] == "application/json":
        assert json.loads(reply)["message"]
    else:
        assert Status.FromString(reply).message
    assert requests_counted(here) == {"malformed": 1}


def test_a_body_of_any_shape_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too long as sent, in chunks without an end, or once it is unpacked."""
    monkeypatch.setattr("ragmonitor.receive.otlp_bodies.MAX_BYTES", 2**16)
    with receiving() as here:
        bomb = gzip.compress(b"\0" * 2**24)
        assert len(bomb) < 2**16
        assert here.post(bomb, {**PROTOBUF, "Content-Encoding": "gzip"})[0] == 413
        assert here.post(b"\0" * (2**16 + 1))[0] == 413
        assert here.post(b"\0" * 2**18)[0] == 413
        assert chunked(here, [b"\0" * 2**15] * 3).status == 413
        assert requests_counted(here) == {"too_large": 4}


def chunked(here: Receiving, pieces: list[bytes]) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(here.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", "/v1/traces", iter(pieces), PROTOBUF, encode_chunked=True)
        return connection.getresponse()
    finally:
        connection.close()


def test_a_client_that_breaks_off_leaves_nothing_behind(here: Receiving) -> None:
    """Half of a request that would be one by itself is not taken."""
    connection = http.client.HTTPConnection(here.url.removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/v1/traces")
    connection.putheader("Content-Type", "application/x-protobuf")
    connection.putheader("Content-Length", "999999")
    connection.endheaders(body())
    assert connection.sock is not None
    connection.sock.shutdown(1)
    assert connection.getresponse().status == 400
    connection.close()
    assert len(here.receiver.traces) == 0


def test_without_its_token_nothing_is_read() -> None:
    """Not even as much as would tell how large a request may be."""
    with receiving(server={"enabled": False, "token": TOKEN}) as here:
        status, _, headers = here.post(b"\0" * 2**24)  # more than the buffers of a connection hold
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        for wrong in (f"Bearer {TOKEN}x", TOKEN, "Bearer ä", ""):
            sent = {**PROTOBUF, "Authorization": wrong.encode().decode("latin-1")}
            assert here.post(body(), sent)[0] == 401
        cookie = Access(SecretStr(TOKEN)).cookie  # the page's, which a browser shows to every port
        assert here.post(body(), {**PROTOBUF, "Cookie": cookie})[0] == 401
        assert here.post(body(), {**PROTOBUF, "Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert requests_counted(here) == {"unauthorized": 6, "taken": 1}


def test_a_website_sends_nothing(here: Receiving) -> None:
    """Its visitor's browser can reach loopback, under any name; unlike an exporter it says so."""
    for origin in ("http://rebound.example:4318", "null"):
        assert here.post(body(), {**PROTOBUF, "Origin": origin})[0] == 403
    assert here.post(body())[0] == 200
    assert requests_counted(here) == {"unauthorized": 2, "taken": 1}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "spans.example.com"])
def test_beyond_loopback_it_needs_a_token(host: str) -> None:
    """It does not even begin without one."""
    with pytest.raises(SettingsError, match=r"server\.token"):
        Receiving(host=host)
    made = Receiving(host=host, server={"enabled": False, "token": TOKEN})
    made.receiver.close()


def test_half_a_character_costs_no_batch(here: Receiving) -> None:
    """JavaScript cuts texts between the halves of an emoji, and writes the first one alone."""
    whole = span(
        1,
        times=(1, 9),
        attributes={"input.value": "How? \N{THINKING FACE}", "output.value": ANSWER},
    )
    written = json_of(request_of(retrieval(), model(), whole))
    cut = written.replace(rb"\ud83e\udd14", rb"\ud83e")
    assert cut != written
    assert here.post(cut, JSON)[0] == 200
    (found,) = here.after(7)
    assert found.query == "How? \N{REPLACEMENT CHARACTER}"
