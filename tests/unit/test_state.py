"""What outlives a process: whole, one writer at a time, or not at all."""

import os
import stat
import subprocess
import sys
import threading
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
