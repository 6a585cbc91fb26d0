"""From the setting `state` to a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import SecretStr

from ragmonitor.runtime.redis_client import is_redis
from ragmonitor.store.interface import Store
from ragmonitor.store.redis import SENTINEL, Redis, connect
from ragmonitor.store.sqlite import Memory, Sqlite

FILE_NAME: Final = "ragmonitor.db"


def store_at(place: str | SecretStr | Path, service: str, *, falls_back: bool = False) -> Store:
    """Return the store of a place, which its first call opens.

    Args:
        place: A file, or a folder, which gets a file of ours; `redis://`, `rediss://` or
            `redis+sentinel://`.
        service: Whose sums these are.
        falls_back: Whether memory stands in for a file that cannot be used.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    if isinstance(place, SecretStr):
        place = place.get_secret_value()
    if is_redis(str(place)) or str(place).startswith(f"{SENTINEL}://"):
        return Redis(*connect(str(place)), service)
    path = Path(place)
    # A folder may be named that is not there yet.
    file = path if path.suffix and not path.is_dir() else path / FILE_NAME
    return Sqlite(file, service, falls_back=falls_back)


def open_store(place: str | SecretStr | Path | None, service: str) -> Store:
    """Return a store; memory, with one warning, in the place of a file that cannot be used.

    A server that is away, and a file that others hold locked, are tried again at each call. It
    touches nothing before the first call, so that it may be made before a server forks its
    workers; call it on our own thread alone. Raises as `store_at`.
    """
    return Memory() if place is None else store_at(place, service, falls_back=True)
