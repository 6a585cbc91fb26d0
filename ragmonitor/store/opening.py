"""From the setting `state` to a store; memory where it cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ragmonitor.guard import record_problem
from ragmonitor.store.interface import Store, StoreUnavailableError
from ragmonitor.store.redis import SENTINEL, Redis, connect
from ragmonitor.store.sqlite import Memory, Sqlite

FILE_NAME: Final = "ragmonitor.db"


def open_store(place: str | Path | None, service: str) -> Store:
    """Return a store that works; memory, with one warning, where the place cannot be used.

    It touches the place, so call it on our own thread, and after a server has forked its workers.

    Args:
        place: A file, or a folder, which gets a file of ours; `redis://`, `rediss://` or
            `redis+sentinel://`; None: memory.
        service: Whose sums these are.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    if place is None:
        return Memory()
    store: Store
    scheme, separator, _ = str(place).partition("://")
    if separator and scheme in ("redis", "rediss", "unix", SENTINEL):
        store = Redis(*connect(str(place)), service)
    else:
        path = Path(place)
        store = Sqlite(path / FILE_NAME if path.is_dir() else path, service)
    try:
        store.add({})
    except StoreUnavailableError as error:
        record_problem(
            "state",
            f"{error}: estimates are kept in the memory of this process, and end with it",
            about=store.place,
        )
        return Memory()
    return store
