"""A small history in the store: read once, then written where it changes."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from ragmonitor.runtime.guard import record_problem
from ragmonitor.store import Store

T = TypeVar("T", bound=msgspec.Struct)


class KeptRows(Generic[T]):
    """Rows of one kind by key, the ones written last; this process's changes win."""

    def __init__(self, store: Store, kind: str, type_: type[T], *, most: int) -> None:
        """Touch nothing yet.

        Args:
            store: Where they are.
            kind: As the store calls them.
            type_: What a row holds.
            most: So many are kept.
        """
        self._store, self._kind, self._type, self._most = store, kind, type_, most
        self.rows: dict[str, T] = {}
        self.is_read = False
        self._changed: dict[str, T | None] = {}
        """What is to be written; None: the row goes."""

    def put(self, key: str, row: T) -> None:
        """Write a row at the next exchange."""
        self.rows[key] = self._changed[key] = row
        if len(self.rows) > self._most:
            del self.rows[next(iter(self.rows))]

    def remove(self, key: str) -> None:
        """Delete a row at the next exchange."""
        del self.rows[key]
        self._changed[key] = None

    def exchange(self) -> None:
        """Read what there is, the first time, and write what has changed.

        Raises:
            StoreUnavailableError: It is tried again at the next exchange.
        """
        if not self.is_read:
            self.rows = self._read() | self.rows
            self.is_read = True
        if self._changed:
            rows = {
                key: None if row is None else msgspec.json.encode(row)
                for key, row in self._changed.items()
            }
            self._store.keep_all(self._kind, rows, most=self._most)
            self._changed = {}

    def _read(self) -> dict[str, T]:
        found = {}
        for key, row in self._store.rows(self._kind).items():
            try:
                found[key] = msgspec.json.decode(row, type=self._type)
            except (msgspec.MsgspecError, ValueError) as error:
                record_problem("estimation", f"a row of kind {self._kind} cannot be read: {error}")
        return found
