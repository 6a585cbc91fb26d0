"""Where threads and processes hand over: what comes between two looks is neither lost nor twice.

Each test holds one side at such a place until the other has gone on.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.back_half import helper
from ragmonitor.back_half.helper_connection import HelperRequest
from ragmonitor.back_half.helper_process import HELPER, HelperProcess
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.process import ProcessBackHalf
from ragmonitor.back_half.setup import Setup, without_objects
from ragmonitor.back_half.stream_sender import StreamBackHalf
from ragmonitor.capture import Record
from ragmonitor.feedback import feedback_of
from ragmonitor.queues import MemoryQueue
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.worker import Worker
from tests.support.in_memory_stream import InMemoryStream
from tests.support.scrape import outcomes, total
from tests.support.stories import interaction
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the helper needs POSIX")

QUIET: dict[str, Any] = {"service": "test", "server": False}


def answer(monitor: Monitor) -> None:
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 50 kg.")


def sums(monitor: Monitor) -> tuple[float, Counter[str]]:
    """Return how many interactions were captured, and evaluations of faithfulness by outcome."""
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    return total(monitor.registry, "ragmonitor_interactions_total"), found


def process_of(monitor: Monitor) -> ProcessBackHalf:
    assert isinstance(monitor._back, ProcessBackHalf)
    return monitor._back


def put_after(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Have something happen between the look at the state and the next place in the queue."""
    put = MemoryQueue.put

    def late(queue: MemoryQueue, finished: Any) -> bool:
        monkeypatch.setattr(MemoryQueue, "put", put)
        meanwhile()
        return put(queue, finished)

    monkeypatch.setattr(MemoryQueue, "put", late)


def sender() -> StreamBackHalf:
    settings = Settings.load(**QUIET, stream={"url": "redis://127.0.0.1:1"})
    return StreamBackHalf(settings, redactor=Redactor(), poll=lambda: 0, open_stream=InMemoryStream)


# The end of a monitor


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_what_is_handed_over_while_the_monitor_closes_is_counted(monkeypatch, worker):
    """Who looked before the end puts it where nobody takes it any more."""
    monitor = Monitor(**QUIET, worker=worker)
    answer(monitor)
    assert monitor.flush(60)
    put_after(monkeypatch, lambda: monitor.close(60))
    answer(monitor)
    assert sums(monitor) == (2.0, Counter(scored=1, shutdown=1))


def test_what_is_put_on_a_stream_while_the_monitor_closes_is_counted(monkeypatch):
    back = sender()
    put_after(monkeypatch, lambda: back.close(60))
    back.put(Record(interaction()))
    assert outcomes(back.registry, evaluator="faithfulness") == {"shutdown": 1}


def test_feedback_that_comes_while_the_monitor_closes_is_counted():
    back = sender()

    class Late(deque[Any]):
        def append(self, told: Any) -> None:
            back._feedback = deque()
            assert back.close(60)
            back._feedback.append(told)

    back._feedback = Late()
    back.feedback(feedback_of("a" * 32, True, kind="thumbs", at_s=1.0))
    assert total(back.registry, "ragmonitor_dropped_total", reason="feedback_lost") == 1


@pytest.mark.slow
def test_a_helper_that_is_connected_after_the_end_is_let_go(monkeypatch):
    """Who closes has not seen it; kept, it would keep the helper process for good."""
    with Monitor(**QUIET, worker="process") as first:
        answer(first)
        assert first.flush(60)
        begun, ended, connect = threading.Event(), threading.Event(), HELPER.connect

        def late() -> Any:
            begun.set()
            assert ended.wait(60)
            return connect()

        monkeypatch.setattr(HELPER, "connect", late)
        second = Monitor(**QUIET, worker="process")
        answer(second)
        assert begun.wait(60)
        thread = process_of(second)._thread
        assert not second.close(0.1)
        ended.set()
        assert thread.join(60)
        assert HELPER._users == 1
    assert HELPER.pid is None
    assert sums(second) == (1.0, Counter(shutdown=1))


@pytest.mark.slow
def test_what_a_helper_had_in_hand_that_dies_at_the_end_is_counted_once(monkeypatch):
    """By who closes, or by who notices the death."""
    alone = HelperProcess()  # other monitors may have one
    monkeypatch.setattr("ragmonitor.back_half.process.HELPER", alone)
    monitor = Monitor(**QUIET, worker="process")
    answer(monitor)
    assert monitor.flush(60)
    back = process_of(monitor)
    begun, closed, bury = threading.Event(), threading.Event(), back._bury

    def late(dead: Any) -> None:
        begun.set()
        assert closed.wait(60)
        bury(dead)

    monkeypatch.setattr(back, "_bury", late)
    assert alone.pid is not None
    os.kill(alone.pid, signal.SIGSTOP)  # so that it has them in hand when it dies
    for _ in range(3):
        answer(monitor)
    until("it has them", lambda: back._helper is not None and len(back._helper.open) == 3)
    os.kill(alone.pid, signal.SIGKILL)
    assert begun.wait(60)
    assert not monitor.close(0.1)
    closed.set()
    assert back._thread.join(60)
    assert sums(monitor) == (3.0, Counter(shutdown=3))


@pytest.mark.slow
def test_what_waits_for_a_helper_that_starts_late_at_the_end_is_scored(monkeypatch):
    """Its share of the time for closing begins when it is there: a script ends in a second."""
    brought_up, request = ProcessBackHalf._brought_up, Link.request

    def late(back: ProcessBackHalf) -> Any:
        found = brought_up(back)
        until("it is to end", lambda: back._end_by < math.inf)
        back._end_by = 0.0  # it took longer than the time for sending
        return found

    def answered(link: Link, name: str, *args: object) -> Any:
        asked = request(link, name, *args)
        if name == "close":
            asked.exception(60)  # what is sent later is too late
        return asked

    monkeypatch.setattr(ProcessBackHalf, "_brought_up", late)
    monkeypatch.setattr(Link, "request", answered)
    monitor = Monitor(**QUIET, worker="process")
    for _ in range(50):
        answer(monitor)
    assert monitor.close(60)
    assert sums(monitor) == (50.0, Counter(scored=50))


