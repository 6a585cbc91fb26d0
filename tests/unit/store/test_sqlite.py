"""The store in a file: across forks, and where files fail."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sqlite3
import stat
import time

import pytest

from ragmonitor.store import Memory, Settlement, Sqlite, StoreUnavailableError, open_store
from ragmonitor.store.sqlite import file_system_of


def _in_child(act) -> int:
    """Return the exit status of a forked child that acts."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001 - a child of a test must not go on as one
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_a_file_is_opened_at_the_first_call_and_for_its_owner_alone(tmp_path):
    """Texts of answers may stand in it."""
    store = Sqlite(tmp_path / "a.db", "shop")
    assert not (tmp_path / "a.db").exists()
    store.add({})
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600


def test_a_forked_child_opens_its_own_connection(tmp_path):
    """Parent and children add to one file, whoever had it open at the fork."""
    store = Sqlite(tmp_path / "a.db", "shop")
    store.add({"totals": {"answers": [1.0]}})

    def add_some() -> None:
        for _ in range(20):
            store.add({"totals": {"answers": [1.0]}})

    assert [_in_child(add_some) for _ in range(3)] == [0, 0, 0]
    store.add({"totals": {"answers": [1.0]}})
    assert store.read("totals") == {"answers": [62.0]}


def test_a_child_forked_while_a_thread_held_the_lock_goes_on(tmp_path):
    """The lock belonged to a thread that stayed with the parent."""
    store = Sqlite(tmp_path / "a.db", "shop")
    store.add({})
    with store._lock:
        status = _in_child(lambda: store.add({"totals": {"answers": [1.0]}}))
    assert status == 0
    assert store.read("totals") == {"answers": [1.0]}


def test_a_child_of_a_memory_store_begins_with_nothing():
    """Its parent keeps what it has."""
    store = Memory()
    store.add({"totals": {"answers": [1.0]}})

    def check() -> None:
        assert store.read("totals") == {}

    with store._lock:
        assert _in_child(check) == 0


def test_services_share_a_file_and_nothing_else(tmp_path):
    """Each has its own sums, state and rows."""
    one, two = (Sqlite(tmp_path / "a.db", name) for name in ("one", "two"))
    one.add({"r0": {"s": [1.0]}})
    one.commit(0, {"closed": 5})
    one.keep("incident", "1", b"x")
    assert (two.names("r"), two.state(), two.rows("incident")) == ([], (0, {}), {})


def _written(path) -> None:
    store = Sqlite(path, "shop")
    store.add({"r0": {"s": [1.0] * 500}})
    store.close()


def _torn(path):
    _written(path)
    content = path.read_bytes()
    path.write_bytes(b"\x13" * 5_000 + content[5_000:])


def _foreign(path):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE mine (x)")
    db.close()


def _newer(path):
    _written(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


def _anothers(path):
    _written(path)
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 54_321, -1)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_torn, "not a database"),
        (_anothers, "belongs to another user"),
        (lambda path: path.write_text("hello"), "not a database"),
        (_foreign, "something else"),
        (_newer, "later release"),
        (lambda path: path.mkdir() or (path / "ragmonitor.db").mkdir(), "unable to open"),
    ],
    ids=["torn", "anothers", "text", "foreign", "newer", "folder"],
)
def test_a_file_that_cannot_be_used_is_left_as_it_is(tmp_path, caplog, spoil, says):
    """One warning says why, and estimates are kept in memory."""
    path = tmp_path / "a.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            store = open_store(path, "shop")
            store.add({"totals": {"answers": [1.0]}})
            assert store.read("totals") == {"answers": [1.0]}
    assert len(caplog.records) == 1
    assert says in caplog.text
    assert before is None or path.read_bytes() == before


def test_a_volume_may_show_every_file_as_one_users(tmp_path):
    """Whoever has the folder could put any file there."""
    _anothers(tmp_path / "a.db")
    os.chown(tmp_path, 54_321, -1)
    assert Sqlite(tmp_path / "a.db", "shop").names("r") == [0]


def test_a_folder_gets_a_file_of_ours(tmp_path):
    """`state=/var/lib/ragmonitor` is enough."""
    assert open_store(tmp_path, "shop").place == str(tmp_path / "ragmonitor.db")


def test_a_folder_that_is_not_there_is_made_with_the_first_sums(tmp_path, caplog):
    """And not before: a server may fork until then."""
    store = open_store(tmp_path / "none", "shop")
    assert not (tmp_path / "none").exists()
    store.add({"totals": {"answers": [1.0]}})
    assert (tmp_path / "none" / "ragmonitor.db").exists()
    assert not caplog.records


