"""From the setting `state` to a store; memory where it cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from ragmonitor.runtime.guard import record_problem
from ragmonitor.store.interface import Store, StoreUnavailableError
from ragmonitor.store.redis import SENTINEL, Redis, connect
from ragmonitor.store.sqlite import Memory, Sqlite

FILE_NAME: Final = "ragmonitor.db"


def store_at(place: str | Path, service: str) -> Store:
    """Return the store of a place, which its first call opens.

    Args:
        place: A file, or a folder, which gets a file of ours; `redis://`, `rediss://` or
            `redis+sentinel://`.
        service: Whose sums these are.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    scheme, separator, _ = str(place).partition("://")
    if separator and scheme in ("redis", "rediss", "unix", SENTINEL):
        return Redis(*connect(str(place)), service)
    path = Path(place)
    # A folder may be named that is not there yet.
    return Sqlite(path if path.suffix and not path.is_dir() else path / FILE_NAME, service)


def open_store(place: str | Path | None, service: str) -> Store:
    """Return a store; memory, with one warning, in the place of a file that cannot be used.

    A server that is away, and a file that others hold locked, are tried again at each call.

    It touches nothing before the first call, so that it may be made before a server forks its
    workers; call it on our own thread alone. Raises as `store_at`.
    """
    if place is None:
        return Memory()
    store = store_at(place, service)
    return cast("Store", _Opened(store)) if isinstance(store, Sqlite) else store


class _Opened:
    """A file that gives way to memory if its first call finds that it cannot be used."""

    def __init__(self, store: Store) -> None:
        self._wanted, self._memory = store, Memory()
        self._store: Store | None = None

    @property
    def place(self) -> str:
        return self._wanted.place

    def __getattr__(self, name: str) -> Any:
        if self._store is None:
            try:
                self._wanted.add({})
                self._store = self._wanted
            except StoreUnavailableError as error:
                if not error.is_lasting:
                    raise
                record_problem(
                    "state",
                    f"{error}: estimates are kept in the memory of this process, and end with it",
                    about=self._wanted.place,
                )
                self._store = self._memory
        return getattr(self._store, name)

    def close(self) -> None:
        """Close what was opened."""
        if self._store is not None:
            self._store.close()
