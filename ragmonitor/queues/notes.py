"""Counts of what happened, noted where no lock may be waited for."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

NOTES_MOST = 10_000
"""Beyond, notes are added up where they are made."""

Key = TypeVar("Key", bound=Hashable)


class Notes(Generic[Key]):
    """Counts keys. `note` waits for no lock; `take` may be called from any thread.

    A note may be made by a finaliser, and garbage may be collected at any allocation: also while
    the same thread holds the lock of whoever counts in the end, or the one in here.
    """

    def __init__(self) -> None:
        self._new: deque[Key] = deque()
        self.clear()

    def clear(self) -> None:
        """Forget everything; for a forked child, in which the lock may be held for ever."""
        self._adding = threading.Lock()
        self._new.clear()
        self._sums: Counter[Key] = Counter()

    def note(self, key: Key) -> None:
        """Count one more."""
        self._new.append(key)
        if len(self._new) > NOTES_MOST and self._adding.acquire(blocking=False):
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
            self._sums[self._new.popleft()] += 1