# The death of a helper


@pytest.mark.slow
def test_an_answer_that_was_taken_and_not_sent_is_counted(monkeypatch):
    """The helper dies when it is told of a tracer provider, just before the record."""

    def dies(_: ProcessBackHalf, dead: Any) -> None:
        monkeypatch.undo()
        os.kill(dead.pid, signal.SIGKILL)
        raise LinkError("the other process is gone")

    with Monitor(**QUIET, worker="process") as monitor:
        monkeypatch.setattr(ProcessBackHalf, "_tell_provider", dies)
        answer(monitor)
        until("it is dead", lambda: process_of(monitor)._deaths)
        assert monitor.flush(60)
        assert sums(monitor) == (1.0, Counter(internal_error=1))


@pytest.mark.slow
def test_notes_that_a_helper_did_not_get_are_told_to_the_next(monkeypatch):
    send = Link.send

    def dies(link: Link, name: str, *args: object) -> None:
        if name == "note":
            monkeypatch.undo()
            assert HELPER.pid is not None
            os.kill(HELPER.pid, signal.SIGKILL)
            raise LinkError("the other process is gone")
        send(link, name, *args)

    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        back = process_of(monitor)
        monkeypatch.setattr(Link, "send", dies)
        back.give_up("abandoned")
        back.note_check("answer", "passed")
        until("it is dead", lambda: back._deaths)
        assert monitor.flush(60)
        assert total(monitor.registry, "ragmonitor_dropped_total", reason="abandoned") == 1


# The move to a thread of the application, where no helper starts


@pytest.mark.usefixtures("no_helper_starts")
def test_what_is_handed_over_while_the_work_moves_to_a_thread_is_scored(monkeypatch, caplog):
    """Answers, notes and requests of those who looked before it moved."""
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor(**QUIET, worker="process") as monitor,
    ):
        back = process_of(monitor)

        def move() -> None:
            back._start()
            assert back._thread.join(60)
            assert back._local is not None

        put_after(monkeypatch, move)
        answer(monitor)
        back._notes.give_up("abandoned")
        request = HelperRequest("flush", (60.0,), deadline=math.inf)
        back._put_out(request)
        assert isinstance(request.future.exception(0), LinkError)
        assert monitor.flush(60)
        assert sums(monitor) == (1.0, Counter(scored=1))
        assert total(monitor.registry, "ragmonitor_dropped_total", reason="abandoned") == 1


# Connections


def test_the_descriptor_of_a_closed_connection_stays_until_nobody_reads_from_it():
    """Whatever is opened next has its number: its bytes would be read, or ours written to it."""
    begun, ended = threading.Event(), threading.Event()

    def handle() -> None:
        begun.set()
        ended.wait(60)

    ours, theirs = multiprocessing.Pipe()
    link = Link(ours, {"told": handle})
    reader = threading.Thread(target=link.serve)
    reader.start()
    theirs.send_bytes(pickle.dumps(("message", 0, "told", ())))
    assert begun.wait(60)
    link.close()
    assert not ours.closed
    with pytest.raises(EOFError):  # the other side sees it at once
        theirs.recv_bytes()
    ended.set()
    reader.join(60)
    assert ours.closed
    theirs.close()


def test_a_connection_that_is_closed_before_it_is_read_is_not_read():
    ours, theirs = multiprocessing.Pipe()
    link = Link(ours, {})
    link.close()
    assert ours.closed
    link.serve()
    with pytest.raises(LinkError):
        link.request("anything")
    theirs.close()


@pytest.mark.parametrize(("method", "taken"), [("_tell_progress", 1), ("_tell_state", 0)])
def test_a_reply_does_not_overtake_what_another_thread_is_telling(monkeypatch, method, taken):
    """After a flush the application knows the state of then, and what is still open."""
    ours, theirs = multiprocessing.Pipe()
    setup = Setup(
        settings=without_objects(Settings.load(**QUIET)),
        exporters=(),
        host=os.getpid(),
        number=0,
        restarts=0,
        errors={},
        litellm={},
    )
    telling = helper.ServedMonitor(theirs, setup)
    telling.taken = taken
    begun, go, sent = threading.Event(), threading.Event(), list[str]()

    def send(name: str, *_: object) -> None:
        begun.set()
        assert go.wait(60)
        sent.append(name)

    monkeypatch.setattr(telling.link, "send", send)
    tell = getattr(telling, method)

    def reply() -> None:
        tell()
        sent.append("reply")

    threads = [threading.Thread(target=each) for each in (tell, reply)]
    threads[0].start()
    assert begun.wait(60)
    threads[1].start()
    threads[1].join(0.1)  # which waits; or is through, and has overtaken it
    go.set()
    for each in threads:
        each.join(60)
    assert sent[-1] == "reply"
    telling._back.close(60)
    ours.close()
    telling.link.close()


def test_a_flush_asks_the_loop_that_it_saw(monkeypatch):
    """An error ends the loop, and there is none until the next, between two looks."""
    with Monitor(**QUIET, worker="thread") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        worker: Worker = monitor._back.worker
        loop = worker._loop
        looks = iter([loop])
        monkeypatch.setattr(Worker, "_loop", property(lambda _: next(looks, None)), raising=False)
        assert worker.flush(60)
        monkeypatch.undo()
