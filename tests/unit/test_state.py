"""What outlives a process: whole, one writer at a time, or not at all."""

import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor import guard
from ragmonitor.state import StateFile
from ragmonitor.state.kept_state import StateLockedError
from tests.support.waiting import until


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "state" / "thing.json", version=3)


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    """Nothing has been logged before."""
    monkeypatch.setattr(guard, "_logged", set())


def kept(file, **state):
    with file.alone():
        file.write(state)


def test_there_is_nothing_at_first(file):
    """And nothing is made by looking."""
    assert file.read() is None
    assert not file.path.parent.exists()


def test_what_was_written_is_read(file):
    """With the version it was written in."""
    kept(file, values=[1.5, None, "长城"], by_name={"a": {"b": True}})
    assert file.read() == {
        "version": 3,
        "values": [1.5, None, "长城"],
        "by_name": {"a": {"b": True}},
    }


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda name: name != "version"),
        st.recursive(
            st.none()
            | st.booleans()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.integers(-(2**63), 2**64)
            | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_any_json_makes_the_round_trip(tmp_path_factory, state):
    """Numbers to the last bit."""
    file = StateFile(tmp_path_factory.getbasetemp() / "round-trip.json", version=1)
    kept(file, **state)
    assert file.read() == {"version": 1, **state}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"3",
        b"{}",
        b'{"version": 2}',
        b'{"version": "3"}',
        b'{"version": 3, "half": ',
        b"\xff\xfe\x00",
        b"\x00" * 100,
        b"[" * 200_000,
        b'{"version": 3, "a": NaN}',
        b'{"version": 3, "a": -Infinity}',
        b'{"version": 3, "a": 1e999}',
        b'{"version": 3, "a": 1' + b"0" * 30 + b"}",
    ],
)
def test_what_cannot_be_read_is_a_value_error(file, content):
    """Broken, of another version, or no object at all."""
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        file.read()


@pytest.mark.parametrize("thing", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_set_aside(file, thing):
    """A folder or a pipe in its place keeps nobody waiting, and the next state is written."""
    file.path.parent.mkdir()
    thing(file.path)
    with pytest.raises(ValueError, match="no file"):
        file.read()
    kept(file, a=1)
    assert file.read() == {"version": 3, "a": 1}


def test_what_cannot_be_understood_is_set_aside_said_once_and_counted(file, caplog):
    """People find it beside the new one; a file that was written meanwhile stays."""
    before = guard.errors["state"]
    file.path.parent.mkdir()
    for content in (b"{torn", b"{torn"):
        file.path.write_bytes(content)
        with pytest.raises(ValueError, match=r"kept as thing\.json\.bad"):
            file.read()
        assert file.read() is None
    assert file.path.with_name("thing.json.bad").read_bytes() == b"{torn"
    assert guard.errors["state"] == before + 2
    assert [r.levelname for r in caplog.records].count("WARNING") == 1
    kept(file, a=1)
    assert file.set_aside("of another time", inode=1) == ""
    assert file.read() == {"version": 3, "a": 1}


def test_a_huge_file_is_not_read(file, monkeypatch):
    """It is told by its size; what is written is held to the same."""
    for module in ("kept_state", "state_file"):
        monkeypatch.setattr(f"ragmonitor.state.{module}.MAX_SIZE_BYTES", 100)
    file.path.parent.mkdir()
    file.path.write_bytes(b" " * 101)
    with pytest.raises(ValueError, match="larger than 100"):
        file.read()
    with pytest.raises(OSError, match="no state"):
        kept(file, a="x" * 100)


def test_nobody_else_reads_or_locks_it(tmp_path):
    """Files are 0600 and the folder that is made is 0700, whatever the umask says."""
    before = os.umask(0o000)
    try:
        file = StateFile(tmp_path / "state" / "thing.json", version=3)
        kept(file, a=1)
    finally:
        os.umask(before)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()
    }
    assert modes == dict.fromkeys(("thing.json", "thing.json.lock", "thing.json.turn"), 0o600)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_lock_of_before_is_closed_to_others(file):
    """One that was made 0644, which anybody could hold, is ours alone from now on."""
    file.path.parent.mkdir()
    lock = file.path.with_name("thing.json.lock")
    lock.touch(0o644)
    kept(file, a=1)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600


