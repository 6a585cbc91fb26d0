"""A stream within one process, which keeps the promises of the others in few lines."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ragmonitor.pipeline.streams import Delivery, StreamState


@dataclass(slots=True)
class _Entry:
    data: bytes
    stored_s: float
    consumer: str = ""
    deliveries: int = 0
    renewed_s: float = 0.0


class InMemoryStream:
    """Keeps what `Stream` promises until the process ends."""

    def __init__(
        self, *, max_records: int = 1_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_records = max_records
        self._clock = clock
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._entries: dict[str, _Entry] = {}

    def put(self, data: bytes) -> bool:
        """Store a record."""
        with self._changed:
            if len(self._entries) >= self._max_records:
                return False
            self._entries[str(next(self._numbers))] = _Entry(data, self._clock())
            self._changed.notify_all()
        return True

    def take(
        self, consumer: str, max_items: int, *, wait_s: float, stale_s: float | None
    ) -> Sequence[Delivery]:
        """Return stale records, then new ones."""
        with self._changed:
            taken = self._take(consumer, max_items, stale_s)
            if not taken and wait_s > 0:
                self._changed.wait(wait_s)
                taken = self._take(consumer, max_items, stale_s)
        return taken

    def _take(self, consumer: str, max_items: int, stale_s: float | None) -> list[Delivery]:
        now = self._clock()
        stale = [
            id_
            for id_, each in self._entries.items()
            if stale_s is not None and each.consumer and now - each.renewed_s >= stale_s
        ]
        new = [id_ for id_, each in self._entries.items() if not each.consumer]
        taken = []
        for id_ in (*stale, *new)[:max_items]:
            entry = self._entries[id_]
            entry.consumer, entry.renewed_s = consumer, now
            entry.deliveries += 1
            taken.append(Delivery(id=id_, data=entry.data, deliveries=entry.deliveries))
        return taken

    def renew(self, consumer: str, ids: Collection[str]) -> None:
        """Note that a consumer still works on records."""
        with self._changed:
            for entry in filter(None, map(self._entries.get, ids)):
                entry.consumer, entry.renewed_s = consumer, self._clock()

    def settle(self, ids: Collection[str]) -> None:
        """Forget records."""
        with self._changed:
            for id_ in ids:
                self._entries.pop(id_, None)

    def state(self) -> StreamState:
        """Return how much is where."""
        with self._changed:
            entries = self._entries.values()
            held = sum(1 for each in entries if each.consumer)
            now = self._clock()
            oldest = min((each.stored_s for each in entries), default=now)
            return StreamState(
                waiting=len(entries) - held,
                open=held,
                oldest_s=max(0.0, now - oldest),
            )

    def close(self) -> None:
        """Keep everything: there is nothing to release."""
