"""Sums that wait while the store is away."""

from __future__ import annotations

import pytest

from ragmonitor.store import Added, Memory, Outbox, StoreUnavailableError, merge_buckets
from ragmonitor.store.outbox import SENT_FROM


class Failing(Memory):
    """Fails as it is told: before it adds, or after."""

    mode = ""

    def add(self, increments, settlements=()) -> Added:
        if self.mode == "before":
            raise StoreUnavailableError("away")
        added = super().add(increments, settlements)
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
        box.flush()
        assert box.is_up == (mode == "")
    assert store.read("totals") == {"answers": [7.0]}
    assert box.waiting == 0


def test_what_waits_is_added_up_and_bounded(monkeypatch):
    """More answers of the same series take no more memory; beyond the bound they are counted."""
    store = Failing()
    store.mode = "before"
    monkeypatch.setattr("ragmonitor.store.outbox.MAX_WAITING", 10)
    box = Outbox(store)
    for _ in range(100):
        box.add({"r0": {"s": [1.0] * 10}})
        box.flush()
    assert box.waiting < 10
    box.add({"r0": {f"s{n}": [1.0] for n in range(10)}})
    assert box.dropped == 1
    store.mode = ""
    box.flush()
    assert store.read("r0") == {"s": [100.0] * 10}


def test_what_no_store_can_take_keeps_nothing_else_out():
    """It is counted as lost: tried again it would fail for ever, and no mean would move."""
    store = Memory()
    found: dict = {}
    box = Outbox(store, lambda sums: merge_buckets(found, sums))
    box.add({"totals": {"half \ud800": [1.0]}})
    with pytest.raises(UnicodeEncodeError):
        box.flush()
    assert box.dropped == 1
    box.add({"totals": {"answers": [1.0]}})
    box.flush()
    assert found["totals"] == store.read("totals") == {"answers": [1.0]}


def test_a_worker_with_its_hands_half_full_waits_for_no_tick():
    """Records are settled as soon as so many are done, or their stream could go no faster."""
    store = Memory()
    box = Outbox(store)
    for n in range(SENT_FROM):
        assert store.read("totals") == {}
        box.begin(f"{n}", "", is_again=False)
        box.owe(f"{n}", {"totals": {"answers": [1.0]}})
    assert store.read("totals") == {"answers": [SENT_FROM]}
    assert not box.waits("0")
