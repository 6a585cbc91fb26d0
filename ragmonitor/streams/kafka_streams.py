"""Records on Kafka: a topic, a topic of what was buried, and the offsets of two groups.

Each record is acknowledged by itself (`kafka_progress`), and a commit is fenced: the worker with
the lease is the one member of its group that has partition 0 of the second topic, and Kafka takes
no offset from anybody who is not, or no more, a member. Nothing is ever deleted by ragmonitor: what
was settled goes by the topic's own retention. See docs/scaling.md for how to set up the topics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from ragmonitor.errors import StreamError
from ragmonitor.forks import survive_forks
from ragmonitor.guard import record_problem
from ragmonitor.streams.deliveries import Buried, Delivery, StreamState
from ragmonitor.streams.kafka_client import TIMEOUT_S, Committing, KafkaClient
from ragmonitor.streams.kafka_progress import Entry, Progress

ASK_S: Final = 1.0
"""A process asks this often how much is on the stream; between it counts its own."""
REMIND_S: Final = 3_600.0
"""Kafka forgets offsets that nobody commits for `offsets.retention.minutes`, a week by default."""
_REASON: Final = "ragmonitor-reason"
_REPLAY_BATCH: Final = 100
_MIN_SESSION_S: Final = 6.0
"""`group.min.session.timeout.ms` of a broker."""
_SESSION_SHARE: Final = 0.8
"""The share of the lease: a dead worker's is over before its successor gives up waiting."""
_REFUSALS: Final = frozenset(
    ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "POLICY_VIOLATION")
)
"""Errors of one record, which would be the same the next time."""


