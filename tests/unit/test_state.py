"""What outlives a process: whole, one writer at a time, or not at all."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.state import StateFile
from tests.support.waiting import until


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "state" / "thing.json", version=3)


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


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda name: name != "version"),
        st.recursive(
            st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_any_json_makes_the_round_trip(tmp_path_factory, state):
    """Numbers to the last bit, infinities included."""
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
    ],
)
def test_what_cannot_be_read_is_a_value_error(file, content):
    """Broken, of another version, or no object at all."""
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        file.read()


def test_a_folder_in_its_place_is_an_os_error(file):
    """What the system says is passed on."""
    file.path.mkdir(parents=True)
    with pytest.raises(OSError, match="thing"):
        file.read()
    with pytest.raises(OSError, match="thing"), file.alone():
        file.write({"a": 1})


def test_a_failed_write_leaves_the_old_state_and_no_draft(file):
    """What cannot be written as JSON, or not at all."""
    kept(file, a=1)
    with pytest.raises(TypeError), file.alone():
        file.write({"a": object()})
    assert file.read() == {"version": 3, "a": 1}
    file.path.unlink()
    file.path.mkdir()
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
from ragmonitor.state import StateFile

file = StateFile(Path(sys.argv[1]), version=3)
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
