"""Keeps in Redis what a fleet has beside its records: decisions, settled answers, a state.

Every step that must not be half done is one Lua script. All keys share one slot of a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

from pydantic import SecretStr

from ragmonitor.records import Elsewhere
from ragmonitor.streams import Delivery, RedisStream
from ragmonitor.streams.redis_streams import GROUP, entries_of

MAX_SEEN: Final = 100_000
"""Ids of the newest settled answers, by which one that was put twice is known."""
MAX_CAPTURED: Final = 200
"""Golden questions of which a captured record is kept; at one more all are forgotten."""
CAPTURED_FOR_S: Final = 600
ESTIMATOR: Final = "estimator "
"""The beginning of the lease of an estimator; that of a worker alone has none. Behind it stand its
name, which begins with its machine's, where it serves /metrics if that is known, and the number."""
_ANSWER: Final = b"s"
_DRAWN: Final = b"d"
_PENDING: Final = b"w"

_ALLOW_OOM: Final = "#!lua flags=allow-oom\n"
"""A server that is full is emptied by workers and the estimator alone."""

# KEYS: records, decisions, settled, seen, counts.
# ARGV: entry, interaction, decision, group, what is pending.
_DECIDE: Final = (
    _ALLOW_OOM
    + """
if #redis.call('XPENDING', KEYS[1], ARGV[4], ARGV[1], ARGV[1], 1) == 0 then return {0, ''} end
if redis.call('ZSCORE', KEYS[4], ARGV[2]) then
  redis.call('XACK', KEYS[1], ARGV[4], ARGV[1])
  redis.call('XDEL', KEYS[1], ARGV[1])
  redis.call('HINCRBY', KEYS[5], 'duplicates', 1)
  return {0, ''}
end
local first = redis.call('HGET', KEYS[2], ARGV[2])
if first then return {2, first} end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('XADD', KEYS[3], '*', 'd', ARGV[2], 'w', ARGV[5])
return {1, ''}
"""
)
# The same keys. ARGV: entry, interaction, answer, group, max, whether a decision may stand against.
_SETTLE: Final = (
    _ALLOW_OOM
    + """
if #redis.call('XPENDING', KEYS[1], ARGV[4], ARGV[1], ARGV[1], 1) == 0 then return {0, ''} end
local seen = redis.call('ZSCORE', KEYS[4], ARGV[2])
if not seen and ARGV[6] == '1' then
  local first = redis.call('HGET', KEYS[2], ARGV[2])
  if first then return {2, first} end
end
redis.call('XACK', KEYS[1], ARGV[4], ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
if seen then
  redis.call('HINCRBY', KEYS[5], 'duplicates', 1)
  return {0, ''}
end
redis.call('HDEL', KEYS[2], ARGV[2])
local number = redis.call('HINCRBY', KEYS[5], 'settled', 1)
redis.call('ZADD', KEYS[4], number, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', number - tonumber(ARGV[5]))
redis.call('XADD', KEYS[3], '*', 's', ARGV[3])
return {1, ''}
"""
)
# KEYS: records, decisions, settled, seen, counts, buried.
# ARGV: entry, interaction, answer, group, data, reason.
_BURY: Final = (
    _ALLOW_OOM
    + """
if redis.call('XACK', KEYS[1], ARGV[4], ARGV[1]) == 0 then return 0 end
redis.call('XDEL', KEYS[1], ARGV[1])
if redis.call('ZSCORE', KEYS[4], ARGV[2]) then
  redis.call('HINCRBY', KEYS[5], 'duplicates', 1)
  return 0
end
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('HINCRBY', KEYS[5], 'buried', 1)
redis.call('XADD', KEYS[6], '*', 'r', ARGV[5], 'why', ARGV[6])
redis.call('XADD', KEYS[3], '*', 's', ARGV[3])
return 1
"""
)
# KEYS: lease, fence. ARGV: token, milliseconds, beginning of a new token.
_LEAD: Final = (
    _ALLOW_OOM
    + """
local holder = redis.call('GET', KEYS[1])
if holder then
  if holder ~= ARGV[1] then return '' end
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return holder
end
if ARGV[1] ~= '' then return '' end
local token = ARGV[3] .. ' ' .. redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], token, 'PX', ARGV[2])
return token
"""
)
# KEYS: lease, checkpoint, settled, records, counts.
# ARGV: token, number of pairs, number of checks, pairs, checks, entries to delete.
_CHECKPOINT: Final = (
    _ALLOW_OOM
    + """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local pairs_end = 3 + 2 * tonumber(ARGV[2])
for at = 4, pairs_end, 2 do
  if ARGV[at + 1] == '' then
    redis.call('HDEL', KEYS[2], ARGV[at])
  else
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
  end
end
local checks_end = pairs_end + tonumber(ARGV[3])
for at = pairs_end + 1, checks_end do
  redis.call('XADD', KEYS[4], '*', 'r', ARGV[at])
  redis.call('HINCRBY', KEYS[5], 'checks', 1)
end
for at = checks_end + 1, #ARGV do redis.call('XDEL', KEYS[3], ARGV[at]) end
return 1
"""
)
# KEYS: captured. ARGV: question, record, most, seconds.
_NOTE_CAPTURED: Final = (
    _ALLOW_OOM
    + """
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
"""
)
# KEYS: records, counts, settled. ARGV: group. No transaction: a server that is full refuses those.
_COUNT: Final = """#!lua flags=no-writes,allow-oom
local open = redis.call('XPENDING', KEYS[1], ARGV[1])[1]
local stored = 0
local told = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #told, 2 do if told[at] == 'entries-added' then stored = told[at + 1] end end
local uncounted = 0
for _, entry in ipairs(redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 100000)) do
  if entry[2][1] == 's' then uncounted = uncounted + 1 end
end
local counted = redis.call('HMGET', KEYS[2], 'settled', 'buried', 'duplicates', 'checks')
return {stored, redis.call('XLEN', KEYS[1]), open, uncounted, unpack(counted, 1, 4)}
"""


