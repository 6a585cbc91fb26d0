"""The worker beside an application works in slices; where it has an interpreter to itself not."""

from __future__ import annotations

import functools
import threading

import pytest

from ragmonitor import Monitor, lock_slices
from ragmonitor.back_half import choice
from ragmonitor.back_half.local import LocalBackHalf
from tests.support.stories import interaction

SENTENCES = 12


@pytest.fixture
def pauses(monkeypatch):
    """Every slice is over at once; collects the threads that paused."""
    found = []
    monkeypatch.setattr(lock_slices, "SLICE_S", 0.0)
    monkeypatch.setattr(
        lock_slices, "sleep", lambda _s: found.append(threading.current_thread().name)
    )
    return found


def test_a_thread_that_does_not_work_in_slices_never_pauses(pauses):
    """A guard in a request, `ragmonitor score` and the helper process go on."""
    lock_slices.give_back()
    assert not pauses


def test_a_thread_that_is_behind_does_not_pause(pauses):
    """It would get further behind the busier the application is."""

    def work():
        lock_slices.work_in_slices()
        for is_behind in (True, False):
            lock_slices.say_whether_behind(is_behind=is_behind)
            lock_slices.give_back()

    thread = threading.Thread(target=work, name="behind")
    thread.start()
    thread.join()
    assert pauses == ["behind"]


def test_a_worker_with_too_much_waiting_does_not_pause(pauses, monkeypatch):
    """It is said anew whenever an answer is taken."""
    monkeypatch.setattr("ragmonitor.worker.worker_thread.BEHIND_FROM", -1)
    with Monitor(service="test", server=False, worker="thread") as monitor:
        for number in range(2):
            pauses.clear()
            monitor.observe(interaction(id=f"{number + 1:032x}"))
            assert monitor.flush()
        assert not pauses


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_worker_beside_an_application_gives_the_lock_back_at_each_sentence(
    pauses, monkeypatch, is_apart
):
    """And nobody else pauses for it: the request's thread does not."""
    monkeypatch.setattr(
        choice, "LocalBackHalf", functools.partial(LocalBackHalf, is_apart=is_apart)
    )
    answer = " ".join(f"Parcel {n} weighs {n + 3} kg." for n in range(SENTENCES))
    with Monitor(service="test", server=False, worker="thread") as monitor:
        monitor.observe(interaction(answer=answer))
        assert monitor.flush()
    if is_apart:
        assert not pauses
    else:
        assert set(pauses) == {"ragmonitor"}
        assert len(pauses) > SENTENCES
