"""The back half in a helper process: it does what a thread does, and ends with its application."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from llama_index.core.instrumentation.dispatcher import instrument_tags
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest, make_asgi_app
from prometheus_client.multiprocess import MultiProcessCollector

from integrations.llama_index.tests.scripted import query_engine
from ragmonitor import (
    Budget,
    CaptureSettings,
    ExportSettings,
    Monitor,
    Report,
    Scored,
    supervised,
    wire,
)
from ragmonitor.back_half import helper_process
from ragmonitor.back_half.helper_connection import HelperConnection
from ragmonitor.back_half.helper_process import HELPER, HelperProcess
from ragmonitor.back_half.link import Link
from ragmonitor.back_half.process import ProcessBackHalf
from ragmonitor.back_half.setup import reason_to_stay
from ragmonitor.capture import Record
from ragmonitor.capture.probe_mark import marked
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import AlarmEvent, Cause, Chunk, Generation, Interaction, Message
from ragmonitor.settings import Settings
from ragmonitor.testing import ListExporter
from ragmonitor_langchain import RagMonitorHandler
from ragmonitor_llama_index import observed
from tests.support.helper_pids import helper_pid
from tests.support.prometheus_server import free_port
from tests.support.scrape import outcomes, total
from tests.support.scripts import run_python
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the helper needs POSIX")

RECORDED = Interaction(
    id="1",
    query="?",
    chunks=(Chunk(text="A parcel may weigh 40 kg."),),
    answer="A parcel may weigh 40 kg.",
    framework="python",
    started_ns=0,
    ended_ns=0,
)
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


def test_metadata_whose_keys_are_no_texts_loses_no_answer():
    """Rows of a table whose columns have numbers: they come over the link as texts."""
    reports = Listener()
    with Monitor(**QUIET, worker="process", exporters=[reports]) as monitor:
        asked_by_langchain(monitor, found={0: "a", (1, 2): "b", "score": 0.5})
        assert monitor.flush(60)
        assert sums(monitor) == (2.0, Counter(scored=2))
    assert {tuple(r.interaction.chunks[0].metadata) for r in reports.reports} == {
        ("0", "<tuple>", "score")
    }


def test_labels_that_are_no_texts_lose_no_answer():
    """A session that is a number, as LlamaIndex hands it on."""
    reports = Listener()
    engine = query_engine()
    with Monitor(**QUIET, worker="process", exporters=[reports]) as monitor:
        tags = {"session_id": 42, "tenant": 5, "tags": ["beta", 3]}
        with observed(monitor), instrument_tags(tags):
            engine.query("What is the limit?")
        assert monitor.flush(60)
        assert sums(monitor) == (1.0, Counter(scored=1))
    (interaction,) = (each.interaction for each in reports.reports)
    assert (interaction.session_id, interaction.tags) == ("42", ("beta", "3"))
    assert interaction.attributes == {"tenant": "5"}


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


@pytest.mark.slow
def test_the_endpoint_and_the_registry_are_the_helpers():
    """/metrics and the page are served by the helper; the application can mount its series."""
    port = free_port()
    settings = {"server": {"port": port, "ui": True}}
    with Monitor("test", worker="process", **settings) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        until("it is so", lambda: monitor.ui_url is not None)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
            served = reply.read().decode()
        with urllib.request.urlopen(str(monitor.ui_url)) as reply:
            assert b"<html" in reply.read()
        mounted = generate_latest(monitor.registry).decode()
    line = 'ragmonitor_interactions_total{framework="python",service="test",status="ok"} 1.0'
    assert line in served
    assert line in mounted
    assert line in generate_latest(monitor.registry).decode()  # as of the end


COUNTED = 'ragmonitor_interactions_total{framework="python",service="test",status="ok"}'


async def scraped(monitor: Monitor) -> str:
    """Return what an application serves that mounts the monitor's registry."""
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    request = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    await make_asgi_app(registry=monitor.registry)(request, receive, send)
    return b"".join(each.get("body", b"") for each in sent).decode()


