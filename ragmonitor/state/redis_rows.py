"""Rows by id in Redis, the newest of which are kept, for processes of several machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragmonitor.state.redis_state import RedisServer

_BATCH: Final = 500
# KEYS: rows, their order. ARGV: how many are kept, ids and rows in turn.
_KEEP: Final = """
for at = 2, #ARGV, 2 do
  if redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[at])
  end
end
for _ = 1, redis.call('LLEN', KEYS[2]) - tonumber(ARGV[1]) do
  redis.call('HDEL', KEYS[1], redis.call('LPOP', KEYS[2]))
end
return 1
"""
# KEYS: rows. ARGV: ids.
_FIND: Final = "return redis.call('HMGET', KEYS[1], unpack(ARGV))"


class RedisRows:
    """The newest rows that any process has kept, by id."""

    def __init__(self, server: RedisServer, key: str, *, max_rows: int) -> None:
        """Touch nothing yet.

        Args:
            server: Keeps them.
            key: Where.
            max_rows: How many are kept.
        """
        self._server = server
        self._keys = [key, f"{key}:order"]
        self._max_rows = max_rows

    def keep(self, rows: Mapping[str, Sequence[Any]]) -> None:
        """Keep rows of what JSON has; one of the same id is replaced. Raises `OSError`."""
        pairs = [(id_, json.dumps(row)) for id_, row in rows.items()]
        for begin in range(0, len(pairs), _BATCH):
            flat = [part for pair in pairs[begin : begin + _BATCH] for part in pair]
            self._server.evaluate(_KEEP, self._keys, [self._max_rows, *flat])

    def find(self, ids: Sequence[str]) -> dict[str, Sequence[Any]]:
        """Return the rows that there are. Raises `OSError`; `ValueError`: one is none."""
        by_id: dict[str, Sequence[Any]] = {}
        for begin in range(0, len(ids), _BATCH):
            some = ids[begin : begin + _BATCH]
            rows = self._server.evaluate(_FIND, self._keys[:1], [*some])
            by_id |= {id_: json.loads(row) for id_, row in zip(some, rows, strict=True) if row}
        return by_id
