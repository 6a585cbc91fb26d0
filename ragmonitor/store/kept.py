"""A small document in one row of the store, which processes change in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from ragmonitor.runtime.guard import record_problem
from ragmonitor.store.interface import Store, StoreUnavailableError

KIND: Final = "document"
TRIES: Final = 50


class Kept:
    """A JSON object of a service, in one row."""

    def __init__(self, store: Store, name: str, *, version: int) -> None:
        """Touch nothing yet.

        Args:
            store: Where it is.
            name: Which one.
            version: Of its shape; one of another version is none.
        """
        self._store, self._key = store, f"{name}@{version}"

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return self._store.place

    def read(self) -> dict[str, Any]:
        """Return it; empty: there is none.

        Raises:
            StoreUnavailableError: The store is away.
            ValueError: It cannot be understood.
        """
        return _document(self._store.row(KIND, self._key))

    def update(
        self,
        change: Callable[[dict[str, Any]], Mapping[str, Any] | None],
        *,
        stage: str,
        what: str,
    ) -> bool:
        """Change it, again where another process was faster; False: the store is away.

        Args:
            change: Returns what is to be kept instead; None: nothing changes. Called once or more.
            stage: Where an object that cannot be understood is counted.
            what: What is kept here, for the log.
        """
        try:
            for _ in range(TRIES):
                row = self._store.row(KIND, self._key)
                try:
                    document = _document(row)
                except ValueError as error:
                    record_problem(stage, f"{what} begins anew: {error}")
                    document = {}
                changed = change(document)
                if changed is None or self._store.keep(
                    KIND, self._key, json.dumps(changed).encode(), expected=row
                ):
                    return True
        except (StoreUnavailableError, ValueError) as error:
            record_problem("state", f"{what}: {error}", about=self._store.place)
        return False


def _document(row: bytes | None) -> dict[str, Any]:
    document = json.loads(row or b"{}")
    if not isinstance(document, dict):
        raise ValueError("it is no object of JSON")  # noqa: TRY004 - as the others
    return document
