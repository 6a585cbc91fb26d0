"""One helper process for all workers of a server: exact sums, whoever dies, and no outliving."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.back_half import shared_helper
from ragmonitor.back_half.helper_process import HELPER
from ragmonitor.back_half.link import Link, LinkError
from ragmonitor.back_half.process_identity import ProcessIdentity, leader
from ragmonitor.back_half.shared_helper import SharedHelper, UnsharableError
from ragmonitor.settings import Settings
from tests.pipeline.test_helper_process import answer, is_alive, sums
from tests.support.helper_pids import helper_pid
from tests.support.prometheus_server import free_port
from tests.support.scrape import scrape
from tests.support.scripts import run_python
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="workers find a common helper on Linux"),
]

WORKER = """
import json, sys
from ragmonitor import Monitor
from tests.pipeline.test_helper_process import answer, sums
from tests.support.helper_pids import helper_pid

monitor = Monitor("t", worker="shared", **{"server": False, **json.loads(sys.argv[1])})
for line in sys.stdin:
    name, *args = json.loads(line)
    if name == "answer":
        for _ in range(args[0]):
            answer(monitor)
        told = None
    elif name == "flush":
        told = monitor.flush(60)
    elif name == "close":
        told = monitor.close(60)
    elif name == "pid":
        told = helper_pid(monitor._back)
    elif name == "open":
        told = len(monitor._back._helper.open)
    elif name == "sums":
        told = sums(monitor)
    print(json.dumps(told), flush=True)