class KafkaStream:
    """Keeps what `Stream` promises in a Kafka cluster; connects with the first call.

    One consumer at a time: of two streams that take without the lease each would hand out what the
    other has. Within one stream several consumers may take.
    """

    def __init__(self, url: str, service: str, *, max_records: int = 1_000_000) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: The address cannot be understood.
            MissingExtraError: `confluent-kafka` is not installed.
        """
        self._client = KafkaClient(url, service)
        self._topic = self._client.topic
        self._buried_topic = f"{self._topic}.buried"
        self._group = f"{self._topic}.worker"
        self._max_records = max_records
        self._lock = threading.RLock()
        self._begin()
        survive_forks(self)

    def after_fork_in_child(self) -> None:
        """Begin anew, without touching what is the parent's."""
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        """Begin without connections."""
        self._producer: Any = None
        self._reader: Any = None
        self._peeker: Committing | None = None
        self._member: Committing | None = None
        self._backlog, self._asked_s = 0, -ASK_S
        self._partitions: dict[int, Progress] = {}
        self._owner = ""
        self._has_lease = False
        self._lost_s = 0.0
        self._reminded_s = -REMIND_S

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        with self._lock, self._client.reported(what, self._hear):
            yield

    def _hear(self) -> None:
        """Let librdkafka say why requests are not answered."""
        if self._member is not None:
            self._member.poll(0)
        if self._producer is not None:
            self._producer.poll(0)

    def _joined(self) -> Committing:
        """Return the consumer that commits: a member of the group while it is to have the lease."""
        if self._member is None:
            self._member = Committing(self._client, self._group)
        return self._member

    def _asking(self) -> Any:
        """Return the consumer that asks what is where: behind one that reads a question waits."""
        return self._joined().consumer

    # --- putting --------------------------------------------------------------------------------

    def put(self, records: Sequence[bytes]) -> int:
        """Store records; refuse what our own bound, or a limit of the topic, leaves out."""
        with self._reported("written"):
            if time.monotonic() - self._asked_s >= ASK_S:
                self._backlog = sum(each.waiting + each.in_hand for each in self._kept())
                self._asked_s = time.monotonic()
            records = records[: max(0, self._max_records - self._backlog)]
            stored = self._store(self._topic, records)
            self._backlog += stored
            return stored

    def _store(self, topic: str, records: Sequence[bytes], **options: Any) -> int:
        """Store records and return how many; the topic's limits refuse the others."""
        refused = self._produce(topic, records, options)
        if len(records) > 1:  # a broker refuses a batch as a whole
            refused = [data for each in refused for data in self._produce(topic, [each], options)]
        if refused:
            record_problem(
                "stream",
                f"Kafka refused {len(refused)} records of up to {max(map(len, refused))} bytes, "
                "each counted as queue_full; see the topic's max.message.bytes and, in the "
                "address, message.max.bytes",
            )
        return len(records) - len(refused)

    def _produce(
        self, topic: str, records: Sequence[bytes], options: dict[str, Any]
    ) -> list[bytes]:
        """Produce records, wait until each is stored, and return those that were refused.

        Raises:
            KafkaException: One was neither; some may have been stored.
        """
        if self._producer is None:
            self._producer = self._client.producer()
        producer, answers = self._producer, list[tuple[bytes, Any]]()
        for data in records:
            try:
                producer.produce(
                    topic,
                    data,
                    on_delivery=lambda error, message, data=data: self._answered(
                        answers, data, error, message
                    ),
                    **options,
                )
            except (self._client.failure, BufferError) as error:
                answers.append((data, error.args[0]))
        producer.flush(TIMEOUT_S + 0.5)
        if len(answers) < len(records):
            producer.purge()
            producer.flush(0)
        failed = [(data, error) for data, error in answers if error is not None]
        for _, problem in failed:
            if not hasattr(problem, "name"):
                raise StreamError("the stream cannot be written: BufferError")
            if problem.fatal():  # of no use any more
                self._producer = None
                self._client.end([producer])
            if problem.name() not in _REFUSALS:
                raise self._client.failure(problem)
        return [data for data, _ in failed]

    def _answered(self, answers: list[Any], data: bytes, error: Any, message: Any) -> None:
        answers.append((data, error))
        known = self._partitions.get(message.partition())
        if error is None and known is not None and message.topic() == self._topic:
            known.end = max(known.end, message.offset() + 1)

    # --- what is where --------------------------------------------------------------------------

    def _kept(self, ids: Sequence[int] | None = None) -> list[Progress]:
        """Return partitions as the last commits say, without their records."""
        asking = self._asking()
        ids = ids if ids is not None else self._client.partitions(asking, self._topic)
        bounds = self._client.bounds(asking, self._topic, ids)
        found = []
        for id_, (offset, text) in self._client.committed(asking, self._topic, ids).items():
            low, high = bounds[id_]
            # Beyond the end: brokers lost what was settled. Of a topic that is deleted they forget
            # the offsets, too.
            first = low if offset < 0 else min(offset, high)
            try:
                progress = Progress(id_, first, text if first == offset else "")
            except ValueError:
                record_problem("stream", "a commit of another writer: its records come again")
                progress = Progress(id_, first)
            progress.end = high
            progress.lost = progress.skip(low)
            found.append(progress)
        return found

    def _load(self) -> None:
        """Take over where the last worker ended, and read again what it had in hand."""
        if self._partitions:
            return
        kept = self._kept()
        for each in kept:
            self._lose(each.lost)
        self._partitions = {each.partition: each for each in kept}
        self._assign()
        until_s = time.monotonic() + TIMEOUT_S
        while any(each.next < min(each.until, each.end) for each in kept):
            if self._read(_REPLAY_BATCH, 0.1):
                until_s = time.monotonic() + TIMEOUT_S
            elif time.monotonic() > until_s:
                self._partitions = {}
                raise StreamError("the stream cannot be read: _TIMED_OUT")

    def _begin_step(self) -> None:
        """Learn of a lost lease, and know what was committed."""
        if self._owner:
            self._joined().poll(0)
            if not self._has_lease:
                raise StreamError("the stream cannot be read: the lease was lost")
        self._load()

    def _assign(self) -> None:
        if self._reader is None:
            self._reader = self._client.consumer(self._group)
        self._reader.assign(
            [
                self._client.place(self._topic, each.partition, each.next)
                for each in self._partitions.values()
            ]
        )
        for each in self._partitions.values():
            each.is_paused = False

    def _lose(self, count: int) -> None:
        if count:
            record_problem(
                "stream",
                f"{count} records were deleted by the topic's retention before they were scored: "
                "make its retention.ms longer than any outage of the worker",
            )

    def _refresh(self) -> None:
        """Look for new partitions, new records and what retention deleted."""
        asking = self._asking()
        ids = self._client.partitions(asking, self._topic)
        bounds = self._client.bounds(asking, self._topic, ids)
        if new := [each for each in ids if each not in self._partitions]:
            self._partitions |= {each.partition: each for each in self._kept(new)}
            self._assign()
        for id_, progress in self._partitions.items():
            low, high = bounds.get(id_, (0, 0))
            progress.end = max(progress.end, high)
            self._lose(progress.skip(low))

    def state(self) -> StreamState:
        """Return how much is where."""
        with self._reported("read"):
            if self._partitions:
                self._refresh()
                partitions = [*self._partitions.values()]
            else:
                partitions = self._kept()
            low, high = self._buried_bounds()
            if self._has_lease and time.monotonic() - self._reminded_s >= REMIND_S:
                self._remind(low)
            return StreamState(
                waiting=sum(each.waiting for each in partitions),
                open=sum(each.in_hand for each in partitions),
                buried=high - low,
                oldest_s=self._oldest_s(partitions),
            )

    def _remind(self, first_buried: int) -> None:
        """Commit again what is committed, so that Kafka does not forget it."""
        for each in self._partitions.values():
            each.is_changed = True
        self._commit()
        if first_buried:
            self._leave_out(first_buried)
        self._reminded_s = time.monotonic()

    def _oldest_s(self, partitions: Sequence[Progress]) -> float:
        known = [next(iter((*each.open.values(), *each.ahead)), None) for each in partitions]
        stored = [each.stored_s for each in known if each is not None]
        unread = [
            self._client.place(self._topic, each.partition, each.oldest())
            for each, entry in zip(partitions, known, strict=True)
            if entry is None and each.waiting + each.in_hand
        ]
        stored += [_stored_s(each) for each in self._peek(unread, per_partition=1)]
        return max(0.0, time.time() - min(stored)) if stored else 0.0

    # --- taking ---------------------------------------------------------------------------------

    def take(
        self, consumer: str, max_items: int, *, wait_s: float, stale_s: float | None
    ) -> Sequence[Delivery]:
        """Return stale records of others, then new ones; what is handed out is committed first."""
        with self._reported("read"):
            self._begin_step()
            taken = [] if stale_s is None else self._stale(consumer, max_items, stale_s)
            taken += self._new(max_items - len(taken), 0 if taken else wait_s)
            now = time.monotonic()
            for progress, entry in taken:
                entry.consumer, entry.taken_s = consumer, now
                entry.deliveries += 1
                progress.is_changed = True
            self._commit()
            return [
                Delivery(
                    id=f"{progress.partition}-{entry.offset}",
                    data=entry.data,
                    deliveries=entry.deliveries,
                )
                for progress, entry in taken
            ]

    def _stale(self, consumer: str, most: int, stale_s: float) -> list[tuple[Progress, Entry]]:
        now = time.monotonic()
        found = (
            (progress, each)
            for progress in self._partitions.values()
            for each in progress.open.values()
            if each.consumer != consumer and now - each.taken_s >= stale_s
        )
        return list(islice(found, most))

    def _new(self, most: int, wait_s: float) -> list[tuple[Progress, Entry]]:
        """Return new records; those that are known to be stored are waited for."""
        until_s = time.monotonic() + wait_s
        found = self._handed_out(most)
        while most and not found:
            known = any(
                each.next < each.end and not each.is_paused for each in self._partitions.values()
            )
            left_s = until_s + (TIMEOUT_S if known else 0) - time.monotonic()
            self._read(most, min(left_s, 0.05 if known else TIMEOUT_S))
            found = self._handed_out(most)
            if left_s <= 0:
                break
        self._pause_full()
        return found

    def _handed_out(self, most: int) -> list[tuple[Progress, Entry]]:
        found: list[tuple[Progress, Entry]] = []
        for progress in self._partitions.values():
            found += [(progress, each) for each in progress.hand_out(most - len(found))]
        return found

    def _read(self, most: int, wait_s: float) -> int:
        """Read up to so many records; return how many came."""
        first = self._reader.poll(max(0.0, wait_s))
        if first is None:
            return 0
        messages = [first, *self._reader.consume(most - 1, 0)] if most > 1 else [first]
        failed: list[Any] = []
        for message in messages:
            try:
                self._client.check(message.error())
            except self._client.failure as error:  # the reader does not return the others again
                failed.append(error)
                continue
            progress = self._partitions.get(message.partition())
            if progress is None:
                continue
            offset = message.offset()
            if offset > progress.next:
                low = self._client.bounds(self._asking(), self._topic, [progress.partition])
                self._lose(progress.skip(min(offset, low[progress.partition][0])))
            if message.error() is not None:  # the end: what is missing before it never comes
                progress.skip(offset)
            else:
                progress.add(offset, message.value() or b"", _stored_s(message))
        if failed:
            raise failed[0]
        return len(messages)

    def _pause_full(self) -> None:
        """Read no further where the oldest record holds up what comes behind it."""
        for progress in self._partitions.values():
            if bool(progress.ahead) != progress.is_paused:
                progress.is_paused = not progress.is_paused
                place = [self._client.place(self._topic, progress.partition, progress.next)]
                (self._reader.pause if progress.is_paused else self._reader.resume)(place)

    def settle(self, ids: Collection[str]) -> None:
        """Commit that records are done."""
        with self._reported("settled"):
            if not ids:
                return
            self._begin_step()
            for id_ in ids:
                partition, _, offset = id_.partition("-")
                progress = self._partitions.get(int(partition))
                if progress is not None:
                    progress.settle(int(offset))
            self._asked_s = -ASK_S
            self._commit()

    def _commit(self) -> None:
        """Commit what changed; what is not taken is committed with the next change."""
        partitions = self._partitions
        changed = [each for each in partitions.values() if each.is_changed]
        if changed:
            self._joined().commit(
                [
                    self._client.place(self._topic, each.partition, each.first, each.text())
                    for each in changed
                ],
                # Another may have settled since a lease was lost.
                lambda: self._partitions is partitions,
            )
            for each in changed:
                each.is_changed = False

    # --- what was buried ------------------------------------------------------------------------

    def bury(self, delivery: Delivery, reason: str) -> None:
        """Put a record aside; then it is done."""
        with self._reported("written"):
            options = {"partition": 0, "headers": [(_REASON, reason.encode())]}
            if not self._store(self._buried_topic, [delivery.data], **options):
                options["headers"] = [(_REASON, f"{reason}; too large to be kept".encode())]
                if not self._store(self._buried_topic, [b""], **options):
                    raise StreamError("the stream cannot be written: what was buried is refused")
            self.settle([delivery.id])

    def _peeking(self) -> Committing:
        if self._peeker is None:
            self._peeker = Committing(self._client, self._buried_topic, {"fetch.wait.max.ms": 10})
        return self._peeker

    def _buried_bounds(self) -> tuple[int, int]:
        """Return the offset of the first that is kept, and the next that is given."""
        consumer = self._peeking().consumer
        low, high = self._client.bounds(consumer, self._buried_topic, [0])[0]
        committed, _ = self._client.committed(consumer, self._buried_topic, [0])[0]
        return min(max(low, committed), high), high

    def _peek(self, places: Sequence[Any], *, per_partition: int) -> list[Any]:
        """Return records from some offsets on, as far as they come within a time limit."""
        if not places:
            return []
        consumer = self._peeking().consumer
        left = {each.partition: per_partition for each in places}
        found, until_s = [], time.monotonic() + TIMEOUT_S
        consumer.assign(list(places))
        try:
            while any(left.values()) and time.monotonic() < until_s:
                message = consumer.poll(0.1)
                if message is None:
                    continue
                self._client.check(message.error())
                if message.error() is not None:
                    left[message.partition()] = 0
                elif left[message.partition()]:
                    left[message.partition()] -= 1
                    found.append(message)
        finally:
            consumer.unassign()
        return found

    def buried(self, max_items: int) -> Sequence[Buried]:
        """Return what was put aside."""
        with self._reported("read"):
            low, high = self._buried_bounds()
            places = [self._client.place(self._buried_topic, 0, low)] if low < high else []
            found = self._peek(places, per_partition=min(max_items, high - low))
            return [
                Buried(id=f"0-{each.offset()}", data=each.value() or b"", reason=_reason(each))
                for each in found
            ]

    def replay(self) -> int:
        """Put it back, a batch at a time: none is lost, and some twice if it fails in between.

        The worker drops those whose ids it has seen.
        """
        count = 0
        while batch := self.buried(_REPLAY_BATCH):
            with self._reported("written"):
                if self._store(self._topic, [each.data for each in batch]) < len(batch):
                    raise StreamError("the stream cannot be written: the topic refuses a record")
                self._leave_out(int(batch[-1].id.partition("-")[2]) + 1)
            count += len(batch)
        return count

    def purge(self) -> int:
        """Leave it behind: the topic's own retention deletes it."""
        with self._reported("written"):
            low, high = self._buried_bounds()
            if low < high:
                self._leave_out(high)
            return high - low

    def _leave_out(self, until: int) -> None:
        self._peeking().commit([self._client.place(self._buried_topic, 0, until)])

    # --- the lease ------------------------------------------------------------------------------

    def hold(self, owner: str, seconds: float) -> bool:
        """Take or renew the lease; where it was lost wait for it for as long as it is valid.

        Raises:
            StreamError: Brokers cannot be reached, or the lease was lost just now.
        """
        with self._reported("leased"):
            if self._owner not in ("", owner):
                return False
            if not self._owner:
                self._join(owner, seconds)
            until_s = time.monotonic() + TIMEOUT_S
            self._joined().poll(0)
            while not self._has_lease and time.monotonic() < until_s:
                self._joined().poll(0.05)
            if self._has_lease:
                return True
            self._client.partitions(self._asking(), self._buried_topic)  # or it raises
            if time.monotonic() - self._lost_s < seconds:
                # After an outage the group may wait for the member that this one was before it.
                raise StreamError("the stream cannot be leased: the lease was lost")
            return False

    def _join(self, owner: str, seconds: float) -> None:
        session_ms = int(max(_MIN_SESSION_S, _SESSION_SHARE * seconds) * 1e3)
        self._client.end([self._member and self._member.consumer])
        self._member = Committing(
            self._client,
            self._group,
            {
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": session_ms,
                "max.poll.interval.ms": max(session_ms, int(seconds * 1e3)),
                "heartbeat.interval.ms": 1_000,
            },
        )
        self._owner, self._lost_s = owner, -seconds
        self._member.consumer.subscribe(
            [self._buried_topic],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )

    def _assigned(self, consumer: Any, places: Sequence[Any]) -> None:
        consumer.incremental_assign(places)
        if places:
            consumer.pause(places)  # its records are for nobody
        if any(each.partition == 0 for each in places):
            self._has_lease, self._partitions = True, {}

    def _revoked(self, _: Any, places: Sequence[Any]) -> None:
        if any(each.partition == 0 for each in places):
            self._has_lease, self._partitions = False, {}
            self._lost_s = time.monotonic()

    def release(self, owner: str) -> None:
        """Leave the group, if this owner is in it."""
        with self._lock:
            if owner and self._owner == owner:
                member, self._member = self._member, None
                self._owner, self._has_lease = "", False
                self._client.end([member and member.consumer])

    def close(self) -> None:
        """Close the connections; what cannot be closed in time goes on alone."""
        has_lock = self._lock.acquire(timeout=TIMEOUT_S)
        try:
            committing = [each.consumer for each in (self._member, self._peeker) if each]
            handles = [self._producer, self._reader, *committing]
            self._begin()
        finally:
            if has_lock:
                self._lock.release()
        self._client.end(handles)


def _stored_s(message: Any) -> float:
    return float(message.timestamp()[1]) / 1e3


def _reason(message: Any) -> str:
    found = dict(message.headers() or ()).get(_REASON, b"")
    return (found or b"").decode("utf-8", "replace")
