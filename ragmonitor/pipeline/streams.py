"""Records on Redis Streams (Redis 7): a stream and a consumer group.

No unread record is ever trimmed (`MAXLEN` drops them without a word): what is settled is deleted,
and what does not fit is refused. See docs/scaling.md for how to set up the server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from ragmonitor.runtime.errors import SettingsError, StreamError
from ragmonitor.runtime.redis_client import TIMEOUT_S, failure, redis_client
from ragmonitor.settings import Settings
from ragmonitor.store.interface import SCHEMA

GROUP: Final = "workers"
"""As the script of the store calls it that acknowledges records, and so the key of records."""
MAX_RECORDS: Final = 1_000_000
"""Records on the stream beyond which further ones are refused; an ordinary one has 3 kB."""
_DATA: Final = b"r"

# KEYS: records. ARGV: the data, the most records.
_PUT: Final = """#!lua
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('XADD', KEYS[1], '*', 'r', ARGV[1])
return 1
"""

# KEYS: records. ARGV: group, entries. Also on a server that is full.
_SETTLE: Final = """#!lua flags=allow-oom
for at = 2, #ARGV do
  redis.call('XDEL', KEYS[1], ARGV[at])
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[at])
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One record, handed to a consumer until it is settled."""

    id: str
    """The stream's own."""
    data: bytes
    deliveries: int
    """The number of times that it was handed out, this time included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The number of records in each state: stored = waiting + open + settled."""

    waiting: int
    """Records that no consumer has had."""
    open: int
    """Records that a consumer has, and has not settled."""
    oldest_s: float
    """Age of the oldest record that waits or is open, in seconds; 0: there is none."""


class RedisStream:
    """A durable, ordered stream of records with one group of consumers; connects with a first call.

    Delivery is at least once: what a consumer does not settle is delivered again. Every method may
    raise `StreamError`, which names no credentials.
    """

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the stream that the settings name.

        Raises:
            SettingsError: They name none, or none that can be opened.
            MissingExtraError: `redis` is not installed.
        """
        url = settings.send_to
        if url is None:
            raise SettingsError(
                "no stream is named: give --send-to redis://127.0.0.1:6379/0, or RAGMONITOR_SEND_TO"
            )
        return cls(url.get_secret_value(), settings.service)

    def __init__(self, url: str, service: str, *, max_records: int = MAX_RECORDS) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: The address cannot be understood.
            MissingExtraError: `redis` is not installed.
        """
        self._redis, self._errors = redis_client(url, setting="send_to")
        # One slot of a cluster, whatever the service is called.
        self._key = f"ragmonitor:{SCHEMA}:{{{service}}}:records"
        self._max_records = max_records
        self._claimed_up_to = "0-0"

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Say what failed, and with which type of error: its message may name the address."""
        try:
            yield
        except self._errors as error:
            raise StreamError(f"the stream cannot be {what}: {failure(error)}") from None

    def put(self, data: bytes) -> bool:
        """Store a record, or return False: the stream, or its server's memory, is full.

        After a `StreamError` it may have been stored all the same.
        """
        with self._reported("written"):
            try:
                return bool(self._redis.eval(_PUT, 1, self._key, data, self._max_records))
            except self._errors as error:
                if "OOM" not in str(error) and type(error).__name__ != "OutOfMemoryError":
                    raise
                return False

    def take(
        self, consumer: str, max_items: int, *, wait_s: float, stale_s: float | None
    ) -> Sequence[Delivery]:
        """Return records for a consumer: first those that somebody let lie, then new ones.

        Args:
            consumer: Who takes them.
            max_items: At most so many.
            wait_s: Wait so long for the first, if there is none.
            stale_s: Records that nobody has renewed for so long are taken over; None: new ones
                only.
        """
        with self._reported("read"):
            stale = [] if stale_s is None else self._claim(consumer, max_items, stale_s)
            if len(stale) == max_items:
                return stale
            # 0 would wait for ever.
            block_ms = (
                None if stale or wait_s <= 0 else max(1, int(min(wait_s, TIMEOUT_S / 2) * 1e3))
            )
            found = self._grouped(
                lambda: self._redis.xreadgroup(
                    GROUP, consumer, {self._key: ">"}, count=max_items - len(stale), block=block_ms
                )
            )
            new = [
                Delivery(id=id_.decode(), data=values.get(_DATA, b""), deliveries=1)
                for _, entries in found or ()
                for id_, values in entries
                if values
            ]
            return [*stale, *new]

    def _claim(self, consumer: str, max_items: int, stale_s: float) -> list[Delivery]:
        """Take over records that were not renewed: a look at some of them, then at the next."""
        idle_ms = int(stale_s * 1e3)
        self._claimed_up_to, claimed, *_ = self._grouped(
            lambda: self._redis.xautoclaim(
                self._key, GROUP, consumer, idle_ms, self._claimed_up_to, count=max_items
            )
        )
        if not claimed:
            return []
        first, last = claimed[0][0], claimed[-1][0]
        pending = self._redis.xpending_range(
            self._key, GROUP, min=first, max=last, count=10 * max_items, consumername=consumer
        )
        counts = {each["message_id"]: each["times_delivered"] for each in pending}
        return [
            Delivery(id=id_.decode(), data=values.get(_DATA, b""), deliveries=counts.get(id_, 1))
            for id_, values in claimed
        ]

    def renew(self, consumer: str, ids: Collection[str]) -> None:
        """Have the server note that a consumer still works on records."""
        if ids:
            with self._reported("read"):
                self._redis.xclaim(self._key, GROUP, consumer, 0, [*ids], justid=True)

    def _grouped(self, call: Callable[[], Any]) -> Any:
        """Return the reply, after making the group if there is none.

        Not before: a server that is full refuses to make one, also where there is one.
        """
        try:
            return call()
        except self._errors as error:
            if "NOGROUP" not in str(error):
                raise
        try:
            self._redis.xgroup_create(self._key, GROUP, id="0", mkstream=True)
        except self._errors as error:
            if "BUSYGROUP" not in str(error):  # else another consumer was faster
                raise
        return call()

    def settle(self, ids: Collection[str]) -> None:
        """Forget records: they are done."""
        if ids:
            with self._reported("settled"):
                self._redis.eval(_SETTLE, 1, self._key, GROUP, *ids)

    def state(self) -> StreamState:
        """Return how much is where."""
        with self._reported("read"):
            length, pending, first, (now_s, _) = self._grouped(self._counts)
        stored_ms = int(first[0][0].partition(b"-")[0]) if first else now_s * 1_000
        return StreamState(
            waiting=max(0, length - pending["pending"]),
            open=pending["pending"],
            oldest_s=max(0.0, now_s - stored_ms / 1e3),
        )

    def _counts(self) -> Any:
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xlen(self._key)
        pipeline.xpending(self._key, GROUP)
        pipeline.xrange(self._key, count=1)
        pipeline.time()
        return pipeline.execute()

    def server(self) -> Mapping[str, Any]:
        """Return what the server says of itself and its setup."""
        with self._reported("read"):
            told: Mapping[str, Any] = self._redis.info()
        return told

    def close(self) -> None:
        """Close the connections."""
        with self._reported("closed"):
            self._redis.close()