"""
"""A worker that does what it is told."""


class Worker:
    """A process of an application, whose parent is this one."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTEST_CURRENT_TEST": _test()},
        )

    def __call__(self, name: str, *args: object) -> Any:
        """Have it do something; return what it says."""
        self.begin(name, *args)
        return self.end()

    def begin(self, name: str, *args: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *args]) + "\n")
        self.process.stdin.flush()

    def end(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def leave(self) -> None:
        """End as a process ends that has nothing left to do."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def kill(self) -> None:
        """End it in any case, and close its pipes."""
        self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _test() -> str:
    """Return what only this test has in its environment: others share no helper with it."""
    return os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> Iterator[list[Worker]]:
    """Three workers with one parent."""
    started = [Worker(getattr(request, "param", {})) for _ in range(3)]
    yield started
    for each in started:
        each.kill()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder whose name is short enough for a socket in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def outcomes(worker: Worker) -> tuple[float, Counter[str]]:
    captured, found = worker("sums")
    return captured, Counter(found)


def test_workers_share_one_helper_and_its_sums(workers):
    """Each asks the same process, and sees what all have handed over."""
    for number, each in enumerate(workers, 1):
        each("answer", number)
        assert each("flush")
    assert len({each("pid") for each in workers}) == 1
    assert [outcomes(each) for each in workers] == [(6.0, Counter(scored=6))] * 3


def test_the_end_of_any_worker_leaves_the_others_their_helper(workers):
    """Also of the one that started it; what it had handed over stays in the sums."""
    first, second, third = workers
    first("answer", 2)
    assert first("flush")
    pid = first("pid")
    second("answer", 3)
    assert second("flush")
    first.signal(signal.SIGKILL)
    first.process.wait(10)
    second.leave()
    third("answer", 4)
    assert third("flush")
    assert third("pid") == pid
    assert outcomes(third) == (9.0, Counter(scored=9))
    third.leave()
    until("it ends with the last", lambda: not is_alive(pid), within_s=60)


def test_a_helper_that_dies_loses_no_count_of_any_worker(workers):
    """Each counts what it had in hand, once; all find the one next helper."""
    for each in workers:
        each("answer", 1)
        assert each("flush")
    pid = workers[0]("pid")
    os.kill(pid, signal.SIGSTOP)
    for number, each in enumerate(workers, 5):
        each("answer", number)
        until("it is sent", lambda each=each, number=number: each("open") == number)
    os.kill(pid, signal.SIGKILL)
    for each in workers:
        until("it has another", lambda each=each: each("pid") not in {None, pid})
        each("answer", 1)
        assert each("flush")
    assert len({each("pid") for each in workers}) == 1
    assert outcomes(workers[0]) == (21.0, Counter(scored=3, internal_error=18))


def test_a_worker_that_stands_still_does_not_hold_up_the_others(workers):
    """Neither their answers nor their flushes; it goes on where it was."""
    still, *others = workers
    for each in workers:
        each("answer", 1)
        assert each("flush")
    still.begin("answer", 2_000)
    still.signal(signal.SIGSTOP)
    for each in others:
        each("answer", 50)
        assert each("flush")
    still.signal(signal.SIGCONT)
    still.end()
    assert still("flush")
    assert outcomes(others[0]) == (2_103.0, Counter(scored=2_103))


def test_a_flush_waits_for_the_own_answers_only(workers):
    """And the closing of one worker ends nothing of another's."""
    one, other, _ = workers
    other("answer", 1)
    assert other("flush")
    other.begin("answer", 1_000)
    one("answer", 1)
    assert one("flush")
    assert one("close")
    other.end()
    assert other("flush")
    assert outcomes(other) == (1_002.0, Counter(scored=1_002))


@pytest.mark.parametrize("workers", [{"capture": {"queue_size": 200}}], indirect=True, ids=["few"])
def test_what_a_closing_worker_had_no_time_for_is_in_the_sums_of_all(workers):
    """Counted once: what the helper has is scored, and the rest is refused."""
    script = """
        from ragmonitor import Monitor
        from tests.pipeline.test_helper_process import answer
        monitor = Monitor("t", worker="shared", server=False, capture={"queue_size": 200})
        answer(monitor)
        assert monitor.flush(60)
        for _ in range(3_000):
            answer(monitor, "A parcel may weigh 90 kg. " * 20)
        monitor.close(0.0)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(line[8:] for line in script.splitlines())],
        env={**os.environ, "PYTEST_CURRENT_TEST": _test()},
    )
    other = workers[0]
    other("answer", 1)
    assert other("flush")
    assert process.wait(60) == 0

    def settled() -> bool:
        captured, found = outcomes(other)
        return captured == found.total() == 3_002

    until("all are counted", settled)
    assert outcomes(other)[1]["shutdown"]
    assert outcomes(other)[1]["scored"] > 2


ENDS = {
    "exit": "",
    "_exit": "os._exit(0)",
    "SIGTERM to the group": "os.killpg(0, signal.SIGTERM)",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "crash": "os.abort()",
    "error": "raise ValueError",
    "a child lives on": "os.fork() or time.sleep(600); os._exit(0)",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_helper_of_all_ends_with_the_application(end, folder):
    """However its processes end, and whatever a child of theirs has copies of."""
    script = f"""
import os, signal, sys, time
from ragmonitor import Monitor
from ragmonitor.back_half import shared_helper
from tests.pipeline.test_helper_process import answer
from tests.support.helper_pids import helper_pid
shared_helper.GRACE_S = 2.0  # the parent, which runs the same interpreter, lives on
monitor = Monitor("t", worker="shared", server=False)
answer(monitor)
assert monitor.flush(60)
print(helper_pid(monitor._back), flush=True)
{ENDS[end]}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(folder), "PYTEST_CURRENT_TEST": _test()},
    )
    assert process.stdout is not None
    try:
        pid = int(process.stdout.readline())
        process.wait(60)
        until("it is gone", lambda: not is_alive(pid))
    finally:
        process.stdout.close()
        _kill_group(process.pid)
    assert not [*(folder / f"ragmonitor-helpers-{os.geteuid()}").iterdir()]


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_what_a_killed_helper_leaves_behind_is_removed(folder, monkeypatch):
    """Its socket leads nowhere, and the next takes its place; a dead application's folder goes."""
    monkeypatch.setattr(shared_helper.tempfile, "tempdir", str(folder))
    users = folder / f"ragmonitor-helpers-{os.geteuid()}"
    dead = users / "1-1-0"
    dead.mkdir(0o700, parents=True)
    users.chmod(0o700)
    (dead / "socket").touch()
    with Monitor("t", worker="shared", server=False) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        pid = helper_pid(monitor._back)
        assert not dead.exists()
        (kept,) = users.iterdir()
        os.kill(pid, signal.SIGKILL)
        until("there is another", lambda: helper_pid(monitor._back) not in {None, pid})
        answer(monitor)
        assert monitor.flush(60)
        assert [*users.iterdir()] == [kept]


