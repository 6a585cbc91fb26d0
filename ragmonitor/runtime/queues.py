"""Holds finished interactions, and counts of refused ones, until they are taken."""

from __future__ import annotations

import sys
import threading
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from ragmonitor.runtime.guard import shielded
from ragmonitor.runtime.protocols import Finished

MAX_BYTES: Final = 64 * 2**20
"""The bytes of texts that wait at most."""
UNWEIGHED: Final = 16
"""So many wait unweighed: weighing takes a request some time, and a queue that is worked off needs
none."""
MAX_VALUES: Final = 1_000
"""Values of one interaction that are looked at; what is behind them weighs nothing."""

MAX_NOTES = 10_000
"""Beyond this number, notes are added up by the thread that makes them."""

Key = TypeVar("Key", bound=Hashable)


class MemoryQueue:
    """First in, first out. Refuses when full: the newest is not taken.

    No lock: a deque's `append` and `popleft` are atomic, so a fork can never leave one held.
    Threads that put at once may exceed the bounds by at most their number.
    """

    def __init__(self, size: int, max_bytes: int = MAX_BYTES) -> None:
        self._size, self._max_bytes = size, max_bytes
        self._waiting: deque[tuple[Finished, int]] = deque()
        self._bytes = 0

    def put(self, finished: Finished) -> bool:
        """Take it, or return False: the queue is full."""
        if len(self._waiting) >= self._size or self._bytes >= self._max_bytes:
            return False
        weight = 0
        if len(self._waiting) >= UNWEIGHED:
            with shielded("capture"):
                weight = weight_of(finished)
        self._bytes += weight
        self._waiting.append((finished, weight))
        return True

    @property
    def room(self) -> int:
        """The number of items that there is still room for."""
        return max(0, self._size - len(self._waiting)) if self._bytes < self._max_bytes else 0

    def take(self) -> Finished | None:
        """Return what waits longest; None if none waits."""
        try:
            finished, weight = self._waiting.popleft()
        except IndexError:
            self._bytes = 0  # two threads that add at once may have lost something
            return None
        self._bytes -= weight
        return finished

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)


def weight_of(finished: Finished) -> int:
    """Return the bytes of the texts that something finished holds, as far as that is soon told."""
    total, left = 0, [getattr(finished, "held", ())]
    for _ in range(MAX_VALUES):
        if not left:
            break
        value: Any = left.pop()
        if isinstance(value, str | bytes):
            total += sys.getsizeof(value)
        elif isinstance(value, dict):
            # By the base class: a request waits for this, and no code of anybody's may run.
            left.extend(islice(dict.values(value), MAX_VALUES))
        elif isinstance(value, list | tuple):
            kind: Any = list if isinstance(value, list) else tuple
            left.extend(kind.__getitem__(value, slice(MAX_VALUES)))
        elif not isinstance(value, int | float | type | None):
            left.extend(_fields_of(value))
    return total


def _fields_of(value: Any) -> list[Any]:
    """Return the values of an object's fields."""
    fields = [*islice(getattr(value, "__dict__", {}).values(), MAX_VALUES)]
    slots = getattr(type(value), "__slots__", ())
    fields += [getattr(value, each, None) for each in slots if not each.startswith("__")]
    return fields[:MAX_VALUES]


class Notes(Generic[Key]):
    """Counts keys. `note` waits for no lock; `take` may be called from any thread.

    A finaliser may make a note, and garbage may be collected at any allocation: also while the same
    thread holds a lock of the counters, or the one in here.
    """

    def __init__(self) -> None:
        self._new: deque[tuple[Key, int]] = deque()
        self._adding = threading.Lock()
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