def test_a_scrape_on_the_applications_loop_does_not_wait_for_the_helper(monkeypatch):
    """One that stands still holds up nobody: the numbers are its last ones, for a while."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        assert f"{COUNTED} 1.0" in generate_latest(monitor.registry).decode()
        assert HELPER.pid is not None
        os.kill(HELPER.pid, signal.SIGSTOP)
        try:
            assert f"{COUNTED} 1.0" in asyncio.run(scraped(monitor))
            monkeypatch.setattr("ragmonitor.back_half.process.FAMILIES_S", 0.0)
            assert COUNTED not in asyncio.run(scraped(monitor))
        finally:
            os.kill(HELPER.pid, signal.SIGCONT)


def test_a_scrape_on_the_applications_loop_has_the_numbers_fetched_for_the_next():
    """None at first, and then those of the helper."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        assert COUNTED not in asyncio.run(scraped(monitor))
        until("they are there", lambda: f"{COUNTED} 1.0" in asyncio.run(scraped(monitor)))


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


def test_a_golden_question_that_a_helper_had_in_hand_is_no_traffic():
    """It is in no sum, though the helper died with it."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        first = HELPER.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        with marked("golden"):
            answer(monitor)
        answer(monitor)
        helper = monitor._back._helper
        until("it has them", lambda: helper.sent == 3)
        os.kill(first, signal.SIGKILL)
        until("there is another one", lambda: HELPER.pid not in {None, first})
        answer(monitor)
        assert monitor.flush(60)
        assert sums(monitor) == (2.0, Counter(scored=1, internal_error=1))


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


def test_what_is_refused_before_the_first_helper_is_counted_once():
    """A scrape counts it in the application, and those of the helper come on top."""
    with contextlib.closing(Monitor(**QUIET, worker="process")) as monitor:
        monitor._back.refuse(Record(RECORDED), Cause.QUEUE_FULL)
        assert sums(monitor) == (1.0, Counter(queue_full=1))
        assert HELPER.pid is None
        answer(monitor)
        assert monitor.flush(60)
        assert sums(monitor) == (2.0, Counter(queue_full=1, scored=1))
    assert sums(monitor) == (2.0, Counter(queue_full=1, scored=1))


@pytest.mark.slow
def test_what_a_helper_has_in_hand_that_does_not_close_is_counted():
    """It is ended with its numbers, and what it had in hand is unscored, cause shutdown."""
    monitor = Monitor(**QUIET, worker="process", capture={"queue_size": 5})
    answer(monitor)
    assert monitor.flush(60)
    assert HELPER.pid is not None
    os.kill(HELPER.pid, signal.SIGSTOP)
    for _ in range(5):
        answer(monitor)
    back = monitor._back
    until("it has them", lambda: len(back._helper.open) == 5)
    for _ in range(3):
        answer(monitor)
    assert not monitor.close(0.5)
    assert sums(monitor) == (8.0, Counter(shutdown=8))


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


@pytest.mark.slow
def test_the_applications_own_provider_gets_the_spans():
    """A tracer provider of the application has the spans under its own, with the scores."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    before = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = provider
    try:
        with Monitor(**QUIET, worker="process") as monitor:
            with provider.get_tracer("app").start_as_current_span("request") as request:
                answer(monitor)
            assert monitor.flush(60)
    finally:
        trace._TRACER_PROVIDER = before
    ours = [each for each in spans.get_finished_spans() if each.name != "request"]
    assert ours
    assert {each.context.trace_id for each in ours} == {request.get_span_context().trace_id}
    root = next(each for each in ours if "faithfulness" in str(dict(each.attributes or {})))
    assert root.parent is not None
    assert root.parent.span_id == request.get_span_context().span_id


@pytest.mark.parametrize("length", [10, wire.MAX_BYTES])
def test_a_record_comes_over_a_link_as_it_was(length):
    """Also one so long that bytes of `wire` would leave a part of it out."""
    ours, theirs = Pipe()
    message = Message(role="user", text="长" * length)
    call = Generation(output="A", started_ns=0, ended_ns=1, input=(message,))
    record = replace(RECORDED, generations=(call,))
    judge = BuiltinJudge().identity
    scored = Scored(evaluator="faithfulness@2", judge=judge, score=1.0)
    report = Report(
        interaction=record, judge=judge, evaluations=(scored,), assessment=None, role="builtin"
    )
    taken: list[object] = []
    link = Link(ours, {"take": lambda *sent: taken.extend(sent)})
    threading.Thread(target=link.serve, daemon=True).start()
    Link(theirs, {}).send("take", record, (report,))
    until("it comes", lambda: len(taken) == 2)
    link.close()
    assert taken == [record, (report,)]


SECRET = "sk-proj-" + "Ab3dE6gH9" * 5


