"""Answers that a worker scores: as a thread does, and none is lost whatever ends or fails."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.pipeline import sender as back_sender
from ragmonitor.pipeline import worker_sender
from ragmonitor.pipeline.channel import Channel, ChannelError
from ragmonitor.pipeline.placement import described, restored
from ragmonitor.pipeline.worker import _listening
from ragmonitor.pipeline.worker_sender import WorkerSender
from ragmonitor.runtime import wire
from ragmonitor.settings import Settings
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers need POSIX")

QUIET: dict[str, Any] = {"service": "test", "server": False}
PARCEL = "A parcel may weigh 40 kg."


def answer(monitor: Monitor, text: str = "A parcel may weigh 50 kg.") -> None:
    with monitor.interaction(query="How heavy may a parcel be?", attributes={"route": "a"}) as i:
        i.retrieved([PARCEL])
        i.answered(text)


def sums(monitor: Monitor) -> tuple[float, Counter[str]]:
    """Return how many interactions were captured, and evaluations of faithfulness by outcome."""
    found = outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")
    return total(monitor.registry, "ragmonitor_interactions_total"), found


def sender(monitor: Monitor) -> WorkerSender:
    assert isinstance(monitor._back, WorkerSender)
    return monitor._back


def worker_of(monitor: Monitor) -> int | None:
    """Return the process id of a monitor's worker; None: there is none."""
    line = sender(monitor)._line
    return None if line is None or not line.is_open or line.child is None else line.child.pid


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, and it is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and ") Z " in stat.read_text())


def descriptors() -> int:
    """Return how many are open here."""
    return len([*Path("/proc/self/fd").iterdir()])


# Where answers are scored


def test_scores_do_not_depend_on_where_answers_are_scored(tmp_path: Path) -> None:
    """A thread and a worker write the same reports and count the same."""
    found = {}
    for worker in ("thread", "process"):
        file = tmp_path / worker
        with Monitor(**QUIET, worker=worker, exporters=f"jsonl:{file}") as monitor:
            for text in (PARCEL, "A parcel may weigh 50 kg.", "I do not know."):
                answer(monitor, text)
            assert monitor.flush(30)
            newest = monitor.last()
            assert newest is not None
            assert newest.interaction.answer == "I do not know."
            counted = sums(monitor)
        lines = map(json.loads, file.read_text().splitlines())
        found[worker] = [(each["answer"], each["evaluations"]) for each in lines], counted
    assert found["process"] == found["thread"]
    assert found["process"][1][0] == 3


judge = ScriptedJudge(lambda _: assessment("supported", language="half a sign: \ud800"))
judge.__module__ = __name__  # type: ignore[attr-defined]


def test_a_judge_s_words_that_cannot_be_told_cost_no_number() -> None:
    """The newest report is not told; what became of the answers is."""
    with Monitor(**QUIET, worker="process", judge=judge, sample=1.0) as monitor:
        for _ in range(3):
            answer(monitor)
        assert monitor.flush(30)
        assert sums(monitor) == (3.0, Counter(scored=3))
    assert not sender(monitor).ledger._open


@dataclass(eq=False)
class Shouting(ListExporter):
    """An exporter of an application's module; it goes by its name, and not as its fields."""

    def __post_init__(self) -> None:
        super().__init__()


shouting = Shouting()


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "Pipeline"),
        ({"judge": "openai/gpt-4o-mini", "budget": "calls_per_day=1"}, "WorkerSender"),
        ({"worker": "process", "exporters": [shouting]}, "WorkerSender"),
        ({"worker": "process", "exporters": [ListExporter()]}, "Pipeline"),
        ({"send_to": "unix:/tmp/none.sock"}, "WorkerSender"),
    ],
)
def test_where_answers_are_scored(given, place, monkeypatch, caplog) -> None:
    """In a worker where a model judges; what it cannot import keeps them here, which is said."""
    monkeypatch.delenv("RAGMONITOR_WORKER", raising=False)
    with caplog.at_level(logging.INFO, "ragmonitor"):
        monitor = Monitor(**QUIET, **given)
    assert type(monitor._back).__name__ == place
    said = [each for each in caplog.messages if "scored on a thread" in each]
    assert len(said) == (given.get("worker") == "process" and place == "Pipeline")
    if said:
        assert "exporters has an object that a worker cannot import (ListExporter)" in said[0]


def test_settings_reach_a_worker_unchanged() -> None:
    """Also secrets, paths, and an exporter that is imported by its name."""
    settings = Settings.load(
        service="shop",
        judge="openai/gpt-4o-mini",
        budget="usd_per_day=5",
        objectives="hallucination=0.05",
        exporters=["jsonl:/tmp/reports.jsonl", shouting],
        state="/tmp/state",
        server={"ui": True, "token": "t" * 32},
    )
    _, (told,) = wire.decode_message(wire.encode_message("begin", described(settings)))
    there = restored(told)
    for name in Settings.model_fields:
        if name not in ("evaluators", "content"):
            assert getattr(there, name) == getattr(settings, name)
    assert there.content.policy == settings.content.policy


