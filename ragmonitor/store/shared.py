"""What processes settle with rows alone: who evaluates, and which slices have series."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ragmonitor.store.interface import (
    LEASE_S,
    MAX_SLICES,
    MAX_VALUES,
    TRIES,
    Store,
    StoreUnavailableError,
)

ADMITTED: Final = ("shared", "admitted")
LEASE: Final = ("shared", "lease")
OTHER: Final = "other"
"""The value of all that have no series of their own."""


def takes_lease(store: Store, holder: str) -> bool:
    """Return whether the holder may evaluate for the next `LEASE_S`; ask each time."""
    row, now_s = store.row(*LEASE), store.now()
    held_by, until_s = json.loads(row) if row is not None else ("", 0.0)
    # A clock that was put back frees it, too.
    is_held = now_s < until_s <= now_s + LEASE_S
    if is_held and (held_by != holder or until_s - now_s > LEASE_S / 2):
        return bool(held_by == holder)
    return store.keep(*LEASE, json.dumps([holder, now_s + LEASE_S]).encode(), expected=row)


class Admission:
    """Gives slices of answers their names: `tenant=a`, or `tenant=other` where there is no room.

    Values are admitted once, for all processes and for good, so that a full dimension is asked for
    no more.
    """

    def __init__(self, store: Store) -> None:
        """Begin without asking."""
        self._store = store
        self._known: dict[str, list[str]] = {}

    def slices(self, attributes: Mapping[str, str]) -> tuple[str, ...]:
        """Return the slices that an answer is in. Raises `StoreUnavailableError`."""
        return tuple(
            f"{dimension}={value if self._admits(dimension, value) else OTHER}"
            for dimension, value in attributes.items()
            if value
        )

    def _admits(self, dimension: str, value: str) -> bool:
        for _ in range(TRIES):
            if value in self._known.get(dimension, ()):
                return True
            if not self._has_room(dimension):
                return False
            row = self._store.row(*ADMITTED)
            self._known = json.loads(row or b"{}")
            values = self._known.get(dimension, [])
            if value not in values and self._has_room(dimension):
                known = self._known | {dimension: [*values, value]}
                if self._store.keep(*ADMITTED, json.dumps(known).encode(), expected=row):
                    self._known = known
        raise StoreUnavailableError("too many processes name slices at once")

    def _has_room(self, dimension: str) -> bool:
        known = self._known
        is_full = sum(map(len, known.values())) >= MAX_SLICES
        return not is_full and len(known.get(dimension, ())) < MAX_VALUES
