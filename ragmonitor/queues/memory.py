"""A bounded queue inside the process: the default for one service."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ragmonitor.protocols import Finished


class MemoryQueue:
    """First in, first out, at most `size` waiting. Refuses when full: the newest is not taken.

    No lock: a deque's `append` and `popleft` are atomic, so a fork can never leave one held.
    Many threads putting at once may overshoot the bound by at most their number.
    """

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a queue holds at least one, not {size}")
        self._size = size
        self._waiting: deque[Finished] = deque()

    def put(self, finished: Finished) -> bool:
        """Take it, or return False: the queue is full."""
        if len(self._waiting) >= self._size:
            return False
        self._waiting.append(finished)
        return True

    def take(self, most: int) -> Sequence[Finished]:
        """Return up to `most`, oldest first; empty if there is nothing."""
        taken: list[Finished] = []
        while len(taken) < most:
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