# Ends


def test_a_worker_that_dies_loses_no_count(caplog) -> None:
    """Captured is scored plus unscored, and another one goes on."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(30)
        first = worker_of(monitor)
        assert first is not None
        os.kill(first, signal.SIGSTOP)  # so that it has them in hand when it dies
        for _ in range(20):
            answer(monitor)
        until("all are sent", lambda: len(sender(monitor)._line.asked) == 20)
        os.kill(first, signal.SIGKILL)
        until("there is another", lambda: worker_of(monitor) not in {None, first})
        for _ in range(5):
            answer(monitor)
        assert monitor.flush(30)
        assert sums(monitor) == (25.0, Counter(scored=5, internal_error=20))
        assert (
            total(monitor.registry, "ragmonitor_internal_errors_total", stage="worker_restart") == 1
        )
    assert "what it had in hand is counted as internal_error" in caplog.text


def test_a_full_queue_holds_neither_the_application_nor_a_scrape() -> None:
    """A worker that stands still costs no time; what is dropped is counted."""
    with Monitor(**QUIET, worker="process", capture={"queue_size": 10}) as monitor:
        answer(monitor)
        assert monitor.flush(30)
        pid = worker_of(monitor)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        began_s = time.monotonic()
        for _ in range(200):
            answer(monitor)
        assert time.monotonic() - began_s < 2
        assert not monitor.flush(0.2)
        os.kill(pid, signal.SIGCONT)
        until("it shows, while the rest is worked off", lambda: sums(monitor)[0] > 100)
        assert monitor.flush(30)
        captured, found = sums(monitor)
    assert captured == found.total() == 201
    assert found["queue_full"] > 100


def test_a_name_that_cannot_be_told_costs_no_count() -> None:
    """A lone surrogate, in the framework that an application names for what finds no room."""
    with Monitor(**QUIET, worker="process", capture={"queue_size": 5}) as monitor:
        answer(monitor)
        newest = monitor.last(30)
        assert newest is not None
        record = replace(newest.interaction, framework="x\ud800")
        os.kill(worker_of(monitor) or 0, signal.SIGSTOP)
        for _ in range(40):
            monitor.observe(record)
        until("they are counted here", lambda: sums(monitor)[0] > 1)
        os.kill(worker_of(monitor) or 0, signal.SIGCONT)
        assert monitor.flush(30)
        captured, found = sums(monitor)
    assert captured == found.total() == 41


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_what_waits_is_bounded_in_bytes(worker: str) -> None:
    """With nobody to take them, 4,000 answers of 210 kB hold some 64 MiB; the rest is refused."""
    with Monitor(**QUIET, worker=worker) as monitor:
        answer(monitor)
        assert monitor.flush(30)
        if worker == "process":
            os.kill(worker_of(monitor) or 0, signal.SIGSTOP)
        with nullcontext() if worker == "process" else monitor._back.step:
            tracemalloc.start()
            for number in range(4_000):
                answer(monitor, f"{number} {PARCEL * 8_400}")
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        if worker == "process":
            os.kill(worker_of(monitor) or 0, signal.SIGKILL)
        monitor.close(0.5)
        captured, found = sums(monitor)
    assert held < 90 * 2**20
    assert captured == found.total() >= 4_000  # the counters of a killed worker end with it
    assert found["queue_full"] > 3_000


def test_the_end_takes_five_seconds_at_most() -> None:
    """Also where the worker does nothing any more; what it had is counted."""
    monitor = Monitor(**QUIET, worker="process")
    answer(monitor)
    assert monitor.flush(30)
    pid = worker_of(monitor)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    for _ in range(20):
        answer(monitor, PARCEL * 10_000)  # more than a socket takes
    assert not monitor.flush(0.5)
    began_s = time.monotonic()
    assert not monitor.close(4)
    assert time.monotonic() - began_s < 5
    until("it has ended", lambda: not is_alive(pid))
    captured, found = sums(monitor)
    assert (captured, found["shutdown"]) == (found.total(), 20)


def test_a_worker_that_cannot_start_holds_nothing(monkeypatch, tmp_path, caplog) -> None:
    """It is tried again with growing pauses; what waits at the end is counted."""
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr("ragmonitor.pipeline.worker_sender.sys.executable", str(broken))
    monitor, pauses = Monitor(**QUIET, worker="process"), list[float]()
    ending = sender(monitor)._thread.ending
    wait = ending.wait
    monkeypatch.setattr(ending, "wait", lambda pause_s: pauses.append(pause_s) or wait(0.01))
    answer(monitor)
    until("it was tried", lambda: len(pauses) > 3)
    assert pauses[:4] == [0.5, 1, 2, 4]
    assert "worker" in caplog.text
    answer(monitor)
    began_s = time.monotonic()
    assert not monitor.close(2)
    assert time.monotonic() - began_s < 3
    captured, found = sums(monitor)
    assert captured == found.total() == 2
    assert "scored" not in found


def test_starts_and_kills_leave_nothing_behind() -> None:
    """Ten workers: no process, no thread, no descriptor."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(30)
    before = descriptors()
    pids = []
    for number in range(10):
        monitor = Monitor(**QUIET, worker="process")
        answer(monitor)
        if number % 2:
            until("it works", lambda each=monitor: worker_of(each))
        pids.append(worker_of(monitor))
        if number % 2:
            os.kill(pids[-1], signal.SIGKILL)
        monitor.close(5 if number % 4 else 0.1)
        captured, found = sums(monitor)
        assert captured == found.total() == 1
    for pid in filter(None, pids):
        until("it has ended", lambda pid=pid: not is_alive(pid))
    monitor = None
    until("all is closed", lambda: descriptors() <= before)


