"""What is registered for forks is called at each, in order, for as long as it lives."""

import os
import threading

import pytest

from ragmonitor import forks, imports
from ragmonitor.forks import WorksInSteps, survive_forks
from ragmonitor.guard import errors

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


class Part:
    """Notes how it is called."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls
        survive_forks(self)

    def before_fork(self) -> None:
        """Note it."""
        self.calls.append(f"before {self.name}")

    def after_fork_in_parent(self) -> None:
        """Note it."""
        self.calls.append(f"after {self.name}")


class Failing(Part):
    """Raises before a fork."""

    def before_fork(self) -> None:
        """Raise."""
        raise LookupError("ours")


class OfChildren(Part):
    """Is called in the child alone."""

    before_fork = after_fork_in_parent = None

    def after_fork_in_child(self) -> None:
        """Say whether the calls of the parent came before."""
        os._exit(7 if self.calls == ["before b", "before a"] else 8)


def fork() -> int:
    """Fork once; return the child's exit status."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_newest_goes_first_before_a_fork_and_last_after_it():
    """As `os.register_at_fork` has it: who came later may hold what the earlier one needs."""
    calls: list[str] = []
    parts = [Part("a", calls), Part("b", calls)]
    assert fork() == 0
    assert calls == ["before b", "before a", "after a", "after b"]
    assert parts


def test_the_child_calls_its_own():
    """After what was called before the fork, and without what the parent calls."""
    calls: list[str] = []
    parts = [Part("a", calls), Part("b", calls), OfChildren("c", calls)]
    assert fork() == 7
    assert parts


def test_a_part_that_fails_costs_the_others_nothing():
    """Its error is counted."""
    calls: list[str] = []
    before = errors["fork"]
    parts = [Part("a", calls), Failing("b", calls)]
    assert fork() == 0
    assert calls == ["before a", "after a", "after b"]
    assert errors["fork"] == before + 1
    assert parts


class Stepping(WorksInSteps):
    """Works in steps."""

    def __init__(self) -> None:
        self._step = threading.Lock()


@pytest.mark.parametrize(
    ("part", "lock"), [(Stepping(), "_step"), (imports._Imports(), "_lock")], ids=["step", "import"]
)
def test_two_threads_that_fork_at_once_leave_nothing_locked(part, lock, monkeypatch):
    """The one that has waited in vain holds nothing, and the other one gives back what it holds."""
    monkeypatch.setattr(forks, "FORK_WAIT_S", 0.01)
    monkeypatch.setattr(imports, "FORK_WAIT_S", 0.01)

    def in_a_thread(call):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    part.before_fork()
    in_a_thread(part.before_fork)
    in_a_thread(part.after_fork_in_parent)
    part.after_fork_in_parent()
    taken = []
    in_a_thread(lambda: taken.append(getattr(part, lock).acquire(blocking=False)))
    assert taken == [True]
