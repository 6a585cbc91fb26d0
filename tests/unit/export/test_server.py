"""What clients can take of their host through the endpoint: little, whatever they do."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from ragmonitor.export import server as servers
from ragmonitor.export.server import MAX_CONNECTIONS, HttpServer, Reply
from ragmonitor.runtime import guard

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_S = 10.0


class Served:
    """A running server, and what it rejected."""

    def __init__(self, answer: Callable[[str, Message], Reply], **options: Any) -> None:
        self.rejected: Counter[str] = Counter()
        self.server = HttpServer("127.0.0.1", 0, answer, count=self._count, **options)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()
        self.clients: list[socket.socket] = []

    def _count(self, reason: str) -> None:
        self.rejected[reason] += 1

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Return a new client that has sent these bytes."""
        client = socket.create_connection(self.server.server_address[:2], PATIENCE_S)
        self.clients.append(client)
        client.sendall(sent)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.shutdown()
        self.server.server_close()


def hello(target: str, headers: Message) -> Reply:
    return Reply(status=200, body=b"hello")


@pytest.fixture
def served() -> Iterator[Served]:
    built = Served(hello)
    yield built
    built.close()


def received(client: socket.socket) -> bytes:
    """Return all that the server sends until it closes."""
    parts = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether it comes to hold."""
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True


def test_silent_clients_make_room_for_others(served: Served) -> None:
    """Of many that say nothing, or are being refused, the oldest are closed: a request is answered.

    They take a bounded number of threads.
    """
    served.server.receive = lambda _target, _headers, body: Reply(status=200, body=body)
    served.server.admit = lambda _target, _headers: Reply(status=401)
    before = threading.active_count()
    refused = served.connect(b"POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n")
    assert b" 401 " in refused.recv(99)
    silent = [served.connect(b"GET /met") for _ in range(2 * MAX_CONNECTIONS)]
    assert received(served.connect(GET)).endswith(b"hello")
    assert received(silent[0]) == b""
    assert eventually(lambda: threading.active_count() - before <= MAX_CONNECTIONS)
    assert served.rejected == {"too_many": MAX_CONNECTIONS + 2}


def test_requests_under_way_are_not_given_up_for_newcomers() -> None:
    """A newcomer too many is closed instead."""
    answers = threading.Event()

    def slow(target: str, headers: Message) -> Reply:
        answers.wait(PATIENCE_S)
        return hello(target, headers)

    built = Served(slow)
    try:
        asked = [built.connect(GET) for _ in range(MAX_CONNECTIONS)]
        assert eventually(lambda: len(built.server.at_work) == MAX_CONNECTIONS)
        assert received(built.connect(GET)) == b""
        answers.set()
        assert all(received(each).endswith(b"hello") for each in asked)
    finally:
        built.close()


def test_the_time_limit_is_for_the_whole_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that sends a byte now and then does not begin it anew with each."""
    monkeypatch.setattr(servers, "REQUEST_TIMEOUT_S", 0.3)
    client = served.connect(b"G")
    ended = time.monotonic() + PATIENCE_S
    while not served.rejected and time.monotonic() < ended:
        time.sleep(0.05)
        with contextlib.suppress(OSError):
            client.sendall(b"E")
    assert received(client) == b""
    assert served.rejected == {"too_slow": 1}


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"GET /" + b"x" * 2 * 65_536 + b" HTTP/1.1", "too_large"),
        (b"nonsense", "malformed"),
        (b"GET / HTTP/3.0", "malformed"),
        (b"POST /metrics HTTP/1.1", "malformed"),
    ],
)
def test_what_is_no_request_is_told_so_and_counted(
    served: Served, head: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no error of ours, and no line in the host's log."""
    before = Counter(guard.errors)
    reply = received(served.connect(head + b"\r\n\r\n"))
    assert b"Error code: " in reply
    assert served.rejected == {reason: 1}
    assert guard.errors == before
    assert caplog.records == []


def test_without_threads_the_connection_is_closed_and_counted(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server lives on, and answers as soon as there are threads again."""
    caplog.set_level(logging.WARNING)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as scarce:
        scarce.setattr(threading.Thread, "start", start)
        assert received(served.connect(GET)) == b""
    assert caplog.records == []
    assert received(served.connect(GET)).endswith(b"hello")


def test_a_forked_child_holds_none_of_the_parents_connections() -> None:
    """Neither the socket that listens nor those of clients stay open in it."""
    built = Served(hello)
    try:
        client = built.connect(b"GET /")
        assert eventually(lambda: len(built.server.connections) == 1)
        (connection,) = built.server.connections
        descriptors = (built.server.socket.fileno(), connection.fileno())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            built.server.abandon()
            held = [Path(f"/proc/self/fd/{each}").exists() for each in descriptors]
            os.write(writer, b"y" if any(held) else b"n")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 1) == b"n"
        client.sendall(b" HTTP/1.1\r\n\r\n")
        assert received(client).endswith(b"hello")
        os.close(reader)
        os.close(writer)
    finally:
        built.close()
