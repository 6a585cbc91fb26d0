"""A state in Redis, which processes of several machines change in turn.

One process at a time holds a state's lock, which ends by itself. A process that was paused for
longer writes nothing: the server compares the lock's token and sets the state in one script.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Self

from ragmonitor.guard import record_problem
from ragmonitor.redis_client import failure, redis_client
from ragmonitor.state.kept_state import (
    State,
    StateLockedError,
    StateUnavailableError,
)

LOCK_S: Final = 5.0
"""A process that died alone with the state keeps others from it for so long."""
LOCK_WAIT_S: Final = 1.0
LOCK_PAUSE_S: Final = 0.002
PATIENCE_S: Final = 0.1
"""A process that has waited for so long has a turn: nobody who waited for less goes before."""
TURN_S: Final = 0.5
"""The turn of a process that asks no more, since it died or gave up, ends after so long."""
TIMEOUT_S: Final = 1.0
"""The limit of one command."""
DOWN_S: Final = 5.0
"""After a command that failed the next one is tried so much later."""
_STAGE: Final = "state"

# Also on a server that is full: what was spent is to be known.
_ALLOW_OOM: Final = "#!lua flags=allow-oom\n"
# KEYS: lock, whose turn it is. ARGV: token, milliseconds of the lock and of a turn, and waited so
# far, from which on one has a turn. All processes go by the server's clock.
_LOCK: Final = (
    _ALLOW_OOM
    + """
local now = redis.call('TIME')
local turn = redis.call('GET', KEYS[2])
local has_turn = turn and string.match(turn, ' (.*)') == ARGV[1]
if has_turn then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
elseif tonumber(ARGV[4]) >= tonumber(ARGV[5]) then
  local since = now[1] * 1000 + math.floor(now[2] / 1000) - ARGV[4]
  if not turn or since < tonumber(string.match(turn, '^%d+')) then
    redis.call('SET', KEYS[2], string.format('%d %s', since, ARGV[1]), 'PX', ARGV[3])
    has_turn = true
  end
end
if turn and not has_turn then return {} end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return {} end
if has_turn then redis.call('DEL', KEYS[2]) end
return now
"""
)
# KEYS: lock. ARGV: token.
_UNLOCK: Final = (
    _ALLOW_OOM
    + """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
)
# KEYS: lock, state, its mark. ARGV: token, content; empty: the state is removed.
_WRITE: Final = (
    _ALLOW_OOM
    + """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[2], KEYS[3])
else
  redis.call('SET', KEYS[2], ARGV[2])
  redis.call('SET', KEYS[3], ARGV[3])
end
return 1
"""
)