def test_both_places_give_the_applications_provider_the_same_spans(monkeypatch):
    """Redacted, too: what leaves the application is what the helper made of the record."""
    text = f"The key is {SECRET}, a parcel may weigh 40 kg."
    found = {}
    for worker in ("thread", "process"):
        spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
        with Monitor(**QUIET, worker=worker) as monitor:
            for _ in range(3):
                answer(monitor, text)
            assert monitor.flush(60)
            if isinstance(monitor._back, ProcessBackHalf):
                assert not monitor._back._helper.open
        found[worker] = [
            (each.name, dict(each.attributes or {}) | {"ragmonitor.interaction.id": "drawn anew"})
            for each in spans.get_finished_spans()
        ]
    assert len(found["thread"]) == 9
    assert SECRET not in str(found)
    assert found["process"] == found["thread"]


@pytest.mark.slow
def test_a_helper_ends_by_itself_when_its_monitor_closes(monkeypatch):
    """It sees the end of its connection, though a thread of ours still reads from it."""
    alone = HelperProcess()  # other monitors may have one
    monkeypatch.setattr("ragmonitor.back_half.process.HELPER", alone)
    monkeypatch.setattr("ragmonitor.back_half.process.STOPPING_S", 60.0)
    monitor = Monitor(service="test", server=False, worker="process")
    answer(monitor)
    assert monitor.flush(60)
    process = alone._process
    assert process is not None
    assert monitor.close(60)
    assert process.returncode == 0


def test_monitors_of_one_process_share_one_helper():
    """Two monitors have one helper, which ends with the second of them."""
    first, second = (Monitor(f"test{n}", server=False, worker="process") for n in range(2))
    for each in (first, second):
        answer(each)
        assert each.flush(60)
    pid = HELPER.pid
    assert pid is not None
    first.close()
    assert HELPER.pid == pid
    answer(second)
    assert second.flush(60)
    second.close()
    assert HELPER.pid is None
    assert not is_alive(pid)


@pytest.mark.slow
def test_monitors_whose_helper_dies_share_the_next_one():
    """Who notices the death later does not end the helper that another has begun since."""
    first, second = (Monitor(f"test{n}", server=False, worker="process") for n in range(2))
    with first, second:
        for each in (first, second):
            answer(each)
            assert each.flush(60)
        pid = HELPER.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        back = (first._back, second._back)
        until("both have another", lambda: all(helper_pid(b) not in {None, pid} for b in back))
        successor = HELPER.pid
        for each in (first, second):
            answer(each)
            assert each.flush(60)
            assert sums(each) == (1.0, Counter(scored=1))
        assert HELPER.pid == successor
        assert [b._deaths for b in back] == [1, 1]


@pytest.mark.slow
def test_a_monitor_that_closes_before_it_is_served_leaves_the_others_their_helper(
    monkeypatch, caplog
):
    """The end of its connection is no failed start, and no reason to kill what others use."""
    begun, ended = threading.Event(), threading.Event()
    serve, end = HelperConnection.serve, HelperConnection.end

    def late(helper, gone):
        begun.set()
        ended.wait(60)
        serve(helper, gone)

    def closed(helper, within_s):
        status = end(helper, within_s)
        ended.set()
        return status

    with Monitor(**QUIET, worker="process") as first:
        answer(first)
        assert first.flush(60)
        pid = HELPER.pid
        monkeypatch.setattr(HelperConnection, "serve", late)
        second = Monitor(**QUIET, worker="process")
        answer(second)
        assert begun.wait(60)
        thread = second._back._thread
        monkeypatch.setattr(HelperConnection, "end", closed)
        assert second.close(60)
        monkeypatch.undo()
        assert thread.join(60)
        assert (HELPER.pid, is_alive(pid)) == (pid, True)
        answer(first)
        assert first.flush(60)
        assert sums(first) == (2.0, Counter(scored=2))
    assert sums(second) == (1.0, Counter(scored=1))
    assert "did not start" not in caplog.text


NEVER = "import time; time.sleep(600)"
"""A helper process that does not begin to work."""


def test_an_end_before_the_helper_works_waits_for_none(monkeypatch, tmp_path, caplog):
    """What waits is scored here, with its report, and the process that was started is gone."""
    monkeypatch.setattr(helper_process, "_BOOTSTRAP", NEVER)
    reports = tmp_path / "reports.jsonl"
    monitor = Monitor(**QUIET, worker="process", exporters=[f"jsonl:{reports}"])
    for _ in range(3):
        answer(monitor)
    monitor.event("reindexed")
    monitor.feedback(monitor.current_id(), value=True)
    until("it is started", lambda: helper_pid(monitor._back))
    assert monitor.close(600)
    assert sums(monitor) == (3.0, Counter(scored=3))
    assert not total(monitor.registry, "ragmonitor_dropped_total")
    assert not caplog.records
    assert ["feedback" in line for line in reports.read_text().splitlines()] == [0, 0, 0, 1]
    assert HELPER.pid is None


