"""Increments that wait while the store is away."""

from __future__ import annotations

import os

import pytest

from ragmonitor.store import Added, Memory, Outbox, Sqlite, StoreUnavailableError


class Failing(Memory):
    """Fails as it is told: before it adds, or after."""

    mode = ""

    def add(self, increments, settlements=(), *, consumer="") -> Added:
        if self.mode == "before":
            raise StoreUnavailableError("away")
        added = super().add(increments, settlements, consumer=consumer)
        if self.mode == "after":
            raise StoreUnavailableError("the reply was lost")
        return added


def test_increments_wait_and_are_added_once():
    """Whether a call failed before or after it had added."""
    store = Failing()
    box = Outbox(store)
    for mode in ("", "before", "after", "before", "after", "after", ""):
        store.mode = mode
        box.add({"totals": {"answers": [1.0]}})
        assert box.is_up == (mode == "")
    assert store.read("totals") == {"answers": [7.0]}
    assert box.waiting_bytes == 0


def test_what_waits_is_added_up_and_bounded():
    """More answers of the same series take no more memory; beyond the bound they are counted."""
    store = Failing()
    store.mode = "before"
    box = Outbox(store, max_bytes=2_000)
    for _ in range(100):
        assert box.add({"r0": {"s": [1.0] * 10}}) == -1
    assert box.waiting_bytes < 2_000
    box.add({"r0": {f"s{n}": [1.0] for n in range(10)}})
    assert box.dropped == 1
    store.mode = ""
    assert box.flush() >= 0
    assert store.read("r0") == {"s": [100.0] * 10}


def test_what_no_store_can_take_keeps_nothing_else_out():
    """It is counted as lost: tried again it would fail for ever, and no mean would move."""
    store = Memory()
    box = Outbox(store)
    with pytest.raises(UnicodeEncodeError):
        box.add({"totals": {"half \ud800": [1.0]}})
    assert box.dropped == 1
    box.add({"totals": {"answers": [1.0]}})
    assert store.read("totals") == {"answers": [1.0]}


def test_a_forked_child_leaves_what_waits_to_its_parent(tmp_path):
    """Both would add it, and a lock that a thread of the parent held is free."""
    store = Sqlite(tmp_path / "a.db", "shop")
    box = Outbox(store)
    box._waiting = {"totals": {"answers": [5.0]}}
    with box._lock:
        pid = os.fork()
        if pid == 0:
            box.add({"totals": {"answers": [1.0]}})
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    box.flush()
    assert store.read("totals") == {"answers": [6.0]}
