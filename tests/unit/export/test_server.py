"""What clients can take of their host through the endpoint: little, whatever they do."""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge

from ragmonitor import guard
from ragmonitor.export import server as servers
from ragmonitor.export.endpoint import Endpoint
from ragmonitor.export.server import MAX_CONNECTIONS, MAX_HEAD_BYTES, BoundedServer, Reply
from ragmonitor.testing import ManualClock

GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
PATIENCE_S = 10.0
FOLDED = b"application/openmetrics-text;version=1.0.0;\r\n Set-Cookie=a"


def test_it_stops_serving_at_once() -> None:
    """A host that ends waits for no look at a flag, however rare these are."""
    server = BoundedServer("127.0.0.1", 0, hello, count=lambda _: None)
    thread = threading.Thread(target=server.serve_forever, args=(3_600.0,), daemon=True)
    thread.start()
    stopping = threading.Thread(target=server.shutdown, daemon=True)
    stopping.start()
    stopping.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not stopping.is_alive()
    assert not thread.is_alive()
    server.server_close()


class Served:
    """A running server, and what it rejected."""

    def __init__(self, answer: Callable[[str, Message], Reply], **options: Any) -> None:
        self.rejected: Counter[str] = Counter()
        self.server = BoundedServer("127.0.0.1", 0, answer, count=self._count, **options)
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


def threads() -> int:
    return sum(t.name == "ragmonitor-request" for t in threading.enumerate())


def test_a_request_is_answered_and_its_connection_closed(served: Served) -> None:
    """No connection is kept, whatever the client asks for."""
    kept = GET.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")
    reply = received(served.connect(kept))
    assert reply.startswith(b"HTTP/1.0 200 ")
    assert reply.endswith(b"\r\n\r\nhello")
    assert served.rejected == {}


def test_silent_clients_take_a_bounded_number_of_threads_and_keep_nobody_away(
    served: Served,
) -> None:
    """Of many that say nothing the oldest are closed, and a scrape is answered all the same."""
    silent = [served.connect(b"GET /met") for _ in range(5 * MAX_CONNECTIONS)]
    most = threads()
    assert received(served.connect(GET)).endswith(b"hello")
    assert max(most, threads()) <= MAX_CONNECTIONS
    assert received(silent[0]) == b""
    assert served.rejected["too_many"] >= 4 * MAX_CONNECTIONS
    assert set(served.rejected) == {"too_many"}


def test_nobody_is_cut_short_who_is_being_answered() -> None:
    """When all connections are at work, the newcomer is closed, and none of those."""
    begun, go_on = threading.Semaphore(0), threading.Event()
    at_work = [""] * MAX_CONNECTIONS

    def slowly(target: str, headers: Message) -> Reply:
        begun.release()
        assert go_on.wait(PATIENCE_S)
        return hello(target, headers)

    built = Served(slowly)
    try:
        clients = [built.connect(GET) for _ in range(MAX_CONNECTIONS)]
        assert begun.acquire(timeout=PATIENCE_S)
        assert eventually(lambda: [c.waits_for for c in list(built.server._connections)] == at_work)
        assert received(built.connect(GET)) == b""
        assert built.rejected == {"too_many": 1}
        go_on.set()
        assert [received(client)[-5:] for client in clients] == [b"hello"] * MAX_CONNECTIONS
    finally:
        go_on.set()
        built.close()


class OneAtATime:
    """Answers when it may, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()

    def __call__(self, target: str, headers: Message) -> Reply:
        self.asked.append(target)
        assert self.go_on.wait(PATIENCE_S)
        return Reply(status=200, body=target.encode())


def get(target: str) -> bytes:
    return GET.replace(b"/metrics", target.encode())


def reset(client: socket.socket) -> None:
    """End the connection as a client that is killed, or that wants no answer, does."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def occupied(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Served, OneAtATime, Callable[[str], socket.socket]]]:
    """Serve, with the reply to /first being computed; also yield how to ask for something else."""
    answer = OneAtATime()
    options, theirs = {}, None
    if request.param:
        options["tls"], theirs = contexts(tmp_path)
    built = Served(answer, **options)

    def ask(target: str) -> socket.socket:
        client = built.connect()
        if theirs is not None:
            client = theirs.wrap_socket(client)
            built.clients.append(client)
        client.sendall(get(target))
        return client

    try:
        first = ask("/first")
        assert eventually(lambda: answer.asked == ["/first"])
        yield built, answer, ask
        answer.go_on.set()
        assert received(first).endswith(b"/first")
        assert eventually(lambda: not built.server._connections)
    finally:
        answer.go_on.set()
        built.close()


def contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the server's and the clients'."""
    line = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=here -keyout own.key -out own.pem"
    subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(folder / "own.pem", folder / "own.key")
    theirs = ssl.create_default_context(cafile=str(folder / "own.pem"))
    theirs.check_hostname = False
    return ours, theirs


def queued(built: Served, n: int) -> bool:
    """Return whether so many requests are read and not yet answered."""
    return [each.waits_for for each in list(built.server._connections)] == [""] * n


Occupied = tuple[Served, OneAtATime, Callable[[str], socket.socket]]


def test_for_clients_that_have_gone_nothing_is_computed(occupied: Occupied) -> None:
    """Those that reset their connections while they wait keep no place, and honest ones away."""
    built, answer, ask = occupied
    gone = [ask("/gone") for _ in range(MAX_CONNECTIONS - 1)]
    assert eventually(lambda: queued(built, MAX_CONNECTIONS))
    for client in gone:
        reset(client)
    honest = ask("/honest")
    assert eventually(lambda: queued(built, 2))
    answer.go_on.set()
    assert received(honest).endswith(b"/honest")
    assert answer.asked == ["/first", "/honest"]
    assert built.rejected == {}


def test_a_client_that_only_has_nothing_more_to_say_is_answered(occupied: Occupied) -> None:
    """A half-close after the request is no farewell."""
    built, answer, ask = occupied
    client = ask("/half")
    socket.socket.shutdown(client, socket.SHUT_WR)
    assert eventually(lambda: queued(built, 2))
    answer.go_on.set()
    assert received(client).endswith(b"/half")


def test_what_is_asked_alike_is_computed_once(occupied: Occupied) -> None:
    """Requests that wait together share a reply that is younger than all of them."""
    built, answer, ask = occupied
    alike = [ask("/first") for _ in range(5)]
    other = ask("/other")
    assert eventually(lambda: queued(built, 7))
    answer.go_on.set()
    assert all(received(client).endswith(b"/first") for client in alike)
    assert received(other).endswith(b"/other")
    assert sorted(answer.asked) == ["/first", "/first", "/other"]
    assert received(ask("/first")).endswith(b"/first")
    assert answer.asked.count("/first") == 3


def test_clients_that_went_before_they_were_accepted_take_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They get no thread, and no reply is computed for them."""
    asked: list[str] = []

    def answer(target: str, headers: Message) -> Reply:
        asked.append(target)
        return hello(target, headers)

    server = BoundedServer("127.0.0.1", 0, answer, count=lambda _: None)
    for _ in range(50):
        client = socket.create_connection(server.server_address[:2], PATIENCE_S)
        client.sendall(get("/gone"))
        reset(client)
    find_room, found = server._find_room, Counter[str]()

    def counted() -> bool:
        found["room"] += 1
        return find_room()

    monkeypatch.setattr(server, "_find_room", counted)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    with socket.create_connection(server.server_address[:2], PATIENCE_S) as honest:
        honest.sendall(get("/honest"))
        thread.start()
        assert received(honest).endswith(b"hello")
    server.shutdown()
    server.server_close()
    assert asked == ["/honest"]
    assert found == {"room": 1}


