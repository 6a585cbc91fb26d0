"""Puts things in order when the application forks.

A monitor builds its pipeline anew in the child, and leaves the parent's to the parent. What lives
apart from monitors and holds a lock, or what is open, registers here as well.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, Protocol

from ragmonitor.runtime.guard import shielded

FORK_WAIT_S: Final = 1.0


class SurvivesForks(Protocol):
    """A part that begins anew in a forked child.

    It may have a `step`, a lock that is held while what it shares with the application changes: a
    fork waits for it, `FORK_WAIT_S` at most.
    """

    def after_fork_in_child(self) -> None:
        """Begin anew; the threads of the parent are not here."""


_parts: list[weakref.ref[SurvivesForks]] = []
_held = threading.local()
"""The steps that this thread holds over its fork: others may fork at the same time."""


def survive_forks(part: SurvivesForks) -> None:
    """Call a part at every fork from now on, for as long as it lives; the oldest first."""
    # In one step: another thread may fork meanwhile.
    _parts[:] = [known for known in _parts if known() is not None] + [weakref.ref(part)]


class ForkSafeLock:
    """A lock that a forked child finds free, whichever thread of the parent held it."""

    def __init__(self) -> None:
        """Make it free."""
        self._lock = threading.Lock()
        survive_forks(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_raised: object) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Begin anew: a thread that held it stayed with the parent."""
        self._lock = threading.Lock()


def _before() -> None:
    steps = [getattr(part(), "step", None) for part in _parts]
    _held.steps = [each for each in steps if each is not None and each.acquire(timeout=FORK_WAIT_S)]


def _after_in_parent() -> None:
    for step in _held.steps:
        step.release()


def _after_in_child() -> None:
    for reference in tuple(_parts):
        part = reference()
        if part is not None:
            with shielded("fork"):
                part.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