def test_a_full_disk_is_unavailable_and_nothing_is_half_added(tmp_path):
    """A page limit stands for the disk."""
    store = Sqlite(tmp_path / "a.db", "shop")
    store.add({"totals": {"answers": [1.0]}})
    store._db.execute("PRAGMA max_page_count = 14")
    with pytest.raises(StoreUnavailableError, match="full"):
        store.add({f"r{n}": {"s": [1.0] * 100} for n in range(200)} | {"totals": {"answers": [1]}})
    assert (store.names("r"), store.read("totals")) == ([], {"answers": [1.0]})


def test_a_writer_waits_a_second_at_most(tmp_path):
    """Somebody else's lock holds up no thread of ours for longer."""
    store = Sqlite(tmp_path / "a.db", "shop")
    store.add({})
    assert store._db.execute("PRAGMA busy_timeout").fetchone()[0] == 1_000
    other = sqlite3.connect(store.place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store._db.execute("PRAGMA busy_timeout = 20")
    with pytest.raises(StoreUnavailableError, match="locked"):
        store.add({})
    other.execute("ROLLBACK")
    store.add({})


def test_network_file_systems_are_refused(tmp_path, monkeypatch):
    """The table of mounts says what a file is on; the longest mount point counts."""
    table = tmp_path / "mounts"
    table.write_text(
        f"/dev/a / ext4 rw 0 0\nnas:/x {tmp_path}/share nfs4 rw 0 0\nd /srv xfs rw 0 0\n"
    )
    assert file_system_of(tmp_path / "share" / "a.db", table) == "nfs4"
    assert file_system_of(tmp_path / "shared.db", table) == "ext4"
    assert file_system_of(tmp_path / "a.db", tmp_path / "none") == ""
    monkeypatch.setattr("ragmonitor.store.sqlite.file_system_of", lambda _: "nfs4")
    with pytest.raises(StoreUnavailableError, match="network file system"):
        Sqlite(tmp_path / "a.db", "shop").add({})


def test_settled_records_are_forgotten_after_hours(tmp_path):
    """The table does not grow for ever."""
    now = [1_000.0]
    store = Sqlite(tmp_path / "a.db", "shop", clock=lambda: now[0])
    store.add({}, [Settlement("one")])
    now[0] += 1_000
    store.commit(0, {})
    assert store.rows("record") == {"one": b""}
    now[0] += 10_000
    store.commit(1, {})
    assert store.rows("record") == {}


def test_a_copy_of_the_file_is_a_store(tmp_path):
    """After `close` everything is in the one file."""
    store = Sqlite(tmp_path / "a.db", "shop")
    store.add({"r0": {"s": [1.0]}})
    store.close()
    shutil.copy(store.place, tmp_path / "b.db")
    assert Sqlite(tmp_path / "b.db", "shop").read("r0") == {"s": [1.0]}
    assert store.read("r0") == {"s": [1.0]}


def test_processes_that_open_a_new_file_at_once_share_it(tmp_path):
    """None of them takes a file that another is about to fill for a foreign one."""
    stores = [Sqlite(tmp_path / "a.db", "shop") for _ in range(8)]
    pids = []
    for store in stores:
        pid = os.fork()
        if pid == 0:
            try:
                store.add({"totals": {"answers": [1.0]}})
            except StoreUnavailableError:
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8
    assert stores[0].read("totals") == {"answers": [8.0]}


def test_a_file_that_another_process_has_begun_is_not_foreign(tmp_path):
    """It has a header and no table yet."""
    db = sqlite3.connect(tmp_path / "a.db")
    db.execute("PRAGMA journal_mode = WAL")
    Sqlite(tmp_path / "a.db", "shop").add({})
    db.close()


def test_a_process_that_is_killed_leaves_each_record_added_once_or_not_at_all(tmp_path):
    """Whoever takes its records over adds the rest, at whatever moment it died."""
    store, records = Sqlite(tmp_path / "a.db", "shop"), [f"r{n}" for n in range(300)]
    taken = 0
    for kill in range(4):
        pid = os.fork()
        if pid == 0:
            for record in records:
                store.add({"totals": {"answers": [1.0]}}, [Settlement(record)])
            os._exit(0)
        deadline_s = time.monotonic() + 5
        while taken < 50 * (kill + 1) and time.monotonic() < deadline_s:
            taken = store.read("totals").get("answers", [0.0])[0]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for record in records:
        store.add({"totals": {"answers": [1.0]}}, [Settlement(record)])
    assert store.read("totals") == {"answers": [300.0]}