def test_a_judge_is_not_imported_for_an_end_before_the_helper_works(monkeypatch):
    """Its answers are counted, and nothing waits for a helper that is still starting."""
    monkeypatch.setattr(helper_process, "_BOOTSTRAP", NEVER)
    budget = Budget(calls_per_day=10)
    monitor = Monitor(**QUIET, worker="process", judge="openai/m", budget=budget)
    answer(monitor)
    until("it is started", lambda: helper_pid(monitor._back))
    thread = monitor._back._thread
    assert not monitor.close(0.2)
    assert thread.join(60)
    assert sums(monitor) == (1.0, Counter(shutdown=1))
    assert HELPER.pid is None


def test_who_notices_a_death_late_does_not_end_the_next_helper():
    """A connection that led to the process before is none of this one's."""
    process = HelperProcess()
    first, dead = process.connect()
    os.kill(dead, signal.SIGKILL)
    until("it is dead", lambda: not is_alive(dead))
    second, successor = process.connect()
    first.close()
    assert process.leave(dead, 0.0) is None
    assert is_alive(successor)
    second.close()
    assert process.leave(successor, 30.0) == 0
    assert process.pid is None


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


def test_a_fork_while_the_helper_is_started_does_not_hold_it_up(tmp_path):
    """A child had a copy of the pipe that the start waits for, and the parent had no helper."""
    script = """
        import os, subprocess, threading, time
        from ragmonitor import Monitor

        if __name__ == "__main__":
            at_it, fork_exec = threading.Event(), subprocess._fork_exec

            def slow(*args):
                at_it.set()
                time.sleep(0.3)
                return fork_exec(*args)

            subprocess._fork_exec = slow
            monitor = Monitor("t", worker="process", server=False)
            with monitor.interaction(query="How heavy?") as i:
                i.retrieved(["A parcel may weigh 40 kg."])
                i.answered("A parcel may weigh 40 kg.")
            at_it.wait()
            child = os.fork()
            if child == 0:
                time.sleep(300)
                os._exit(0)
            print(monitor.flush(30))
            os.kill(child, 9)
            monitor.close()
    """
    assert run_python(script, tmp_path).split() == ["True"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"judge": BuiltinJudge()}, "judge was given as an object"),
        ({"content": {"redaction": (str.upper,)}}, "content.redaction holds a function"),
    ],
    ids=["judge", "redaction"],
)
def test_objects_that_score_stay_where_they_are(options, why, caplog):
    """What cannot travel keeps the work on a thread, which one line in the log says."""
    given = dict(options)
    if "judge" in given:
        given["judge"] = Renamed()
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor(**QUIET, worker="process", **given) as monitor,
    ):
        answer(monitor)
        assert monitor.flush(60)
        assert sums(monitor)[1] == Counter(scored=1)
        assert HELPER.pid is None
    assert sum(why in each.getMessage() for each in caplog.records) == 1


class Renamed:
    """A judge of the application's."""

    def __init__(self) -> None:
        self._inner = BuiltinJudge()
        self.identity = type(self._inner.identity)(name="own", version="1", kind="CODE")

    async def assess(self, interaction: Any) -> Any:
        return await self._inner.assess(interaction)


@pytest.mark.parametrize("executable", ["", "/usr/bin/uwsgi", "/opt/app/app"])
def test_an_application_that_embeds_python_is_not_started_again(monkeypatch, executable):
    """It would be named where an interpreter is looked for, and begin anew as a whole."""
    monkeypatch.setattr(sys, "executable", executable)
    assert "no interpreter" in reason_to_stay(Settings.load(service="x"))


def test_a_helper_process_is_the_default(monkeypatch):
    """Whoever says nothing is not felt."""
    monkeypatch.delenv("RAGMONITOR_WORKER")
    with Monitor(**QUIET) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        assert HELPER.pid is not None
        assert sums(monitor) == (1.0, Counter(scored=1))


def test_a_plain_monitor_need_not_stay():
    """Settings that are texts and numbers can travel."""
    settings = Settings.load(service="x", judge="openai/gpt-4o-mini", budget={"usd_per_day": 1})
    assert reason_to_stay(settings) == ""