@pytest.mark.parametrize("spoil", ["mode", "link", "name", "gone", "lock", "socket"])
def test_without_a_private_folder_a_process_has_a_helper_of_its_own(
    folder, monkeypatch, caplog, spoil
):
    """One line of the log says why."""
    where = folder / {"name": "x" * 90, "gone": "gone"}.get(spoil, "")
    if spoil == "name":
        where.mkdir()
    monkeypatch.setattr(shared_helper.tempfile, "tempdir", str(where))
    users = folder / f"ragmonitor-helpers-{os.geteuid()}"
    if spoil == "mode":
        users.mkdir(0o755)
    elif spoil == "link":
        (folder / "other").mkdir(0o700)
        users.symlink_to(folder / "other")
    elif spoil in ("lock", "socket"):  # what cannot be made is a folder already
        shared = Monitor("t", worker="shared", server=False)._back._shared
        assert shared is not None
        (shared._folder()[0] / spoil).mkdir()
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor("t", worker="shared", server=False) as monitor,
    ):
        answer(monitor)
        assert monitor.flush(60)
        assert helper_pid(monitor._back) == HELPER.pid is not None
        assert sums(monitor) == (1.0, Counter(scored=1))
    assert sum("a helper of its own" in each.getMessage() for each in caplog.records) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_socket_of_another_user_is_not_talked_to(folder, monkeypatch):
    """Where others may rename folders they can put one there, whatever was checked before."""
    monkeypatch.setattr(shared_helper.tempfile, "tempdir", str(folder))
    shared = SharedHelper(Settings.load(service="x"), ())
    place, _ = shared._folder()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "socket"))
        os.seteuid(65_534)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        lock = shared_helper._locked(place / "lock")
        assert lock is not None
        with os.fdopen(lock), pytest.raises(UnsharableError, match="another user"):
            shared.connect(lambda: False)


def test_an_interpreter_that_is_gone_is_no_reason_to_wait(folder, monkeypatch):
    """It was replaced by another release's, say: the error names it, at once."""
    monkeypatch.setattr(shared_helper.tempfile, "tempdir", str(folder))
    monkeypatch.setattr(shared_helper.sys, "executable", str(folder / "python3"))
    tries = iter([False] * 5)
    with pytest.raises(OSError, match="the interpreter is gone"):
        SharedHelper(Settings.load(service="x"), ()).connect(lambda: next(tries))


def test_an_application_whose_working_folder_was_removed_starts(tmp_path):
    """A release's folder is removed while its workers are still replaced."""
    script = """
        import os, shutil
        from ragmonitor import Monitor
        from tests.pipeline.test_helper_process import answer
        os.mkdir("release")
        os.chdir("release")
        os.rmdir("../release")
        with Monitor("t", worker="shared", server=False) as monitor:
            answer(monitor)
            assert monitor.flush(60)
            print(monitor._back._local is None)
    """
    root = str(Path(__file__).parents[2])
    assert run_python(script, tmp_path, PYTHONPATH=root).split() == ["True"]


