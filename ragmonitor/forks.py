"""Calls the parts that must be put in order when the application forks.

A part that holds a lock, a thread or a descriptor registers itself here. It has any of three
methods, which are called as `os.register_at_fork` calls its functions: `before_fork` (the newest
registration first), `after_fork_in_parent` and `after_fork_in_child` (the oldest first). An
exception is logged and counted, and the next part is called.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ragmonitor.guard import shielded

FORK_WAIT_S = 1.0

_registered: list[weakref.ref[object]] = []


def survive_forks(part: object) -> None:
    """Call a part's fork methods at every fork from now on, for as long as the part lives."""
    # In one step: another thread may fork meanwhile.
    _registered[:] = [known for known in _registered if known() is not None] + [weakref.ref(part)]


class ForkSafeLock:
    """A lock that a forked child finds free, whichever thread of the parent held it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        survive_forks(self)

    def acquire(self, blocking: bool = True) -> bool:
        """Return whether it is held now; wait for it if `blocking`."""
        return self._lock.acquire(blocking)

    def release(self) -> None:
        """Let others have it."""
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_raised: object) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin anew: a thread that held it stayed with the parent."""
        self._lock = threading.Lock()


class WorksInSteps:
    """A part whose thread holds `_step` while shared state changes: a fork waits for that."""

    _step: threading.Lock
    _forking = 0
    """The thread that holds `_step` over its fork: others may fork at the same time."""

    def before_fork(self) -> None:
        """Wait until the thread is between two steps, `FORK_WAIT_S` at most."""
        if self._step.acquire(timeout=FORK_WAIT_S):
            self._forking = threading.get_ident()
        elif self._forking == threading.get_ident():  # a child's copy of its parent's
            self._forking = 0

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._forking == threading.get_ident():
            self._forking = 0
            self._step.release()


class _Starting(WorksInSteps):
    """The start of a process of ours, which a fork waits for."""

    def __init__(self) -> None:
        self._step = threading.Lock()
        survive_forks(self)

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread that starts a process stayed with the parent."""
        self._step, self._forking = threading.Lock(), 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have forks wait, for `FORK_WAIT_S` at most."""
        with self._step:
            yield


def _call(method: str, references: Iterable[weakref.ref[object]]) -> None:
    for reference in references:
        hook = getattr(reference(), method, None)
        if hook is not None:
            with shielded("fork"):
                hook()


_starting = _Starting()


def without_forks() -> AbstractContextManager[None]:
    """Return a block in which a process is started while nobody forks.

    A child that is forked meanwhile would have a copy of the pipe whose end `subprocess.Popen`
    waits for, and of connections that are not given to anybody yet: for as long as it lives.
    """
    return _starting.alone()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _call("before_fork", _registered[::-1]),
        after_in_parent=lambda: _call("after_fork_in_parent", tuple(_registered)),
        after_in_child=lambda: _call("after_fork_in_child", tuple(_registered)),
    )
