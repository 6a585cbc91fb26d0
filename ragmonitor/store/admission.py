"""Which values of attributes have series of their own: admitted once, in the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragmonitor.store.interface import MAX_VALUES, Store

OTHER: Final = "other"
"""The value of all that have no series of their own."""


class Admission:
    """Gives slices of answers their names: `tenant=a`, or `tenant=other` where there is no room.

    Admission is for good, so that a full dimension is asked for no more.
    """

    def __init__(self, store: Store) -> None:
        """Begin without asking; the store admits values once for all processes."""
        self._store = store
        self._known: dict[str, frozenset[str]] = {}
        self._full: set[str] = set()

    def slices(self, attributes: Mapping[str, str]) -> tuple[str, ...]:
        """Return the slices that an answer is in. Raises `StoreUnavailableError`."""
        found = []
        for dimension, value in attributes.items():
            if not value:
                continue
            known = self._known.get(dimension, frozenset())
            if value not in known and dimension not in self._full:
                known = self._known[dimension] = self._store.admit(dimension, value)
                if len(known) >= MAX_VALUES or value not in known:
                    self._full.add(dimension)
            found.append(f"{dimension}={value if value in known else OTHER}")
        return tuple(found)