def test_the_helper_runs_the_ragmonitor_of_its_application(tmp_path):
    """Also where another one is installed, or none: the application may have its own path."""
    package = Path(shared_helper.__file__).parents[1]
    shutil.copytree(package, tmp_path / "ragmonitor")
    with (tmp_path / "ragmonitor" / "back_half" / "helper.py").open("a") as file:
        file.write(f"\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    script = """
        from ragmonitor import Monitor
        with Monitor("t", worker="shared", server=False) as monitor:
            with monitor.interaction(query="How heavy may a parcel be?") as i:
                i.retrieved(["A parcel may weigh 40 kg."])
                i.answered("A parcel may weigh 40 kg.")
            print(monitor.flush(60) and monitor._back._local is None)
    """
    assert run_python(script, tmp_path, PYTHONPATH=str(tmp_path)).split() == ["True"]
    assert (tmp_path / "ran").exists()


def test_settings_that_changed_are_served_in_the_place_of_those_before():
    """Workers that are replaced after a reload share their helper with the last of the old ones."""
    port = free_port()
    given = {"server": {"port": port}}, {"server": {"port": port}, "capture": {"queue_size": 77}}
    workers = [Worker(each) for each in given]

    def served() -> float:
        samples = scrape(f"http://127.0.0.1:{port}/metrics")
        return sum(each.value for each in samples["ragmonitor_interactions_total"])

    try:
        for n, each in enumerate(workers, 1):
            each("answer", n)
            assert each("flush")
            until("it is served", lambda n=n: served() == n)
        assert len({each("pid") for each in workers}) == 1
    finally:
        for each in workers:
            each.kill()


def test_files_that_others_have_tidied_away_are_not_those_of_the_next_helper(folder, monkeypatch):
    """A helper keeps its files young; and at its end it removes none that is another's."""
    monkeypatch.setattr(shared_helper.tempfile, "tempdir", str(folder))
    with Monitor("t", worker="shared", server=False) as monitor:
        answer(monitor)
        assert monitor.flush(60)
        (place,) = (folder / f"ragmonitor-helpers-{os.geteuid()}").iterdir()
        old = place / "socket", place, place / "lock"
        for each in old:
            os.utime(each, (0, 0))
        until("they are young", lambda: all(each.stat().st_mtime for each in old))
        for name in ("lock", "socket"):
            (place / name).unlink()
            (place / name).touch()
        pid = helper_pid(monitor._back)
    until("it has ended", lambda: not is_alive(pid))
    assert sorted(each.name for each in place.iterdir()) == ["lock", "socket"]


def test_hashes_with_a_key_of_each_process_are_not_mixed(caplog):
    """Without a common key the same text would have as many hashes as there are workers."""
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor("t", worker="shared", server=False, content="hashed") as monitor,
    ):
        answer(monitor)
        assert monitor.flush(60)
        assert helper_pid(monitor._back) == HELPER.pid is not None
    assert "without content.hash_key" in caplog.text


@pytest.mark.usefixtures("no_helper_starts")
def test_where_no_common_helper_starts_a_thread_works(caplog):
    """It is tried a few times, and not again and again."""
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor("t", worker="shared", server=False) as monitor,
    ):
        answer(monitor)
        until("it is so", lambda: monitor._back._local is not None)
        assert monitor.flush(60)
        assert sums(monitor) == (1.0, Counter(scored=1))
    assert sum("did not start" in each.getMessage() for each in caplog.records) >= 1


def test_reports_go_back_to_the_worker_whose_answer_it_is(tmp_path):
    """To its exporters and its tracer provider; the newest is its own, too."""
    script = """
        import os, sys
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
        from ragmonitor import Monitor
        from ragmonitor.testing import ListExporter
        from tests.pipeline.test_helper_process import answer

        spans, reports = InMemorySpanExporter(), ListExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        trace.set_tracer_provider(provider)
        monitor = Monitor("t", worker="shared", server=False, exporters=[reports])
        children = []
        for number in range(2):
            child = os.fork()
            if not child:
                children = []
                break
            children.append(child)
        name = f"{number} kg, says {os.getpid()}."
        for _ in range(5):
            answer(monitor, name)
        assert monitor.flush(60)
        assert {each.interaction.answer for each in reports.reports} == {name}, reports.reports
        assert len(reports.reports) == 5
        assert monitor.last().interaction.answer == name
        texts = [str(dict(each.attributes or {})) for each in spans.get_finished_spans()]
        assert sum(name in each for each in texts) >= 5
        assert not [each for each in texts if " kg, says " in each and name not in each]
        if children:
            assert [os.waitpid(each, 0)[1] for each in children] == [0, 0]
            print("good")
        else:
            monitor.close(10)
            os._exit(0)
    """
    root = str(Path(__file__).parents[2])
    assert run_python(script, tmp_path, PYTHONPATH=root).split() == ["good"]


