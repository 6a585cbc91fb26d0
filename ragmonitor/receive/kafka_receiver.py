"""Spans off a topic of Kafka: a Collector's exporter puts them there, as protobuf or JSON."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmonitor.errors import SettingsError
from ragmonitor.guard import record_error, record_problem
from ragmonitor.receive.open_traces import OpenTraces
from ragmonitor.receive.otlp_bodies import JSON, PROTOBUF, UnreadableBodyError, request_of
from ragmonitor.receive.span_intake import FullError, SpanIntake
from ragmonitor.streams import KafkaClient

POLL_S: Final = 0.25
COMMIT_S: Final = 5.0
"""The time between commits."""
RETRY_S: Final = 1.0
"""After an error, and while there is no room."""
_STOPPING_S: Final = 5.0
_SESSION_MS: Final = 15_000
"""After which others have the partitions of a receiver that was killed."""


class _Taken(NamedTuple):
    """One message whose spans are held, or were handed over."""

    offset: int
    taken_s: float
    trace_ids: frozenset[bytes]


class KafkaReceiver:
    """Reads a topic as a member of the service's group, until it is closed.

    An offset is committed once no trace is open that its spans are in. So a receiver that is killed
    leaves what it held to the next one; what it had handed over shortly before is read again.
    Several receivers share the partitions, and all spans of a trace are to be in one of them.
    """

    protocol = "OTLP over Kafka"

    def __init__(
        self, intake: SpanIntake, traces: OpenTraces, url: str, service: str, *, max_bytes: int
    ) -> None:
        """Begin to read.

        Args:
            intake: Takes the requests.
            traces: Where it holds their spans.
            url: `kafka://broker:9092,broker:9092/topic`, as for a stream.
            service: Names the group, `ragmonitor.receive.<service>`.
            max_bytes: Of one message.

        Raises:
            SettingsError: The address cannot be understood, or names no topic.
            MissingExtraError: `confluent-kafka` is not installed.
        """
        self._client = KafkaClient(url, service, setting="receive.kafka")
        if not urlsplit(url).path.strip("/"):
            raise SettingsError("receive.kafka: name the topic: kafka://broker:9092/otlp_spans")
        self._intake, self._traces, self._max_bytes = intake, traces, max_bytes
        self.url = f"topic {self._client.topic}"
        """The topic that it reads, for people."""
        self._taken: defaultdict[int, deque[_Taken]] = defaultdict(deque)
        self._waiting: deque[Any] = deque()
        self.partitions: frozenset[int] = frozenset()
        """The partitions of the topic that this one reads."""
        self._is_paused = self._is_closed = False
        self._committed_s = traces.now()
        self._ending = threading.Event()
        self._consumer = self._client.consumer(
            f"ragmonitor.receive.{service}",
            # As the Collector's own receiver: what was sent before anybody read is history.
            {
                "auto.offset.reset": "latest",
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": _SESSION_MS,
            },
        )
        self._consumer.subscribe(
            [self._client.topic],
            on_assign=self._given,
            on_revoke=self._revoked,
            on_lost=self._revoked,
        )
        self._thread = threading.Thread(target=self._run, name="ragmonitor-kafka", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more, and commit all: what is held is handed over now."""
        if self._is_closed:
            return
        self._ending.set()
        self._thread.join(_STOPPING_S)
        self._is_closed = True  # to leave the group takes the partitions away
        self._commit(list(self._taken.items()))
        self._client.end([self._consumer])

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._step()
            except Exception as error:  # noqa: BLE001 - a message must cost only itself
                record_error("receive", error)
                self._ending.wait(RETRY_S)

    def _step(self) -> None:
        """Read a message, take as many as there is room for, and commit now and then."""
        message = self._consumer.poll(RETRY_S if self._is_paused else POLL_S)
        if message is not None:
            with self._client.reported("read"):
                self._client.check(message.error())
            if message.error() is None:  # else it is the end of a partition
                self._waiting.append(message)
        while self._waiting and self._take(self._waiting[0]):
            self._waiting.popleft()
        self._pause(bool(self._waiting))
        if self._traces.now() - self._committed_s >= COMMIT_S:
            self._committed_s = self._traces.now()
            self._commit([(each, list(self._done(taken))) for each, taken in self._taken.items()])

    def _take(self, message: Any) -> bool:
        """Hand a message's spans over; return False: there is no room for them."""
        body, now = message.value() or b"", self._traces.now()
        request = ExportTraceServiceRequest()
        try:
            # No request in protobuf begins with a brace.
            kind = JSON if body.startswith(b"{") else PROTOBUF
            request = request_of(body, content_type=kind, encoding="", max_bytes=self._max_bytes)
            self._intake.take(request)
        except FullError:
            return False
        except UnreadableBodyError as error:
            self._intake.count("too_large" if error.status == 413 else "malformed")
            record_problem("receive", f"a message of {self.url} cannot be read: {error}")
        ids = frozenset(_trace_ids(request))
        self._taken[message.partition()].append(_Taken(message.offset(), now, ids))
        return True

    def _pause(self, pauses: bool) -> None:
        """Read no more while there is no room; the membership goes on."""
        if pauses or self._is_paused:
            # Those that were given meanwhile, too. The consumer's own list of them may not be asked
            # for while the group changes: the client waits for it with the interpreter's lock.
            places = [self._client.place(self._client.topic, each, 0) for each in self.partitions]
            (self._consumer.pause if pauses else self._consumer.resume)(places)
            self._is_paused = pauses

    def _done(self, taken: deque[_Taken]) -> Iterator[_Taken]:
        """Yield the messages of a partition, oldest first, of which no trace is open."""
        oldest_s = self._traces.oldest_s()
        return takewhile(lambda each: each.taken_s < oldest_s, taken)

    def _commit(self, done: Sequence[tuple[int, Sequence[_Taken]]]) -> None:
        """Commit that messages are done; a commit that fails is made up for by the next."""
        places = [
            self._client.place(self._client.topic, partition, messages[-1].offset + 1)
            for partition, messages in done
            if messages
        ]
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except self._client.failure as error:
            record_error("receive", error)
            return
        for partition, messages in done:
            for _ in range(len(messages)):
                self._taken[partition].popleft()

    def _given(self, consumer: Any, places: Sequence[Any]) -> None:
        consumer.incremental_assign(places)
        self.partitions |= {each.partition for each in places}

    def _revoked(self, _: Any, places: Sequence[Any]) -> None:
        """Leave to others what is not committed of their partitions, and hold it no more."""
        if self._is_closed:
            return
        self.partitions -= {each.partition for each in places}
        for each in places:
            for message in self._taken.pop(each.partition, ()):
                self._traces.drop(message.trace_ids)
            self._waiting = deque(
                waiting for waiting in self._waiting if waiting.partition() != each.partition
            )


def _trace_ids(request: ExportTraceServiceRequest) -> Iterator[bytes]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield span.trace_id