def test_drafts_of_the_dead_are_removed(file):
    """Of this file and of what belongs to it; one that is being written stays."""
    file.path.parent.mkdir()
    folder = file.path.with_suffix("")
    folder.mkdir()
    old = [file.path.with_name("thing.json.1.2.tmp"), folder / "ab.json.1.2.tmp"]
    others = [file.path.with_name("other.json.1.2.tmp"), file.path.with_name("thing.json.3.4.tmp")]
    for path in (*old, *others):
        path.write_bytes(b"{")
    for path in (*old, others[0]):
        os.utime(path, (1, 1))
    kept(file, a=1)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in others)


@pytest.mark.skipif(sys.platform == "win32", reason="there a file serves one process")
def test_a_lock_that_is_not_let_go_is_an_error_soon_and_then_at_once(file, monkeypatch, caplog):
    """Nobody waits for long, nor again and again; it is said once, and ends with the lock."""
    monkeypatch.setattr("ragmonitor.state.state_file.LOCK_WAIT_S", 0.05)
    waits = []
    monkeypatch.setattr("ragmonitor.state.state_file.time.sleep", waits.append)
    other = StateFile(file.path, version=3)
    with file.alone():
        for _ in range(3):
            with pytest.raises(StateLockedError, match="keeps its lock"), other.alone():
                pass
            tried, waits[:] = len(waits), []
        assert tried == 0
    kept(other, a=1)
    assert [r.levelname for r in caplog.records].count("WARNING") == 1
    assert [p.name for p in file.path.parent.glob("*.tmp")] == []


@pytest.mark.skipif(sys.platform == "win32", reason="there a file serves one process")
def test_who_waits_for_the_lock_is_before_who_lets_go_and_comes_again(file, monkeypatch):
    """However seldom the one that waits gets to look: else it would be locked out for a minute."""
    monkeypatch.setattr("ragmonitor.state.state_file.PATIENCE_S", 0.0)
    waits, comes_again, order = threading.Event(), threading.Event(), list[str]()

    def sleep(_: float) -> None:
        if threading.current_thread() is waiter:
            waits.set()
            assert comes_again.wait(60)
        else:
            comes_again.set()

    def wait() -> None:
        with file.alone():
            order.append("waiter")

    monkeypatch.setattr("ragmonitor.state.state_file.time.sleep", sleep)
    monkeypatch.setattr("ragmonitor.state.state_file.LOCK_WAIT_S", 60.0)
    waiter = threading.Thread(target=wait)
    other = StateFile(file.path, version=3)
    with other.alone():
        waiter.start()
        assert waits.wait(60)
    with other.alone():
        order.append("other")
    comes_again.set()
    waiter.join(60)
    assert order == ["waiter", "other"]


FORKER = """
import os, sys, threading, time
from pathlib import Path
from ragmonitor.state import StateFile

file = StateFile(Path(sys.argv[1]), version=3)
held, forked = threading.Event(), threading.Event()

def hold():
    with file.alone():
        held.set()
        forked.wait()
        if sys.argv[2] == "dies":
            os._exit(0)

thread = threading.Thread(target=hold)
thread.start()
held.wait()
if os.fork() == 0:
    time.sleep(20)
    os._exit(0)
forked.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("end", ["lets go", "dies"])
def test_a_child_forked_while_the_lock_is_held_does_not_hold_it(file, end):
    """Neither after the parent has let go nor after its death; the child lives on."""
    subprocess.run([sys.executable, "-c", FORKER, str(file.path), end], timeout=15, check=True)
    kept(file, a=1)
    assert file.read() == {"version": 3, "a": 1}


def test_a_failed_write_leaves_the_old_state_and_no_draft(file):
    """What cannot be written as JSON, or not at all."""
    kept(file, a=1)
    with pytest.raises(TypeError), file.alone():
        file.write({"a": object()})
    assert file.read() == {"version": 3, "a": 1}
    file.path.unlink()
    (file.path / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="thing"), file.alone():
        file.write({"a": 2})
    assert list(file.path.parent.glob("*.tmp")) == []


def test_readers_find_a_whole_state_at_any_moment(file):
    """Without asking to be alone."""
    kept(file, numbers=[0] * 500)
    stop, broken = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                found = file.read()
                if len(set(found["numbers"])) != 1:
                    broken.append(found)
            except ValueError as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        kept(file, numbers=[number] * 500)
    stop.set()
    reader.join()
    assert broken == []


def test_threads_take_turns(file):
    """Each adds one to what it read: none is lost."""

    def add(_):
        with file.alone():
            before = file.read() or {"n": 0}
            file.write({"n": before["n"] + 1})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(80)))
    assert file.read()["n"] == 80


ADDER = """
import sys
from pathlib import Path
from ragmonitor.state import state_file as state

