"""What is registered for forks begins anew in the child, and a fork waits for a step under way."""

import os
import signal
import threading

import pytest

from ragmonitor.runtime import forks
from ragmonitor.runtime.forks import ForkSafeLock, survive_forks
from ragmonitor.runtime.guard import errors

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Part:
    """Notes in which order the child calls it."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls
        self.step = threading.Lock()
        survive_forks(self)

    def after_fork_in_child(self) -> None:
        """Note it; the last one ends the child."""
        self.calls.append(self.name)
        if self.name == "failing":
            raise LookupError("ours")
        if self.name == "last":
            os._exit(7 if self.calls == ["first", "failing", "last"] else 8)


def fork() -> int:
    """Fork once; return the child's exit status."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_child_calls_all_in_order_whatever_one_raises():
    """The parent calls none of them, and has its steps back."""
    calls: list[str] = []
    parts = [Part(name, calls) for name in ("first", "failing", "last")]
    before = errors["fork"]
    assert fork() == 7
    assert calls == []
    assert errors["fork"] == before
    assert not any(part.step.locked() for part in parts)


def test_a_fork_waits_for_a_step_and_then_goes_on(monkeypatch):
    """What is held for too long is let be, and released by whoever holds it."""
    monkeypatch.setattr(forks, "FORK_WAIT_S", 0.01)
    part = Part("held", [])
    with part.step:
        assert fork() == 0
        assert part.step.locked()
    assert not part.step.locked()


def test_a_lock_that_another_thread_holds_is_free_in_the_child():
    """Its thread stayed with the parent."""
    lock = ForkSafeLock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)  # ends a child that waits
        with lock:
            os._exit(0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
