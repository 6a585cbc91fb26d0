"""The back half in a helper process: it does what a thread does, and ends with its application."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from prometheus_client import generate_latest

from ragmonitor import (
    Monitor,
    Report,
    Scored,
)
from ragmonitor.back_half.helper_process import HELPER
from ragmonitor.records import AlarmEvent
from ragmonitor.testing import ListExporter
from ragmonitor_langchain import RagMonitorHandler
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the helper needs POSIX")

QUIET: dict[str, Any] = {"service": "test", "server": False}


def answer(monitor: Monitor, text: str = "A parcel may weigh 50 kg.") -> None:
    with monitor.interaction(query="How heavy may a parcel be?", attributes={"route": "a"}) as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered(text)


def sums(monitor: Monitor) -> tuple[float, Counter[str]]:
    """Return how many interactions were captured, and evaluations of faithfulness by outcome."""
    captured, outcomes = 0.0, Counter[str]()
    for family in monitor.registry.collect():
        for sample in family.samples:
            if sample.name == "ragmonitor_interactions_total":
                captured += sample.value
            elif (
                sample.name == "ragmonitor_evaluations_total"
                and sample.labels["evaluator"] == "faithfulness"
                and sample.labels["judge"] == "builtin"
            ):
                outcomes[sample.labels["outcome"]] += int(sample.value)
    return captured, outcomes


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, and it is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and ") Z " in stat.read_text())


class Listener(ListExporter):
    """Holds a lock, which no other process can be given."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.pids: set[int] = set()
        self.events: list[AlarmEvent] = []

    def export(self, report: Report) -> None:
        with self.lock:
            self.pids.add(os.getpid())
            super().export(report)

    def alarm(self, event: AlarmEvent) -> None:
        self.events.append(event)


def scores(reports: list[Report]) -> list[tuple[str, str, float]]:
    return [
        (each.interaction.answer, e.evaluator, e.score)
        for each in reports
        for e in each.evaluations
        if isinstance(e, Scored)
    ]


class Shelf(BaseRetriever):
    found: dict[Any, Any] = {"source": object()}  # noqa: RUF012 - pydantic copies it

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content="A parcel may weigh 40 kg.", metadata=self.found)]


def asked_by_langchain(monitor: Monitor, **shelf: Any) -> None:
    chain = (
        {"context": Shelf(**shelf), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context} {question}")
        | FakeListChatModel(responses=["It may weigh 40 kg.", "It may weigh 90 kg."])
    )
    handler = RagMonitorHandler(monitor)
    chain.invoke("How heavy may a parcel be?", config={"callbacks": [handler]})
    for _ in chain.stream("How heavy may a parcel be?", config={"callbacks": [handler]}):
        pass


def test_scores_do_not_depend_on_where_answers_are_scored():
    """A thread and a helper process give the same reports, for a framework and for plain code."""
    found = {}
    for worker in ("thread", "process"):
        reports = Listener()
        with Monitor(**QUIET, worker=worker, exporters=[reports]) as monitor:
            answer(monitor)
            asked_by_langchain(monitor)
            assert monitor.flush(60)
            newest = monitor.last()
            assert newest is not None
            assert newest.interaction.answer == "It may weigh 90 kg."
            found[worker] = scores(reports.reports), sums(monitor)
        assert reports.pids == {os.getpid()}  # an object stays where it was made
    assert found["process"] == found["thread"]
    assert found["process"][1] == (3.0, Counter(scored=3))


def test_a_helper_that_dies_loses_no_count():
    """Captured is scored plus unscored, and another helper goes on."""
    reports = Listener()
    with Monitor(**QUIET, worker="process", exporters=[reports]) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        first = HELPER.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # so that it has them in hand when it dies
        for _ in range(20):
            answer(monitor)
        helper = monitor._back._helper
        until("it is so", lambda: len(helper.open) == 20)
        os.kill(first, signal.SIGKILL)
        until("it is so", lambda: HELPER.pid not in {None, first})
        for _ in range(5):
            answer(monitor)
        assert monitor.flush(60)
        captured, outcomes = sums(monitor)
        assert (captured, outcomes) == (25.0, Counter(scored=5, internal_error=20))
        assert "ragmonitor_worker_restarts_total" in generate_latest(monitor.registry).decode()


