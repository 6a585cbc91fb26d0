"""The store of a fleet: Redis, one script for each change."""

from __future__ import annotations

import contextlib
import json
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, Final
from urllib.parse import urlsplit

from ragmonitor.runtime.errors import MissingExtraError, SettingsError
from ragmonitor.runtime.redis_client import Errors, failure, redis_client
from ragmonitor.store import scripts
from ragmonitor.store.buckets import BET_S, DAY_S, Increments, Rows, packed, unpacked
from ragmonitor.store.interface import (
    MAX_ROWS,
    SCHEMA,
    SETTLED_S,
    Added,
    Decision,
    Settlement,
    Store,
    StoreUnavailableError,
    check_rows,
    decision_of,
)

TIMEOUT_S: Final = 1.0
"""The limit of one command."""
DOWN_S: Final = 5.0
"""After a command that failed the next one is tried so much later."""
TRIES: Final = 5
SENTINEL: Final = "redis+sentinel"
SHORT_S: Final = 2 * DAY_S
LONG_S: Final = 90 * DAY_S
"""Times to live: of buckets, and of what a service must find again after a long silence. Each
writing begins them anew."""


class Redis(Store):
    """Sums that machines share.

    All keys of a service are in one slot of a cluster, and declared. The server's clock names the
    bucket of draws; the script refuses one that is closed.
    """

    place = "Redis"

    def __init__(self, client: Any, errors: Errors, service: str) -> None:
        """Connect to nothing yet.

        Args:
            client: As `connect` returns it, with its errors.
            errors: What the client raises.
            service: Whose sums these are.
        """
        self.client = client
        self._errors = errors
        self._prefix = f"ragmonitor:{SCHEMA}:{{{service}}}:"
        self._scripts = {
            # Also on a server that is full: only sums that are added make room on a stream.
            name: client.register_script("#!lua flags=allow-oom\n" + getattr(scripts, name))
            for name in ("ADD", "COMMIT", "KEEP")
        }
        self._closed = -BET_S
        self._down_until_s, self._why = 0.0, ""

    def key(self, name: str) -> str:
        """Return the key of a name: `records` is the stream of records."""
        return self._prefix + name

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Leave a server alone for a while after a failure: each try would hold up a thread."""
        if time.monotonic() < self._down_until_s:
            raise StoreUnavailableError(self._why)
        try:
            yield
        except self._errors as error:  # its message may name the address, with a password
            self._down_until_s = time.monotonic() + DOWN_S
            self._why = f"the Redis server of the state fails: {failure(error)}"
            raise StoreUnavailableError(self._why) from None

    def _run(self, script: str, names: Iterable[str], arguments: Sequence[Any]) -> Any:
        with self._asking():
            keys = [self._prefix + name for name in names]
            return self._scripts[script](keys=keys, args=list(arguments))

    def _ask(self, command: str, name: str, *arguments: Any) -> Any:
        with self._asking():
            return getattr(self.client, command)(self._prefix + name, *arguments)

    def now(self) -> float:
        with self._asking():
            seconds, micros = self.client.time()
        return float(seconds) + float(micros) / 1e6

    def eviction(self) -> str:
        """Return what the server does when its memory is full; empty: it does not say."""
        with self._asking():
            return str(self.client.info("memory").get("maxmemory_policy", ""))

    # --- sums -----------------------------------------------------------------------------------

    def add(self, increments: Increments, settlements: Sequence[Settlement] = ()) -> Added:
        rows, ended = _packed_rows(increments), _msgpack(settlements)
        for _ in range(TRIES):
            bucket = max(int(self.now() // BET_S) * BET_S, self._closed + BET_S)
            keys = ["state", "names", "records", f"b{bucket}", *increments]
            keys += [f"record{each.id}" for each in settlements]
            declared = _msgpack([(name, _life_s(name)) for name in keys])
            arguments = [declared, bucket, rows, ended, int(DAY_S), SETTLED_S]
            outcome, found = self._run("ADD", keys, arguments)
            if outcome == 0:
                return Added(bucket, late=int(found))
            if outcome == 1:
                return Added(-1, frozenset(each.decode() for each in found))
            self._closed = int(found)
        raise StoreUnavailableError("the clock of the Redis server stands still")

    def decision(self, id_: str) -> Decision | None:
        return decision_of(self._ask("get", f"record{id_}"))

    def names(self, kind: str) -> list[int]:
        found = self._ask("zrangebylex", "names", f"[{kind}", f"({kind}~")
        return sorted(int(name[1:]) for name in found if name[1:].isdigit())

    def read(self, name: str) -> Rows:
        found = self._ask("hgetall", name)
        return {field.decode(): unpacked(row) for field, row in found.items()}

    # --- the tick -------------------------------------------------------------------------------

    def state(self) -> tuple[int, dict[str, Any]]:
        version, text = self._ask("hmget", "state", "version", "document")
        return int(version or 0), json.loads(text or b"{}")

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
        added = increments or {}
        keys = {name: name for pair in moves for name in pair}
        keys |= {name: name for name in ("state", "names", *drops, *added)} | {"rows": "rows:tick"}
        arguments = [
            _msgpack([(name, _life_s(name)) for name in keys]),
            version,
            state.get("closed", -1),
            json.dumps(state),
            _msgpack(list(moves)),
            _msgpack(list(drops)),
            _packed_rows(added),
            _msgpack(list((rows or {}).items())),
        ]
        return bool(self._run("COMMIT", keys.values(), arguments))

    # --- small histories ------------------------------------------------------------------------

    def rows(self, kind: str) -> dict[str, bytes]:
        with self._asking():
            found = self.client.hgetall(f"{self._prefix}rows:{kind}")
            order = self.client.zrange(f"{self._prefix}order:{kind}", 0, -1)
        keys = [key for key in order if key in found] or list(found)
        return {key.decode(): found[key] for key in keys}

    def row(self, kind: str, key: str) -> bytes | None:
        found: bytes | None = self._ask("hget", f"rows:{kind}", key)
        return found

    def keep_all(
        self,
        kind: str,
        rows: Mapping[str, bytes | None],
        *,
        expected: bytes | EllipsisType | None = ...,
        most: int = MAX_ROWS,
    ) -> bool:
        check_rows(rows)
        packed_rows = _msgpack([(key, [] if row is None else [row]) for key, row in rows.items()])
        is_expected = "any" if expected is ... else "none" if expected is None else "row"
        known = expected if isinstance(expected, bytes) else b""
        arguments = [packed_rows, is_expected, known, most, int(LONG_S)]
        return bool(self._run("KEEP", [f"rows:{kind}", f"order:{kind}"], arguments))

    def close(self) -> None:
        with self._asking():
            self.client.close()


def connect(url: str) -> tuple[Any, Errors]:
    """Return a client, which connects with its first command, and its errors.

    Args:
        url: `redis://` or `rediss://` with user, password, host and database;
            `redis+sentinel://user:password@host:26379,host:26379/name-of-the-master/0`.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    if not url.startswith(f"{SENTINEL}://"):
        return redis_client(url, setting="state", timeout_s=TIMEOUT_S)
    try:
        import redis
        from redis.sentinel import Sentinel
    except ImportError:
        raise MissingExtraError("the client of Redis", "redis") from None
    parts = urlsplit(url)
    master, _, database = parts.path.removeprefix("/").partition("/")
    _, _, named = parts.netloc.rpartition("@")
    hosts = [urlsplit(f"redis://{host}") for host in named.split(",")]
    if not master or not all(host.hostname for host in hosts) or not (database or "0").isdigit():
        raise SettingsError(
            "state: the address of Redis behind Sentinel is malformed: it is redis+sentinel://"
            "host:26379,host:26379/name-of-the-master/0"
        )
    sentinel = Sentinel(  # type: ignore[no-untyped-call]  # the client's own
        [(host.hostname, host.port or 26_379) for host in hosts],
        socket_timeout=TIMEOUT_S,
    )
    client = sentinel.master_for(  # type: ignore[no-untyped-call]
        master,
        db=int(database or 0),
        username=parts.username or None,
        password=parts.password or None,
        socket_timeout=TIMEOUT_S,
    )
    return client, (redis.RedisError, OSError)


def _life_s(name: str) -> int:
    """Return for how many seconds a key lives after its last writing."""
    is_long = name in ("state", "names", "rows") or name[0] == "q"
    return int(LONG_S if is_long else SHORT_S)


def _packed_rows(increments: Increments) -> bytes:
    return _msgpack(
        [(name, f, packed(row)) for name, rows in increments.items() for f, row in rows.items()]
    )


def _msgpack(value: Any) -> bytes:
    """Return lists, strings, bytes and whole numbers as MessagePack, which the scripts read."""
    if isinstance(value, int):
        return b"\xce" + struct.pack(">I", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"\xdb" + struct.pack(">I", len(value)) + value
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(_msgpack, value))
