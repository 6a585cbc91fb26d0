"""Batches behind the caller's back: bounded, in order, retried, and never silently lost."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from ragmonitor.export import batcher
from ragmonitor.export.posting import PostingExporter
from ragmonitor.runtime.protocols import ExportContext
from tests.support.scoring_server import Fault, Received, ScoringServer
from tests.support.waiting import until

PATH = "/records"


class Takes(ScoringServer):
    """Takes every list of numbers."""

    def reply(self, request: Received) -> tuple[int, object]:
        return 200, {}

    def numbers(self) -> list[list[int]]:
        """Return what each request brought."""
        return [json.loads(request.body)["records"] for request in self.requests]


class Numbers(PostingExporter):
    """Posts numbers."""

    name, path, check_path, key_setting = "Takes", PATH, "/check", "takes_key"
    envelope = (b'{"records":[', b"]}")

    def put(self, number: int) -> None:
        """Take a number."""
        self._batches.put(str(number).encode(), len(str(number)))


class Posting:
    """An exporter of numbers, and what it counted as lost."""

    def __init__(self, url: str) -> None:
        self.lost: Counter[str] = Counter()
        self.poster = Numbers(url)
        self.poster.configure(ExportContext(lost=self._count))

    def _count(self, reason: str, n: int) -> None:
        self.lost[reason] += n

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self.poster.put(number)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "LINGER_S", 0.01)


@pytest.fixture
def server() -> Iterator[Takes]:
    with Takes() as running:
        yield running


@pytest.fixture
def posting(server: Takes) -> Iterator[Posting]:
    made = Posting(server.url)
    yield made
    made.poster.close()


def test_a_batch_is_bounded_in_records_and_bytes(
    server: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers refuse bodies that are too long."""
    monkeypatch.setattr(batcher, "BATCH_ITEMS", 4)
    monkeypatch.setattr(batcher, "BATCH_BYTES", 7)
    posting = Posting(server.url)
    posting.put(*range(6), *range(100, 103))
    assert posting.poster.flush(10)
    batches = server.numbers()
    assert [number for batch in batches for number in batch] == [*range(6), *range(100, 103)]
    assert all(len(batch) <= 4 for batch in batches)
    assert all(sum(len(str(number)) for number in batch) <= 7 for batch in batches)
    posting.poster.close()


def test_a_fault_of_the_server_is_tried_again(server: Takes, posting: Posting) -> None:
    """500, then 503, then taken: nothing is lost."""
    server.fail(Fault(500), Fault(503))
    posting.put(1, 2)
    assert posting.poster.flush(10)
    assert server.numbers() == [[1, 2]] * 3
    assert not posting.lost


@pytest.mark.parametrize("header", ["1", "date"])
def test_a_server_is_asked_again_when_it_says(server: Takes, posting: Posting, header: str) -> None:
    """Retry-After in seconds or as a date: not a moment earlier."""
    if header == "date":
        header = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 2))
    server.fail(Fault(429, {"Retry-After": header}))
    posting.put(1)
    assert posting.poster.flush(10)
    first, second = server.requests
    assert second.at_s - first.at_s >= 0.95


def test_a_server_that_hangs_holds_nobody_up(
    server: Takes, posting: Posting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are taken at once, and a flush says in time that it failed."""
    monkeypatch.setattr("ragmonitor.export.posting.REPLY_S", 0.3)
    server.always(Fault(hangs=True))
    began = time.monotonic()
    posting.put(*range(100))
    assert time.monotonic() - began < 0.2
    assert not posting.poster.flush(0.1)
    assert time.monotonic() - began < 1.0
    server.always(None)
    assert posting.poster.flush(10)
    assert server.numbers()[-1] == list(range(100))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault(401), "check takes_key"),
        (Fault(404), "as scripted"),
        (
            Fault(308, {"Location": "https://user:pw@elsewhere/x"}),
            "moved to https://***@elsewhere/x",
        ),
    ],
)
def test_a_refusal_is_not_repeated(
    server: Takes, posting: Posting, caplog: pytest.LogCaptureFixture, fault: Fault, told: str
) -> None:
    """What will never be taken is counted at once, and the log says what to do."""
    caplog.set_level("DEBUG", "ragmonitor")
    server.always(fault)
    posting.put(1, 2, 3)
    assert not posting.poster.flush(10)
    assert posting.lost == {"takes_refused": 3}
    assert len(server.requests) == 1
    assert told in caplog.text


@pytest.mark.parametrize("limit", ["MAX_ITEMS", "MAX_BYTES"])
def test_what_finds_no_room_is_counted(
    server: Takes, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is away for long costs scores and no memory."""
    server.always(Fault(hangs=True))
    monkeypatch.setattr(batcher, limit, 5)
    posting = Posting(server.url)
    posting.put(0)
    until("the first is under way", lambda: server.requests)
    posting.put(*range(1, 9))
    assert posting.lost == {"takes_full": 3}
    server.always(None)
    server.release()
    assert posting.poster.flush(10)
    assert server.numbers()[-1] == [1, 2, 3, 4, 5]
    posting.poster.close()


def test_what_waits_at_the_end_is_counted(server: Takes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing without a flush loses records, and says how many; later ones too."""
    monkeypatch.setattr(batcher, "LINGER_S", 30.0)
    posting = Posting(server.url)
    posting.put(1, 2)
    posting.poster.close()
    posting.put(3)
    assert posting.lost == {"takes_closed": 3}
    assert server.requests == []
    assert posting.poster.flush(0.1)


def test_without_threads_a_flush_sends_itself(
    server: Takes, posting: Posting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.12 on, none can be started once the interpreter is going down."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "ragmonitor-takes":
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        posting.put(1, 2)
        assert posting.poster.flush(5)
    assert server.numbers() == [[1, 2]]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_sends_its_own_records_only(
    server: Takes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread starts anew, and what its parent has waiting arrives once."""
    monkeypatch.setattr(batcher, "LINGER_S", 30.0)
    posting = Posting(server.url)
    posting.put(1)
    child = os.fork()
    if child == 0:
        posting.put(2)
        os._exit(0 if posting.poster.flush(10) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert posting.poster.flush(10)
    assert sorted(server.numbers()) == [[1], [2]]
    posting.poster.close()