def test_what_comes_after_the_end_is_counted():
    """As on a thread: captured, unscored, cause shutdown; what was counted before stays."""
    monitor = Monitor(**QUIET, worker="process")
    answer(monitor)
    assert monitor.close(60)
    newest = monitor.last()
    assert newest is not None
    for n in range(1, 4):
        answer(monitor)
        assert sums(monitor) == (1.0 + n, Counter(scored=1, shutdown=n))
    text = generate_latest(monitor.registry).decode()
    assert 'ragmonitor_dropped_total{reason="shutdown",service="test"} 3.0' in text

    unused = Monitor(**QUIET, worker="process")
    assert unused.close(60)
    answer(unused)
    assert sums(unused) == (1.0, Counter(shutdown=1))


@pytest.mark.slow
def test_a_full_queue_is_counted_and_the_application_does_not_wait():
    """A helper that stands still costs the application no time, and what is dropped is counted."""
    with Monitor(**QUIET, worker="process", capture={"queue_size": 10}) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        pid = HELPER.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        for _ in range(200):
            answer(monitor)
        assert not monitor.flush(0.2)
        os.kill(pid, signal.SIGCONT)
        assert monitor.flush(60)
        captured, outcomes = sums(monitor)
    assert captured == 201
    assert outcomes["queue_full"] > 100
    assert outcomes.total() == 201


SCRIPT = """
import os, signal, sys, time
from ragmonitor import Monitor
from ragmonitor.back_half.helper_process import HELPER
monitor = Monitor("test", server=False, worker="process")
with monitor.interaction(query="How heavy may a parcel be?") as i:
    i.retrieved(["A parcel may weigh 40 kg."])
    i.answered("A parcel may weigh 40 kg.")
assert monitor.flush(60)
print(HELPER.pid, flush=True)
{end}
"""
ENDS = {
    "exit": "",
    "sys.exit": "sys.exit(3)",
    "_exit": "os._exit(0)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)",
    "SIGTERM to the group": "os.killpg(0, signal.SIGTERM)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "crash": "os.abort()",
    "error": "raise ValueError",
}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_the_helper_ends_with_its_application(end):
    """However the application ends, its helper does not outlive it by more than seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(end=ENDS[end])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        pid = int(output.readline())
        process.wait(60)
    until("it is so", lambda: not is_alive(pid))


@pytest.mark.slow
def test_a_forked_child_has_a_helper_of_its_own():
    """Parent and child are counted apart, and the child's end does not end the parent's helper."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        pid = HELPER.pid
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                answer(monitor)
                answer(monitor)
                flushed = monitor.flush(60)
                told = {"flushed": flushed, "captured": sums(monitor)[0], "pid": HELPER.pid}
                os.write(write, json.dumps(told).encode())
                monitor.close()
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = json.loads(pipe.read())
        os.waitpid(child, 0)
        assert told["flushed"]
        assert told["captured"] == 2
        assert told["pid"] != pid
        until("it is so", lambda: not is_alive(told["pid"]))
        answer(monitor)
        assert monitor.flush(60)
        assert (sums(monitor)[0], HELPER.pid) == (2.0, pid)


@pytest.mark.slow
@pytest.mark.usefixtures("no_helper_starts")
def test_where_no_helper_starts_a_thread_works(caplog):
    """A helper that cannot start loses nothing: the application's own thread does the work."""
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor(**QUIET, worker="process") as monitor,
    ):
        answer(monitor)
        until("it is so", lambda: monitor._back._local is not None)
        assert monitor.flush(60)
        assert sums(monitor) == (1.0, Counter(scored=1))
    assert "the helper process did not start" in caplog.text