def test_monitors_with_other_settings_are_counted_apart():
    """In the same helper: two services have an address together, as in one process."""
    with (
        Monitor("a", worker="shared", server=False) as first,
        Monitor("b", worker="shared", server=False) as second,
    ):
        for monitor, n in ((first, 2), (second, 3)):
            for _ in range(n):
                answer(monitor)
            assert monitor.flush(60)
        assert helper_pid(first._back) == helper_pid(second._back)
        assert sums(first) == (2.0, Counter(scored=2))
        assert sums(second) == (3.0, Counter(scored=3))


def test_settings_have_the_same_hash_in_each_process_and_secrets_count(tmp_path):
    """Also where sets are in another order; other settings and another environment have another."""
    script = """
        from ragmonitor.back_half.setup import shared_helper_of
        from ragmonitor.settings import Settings
        given = Settings.load(service="x", evaluators=("refusal",), alarms=("hallucination",))
        print(shared_helper_of(given).key)
    """
    found = {run_python(script, tmp_path, PYTHONHASHSEED=str(seed)) for seed in range(3)}
    assert len(found) == 1
    keys = {
        SharedHelper(Settings.load(service="x", content={"hash_key": key}), ()).key
        for key in ("one " * 8, "two " * 8)
    }
    assert len(keys) == 2


def test_a_process_is_told_from_another_one_with_its_id():
    """By when it started; a shell is no parent of workers."""
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert own.runs
    assert not ProcessIdentity(own.pid, own.started + 1).runs
    assert ProcessIdentity.of(1 << 22) is None
    assert leader() in {own, ProcessIdentity.of(os.getppid())}
    said = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -c '{LEADER}'; true"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["True"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_workers_that_give_up_root_have_the_process_that_keeps_it_as_their_leader(tmp_path):
    """As those of `gunicorn --user`: what another user's process runs cannot be read."""
    script = """
        import os
        from ragmonitor.back_half.process_identity import leader
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        else:
            os.setuid(65_534)
            print(leader().pid == os.getppid(), flush=True)
            os._exit(0)
    """
    assert run_python(script, tmp_path).split() == ["True"]


LEADER = (
    "import os; from ragmonitor.back_half.process_identity import leader; "
    "print(leader().pid == os.getpid())"
)


def test_what_is_buffered_for_a_process_that_does_not_read_is_bounded():
    """Whoever sends waits for nothing, and is told that there is no room; later there is."""
    import multiprocessing

    ours, theirs = multiprocessing.Pipe()
    link = Link(ours, {}, buffer_bytes=4 << 20)
    with pytest.raises(LinkError, match="does not read"):
        [link.send("told", b"x" * (1 << 20)) for _ in range(100)]
    reader = threading.Thread(target=theirs.recv_bytes)
    reader.start()
    reader.join(60)
    until("there is room", lambda: link.send("told", b"x" * 1_000) is None)
    link.close()
    theirs.close()


@pytest.mark.parametrize(
    ("name", "asked"),
    [("gevent.monkey", "is_module_patched"), ("eventlet.patcher", "is_monkey_patched")],
)
@pytest.mark.parametrize("worker", ["process", "shared"])
def test_where_threads_are_greenlets_the_work_stays_and_the_log_says_why(
    monkeypatch, caplog, worker, name, asked
):
    """A helper that cannot be talked to is not started, and no answer waits for it."""
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**{asked: lambda _: True}))
    with (
        caplog.at_level(logging.INFO, "ragmonitor"),
        Monitor("t", worker=worker, server=False) as monitor,
    ):
        answer(monitor)
        assert monitor.flush(60)
        assert helper_pid(monitor._back) is None
        assert sums(monitor) == (1.0, Counter(scored=1))
    assert f"{name.partition('.')[0]} has replaced threads" in caplog.text
