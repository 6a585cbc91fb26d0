"""Keeps what outlives a process and is shared by several: in a folder, or in Redis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from ragmonitor.state.kept_state import State, StateUnavailableError
from ragmonitor.state.state_file import StateFile

if TYPE_CHECKING:
    from ragmonitor.state.redis_rows import RedisRows

__all__ = [
    "State",
    "StateFile",
    "StateUnavailableError",
    "rows_of_service",
    "state_of_service",
]


def state_of_service(
    place: Path | SecretStr | None, what: str, service: str, *, version: int
) -> State | None:
    """Return where one thing of a service is kept; None: nothing outlives the process.

    Args:
        place: A folder, or the address of a Redis server; as the setting `state`.
        what: Is kept.
        service: Whose it is.
        version: Of the state's shape.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    if place is None:
        return None
    if isinstance(place, Path):
        return StateFile.of_service(place, what, service, version=version)
    from ragmonitor.state.redis_state import RedisState, key_of, server_at

    server = server_at(place.get_secret_value())
    return RedisState(server, key_of(what, service), version=version)


def rows_of_service(
    place: Path | SecretStr | None, what: str, service: str, *, max_rows: int
) -> RedisRows | None:
    """Return where rows of a service are kept for several machines; None: nowhere.

    Args:
        place: As the setting `state`.
        what: Is kept.
        service: Whose it is.
        max_rows: How many are kept, the newest.
    """
    if place is None or isinstance(place, Path):
        return None
    from ragmonitor.state.redis_rows import RedisRows
    from ragmonitor.state.redis_state import key_of, server_at

    server = server_at(place.get_secret_value())
    return RedisRows(server, key_of(what, service), max_rows=max_rows)
