"""The store of one process: everything in memory."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from ragmonitor.store.buckets import Increments, Rows, merge, merge_buckets, place
from ragmonitor.store.interface import (
    ANY,
    LEASE_S,
    MAX_ROWS,
    Added,
    Any_,
    Decision,
    Settlement,
    check_row,
    has_room,
)

MAX_SETTLED: Final = 100_000
"""Settled records that are known by their id."""


class Memory:
    """Sums of one process. A forked child begins with nothing: its parent keeps what it has."""

    place = "memory"

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin empty.

        Args:
            clock: Seconds since the epoch.
        """
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._sums: Increments = {}
        self._state: tuple[int, dict[str, Any]] = (0, {})
        self._rows: dict[str, dict[str, bytes]] = {}
        self._settled: OrderedDict[str, None] = OrderedDict()
        self._open: dict[str, Decision] = {}
        self._admitted: set[str] = set()
        self._holder, self._until_s = "", 0.0
        self._late = 0

    def _mine(self) -> threading.Lock:
        """Return the lock; in a forked child begin anew, since the parent may have held it."""
        if os.getpid() != self._pid:
            self._begin()
        return self._lock

    def now(self) -> float:
        return self._clock()

    def add(
        self,
        increments: Increments,
        settlements: Sequence[Settlement] = (),
        *,
        consumer: str = "",  # noqa: ARG002 - records are not on a stream
    ) -> Added:
        with self._mine():
            refused = {
                each.key
                for each in settlements
                if each.id in self._settled or (each.decision and each.id in self._open)
            }
            if refused:
                return Added(-1, frozenset(refused))
            placed = place(increments, self.now(), self._state[1].get("closed", -1))
            self._late += placed.late
            merge_buckets(self._sums, placed.increments)
            for each in settlements:
                if each.decision:
                    self._open[each.id] = Decision(placed.bucket, each.decision)
                elif each.id:
                    self._open.pop(each.id, None)
                    self._settled[each.id] = None
            while len(self._settled) > MAX_SETTLED:
                self._settled.popitem(last=False)
        return Added(placed.bucket)

    def decisions(self, ids: Sequence[str]) -> list[Decision | None]:
        with self._mine():
            return [self._open.get(each) for each in ids]

    def admit(self, dimension: str, value: str) -> frozenset[str]:
        with self._mine():
            if has_room(self._admitted, dimension):
                self._admitted.add(f"{dimension}={value}")
            own = [each.partition("=") for each in self._admitted]
        return frozenset(each for name, _, each in own if name == dimension)

    def lease(self, holder: str) -> bool:
        with self._mine():
            now_s = self.now()
            # A clock that was put back frees it, too.
            if self._holder not in ("", holder) and now_s < self._until_s <= now_s + LEASE_S:
                return False
            self._holder, self._until_s = holder, now_s + LEASE_S
        return True

    def names(self, kind: str) -> list[int]:
        with self._mine():
            return sorted(int(n[1:]) for n in self._sums if n[0] == kind and n[1:].isdigit())

    def read(self, name: str) -> Rows:
        with self._mine():
            return dict(self._sums.get(name, {}))

    def state(self) -> tuple[int, dict[str, Any]]:
        with self._mine():
            return self._state

    def commit(
        self,
        version: int,
        state: Mapping[str, Any],
        *,
        moves: Collection[tuple[str, str]] = (),
        drops: Collection[str] = (),
        increments: Increments | None = None,
        rows: Mapping[str, bytes] | None = None,
    ) -> bool:
        with self._mine():
            if version != self._state[0]:
                return False
            for source, target in moves:
                merge(self._sums.setdefault(target, {}), self._sums.pop(source, {}))
            for name in drops:
                self._sums.pop(name, None)
            merge_buckets(self._sums, increments or {})
            self._rows.setdefault("tick", {}).update(rows or {})
            self._state = version + 1, dict(state)
        return True

    def rows(self, kind: str) -> dict[str, bytes]:
        with self._mine():
            return dict(self._rows.get(kind, {}))

    def row(self, kind: str, key: str) -> bytes | None:
        with self._mine():
            return self._rows.get(kind, {}).get(key)

    def keep(
        self,
        kind: str,
        key: str,
        row: bytes | None,
        *,
        expected: bytes | Any_ | None = ANY,
        most: int = MAX_ROWS,
    ) -> bool:
        check_row(row)
        with self._mine():
            known = self._rows.setdefault(kind, {})
            if expected is not ANY and known.get(key) != expected:
                return False
            known.pop(key, None)
            if row is not None:
                known[key] = row
            for oldest in list(known)[: max(0, len(known) - most)]:
                del known[oldest]
        return True

    def late(self) -> int:
        return self._late

    def close(self) -> None:
        """Keep everything: there is nothing to let go of."""