SCRIPT = """
import os, signal, sys
from ragmonitor import Monitor
monitor = Monitor("support-bot", server=False, worker="process")
with monitor.interaction(query="How heavy may a parcel be?") as i:
    i.retrieved(["A parcel may weigh 40 kg."])
    i.answered("A parcel may weigh 40 kg.")
assert monitor.flush(60)
print(monitor._back._line.child.pid, flush=True)
{end}
"""
ENDS = {
    "exit": "",
    "_exit": "os._exit(0)",
    "SIGTERM to the group": "os.killpg(0, signal.SIGTERM)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "a copy of its connection": "os.fork() and os._exit(0); os.closerange(0, 3); import time; "
    "time.sleep(20)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_ends_with_its_application(end: str) -> None:
    """However the application ends, and it has a name until then."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(end=ENDS[end])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        pid = int(output.readline())
        command = Path(f"/proc/{pid}/cmdline")
        if command.exists() and (said := command.read_bytes().replace(b"\0", b" ")):
            assert b"ragmonitor worker --service support-bot" in said
        process.wait(60)
    until("it has ended", lambda: not is_alive(pid))


# Faults


class Fault(BaseException):
    """Not even an `Exception`."""


STEPS: dict[str, tuple[object, str]] = {
    "started": (worker_sender, "line_to_child"),
    "listening": (Channel, "listen"),
    "made sound": (back_sender, "sound"),
    "encoded": (wire, "encode"),
    "room": (WorkerSender, "_has_room"),
    "put": (WorkerSender, "_send"),
    "sent": (Channel, "tell"),
    "counted": (WorkerSender, "_tick"),
    "requested": (WorkerSender, "_carry_out"),
    "polled": (Monitor, "_poll"),
    "buried": (WorkerSender, "_bury"),
}


@pytest.mark.parametrize("error", [LookupError, Fault, ChannelError])
@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_step_loses_no_answer(step, error, monkeypatch) -> None:
    """Captured is scored plus unscored, whatever is raised on the way to the worker."""
    where, name = STEPS[step]
    real = getattr(where, name)
    raised: list[object] = []

    def failing(*args: Any, **options: Any) -> Any:
        if not raised:
            raised.append(step)
            raise error("as scripted")
        return real(*args, **options)

    monkeypatch.setattr(where, name, failing)
    monkeypatch.setattr("ragmonitor.runtime.supervised.FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("ragmonitor.pipeline.sender.TICK_S", 0.05)
    monitor = Monitor(**QUIET, worker="process")
    try:
        for _ in range(3):
            answer(monitor)
        if step == "buried":
            until("it works", lambda: worker_of(monitor))
            os.kill(worker_of(monitor) or 0, signal.SIGKILL)
        if step == "requested":
            assert monitor.flush(10)
        until("it has failed", lambda: raised)
        monitor.flush(10)
        answer(monitor)
        assert monitor.flush(10)
    finally:
        monitor.close(10)
    captured, found = sums(monitor)
    assert captured == found.total() == 4
    assert found["scored"] >= 1


def test_a_descriptor_that_the_application_has_reused_is_not_written_to(tmp_path, caplog) -> None:
    """A daemon closes all that is open; its own file gets our number, and none of our bytes."""
    with Monitor(**QUIET, worker="process") as monitor:
        answer(monitor)
        assert monitor.flush(30)
        line = sender(monitor)._line
        assert line is not None
        number = line._socket.fileno()
        with (tmp_path / "file").open("wb") as file:
            os.dup2(file.fileno(), number)
            assert monitor.flush(30)
            for _ in range(3):
                answer(monitor)
            until("another worker is there", lambda: sender(monitor)._line not in {None, line})
            assert monitor.flush(30)
            os.fstat(number)  # it is the application's
            os.close(number)
        assert (tmp_path / "file").read_bytes() == b""
        captured, found = sums(monitor)
    assert captured >= found["scored"] >= 2
    assert captured == found.total()
    assert caplog.text.count("has closed the socket of its worker") == 1


def test_bytes_that_are_no_frame_end_a_connection_and_no_more() -> None:
    """A length beyond any record, and half a frame."""
    for data in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x09half"):
        ours, theirs = socket.socketpair()
        with ours:
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
            channel = Channel(theirs)
            channel.listen(pytest.fail)
            assert not channel.is_open


# One worker for the processes of a machine


@contextmanager
def shared_worker(path: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `ragmonitor worker` at a Unix socket."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ragmonitor", "worker"),
            *("--service", "test", "--send-to", f"unix:{path}"),
        ],
        env={**os.environ, "RAGMONITOR_SERVER__ENABLED": "false", **variables},
        stderr=subprocess.DEVNULL,
    )
    try:
        until("it listens", path.exists)
        yield process
    finally:
        process.terminate()
        assert process.wait(20) == 0


def in_a_process(code: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            code()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_processes_share_a_worker(tmp_path: Path) -> None:
    """Each process's answers and feedback are in its numbers; it may end and come again."""
    path = tmp_path / "worker.sock"
    settings = {**QUIET, "send_to": f"unix:{path}"}

    def serve() -> None:
        with Monitor(**settings) as each:
            answer(each)
            each.feedback(each.current_id(), False)
            assert each.flush(30)

    with Monitor(**settings) as monitor:
        answer(monitor)  # before anybody listens
        with shared_worker(path):
            assert in_a_process(serve) == in_a_process(serve) == 0
            assert monitor.flush(30)
            assert sums(monitor) == (3.0, Counter(scored=3))
            assert total(monitor.registry, "ragmonitor_feedback_total") == 2
        answer(monitor)
        with shared_worker(path):
            answer(monitor)
            assert monitor.flush(30)
            captured, found = sums(monitor)
            assert captured == found.total() == 2


def test_a_worker_takes_no_path_that_somebody_else_uses(tmp_path: Path) -> None:
    """Also one that refuses us, as another user's socket does; what is left of one is taken."""
    path = tmp_path / "worker.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        with pytest.raises(OSError, match=r"worker\.sock"):
            _listening(path)
        assert path.is_socket()
    with _listening(path), pytest.raises(OSError, match="another worker listens there"):
        _listening(path)


def test_a_shared_worker_scores_one_service(tmp_path: Path) -> None:
    """The monitor of another one is refused, and counts its answers itself."""
    path = tmp_path / "worker.sock"
    with shared_worker(path):
        monitor = Monitor("other", server=False, send_to=f"unix:{path}")
        answer(monitor)
        assert not monitor.flush(1)
        monitor.close(1)
    captured, found = sums(monitor)
    assert captured == found.total() == 1
    assert "scored" not in found


PROVIDER = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
from ragmonitor import Monitor
with Monitor("support-bot", server=False, worker="process") as monitor:
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 40 kg.")
    assert monitor.flush(30)
    *_, root = spans.get_finished_spans()
    assert root.attributes["ragmonitor.score.faithfulness"] == 1.0
    assert "litellm" not in sys.modules
"""


def test_traces_go_to_the_application_s_own_provider() -> None:
    """It has the trace with the scores of its worker, and imports nothing of a judge."""
    ended = subprocess.run(
        [sys.executable, "-c", PROVIDER], capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


JUDGED = """
import sys
from ragmonitor import Monitor
monitor = Monitor("support-bot", server=False, judge="openai/fake", budget="calls_per_day=9")
with monitor.interaction(query="How heavy may a parcel be?") as i:
    i.retrieved(["A parcel may weigh 40 kg."])
    i.answered("A parcel may weigh 40 kg.")
monitor.close(20)
text = [s for f in monitor.registry.collect() for s in f.samples]
assert "litellm" not in sys.modules
outcomes = {s.labels["outcome"] for s in text if s.name == "ragmonitor_evaluations_total"}
print(sorted(outcomes))
"""


def test_a_model_judges_in_a_worker_by_default() -> None:
    """The application never imports litellm, and its answer is accounted for by both judges."""
    variables = {
        **{key: value for key, value in os.environ.items() if key != "RAGMONITOR_WORKER"},
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", JUDGED],
        capture_output=True,
        timeout=60,
        check=False,
        env=variables,
    )
    assert ended.returncode == 0, ended.stderr
    assert b"scored" in ended.stdout
