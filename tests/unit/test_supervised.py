"""The thread of a part: it starts on demand, and begins again whatever ended its work."""

import threading

import pytest

from ragmonitor.runtime import guard, supervised
from ragmonitor.runtime.supervised import SupervisedThread

PATIENCE_S = 30.0


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(supervised, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(supervised, "START_AGAIN_S", 0.0)


class Panic(BaseException):
    """What no `except Exception` holds."""


@pytest.mark.parametrize("error", [ValueError, Panic, SystemExit])
def test_work_that_fails_begins_again_and_is_told(error):
    """On the same thread, however it failed; each failure is counted."""
    done, failures, before = threading.Event(), [], guard.errors["worker"]

    def work():
        if len(failures) < 3:
            raise error
        done.set()
        return False

    thread = SupervisedThread(work, failed=lambda: failures.append(threading.current_thread()))
    thread.start()
    assert done.wait(PATIENCE_S)
    assert thread.join(PATIENCE_S)
    assert len(failures) == 3
    assert len(set(failures)) == 1
    assert guard.errors["worker"] - before == 3


def test_work_is_called_until_it_has_nothing_more_to_do():
    """Then the thread ends, and the next start begins another."""
    threads = []

    def work():
        threads.append(threading.current_thread())
        return len(threads) % 3 != 0

    thread = SupervisedThread(work)
    for _ in range(2):
        thread.start()
        assert thread.join(PATIENCE_S)
        assert not thread.is_started
    assert len(threads) == 6
    assert len(set(threads)) == 2


def test_a_system_without_threads_is_asked_again(monkeypatch):
    """By the next start; that it had none is counted."""
    monkeypatch.setattr(threading.Thread, "start", lambda _: _none())
    before = guard.errors["worker"]
    thread = SupervisedThread(lambda: False)
    thread.start()
    assert not thread.is_started
    assert guard.errors["worker"] - before == 1
    monkeypatch.undo()
    thread.start()
    assert thread.join(PATIENCE_S)


def _none():
    raise RuntimeError("can't start new thread")