def test_a_reply_is_cut_short_only_where_no_other_connection_can_be() -> None:
    """Those whose request has not come make room first, however old the others are."""
    body = bytes(20_000_000)
    built = Served(lambda *_: Reply(status=200, body=body))
    try:
        reading = built.connect(GET)
        assert eventually(lambda: [c.waits_for for c in built.server._connections] == ["reader"])
        silent = [built.connect(b"GET /met") for _ in range(MAX_CONNECTIONS - 1)]
        assert eventually(lambda: len(built.server._connections) == MAX_CONNECTIONS)
        assert received(built.connect(GET)).endswith(body)
        assert received(silent[0]) == b""
        assert received(reading).endswith(body)
    finally:
        built.close()


def test_the_time_limit_is_for_the_whole_request() -> None:
    """A client that sends a byte now and then does not begin it anew with each."""
    clock = ManualClock()
    built = Served(hello, clock=clock)
    try:
        client = built.connect(b"G")
        for byte in (b"E", b"T", b" "):
            assert eventually(lambda: all(c.waits_for for c in list(built.server._connections)))
            clock.advance(servers.REQUEST_TIMEOUT_S / 2)
            client.sendall(byte)
            time.sleep(0.05)  # to be read on its own
        assert received(client) == b""
        assert eventually(lambda: built.rejected == {"too_slow": 1})
    finally:
        built.close()


def test_a_client_that_does_not_read_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending ends at the same deadline as reading."""
    monkeypatch.setattr(servers, "REQUEST_TIMEOUT_S", 0.3)
    built = Served(lambda *_: Reply(status=200, body=bytes(50_000_000)))
    try:
        built.connect(GET)
        assert eventually(lambda: built.rejected == {"too_slow": 1})
        assert eventually(lambda: threads() == 0)
    finally:
        built.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 2 * MAX_HEAD_BYTES + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n",
    ],
    ids=["request line", "header", "many headers"],
)
def test_a_large_head_is_refused(served: Served, head: bytes) -> None:
    """No more of it than the bound is held, and the client is told."""
    reply = received(served.connect(head))
    assert reply.split(b" ", 2)[1] in (b"431", b"400")
    assert sum(served.rejected.values()) == 1


@pytest.mark.parametrize(
    "request_line",
    [
        b"nonsense",
        b"GET / HTTP/one",
        b"GET / HTTP/3.0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /metrics HTTP/1.1",
    ],
)
def test_what_is_no_request_is_told_so_and_counted(
    served: Served, request_line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no error of ours, and no line in the host's log."""
    before = Counter(guard.errors)
    reply = received(served.connect(request_line + b"\r\n\r\n"))
    assert b"Error code: " in reply
    assert served.rejected == {"malformed": 1}
    assert guard.errors == before
    assert caplog.records == []


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    registry = CollectorRegistry(auto_describe=True)
    Gauge("temperature", "of something", registry=registry).set(1)
    built = Endpoint(
        registry,
        service="t",
        host="127.0.0.1",
        port=0,
        shared=False,
        rejected=lambda _: None,
        state=dict,
    )
    built.open()
    yield built
    built.close()


def ask(endpoint: Endpoint, request: bytes) -> bytes:
    assert endpoint.url is not None
    port = int(endpoint.url.rsplit(":", 1)[1].removesuffix("/metrics"))
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        return received(client)


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
        (
            b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=x\r\n\r\n",
            b"200",
        ),
        (b"GET / HTTP/1.1\r\nAccept: " + FOLDED + b"\r\n\r\n", b"200"),
        (b"GET /metrics?name[]=\xff%00 HTTP/1.1\r\nHost: \xff\x00\r\n\r\n", b"200"),
    ],
)
def test_what_cannot_be_read_is_no_error_of_ours(
    endpoint: Endpoint, request_head: bytes, status: bytes
) -> None:
    """A malformed target is answered 400; a header that cannot be heeded is not heeded."""
    before = Counter(guard.errors)
    reply = ask(endpoint, request_head)
    assert reply.split(b" ", 2)[1] == status
    assert b"Set-Cookie" not in reply
    assert guard.errors == before