state.LOCK_WAIT_S = 60
file = state.StateFile(Path(sys.argv[1]), version=3)
for _ in range(40):
    with file.alone():
        before = file.read() or {"n": 0}
        file.write({"n": before["n"] + 1})
"""

HOLDER = """
import sys, time
from pathlib import Path
from ragmonitor.state import StateFile

file = StateFile(Path(sys.argv[1]), version=3)
with file.alone():
    file.path.with_name("held").touch()
    time.sleep(60)
"""


def test_processes_take_turns(file):
    """The same over processes."""
    running = [subprocess.Popen([sys.executable, "-c", ADDER, str(file.path)]) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert file.read()["n"] == 120


@pytest.mark.skipif(sys.platform == "win32", reason="there a file serves one process")
def test_who_dies_lets_go(file):
    """The lock is the system's: it ends with the process, and the old state stands."""
    kept(file, a=1)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(file.path)])
    try:
        until("the other holds it", file.path.with_name("held").exists)
        entered = threading.Event()

        def enter():
            with file.alone():
                entered.set()

        waiter = threading.Thread(target=enter)
        waiter.start()
        assert not entered.wait(0.2)
    finally:
        holder.kill()
        holder.wait()
    waiter.join(timeout=30)
    assert entered.is_set()
    assert file.read() == {"version": 3, "a": 1}


def test_services_have_files_of_their_own():
    """Whatever their names: alike without their signs, empty of letters, or very long."""
    services = ["a b", "a_b", "a/b", "../b", "客服", "客户", "", "x" * 300, "x" * 301, "a.b", "A.B"]
    paths = [StateFile.of_service(Path("d"), "alarms", name, version=1).path for name in services]
    assert len(set(paths)) == len(paths)
    assert all(path.parent == Path("d") and len(path.name) < 200 for path in paths)
    again = StateFile.of_service(Path("d"), "alarms", "a b", version=1).path
    assert again == paths[0]


def test_the_file_is_json_that_people_can_read(file):
    """One object, the version first."""
    kept(file, a=1)
    assert list(json.loads(file.path.read_text(encoding="utf-8"))) == ["version", "a"]


def test_a_state_is_changed_in_one_step(file):
    """From nothing, from what was written; `None` leaves it as it is."""
    seen = []

    def count(state):
        seen.append(state.get("count", 0))
        return {"count": seen[-1] + 1} if seen[-1] < 2 else None

    assert all(file.update(count, stage="state", what="the count") for _ in range(4))
    assert seen == [0, 1, 2, 2]
    assert file.read() == {"version": 3, "count": 2}


def test_a_state_that_cannot_be_understood_is_changed_from_nothing(file):
    """It is counted where its owner says."""
    file.path.parent.mkdir()
    file.path.write_text("{torn")
    before = guard.errors["drift"]
    assert file.update(lambda state: {"was": dict(state)}, stage="drift", what="the reference")
    assert guard.errors["drift"] == before + 1
    assert file.read() == {"version": 3, "was": {}}


def test_a_change_that_the_disk_refuses_is_reported(tmp_path):
    """Nothing is raised; the caller goes on in memory."""
    (tmp_path / "taken").write_text("a file where a folder should be")
    file = StateFile(tmp_path / "taken" / "thing.json", version=3)
    before = guard.errors["state"]
    assert not file.update(lambda _: {}, stage="drift", what="the reference")
    assert guard.errors["state"] == before + 1