class Outcome(IntEnum):
    """The outcome of a step that only one worker can make."""

    GONE = 0
    """The record was settled or buried by another worker, or was put twice."""
    DONE = 1
    DECIDED = 2
    """An earlier decision stands, and comes with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledEntry:
    """One entry of the settled stream."""

    id: str
    drawn: str = ""
    """Id of an answer that was drawn, and is now to be judged; empty: `answer` is there."""
    pending: bytes = b""
    """The `PendingVerdict` of an answer that was drawn; empty: an earlier release drew it."""
    answer: bytes = b""

    @property
    def at_s(self) -> float:
        """The time when it was added, in seconds since the epoch of the server's clock."""
        return int(self.id.partition("-")[0]) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCounts:
    """Where records are: stored = waiting + open + settled + buried + duplicates."""

    stored: int
    """Records that were ever put on the stream."""
    waiting: int
    open: int
    settled: int
    """Records that workers are done with, those of one alone (without --fleet) among them."""
    buried: int
    """Records that were ever buried; those that were put back are stored once more."""
    duplicates: int
    """Records that were put twice, and dropped."""
    uncounted: int
    """The number of settled and buried ones that the estimator has not taken in for good."""
    checks: int
    """The number of stored ones that are reference answers, put there to be judged again."""


class FleetStream(RedisStream):
    """The stream of a service with several workers and one estimator."""

    def __init__(self, url: str, service: str, *, max_records: int = 1_000_000) -> None:
        """Connect to nothing yet. Raises as `RedisStream`."""
        super().__init__(url, service, max_records=max_records)
        self.address = SecretStr(url)
        """The address of the server, which may hold a password."""
        names = ("decisions", "settled", "seen", "counts")
        prefix = self._key.removesuffix("records")
        self._keys = [self._key, *(prefix + name for name in names)]
        self._settled_key = prefix + "settled"
        self._fence_key, self._checkpoint_key = prefix + "fence", prefix + "checkpoint"
        self._captured_key = prefix + "captured"
        self._scripts = {
            text: self._redis.register_script(text)
            for text in (_DECIDE, _SETTLE, _BURY, _NOTE_CAPTURED, _LEAD, _CHECKPOINT)
        }

    # --- workers --------------------------------------------------------------------------------

    def decision(self, interaction: str) -> bytes | None:
        """Return what was decided of an answer; None: nothing yet, or it need not be judged."""
        with self._reported("read"):
            found: bytes | None = self._redis.hget(self._keys[1], interaction)
        return found

    def decide(
        self, entry: str, interaction: str, decision: bytes, pending: bytes
    ) -> tuple[Outcome, bytes]:
        """Keep that an answer was drawn, before it is judged; the first decision stands.

        Args:
            entry: The record's.
            interaction: Its id.
            decision: For whoever takes over from this worker.
            pending: What the estimator is to know of the answer until it is settled.
        """
        with self._reported("written"):
            outcome, first = self._scripts[_DECIDE](
                keys=self._keys, args=[entry, interaction, decision, GROUP, pending]
            )
        return Outcome(outcome), first

    def settle_answer(
        self, entry: str, interaction: str, answer: bytes, *, is_decided: bool
    ) -> tuple[Outcome, bytes]:
        """Exchange a record for its reports.

        Args:
            entry: The record's.
            interaction: Its id.
            answer: The reports.
            is_decided: Whether they follow a decision that was kept; otherwise one that another
                worker has kept stands against them.
        """
        with self._reported("settled"):
            outcome, first = self._scripts[_SETTLE](
                keys=self._keys,
                args=[entry, interaction, answer, GROUP, MAX_SEEN, "0" if is_decided else "1"],
            )
        return Outcome(outcome), first

    def bury_answer(self, delivery: Delivery, interaction: str, answer: bytes, reason: str) -> bool:
        """Put a record aside and settle it as unscored; return False: another worker has had it."""
        with self._reported("written"):
            done = self._scripts[_BURY](
                keys=[*self._keys, self._buried_key],
                args=[delivery.id, interaction, answer, GROUP, delivery.data, reason],
            )
        return bool(done)

    def keep_open(self, consumer: str, entries: Collection[str]) -> None:
        """Say that a worker is alive and has these records in hand."""
        if entries:
            with self._reported("leased"):
                self._redis.xclaim(
                    self._key, GROUP, consumer, min_idle_time=0, message_ids=[*entries], justid=True
                )

    def take_over(self, consumer: str, max_items: int, stale_s: float) -> Sequence[Delivery]:
        """Return records that dead workers had."""
        with self._reported("read"):
            return self._claim(consumer, max_items, stale_s)

    def _chosen(self, counts: Mapping[bytes, int], max_items: int) -> list[bytes]:
        """Return the oldest records, but one that was delivered twice comes alone.

        It may be what workers die of, and no other one is to be taken for poison with it.
        """
        fresh = [entry for entry, count in counts.items() if count < 2]
        return fresh[:max_items] or list(counts)[:1]

    def note_captured(self, golden: str, record: bytes) -> None:
        """Keep what an application captured of a golden question, for the asker's record."""
        with self._reported("written"):
            self._scripts[_NOTE_CAPTURED](
                keys=[self._captured_key], args=[golden, record, MAX_CAPTURED, CAPTURED_FOR_S]
            )

    def captured(self, golden: str) -> bytes | None:
        """Return what was captured of a golden question last; None: nothing of late."""
        with self._reported("read"):
            found: bytes | None = self._redis.hget(self._captured_key, golden)
        return found

    def unsettled(self) -> int:
        """Return how many settled answers wait for the estimator."""
        with self._reported("read"):
            return int(self._redis.xlen(self._settled_key))

    # --- the estimator --------------------------------------------------------------------------

    def lead(self, owner: str, token: str, seconds: float) -> str:
        """Take the lease, or renew it; return its token, which ends with the fencing number.

        Args:
            owner: Who takes it.
            token: Of the lease that is to be renewed; empty: none.
            seconds: How long it lasts.

        Returns:
            The token; empty: another owner has the lease, or the one to be renewed has ended.
        """
        with self._reported("leased"):
            found = self._scripts[_LEAD](
                keys=[self._lease_key, self._fence_key],
                args=[token, int(seconds * 1e3), ESTIMATOR + owner],
            )
        return (found or b"").decode()

    def settled_after(self, position: str, max_items: int, wait_s: float) -> list[SettledEntry]:
        """Return entries of the settled stream behind a position, oldest first."""
        with self._reported("read"):
            found = self._redis.xread(
                {self._settled_key: position},
                count=max_items,
                block=max(1, int(wait_s * 1e3)) if wait_s > 0 else None,
            )
        return [_entry(id_, values) for id_, values in entries_of(found)]

    def settled_until(self, position: str) -> Iterator[SettledEntry]:
        """Yield the entries up to a position that no checkpoint has deleted: they were held."""
        first = "-"
        while True:
            with self._reported("read"):
                found = self._redis.xrange(self._settled_key, first, position, count=1_000)
            yield from (_entry(id_, values) for id_, values in found)
            if len(found) < 1_000:
                return
            first = "(" + found[-1][0].decode()

    def checkpoint(
        self,
        token: str,
        changed: Mapping[str, bytes],
        done: Sequence[str],
        checks: Sequence[bytes] = (),
    ) -> bool:
        """Keep a state, delete the entries that it includes, and put what it asks for, in one step.

        Args:
            token: Of the lease.
            changed: Fields that have changed; an empty one is deleted.
            done: Entries.
            checks: Reference answers that a worker is to have judged again.

        Returns:
            False: the lease is another's, and nothing was done.
        """
        pairs = [part for pair in changed.items() for part in pair]
        with self._reported("written"):
            return bool(
                self._scripts[_CHECKPOINT](
                    keys=[
                        self._lease_key,
                        self._checkpoint_key,
                        self._settled_key,
                        self._key,
                        self._counts_key,
                    ],
                    args=[token, len(changed), len(checks), *pairs, *checks, *done],
                )
            )

    def kept(self) -> dict[str, bytes]:
        """Return every field of the checkpoint; empty: there is none."""
        with self._reported("read"):
            found = self._redis.hgetall(self._checkpoint_key)
        return {name.decode(): value for name, value in found.items()}

    def kept_field(self, name: str) -> bytes | None:
        """Return one field of the checkpoint; None: there is none."""
        with self._reported("read"):
            found: bytes | None = self._redis.hget(self._checkpoint_key, name)
        return found

    def now_s(self) -> float:
        """Return the server's clock, in seconds since the epoch."""
        with self._reported("read"):
            seconds, microseconds = self._redis.time()
        return float(seconds) + float(microseconds) / 1e6

    # --- the law --------------------------------------------------------------------------------

    def counts(self) -> FleetCounts:
        """Return where the records are, as of one moment."""
        with self._reported("read"):
            stored, length, open_, uncounted, *counted = self._grouped(
                lambda: self._redis.eval(
                    _COUNT, 3, self._key, self._counts_key, self._settled_key, GROUP
                )
            )
        settled, buried, duplicates, checks = (int(each or 0) for each in counted)
        return FleetCounts(
            stored=stored,
            waiting=length - open_,
            open=open_,
            settled=settled,
            buried=buried,
            duplicates=duplicates,
            uncounted=uncounted,
            checks=checks,
        )


def _entry(id_: bytes, values: Mapping[bytes, bytes]) -> SettledEntry:
    return SettledEntry(
        id=id_.decode(),
        drawn=values.get(_DRAWN, b"").decode("utf-8", "replace"),
        pending=values.get(_PENDING, b""),
        answer=values.get(_ANSWER, b""),
    )


def elsewhere(role: Literal["worker", "standby"], lease: str) -> Elsewhere:
    """Return where the numbers are, as the lease of whoever keeps them says.

    Args:
        role: Of the process that asks.
        lease: As `FleetStream.leader` returns it.
    """
    if not lease:
        return Elsewhere(role=role)
    owner, *further = lease.removeprefix(ESTIMATOR).split(" ")
    return Elsewhere(
        role=role,
        keeper="estimator" if lease.startswith(ESTIMATOR) else "worker",
        host=owner.rsplit("-", 2)[0],
        url=next((each for each in further if "://" in each), ""),
    )