ACCEPTED = st.text(st.sampled_from("application/openmetrics-text,;=version10.escaping \tqé"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    target=st.text(st.characters(codec="latin-1", exclude_characters=" \r\n"), max_size=40),
    accept=ACCEPTED | st.text(st.characters(codec="latin-1", exclude_characters="\r\n")),
    encoding=st.sampled_from(["gzip", "gzip;q=0", "", "x,gzip"]),
    raw=st.none() | st.binary(max_size=200),
)
def test_no_request_is_an_error_of_ours(
    endpoint: Endpoint, target: str, accept: str, encoding: str, raw: bytes | None
) -> None:
    """Whatever bytes come, there is a reply, and the monitoring has no error."""
    before = Counter(guard.errors)
    head = f"GET /{target} HTTP/1.1\r\nAccept: {accept}\r\nAccept-Encoding: {encoding}\r\n\r\n"
    reply = ask(endpoint, head.encode("latin-1") if raw is None else raw)
    if raw is None:
        assert reply.startswith(b"HTTP/1.0 ")
    assert b" 500 " not in reply.partition(b"\r\n")[0]
    assert guard.errors == before


def test_without_descriptors_it_waits_instead_of_spinning(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the host has no descriptor left, the thread that accepts is no busy loop."""
    naps: list[float] = []
    accept = socket.socket.accept
    failures = iter([OSError(errno.EMFILE, os.strerror(errno.EMFILE))] * 3)

    def scarce(self: socket.socket) -> object:
        for failure in failures:
            raise failure
        return accept(self)

    monkeypatch.setattr(servers.time, "sleep", naps.append)
    monkeypatch.setattr(socket.socket, "accept", scarce)
    assert received(served.connect(GET)).endswith(b"hello")
    assert naps == [servers._ACCEPT_AGAIN_S] * 3


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
    assert served.rejected == {"too_many": 1}
    assert caplog.records == []
    assert received(served.connect(GET)).endswith(b"hello")


def test_an_error_of_ours_is_told_the_client_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The reply is 500, not a closed connection, and the next request is answered."""
    built = Served(lambda *_: Reply(status=1 // 0))
    before = guard.errors["metrics"]
    try:
        assert b" 500 " in received(built.connect(GET))
        assert guard.errors["metrics"] == before + 1
        assert "the application is not affected" in caplog.text
        assert b" 500 " in received(built.connect(GET))
    finally:
        built.close()


def test_a_forked_child_holds_none_of_the_parents_connections() -> None:
    """Neither the socket that listens nor those of clients stay open in it."""
    built = Served(hello)
    try:
        client = built.connect(b"GET /")
        assert eventually(lambda: len(built.server._connections) == 1)
        (connection,) = built.server._connections
        descriptors = (built.server.socket.fileno(), connection.sock.fileno())
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


def test_a_fork_waits_for_the_reply_in_hand() -> None:
    """A child never inherits a lock of the library that a thread of ours holds."""
    lock, begun, go_on = threading.Lock(), threading.Event(), threading.Event()

    def locked(target: str, headers: Message) -> Reply:
        with lock:
            begun.set()
            assert go_on.wait(PATIENCE_S)
        return hello(target, headers)

    built = Served(locked)
    try:
        client = built.connect(GET)
        assert begun.wait(PATIENCE_S)
        threading.Timer(0.1, go_on.set).start()
        child = os.fork()
        if child == 0:
            os._exit(int(lock.locked()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert received(client).endswith(b"hello")
        assert received(built.connect(GET)).endswith(b"hello")
    finally:
        built.close()


def test_a_server_whose_thread_died_is_opened_again() -> None:
    """`open` is called at each tick; it sees that nobody serves."""
    registry = CollectorRegistry()
    built = Endpoint(
        registry,
        service="t",
        host="127.0.0.1",
        port=0,
        shared=False,
        rejected=lambda _: None,
        state=dict,
    )
    assert built.open()
    first = built._server
    assert first is not None
    first.shutdown()  # as if it had died
    assert built._thread is not None
    built._thread.join(PATIENCE_S)
    assert built.open()
    try:
        assert built._server is not first
        assert b" 200 " in ask(built, GET)
    finally:
        built.close()
