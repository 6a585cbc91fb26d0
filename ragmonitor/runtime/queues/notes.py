"""Counts events in places that must not wait for a lock."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

MAX_NOTES = 10_000
"""Beyond this number, notes are added up by the thread that makes them."""

Key = TypeVar("Key", bound=Hashable)


class Notes(Generic[Key]):
    """Counts keys. `note` waits for no lock; `take` may be called from any thread.

    A finaliser may make a note, and garbage may be collected at any allocation: also while the same
    thread holds a lock of the counters, or the one in here.
    """

    def __init__(self) -> None:
        self._new: deque[tuple[Key, int]] = deque()
        self.clear()

    def clear(self) -> None:
        """Forget everything, with a new lock; for a forked child, whose parent may have held it."""
        self._adding = threading.Lock()
        self._new.clear()
        self._sums: Counter[Key] = Counter()

    def note(self, key: Key, n: int = 1) -> None:
        """Count `n` more."""
        self._new.append((key, n))
        if len(self._new) > MAX_NOTES and self._adding.acquire(blocking=False):
            try:
                self._add()
            finally:
                self._adding.release()

    def take(self) -> Mapping[Key, int]:
        """Return how often each key was noted since the last call."""
        with self._adding:
            self._add()
            taken, self._sums = self._sums, Counter()
        return taken

    def _add(self) -> None:
        while self._new:
            key, n = self._new.popleft()
            self._sums[key] += n
