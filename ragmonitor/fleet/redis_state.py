"""A JSON object in Redis that several processes change in turn: what a `StateFile` is on a disk."""

from __future__ import annotations

import contextlib
import errno
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragmonitor.errors import StreamError
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.sampling.budget import VERSION, Budget
from ragmonitor.settings import Settings

LOCK_S: Final = 5.0
"""A process that died alone with the state keeps others from it for so long."""
LOCK_WAIT_S: Final = 1.0
LOCK_PAUSE_S: Final = 0.002

_UNLOCK: Final = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""
# Who was paused for longer than its lock lasts writes nothing.
_WRITE: Final = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1
"""
_LOCK: Final = """#!lua flags=allow-oom
local now = redis.call('TIME')
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return now end
return {}
"""


class RedisState:
    """A state that one process at a time reads and writes; its clock is the server's."""

    def __init__(self, stream: FleetStream, name: str, *, version: int) -> None:
        """Touch nothing yet.

        Args:
            stream: The server, and the service.
            name: What is kept.
            version: Of the state's shape.
        """
        self.path = name
        self._stream = stream
        self._version = version
        self._token = ""
        self._ahead_s = 0.0
        """Of the server's clock before this process's."""

    def now(self) -> float:
        """Return the seconds since the epoch by the server's clock, as last seen."""
        return time.time() + self._ahead_s

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from the state meanwhile.

        Raises:
            OSError: The server cannot be reached, or others keep it for longer than `LOCK_WAIT_S`.
        """
        token, deadline = secrets.token_hex(8), time.monotonic() + LOCK_WAIT_S
        while not (told := self._call(_LOCK, [f"{self.path}:lock"], [token, int(LOCK_S * 1e3)])):
            if time.monotonic() >= deadline:
                raise BlockingIOError(errno.EAGAIN, "another process keeps it", self.path)
            time.sleep(LOCK_PAUSE_S)
        # All buckets fill by one clock: two that differ would fill them twice.
        self._ahead_s = float(told[0]) + float(told[1]) / 1e6 - time.time()
        self._token = token
        try:
            yield
        finally:
            self._token = ""
            with contextlib.suppress(OSError):  # it ends by itself
                self._call(_UNLOCK, [f"{self.path}:lock"], [token])

    def _call(self, script: str, names: list[str], arguments: list[Any]) -> Any:
        try:
            return self._stream.evaluate(script, names, arguments)
        except StreamError as error:
            raise OSError(errno.EIO, str(error), self.path) from None

    def read(self) -> dict[str, Any] | None:
        """Return the state; None: there is none yet.

        Raises:
            ValueError: It is of another version, or no state.
            OSError: The server cannot be reached.
        """
        try:
            content = self._stream.value(self.path)
        except StreamError as error:
            raise OSError(errno.EIO, str(error), self.path) from None
        if content is None:
            return None
        state = json.loads(content)
        if not isinstance(state, dict) or state.get("version") != self._version:
            raise ValueError(f"it is not of version {self._version}")
        return state

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state. Raises `OSError`; the old one then stands."""
        content = json.dumps({"version": self._version, **state})
        names = [f"{self.path}:lock", self.path]
        if not self._call(_WRITE, names, [self._token, content]):
            raise BlockingIOError(errno.EAGAIN, "the lock was lost", self.path)


def budget_in(stream: FleetStream, settings: Settings) -> Budget | None:
    """Return the one budget of a fleet; None: there is no limit.

    What a worker has reserved is taken out at once, for every process, so that nothing is spent
    twice; what one had reserved when it died counts as spent.

    Raises:
        OSError: The server cannot be reached.
    """
    if not settings.budget.is_given:
        return None
    per_day, per_hour = settings.budget.limits
    unit = settings.budget.unit
    state = RedisState(stream, f"budget-{unit}", version=VERSION)
    return Budget(per_day, per_hour=per_hour, unit=unit, file=state, now=state.now)
