"""The store of a fleet: Redis, and one script for every change."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

from ragmonitor.runtime.errors import MissingExtraError, SettingsError
from ragmonitor.runtime.redis_client import Errors, failure, redis_client
from ragmonitor.store.buckets import DAY_S, Rows, packed, unpacked
from ragmonitor.store.interface import (
    RECORD,
    SCHEMA,
    SETTLED_S,
    Change,
    Key,
    Store,
    StoreUnavailableError,
)
from ragmonitor.store.scripts import CHANGE

TIMEOUT_S: Final = 1.0
"""The limit of one command."""
DOWN_S: Final = 5.0
"""After a command that failed the next one is tried so much later."""
SENTINEL: Final = "redis+sentinel"
SHORT_S: Final = 2 * DAY_S
LONG_S: Final = 90 * DAY_S
"""Times to live: of buckets, and of what a service must find again after a long silence. Each
writing begins them anew."""


class Redis(Store):
    """Sums that machines share.

    All keys of a service are in one slot of a cluster, and declared. The time is the server's.
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
        self._change = client.register_script(CHANGE)
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

    def _ask(self, command: str, name: str, *arguments: Any) -> Any:
        with self._asking():
            return getattr(self.client, command)(self._prefix + name, *arguments)

    def eviction(self) -> str:
        """Return what the server does when its memory is full; empty: it does not say."""
        with self._asking():
            return str(self.client.info("memory").get("maxmemory_policy", ""))

    # --- what is kept ---------------------------------------------------------------------------

    def peek(self, keys: Sequence[Key] = ()) -> tuple[float, list[bytes | None]]:
        # What cannot be encoded is the caller's fault: the server is not away.
        names = [(kind, key.encode()) for kind, key in keys]
        with self._asking():
            pipeline = self.client.pipeline(transaction=False)
            pipeline.time()
            for kind, key in names:
                if kind == RECORD:
                    pipeline.get(f"{self._prefix}record:".encode() + key)
                else:
                    pipeline.hget(f"{self._prefix}rows:{kind}", key)
            (seconds, micros), *found = pipeline.execute()
        return float(seconds) + float(micros) / 1e6, found

    def change(self, change: Change) -> bool:
        names = {"names": LONG_S, "records": SHORT_S}
        for name in (*chain(*change.moves), *change.drops, *change.increments):
            names[name] = LONG_S if name[0] == "q" else SHORT_S
        for (kind, key), row in {**change.expected, **change.rows}.items():
            if kind == RECORD:
                names[f"record:{key}"] = DAY_S if row else SETTLED_S
            else:
                names |= {f"rows:{kind}": LONG_S, f"order:{kind}": LONG_S}
        arguments = (
            [*names.items()],
            _rows(change.expected),
            [*change.moves],
            [*change.drops],
            [
                (name, field, packed(row))
                for name, rows in change.increments.items()
                for field, row in rows.items()
            ],
            _rows(change.rows),
            [*change.acknowledged],
            change.most,
        )
        packed_arguments = [*map(_msgpack, arguments)]
        keys = [self._prefix + name for name in names]
        with self._asking():
            return bool(self._change(keys=keys, args=packed_arguments))

    def names(self, kind: str) -> list[int]:
        found = self._ask("zrangebylex", "names", f"[{kind}", f"({kind}~")
        return sorted(int(name[1:]) for name in found if name[1:].isdigit())

    def read(self, name: str) -> Rows:
        found = self._ask("hgetall", name)
        return {field.decode(): unpacked(row) for field, row in found.items()}

    def rows(self, kind: str) -> dict[str, bytes]:
        found = self._ask("hgetall", f"rows:{kind}")
        order = self._ask("zrange", f"order:{kind}", 0, -1)
        return {key.decode(): found[key] for key in order if key in found}

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


def _rows(rows: Mapping[Key, bytes | None]) -> list[tuple[str, str, Sequence[bytes]]]:
    """Return rows as the script takes them: the kind, the key, and a list that may be empty."""
    return [(kind, key, [] if row is None else [row]) for (kind, key), row in rows.items()]


def _msgpack(value: Any) -> bytes:
    """Return lists, strings, bytes and whole numbers as MessagePack, which the scripts read."""
    if isinstance(value, int):
        return b"\xce" + struct.pack(">I", value)
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"\xdb" + struct.pack(">I", len(value)) + value
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(_msgpack, value))