def test_an_error_of_ours_before_a_helper_works_leaves_the_work_to_a_thread(monkeypatch):
    """It would come again with each helper, and nothing would be scored."""

    def connect():
        raise ValueError("a fault")

    monkeypatch.setattr(supervised, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(HELPER, "connect", connect)
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(10)
        assert sums(monitor) == (1.0, Counter(scored=1))


def test_a_helper_whose_replies_nobody_can_read_is_let_go(monkeypatch):
    """The system has no thread for them, for now: the next helper is the only one."""
    refused = []
    start = threading.Thread.start

    def start_but_one(thread):
        if thread.name == "ragmonitor-replies" and not refused:
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(supervised, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(threading.Thread, "start", start_but_one)
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        assert refused
        assert HELPER._users == 1
    assert HELPER.pid is None


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


@pytest.mark.slow
def test_what_the_helper_logs_stands_in_the_applications_log(caplog):
    """The helper finds its port taken, and the application's logger says so."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        caplog.at_level(logging.DEBUG, "ragmonitor"),
        Monitor("test", worker="process", server={"port": taken.getsockname()[1]}) as monitor,
    ):
        answer(monitor)
        assert monitor.flush(60)
        port = str(taken.getsockname()[1])
        until("it is logged", lambda: port in caplog.text)
        assert monitor.metrics_url is None


@pytest.mark.slow
def test_a_hash_of_a_text_is_the_same_in_both_processes(tmp_path):
    """With hashed content, a file of the helper and an exporter of the application agree."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    before = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = provider
    file = tmp_path / "scores.jsonl"
    try:
        with Monitor(
            **QUIET, worker="process", content="hashed", exporters=f"jsonl:{file}"
        ) as monitor:
            answer(monitor)
            assert monitor.flush(60)
    finally:
        trace._TRACER_PROVIDER = before
    written = file.read_text()
    assert "parcel" not in written
    hashed = {
        str(value)
        for span in spans.get_finished_spans()
        for value in dict(span.attributes or {}).values()
        if str(value).startswith("hmac-sha256:")
    }
    assert hashed
    assert any(each in written for each in hashed)


def test_time_is_not_lost_on_a_monitor_that_saw_nothing():
    """Without an interaction there is no helper, and nothing to wait for at the end."""
    began = time.monotonic()
    monitor = Monitor("test", worker="process", export=ExportSettings(traces=False))
    assert monitor.flush(5)
    assert monitor.close(5)
    assert HELPER.pid is None
    assert time.monotonic() - began < 5


def test_what_no_helper_was_ready_for_is_in_the_files_that_processes_share(tmp_path):
    """A forked worker may end before its helper works; nobody asks it for its numbers then."""
    script = """
        from ragmonitor import Monitor

        if __name__ == "__main__":
            monitor = Monitor("t", worker="process", server=False)
            with monitor.interaction(query="How heavy?") as i:
                i.retrieved(["A parcel may weigh 40 kg."])
                i.answered("A parcel may weigh 40 kg.")
            monitor.close(0.05)
    """
    folder = tmp_path / "metrics"
    folder.mkdir()
    run_python(script, tmp_path, PROMETHEUS_MULTIPROC_DIR=str(folder))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))
    assert total(registry, "ragmonitor_interactions_total") == 1
    found = outcomes(registry, judge="builtin", evaluator="faithfulness")
    assert sum(found.values()) == 1


@pytest.mark.parametrize(
    ("share", "reply", "within_s"),
    [
        (1.0, "return self.future.set_exception(process.LinkError('too late'))", 60.0),
        (0.0, "return original(self, asked)", 2.0),
    ],
    ids=["its last numbers come too late", "it is asked for them at once"],
)
def test_at_an_early_end_each_answer_is_counted_once(tmp_path, share, reply, within_s):
    """By the helper or by the application, whose files both are read afterwards."""
    script = f"""
        from ragmonitor import Monitor
        from ragmonitor.back_half import process

        original = process.HelperRequest._answer

        def answered(self, asked):
            if self.name == "close":
                {reply}
            return original(self, asked)

        def answer(monitor, number=0):
            with monitor.interaction(query="How heavy?") as i:
                i.retrieved(["A parcel may weigh 40 kg."])
                i.answered(" ".join(f"A parcel may weigh {{number}}{{n}} kg." for n in range(60)))

        monitor = Monitor("t", worker="process", server=False)
        answer(monitor)
        assert monitor.flush(60)
        process.HelperRequest._answer = answered
        process.SHORT_S = {share}
        for number in range(2_000):  # five times what two seconds suffice for
            answer(monitor, number)
        monitor.close({within_s})
    """
    folder = tmp_path / "metrics"
    folder.mkdir()
    run_python(script, tmp_path, PROMETHEUS_MULTIPROC_DIR=str(folder))
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))
    assert total(registry, "ragmonitor_interactions_total") == 2_001
    found = outcomes(registry, judge="builtin", evaluator="faithfulness")
    assert sum(found.values()) == 2_001
    assert found["shutdown"] > 0


