"""Increments that wait while the store is away: in bounded memory, counted."""

from __future__ import annotations

import os
import threading
import uuid
from typing import Final

from ragmonitor.store.buckets import Increments, merge_buckets
from ragmonitor.store.interface import Settlement, Store, StoreUnavailableError

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
_ROW_BYTES: Final = 200
"""A list, a name and their places in tables."""
_FLOAT_BYTES: Final = 32


class Outbox:
    """Adds increments to a store, each exactly once, and keeps them while it is away.

    What waits is added up, so that it takes the place of buckets and series and not of answers. A
    call that failed may have added all the same; so each batch has an id, which the store settles.
    """

    def __init__(self, store: Store, *, max_bytes: int = MAX_WAITING_BYTES) -> None:
        """Begin with nothing.

        Args:
            store: Where increments go.
            max_bytes: The memory that those may take which wait.
        """
        self._store, self._max_bytes = store, max_bytes
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sent: Increments = {}
        """A batch that was sent and perhaps not added."""
        self._id = ""
        self._waiting: Increments = {}
        self.is_up = True
        """Whether the last call reached the store."""
        self.dropped = 0
        """Calls of `add` whose increments found no room, and batches that no store can take."""
        self.late = 0
        """Bets that came after their bucket was closed, and count in no alarm."""

    def _mine(self) -> threading.Lock:
        """Return the lock; a forked child begins anew, and what waits is its parent's."""
        if os.getpid() != self._pid:
            self._begin()
        return self._lock

    def add(self, increments: Increments) -> int:
        """Add increments and what waits; return the bucket of draws, -1: the store is away."""
        with self._mine():
            if self.waiting_bytes + size_bytes(increments) > self._max_bytes:
                self.dropped += 1
            else:
                merge_buckets(self._waiting, increments)
            return self._flush()

    def flush(self) -> int:
        """Try to add what waits; return as `add` does."""
        with self._mine():
            return self._flush()

    @property
    def waiting_bytes(self) -> int:
        """The memory that waiting increments take, more or less."""
        return size_bytes(self._sent) + size_bytes(self._waiting)

    def _flush(self) -> int:
        bucket = -1
        while self._sent or self._waiting:
            if not self._sent:
                self._sent, self._waiting, self._id = self._waiting, {}, uuid.uuid4().hex
            try:
                added = self._store.add(self._sent, [Settlement(self._id)])
            except StoreUnavailableError:
                self.is_up = False
                return -1
            except Exception:  # raised again: tried again it would fail for ever
                self._sent = {}
                self.dropped += 1
                raise
            bucket, self._sent = added.bucket, {}  # refused: an earlier try had added it
            self.late += added.late
        self.is_up = True
        return bucket


def size_bytes(increments: Increments) -> int:
    """Return the memory that increments take, more or less.

    >>> size_bytes({"totals": {"answers": [1.0]}})
    239
    """
    return sum(
        _ROW_BYTES + len(field) + _FLOAT_BYTES * len(row)
        for rows in increments.values()
        for field, row in rows.items()
    )
