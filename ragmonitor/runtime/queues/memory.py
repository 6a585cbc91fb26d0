"""Holds finished interactions in memory until the worker takes them, up to a bound."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ragmonitor.runtime.protocols import Finished


class MemoryQueue:
    """First in, first out, at most `size` waiting. Refuses when full: the newest is not taken.

    No lock: a deque's `append` and `popleft` are atomic, so a fork can never leave one held.
    Threads that put at once may exceed the bound by at most their number.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a queue holds at least one, not {size}")
        self._size = size
        self._waiting: deque[Finished] = deque()
        self.upstream = 0
        """The number that wait before this queue, in the application's process."""

    def put(self, finished: Finished) -> bool:
        """Take it, or return False: the queue is full."""
        if len(self._waiting) >= self._size:
            return False
        self._waiting.append(finished)
        return True

    @property
    def room(self) -> int:
        """The number of items that it still takes."""
        return max(0, self._size - len(self._waiting))

    def take(self, max_items: int) -> Sequence[Finished]:
        """Return up to `max_items`, oldest first; empty if none waits."""
        taken: list[Finished] = []
        while len(taken) < max_items:
            try:
                taken.append(self._waiting.popleft())
            except IndexError:
                break
        return taken

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what waits."""
        self._waiting.clear()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)
