"""Feedback by HTTP: who may send it, from where, and how much at once."""

from __future__ import annotations

import json
import socket
import threading
from email.message import Message
from typing import Any

import pytest
from pydantic import SecretStr

from ragmonitor.export.feedback_intake import PATH, FeedbackIntake
from ragmonitor.export.server import MAX_BODY_BYTES, HttpServer, Reply
from ragmonitor.runtime.feedback import Feedback

TOKEN = "a token of some length"
ORIGIN = "https://app.example.com"


class Taken(list[Feedback]):
    full = False

    def __call__(self, feedback: Feedback) -> bool:
        if not self.full:
            self.append(feedback)
        return not self.full


@pytest.fixture
def taken() -> Taken:
    return Taken()


def sent(intake: FeedbackIntake, body: Any, target: str = PATH, **headers: str) -> Reply:
    message = Message()
    message["Host"] = "localhost:7247"
    message["Content-Type"] = headers.pop("content_type", "application/json")
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return intake(target, message, raw)


GOOD = {"id": "5eed", "value": False, "comment": "no", "kind": "thumbs"}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[" * 9_000, b'{"id": "a"}', b'{"id": "", "value": 1}', b"\xff"]
)
def test_what_is_no_feedback_is_refused_with_the_reason(taken: Taken, body: bytes) -> None:
    reply = sent(FeedbackIntake(taken), body)
    assert reply.status == 400
    assert json.loads(reply.body)["error"]
    assert not taken


def test_with_a_token_nobody_speaks_without_it(taken: Taken) -> None:
    intake = FeedbackIntake(taken, token=SecretStr(TOKEN))
    refused = sent(intake, GOOD)
    assert (refused.status, refused.headers) == (401, (("WWW-Authenticate", "Bearer"),))
    assert "token is needed" in json.loads(refused.body)["error"]
    assert sent(intake, GOOD, Authorization="Bearer another token").status == 401
    assert sent(intake, GOOD, Authorization=f"Bearer {TOKEN}").status == 202


def test_a_website_is_refused_unless_it_shows_the_token(taken: Taken) -> None:
    assert sent(FeedbackIntake(taken), GOOD, Origin=ORIGIN).status == 403
    intake = FeedbackIntake(taken, token=SecretStr(TOKEN))
    assert sent(intake, GOOD, Origin=ORIGIN).status == 401
    assert sent(intake, GOOD, Origin=ORIGIN, Authorization=f"Bearer {TOKEN}").status == 202


def test_what_a_browser_sends_without_asking_first_is_refused(taken: Taken) -> None:
    """A form of another website is no JSON; a name of its own for 127.0.0.1 is no name of ours."""
    intake = FeedbackIntake(taken)
    assert sent(intake, GOOD, content_type="text/plain").status == 415
    message = Message()
    message["Host"] = "evil.example"
    message["Content-Type"] = "application/json"
    assert intake(PATH, message, json.dumps(GOOD).encode()).status == 403


@pytest.fixture
def served(taken: Taken):
    server = HttpServer(
        "127.0.0.1",
        0,
        lambda *_: Reply(status=200, body=b"page"),
        count=lambda _: None,
        receive=FeedbackIntake(taken),
    )
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def exchanged(server: HttpServer, request: bytes) -> bytes:
    with socket.create_connection(server.server_address[:2], 10) as client:
        client.sendall(request)
        parts = []
        while part := client.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def post(body: bytes, length: str, path: str = PATH) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("", b"411"),
        ("Content-Length: -1\r\n", b"411"),
        ("Content-Length: " + "9" * 5_000 + "\r\n", b"411"),
        (f"Content-Length: {MAX_BODY_BYTES + 1}\r\n", b"413"),
    ],
)
def test_a_body_of_no_length_or_too_long_is_not_read(
    served: HttpServer, taken: Taken, length: str, status: bytes
) -> None:
    assert exchanged(served, post(b"{}", length)).startswith(b"HTTP/1.0 " + status)
    assert not taken