@pytest.mark.slow
def test_nothing_is_missing_and_nothing_double_where_the_end_comes_before_the_work_is_done():
    """What the helper had taken is in its last numbers; what it had not is counted here."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(60)
        for number in range(6_000):  # eight times what four seconds suffice for
            answer(monitor, " ".join(f"A parcel may weigh {number}{n} kg." for n in range(60)))
        monitor.close(4)
        captured, outcomes = sums(monitor)
    assert captured == 6_001
    assert sum(outcomes.values()) == 6_001
    assert outcomes["shutdown"]


def test_what_waits_in_the_application_at_the_end_is_scored_while_there_is_time():
    """There is no room for it in the helper when it is asked for its last numbers."""
    few = CaptureSettings(queue_size=200)
    with Monitor(**QUIET, worker="process", capture=few) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        for _ in range(600):
            answer(monitor, "A parcel may weigh 90 kg. " * 10)
        assert monitor.close(60)
        captured, outcomes = sums(monitor)
    assert captured == sum(outcomes.values()) == 601
    assert not outcomes["shutdown"]
    assert outcomes["scored"] > 200


def test_a_flush_does_not_overtake_what_came_just_before_it(monkeypatch):
    """Both come while the thread is between its look at the queue and its look at requests."""
    reports = ListExporter()
    told: list[str] = []
    send = Link._send
    monkeypatch.setattr(
        Link, "_send", lambda link, *args: (told.append(args[2]), send(link, *args))[1]
    )
    with Monitor(**QUIET, worker="process", exporters=[reports]) as monitor:
        back: Any = monitor._back
        polled, flushed = threading.Event(), Future[bool]()

        def poll() -> int:
            polled.set()
            until("a flush is asked for", lambda: flushed.done() or back._outbox.qsize())
            return 0

        def flush() -> None:
            polled.wait(30)
            answer(monitor)
            flushed.set_result(monitor.flush(60))

        monkeypatch.setattr(back, "_poll", poll)
        threading.Thread(target=flush, daemon=True).start()
        back.wake()
        assert flushed.result(60)
        assert told.index("record") < told.index("flush")
        assert len([*reports.interactions()]) == 1


def test_a_flush_waits_for_what_the_helper_has_no_room_for_yet(monkeypatch):
    reports = ListExporter()
    with Monitor(**QUIET, worker="process", exporters=[reports]) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        with monkeypatch.context() as patch:
            patch.setattr(ProcessBackHalf, "_room", 0)
            answer(monitor)
            assert not monitor.flush(0.5)
        assert monitor.flush(60)
        assert len([*reports.interactions()]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["process", "thread"])
def test_what_a_server_that_hangs_has_in_hand_at_the_end_is_counted(tmp_path, worker):
    """Also in a helper, which does not end before its exporters have counted."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    collector = HTTPServer(("127.0.0.1", 0), _TakesSpans)
    threading.Thread(target=collector.serve_forever, args=(0.02,), daemon=True).start()
    script = """
        import time
        from ragmonitor import Monitor

        monitor = Monitor("bot", server=False)
        for _ in range(5):
            with monitor.interaction(query="How heavy?") as i:
                i.retrieved(["A parcel may weigh 40 kg."])
                i.answered("40 kg.")
            while monitor.settings.worker == "process" and not monitor._back._is_up.is_set():
                time.sleep(0.01)
        monitor.close(5.0)
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            run_python(
                script,
                tmp_path,
                PROMETHEUS_MULTIPROC_DIR=str(folder),
                RAGMONITOR_WORKER=worker,
                RAGMONITOR_EXPORTERS=f"langfuse:http://127.0.0.1:{silent.getsockname()[1]}",
                LANGFUSE_PUBLIC_KEY="public",
                LANGFUSE_SECRET_KEY="secret",
                OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.server_port}",
            )
    finally:
        collector.shutdown()
        collector.server_close()
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))
    closed = "ragmonitor_dropped_total", "langfuse_closed"
    assert total(registry, closed[0], reason=closed[1]) == total(registry, closed[0]) == 5 * 4


class _TakesSpans(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
