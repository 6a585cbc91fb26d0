"""The budget, over processes and restarts."""

from __future__ import annotations

import threading

import pytest

from ragmonitor.store import DAY_S, HOUR_S, Budget, Memory


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Have budgets look at each question: their view may be a second old by the real clock."""
    monkeypatch.setattr("ragmonitor.store.budget.STALE_S", -1.0)


def test_processes_spend_from_one_account(store):
    """Eight threads with budgets of their own never spend more than there is."""
    spent: list[float] = []

    def spend() -> None:
        budget = Budget(store, per_hour=80.0)
        spent.extend(1.0 for _ in range(5) if budget.reserve(1.0))

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(spent) == 10


def test_what_was_not_spent_comes_back(store):
    """A settlement returns the rest, and takes what was spent beyond the reservation."""
    budget = Budget(store, per_day=24.0)
    assert budget.reserve(1.0)
    budget.settle(1.0, spent=0.25)
    assert budget.status(0.0).level == pytest.approx(0.75, abs=1e-2)
    assert budget.reserve(0.5)
    budget.settle(0.5, spent=2.0)
    assert budget.status(0.1).level == pytest.approx(-1.25, abs=1e-2)
    assert not budget.reserve(0.0001)


def test_in_no_hour_and_no_day_more_is_spent_than_the_limit():
    """Whoever asks at each moment gets the limit in a window at most."""
    now = [0.0]
    budget = Budget(Memory(lambda: now[0]), per_hour=20.0, per_day=100.0)
    spent = []
    for step in range(2 * 24 * 60):
        now[0] = step * 60.0
        while budget.reserve(1.0):
            spent.append(now[0])
            if len(spent) % 3 == 0:
                budget.settle(1.0, spent=1.0)
    for window_s, limit in ((HOUR_S, 20), (DAY_S, 100)):
        assert max(sum(t <= u < t + window_s for u in spent) for t in spent) <= limit
    assert sum(u >= DAY_S for u in spent) > 80


def test_what_a_dead_process_had_reserved_counts_as_spent_and_its_room_is_free_after_an_hour():
    """Meanwhile its place is kept, in case it comes back."""
    now = [0.0]
    store = Memory(lambda: now[0])
    assert Budget(store, per_hour=40.0).reserve(5.0)
    other = Budget(store, per_hour=40.0)
    now[0] = 1_800.0
    assert other.status(0.0).level == pytest.approx(5.0)
    now[0] = 2 * HOUR_S
    assert other.status(0.0).level == pytest.approx(10.0)


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_what_is_no_amount_is_refused(amount):
    """What is taken from a budget is a number, and not below 0."""
    with pytest.raises(ValueError, match="cannot be reserved"):
        Budget(Memory(), per_hour=1.0).reserve(amount)