class RedisServer:
    """A server that keeps states; after a failure it is left alone for a while.

    A command that waits for a server in vain holds up what else a thread has to do.
    """

    def __init__(self, url: str) -> None:
        """Connect to nothing yet.

        Args:
            url: As `redis_client` takes it.

        Raises:
            SettingsError: The address cannot be understood.
            MissingExtraError: `redis` is not installed.
        """
        self._redis, self._errors = redis_client(url, setting="state", timeout_s=TIMEOUT_S)
        self._down_until_s = 0.0
        self._why = ""

    def evaluate(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """Return what a script returns. Raises `StateUnavailableError`."""
        return self._call("eval", script, len(keys), *keys, *arguments)

    def get(self, key: str) -> bytes | None:
        """Return what a key holds; None: nothing. Raises `StateUnavailableError`."""
        value: bytes | None = self._call("get", key)
        return value

    def rename(self, key: str, to: str) -> None:
        """Call what a key holds otherwise. Raises `StateUnavailableError`."""
        self._call("rename", key, to)

    def now_s(self) -> float:
        """Return its clock, in seconds since the epoch. Raises `StateUnavailableError`."""
        seconds, microseconds = self._call("time")
        return float(seconds) + float(microseconds) / 1e6

    def rest(self, why: str) -> None:
        """Have the next commands fail at once, for a while."""
        self._down_until_s, self._why = time.monotonic() + DOWN_S, why

    def _call(self, command: str, *arguments: Any) -> Any:
        if time.monotonic() < self._down_until_s:
            raise StateUnavailableError(errno.EIO, self._why)
        try:
            return getattr(self._redis, command)(*arguments)
        except self._errors as error:  # its message may name the address, with a password
            self.rest(f"the Redis server of the state fails: {failure(error)}")
            raise StateUnavailableError(errno.EIO, self._why) from None


def key_of(name: str, service: str) -> str:
    """Return the key of one thing of a service: in one slot of a cluster with its others."""
    return f"ragmonitor:{{{service}}}:state:{name}"


@cache
def server_at(url: str) -> RedisServer:
    """Return the server at an address: one for all states of a process."""
    return RedisServer(url)


class RedisLock:
    """The lock of a state and of its parts, held by a thread of this process or by none."""

    def __init__(self, server: RedisServer, key: str) -> None:
        self._server = server
        self.key = key
        self._held = threading.local()

    @property
    def token(self) -> str:
        """The content of the lock while this thread has it; empty: it has not."""
        return getattr(self._held, "token", "")

    def acquire(self) -> float:
        """Wait for it; return the server's clock. Raises `StateUnavailableError`."""
        token, began, waited_s = secrets.token_hex(8), time.monotonic(), 0.0
        keys = [self.key, f"{self.key}:turn"]
        while True:
            spans_s = (LOCK_S, TURN_S, waited_s, PATIENCE_S)
            milliseconds = [int(span_s * 1_000) for span_s in spans_s]
            if reply := self._server.evaluate(_LOCK, keys, [token, *milliseconds]):
                break
            waited_s = time.monotonic() - began
            if waited_s >= LOCK_WAIT_S:
                raise StateLockedError(errno.EAGAIN, "another process keeps its lock", self.key)
            time.sleep(LOCK_PAUSE_S)
        self._held.token = token
        return float(reply[0]) + float(reply[1]) / 1e6

    def release(self) -> None:
        """Let go of it."""
        token, self._held.token = self.token, ""
        with contextlib.suppress(OSError):  # it ends by itself
            self._server.evaluate(_UNLOCK, [self.key], [token])


class RedisState(State):
    """A JSON object in Redis, shared by the processes that name the same server and service."""

    def __init__(
        self, server: RedisServer, key: str, *, version: int, lock: RedisLock | None = None
    ) -> None:
        """Touch nothing yet.

        Args:
            server: Keeps it.
            key: Where.
            version: Of the state's shape.
            lock: Of a state that this one is a part of; None: it has one of its own.
        """
        self.version = version
        self._server = server
        self._key = key
        self._lock = lock or RedisLock(server, f"{key}:lock")
        self._ahead_s = 0.0
        """The lead of the server's clock over this process's."""

    @property
    def name(self) -> str:
        """The key."""
        return f"{self._key} in Redis"

    @property
    def place(self) -> str:
        """The server, without its address."""
        return "Redis"

    def now(self) -> float:
        """Return the seconds since the epoch by the server's clock, as last seen."""
        return time.time() + self._ahead_s

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock, for `LOCK_S` at most."""
        self._ahead_s = self._lock.acquire() - time.time()
        try:
            yield
        finally:
            self._lock.release()

    def read(self) -> dict[str, Any] | None:
        """Return what the key holds; what cannot be understood is renamed."""
        content = self._server.get(self._key)
        if content is None:
            return None
        try:
            return self._understood(content)
        except ValueError as error:
            bad = f"{self._key}:bad"
            self._server.rename(self._key, bad)
            why = f"{self.name}: {error}; it is kept as {bad}"
            record_problem(_STAGE, f"{why}; it begins anew")
            raise ValueError(why) from None

    def write(self, state: Mapping[str, Any]) -> None:
        """Set the key; refused where the lock was lost meanwhile."""
        self._set(self._content(state))

    def remove(self) -> None:
        """Delete the key."""
        self._set(b"")

    def _set(self, content: bytes) -> None:
        keys = [self._lock.key, self._key, f"{self._key}:mark"]
        arguments = [self._lock.token, content, secrets.token_hex(8)]
        if not self._server.evaluate(_WRITE, keys, arguments):
            raise StateLockedError(errno.EAGAIN, "the lock was lost", self.name)

    def mark(self) -> Hashable:
        """Return the mark that the last writing left."""
        return self._server.get(f"{self._key}:mark")

    def part(self, name: str) -> Self:
        """Return what a further key holds; both have one lock."""
        key = f"{self._key}:{name}"
        return type(self)(self._server, key, version=self.version, lock=self._lock)
