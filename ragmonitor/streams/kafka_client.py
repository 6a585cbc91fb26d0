"""Connects to Kafka through librdkafka: silent, bounded in time, and safe in forked children."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ragmonitor.errors import MissingExtraError, SettingsError, StreamError

SCHEME: Final = "kafka"
TIMEOUT_S: Final = 2.0
"""The limit of one request, and of storing a batch."""
COMMIT_S: Final = 6.0
"""The limit of a commit: the members of a group that changes are told of it with their next
heartbeat."""
_MAX_NAME: Final = 249
"""Characters of a topic's name, by Kafka's own rule."""
_SUFFIX: Final = ".buried"
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")
_PROPERTY = re.compile(r'property[: ]+"([a-z.]+)"')
_OURS: Final = frozenset(
    [
        "bootstrap.servers",
        "metadata.broker.list",
        "client.id",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "transactional.id",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "log_level",
        "max.poll.interval.ms",
        "heartbeat.interval.ms",
        "logger",
    ]
)
"""Properties that what a stream promises rests on."""
_PASSING: Final = frozenset(
    [
        "REBALANCE_IN_PROGRESS",
        "ILLEGAL_GENERATION",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "_WAIT_COORD",
        "_TRANSPORT",
    ]
)
"""Errors of a commit that is made again while there is time."""

_UNANSWERED: Final = frozenset(["_TRANSPORT", "_TIMED_OUT", "_MSG_TIMED_OUT", "_ALL_BROKERS_DOWN"])
_REASONS: Final[Mapping[str, str]] = {
    "_AUTHENTICATION": "the brokers refuse the user or the password",
    "_SSL": "TLS fails; see ssl.ca.location and the certificates in the address",
    "_RESOLVE": "the brokers' names are not found",
}
"""Why a broker is not reached. librdkafka says it to a callback only: to the caller all of them are
requests that nobody answers."""

# librdkafka prints to standard error where no logger is named.
_silent = logging.Logger("ragmonitor.kafka", logging.CRITICAL + 1)  # noqa: LOG001 - it is nobody else's


class KafkaClient:
    """Makes producers and consumers of one address, and ends them without waiting for long.

    The destructor of a handle of librdkafka waits for its threads: for ever in a forked child,
    which has none of them, and for long where brokers are gone. So no handle is ever collected;
    `end` destroys it on a thread of its own, and a child makes new ones.
    """

    def __init__(self, url: str, service: str, *, setting: str = "stream") -> None:
        """Connect to nothing yet.

        Args:
            url: `kafka://user:password@broker:9092,broker:9092/topic?property=value`.
            service: Names the topic where the address does not.
            setting: What the address was given as, for errors.

        Raises:
            SettingsError: The address cannot be understood, or librdkafka refuses a property.
            MissingExtraError: `confluent-kafka` is not installed.
        """
        try:
            import confluent_kafka
        except ImportError:
            raise MissingExtraError("the client of Kafka", "kafka") from None
        self._kafka: Any = confluent_kafka
        self._reason = ""
        """Why brokers were not reached last, one of `_REASONS`; empty: nothing was said of it."""
        self.failure: type[Exception] = confluent_kafka.KafkaException
        try:
            parts = _parts(url)
            self.topic = _topic(parts, service)
            self._properties = _properties(parts)
            # Without brokers it connects to nothing.
            confluent_kafka.Producer(self._properties | {"bootstrap.servers": ""})
        except SettingsError as error:
            raise SettingsError(f"{setting}: {error}") from None
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            raise SettingsError(f"{setting}: {_refused(str(error))}") from None

    def producer(self) -> Any:
        """Return a producer that stores each record once, on all replicas in sync, or says no."""
        return self._made(
            self._kafka.Producer,
            {"acks": "all", "enable.idempotence": True, "message.timeout.ms": int(TIMEOUT_S * 1e3)},
        )

    def consumer(self, group: str, properties: Mapping[str, Any] | None = None) -> Any:
        """Return a consumer; it commits only what it is told to.

        Args:
            group: Whose offsets it reads and commits; it is no member until it subscribes.
            properties: Further ones of librdkafka.
        """
        ours = {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "allow.auto.create.topics": True,
        }
        return self._made(self._kafka.Consumer, ours | dict(properties or {}))

    def _made(self, kind: Any, properties: dict[str, Any]) -> Any:
        handle = kind(self._properties | properties | {"error_cb": self._noted})
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
        return handle

    def _noted(self, error: Any) -> None:
        if error.name() in _REASONS:
            self._reason = error.name()

    def end(self, handles: Sequence[Any]) -> None:
        """Close handles, and wait for that for `TIMEOUT_S` at most."""
        ending = [each for each in handles if each is not None]

        def close() -> None:
            for handle in ending:
                with contextlib.suppress(Exception):
                    if hasattr(handle, "close"):
                        handle.close()
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(handle))
            del handle
            ending.clear()  # here, where destructors may wait

        if ending:
            thread = threading.Thread(target=close, name="ragmonitor-kafka", daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter ends, and all connections
                thread.start()
                thread.join(TIMEOUT_S)

    def place(self, topic: str, partition: int, offset: int, metadata: str = "") -> Any:
        """Return a partition of a topic with an offset, as librdkafka takes it."""
        if metadata:
            return self._kafka.TopicPartition(topic, partition, offset, metadata)
        return self._kafka.TopicPartition(topic, partition, offset)

    @contextmanager
    def reported(self, what: str, hear: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Say what failed, with which code, and why: librdkafka's messages may name the address.

        Args:
            what: What is done to the stream.
            hear: Lets handles call back that have not been polled.

        Raises:
            StreamError: It failed.
        """
        try:
            yield
            self._reason = ""
        except self._kafka.KafkaException as error:
            code = _code(error)
            if code in _UNANSWERED:
                with contextlib.suppress(Exception):
                    hear()
                if self._reason:
                    code = f"{self._reason}, {_REASONS[self._reason]}"
            raise StreamError(f"the stream cannot be {what}: {code}") from None
        except RuntimeError:  # a handle that was closed meanwhile
            raise StreamError(f"the stream cannot be {what}: it is closed") from None

    def check(self, error: Any) -> None:
        """Raise the error of a part of a reply, if it has one; the end of a partition is none.

        Raises:
            KafkaException: It has.
        """
        if error is not None and error.code() != self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise self._kafka.KafkaException(error)

    def partitions(self, consumer: Any, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        self.check(found.error)
        return sorted(found.partitions)

    def bounds(self, consumer: Any, topic: str, ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return, for each partition, the first offset that is kept and the next that is given."""
        low, high = (
            consumer.offsets_for_times(
                [self.place(topic, each, which) for each in ids], timeout=TIMEOUT_S
            )
            for which in (self._kafka.OFFSET_BEGINNING, self._kafka.OFFSET_END)
        )
        for each in (*low, *high):
            self.check(each.error)
        return {
            first.partition: (first.offset, after.offset)
            for first, after in zip(low, high, strict=True)
        }

    def committed(
        self, consumer: Any, topic: str, ids: Sequence[int]
    ) -> dict[int, tuple[int, str]]:
        """Return, for each partition, the offset that was committed, or -1, and its metadata."""
        found = consumer.committed([self.place(topic, each, 0) for each in ids], timeout=TIMEOUT_S)
        for each in found:
            self.check(each.error)
        return {each.partition: (max(-1, each.offset), each.metadata or "") for each in found}


class Committing:
    """A consumer's commits, each waited for: librdkafka's own waiting has no bound."""

    def __init__(
        self, client: KafkaClient, group: str, properties: Mapping[str, Any] | None = None
    ) -> None:
        self._client = client
        self._owed = 0
        self._answer: Any = None
        self.consumer = client.consumer(group, {"on_commit": self._committed, **(properties or {})})

    def _committed(self, error: Any, places: Sequence[Any]) -> None:
        errors = [error, *(each.error for each in places)]
        self._answer = next((each for each in errors if each is not None), None)
        self._owed -= 1

    def commit(self, places: Sequence[Any], is_valid: Callable[[], bool] = lambda: True) -> None:
        """Commit offsets.

        Args:
            places: Partitions with offsets.
            is_valid: Whether they are still to be committed, asked before each attempt.

        Raises:
            StreamError: It was refused, or there was no answer within `COMMIT_S`.
        """
        until_s = time.monotonic() + COMMIT_S
        while is_valid():
            self._owed += 1  # answers come in order, also that of an attempt that was given up
            self.consumer.commit(offsets=list(places), asynchronous=True)
            while self._owed and time.monotonic() < until_s:
                self.poll(0.002)  # it returns for records, and not for answers
            if self._owed:
                raise StreamError("the stream cannot be settled: _TIMED_OUT")
            error = self._answer
            if error is None:
                return
            if error.name() not in _PASSING or time.monotonic() >= until_s:
                raise StreamError(f"the stream cannot be settled: {error.name()}")
            self.poll(0.05)
        raise StreamError("the stream cannot be settled: the lease was lost")

    def poll(self, wait_s: float) -> None:
        """Serve callbacks; records are not for this consumer."""
        message = self.consumer.poll(wait_s)
        error: Any = message.error() if message is not None else None
        # That the group was left, since it was polled too late, is told by a callback, too.
        if error is not None and error.name() != "_MAX_POLL_EXCEEDED":
            self._client.check(error)


def _code(error: Any) -> str:
    inner: Any = error.args[0] if error.args else None
    return str(inner.name()) if hasattr(inner, "name") else type(error).__name__


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:  # which may quote the address
        parts = urlsplit("")
    brokers = parts.netloc.rpartition("@")[2]
    if not brokers or parts.fragment or any(each.isspace() for each in url):
        raise SettingsError(
            "the address of the Kafka cluster is malformed; it is "
            "kafka://broker:9092,broker:9092/topic, with %23 for a '#' in a password"
        )
    return parts


def _topic(parts: SplitResult, service: str) -> str:
    topic = unquote(parts.path.strip("/"))
    if not topic:
        name = _NO_NAME.sub("-", service)[:150]
        if name != service:  # another service may become the same
            name += "-" + hashlib.blake2b(service.encode(), digest_size=4).hexdigest()
        topic = f"ragmonitor.{name}"
    if _NO_NAME.search(topic) or len(topic) > _MAX_NAME - len(_SUFFIX) or topic in {".", ".."}:
        raise SettingsError(
            "a topic's name has letters, digits, '.', '_' and '-' only, "
            f"{_MAX_NAME - len(_SUFFIX)} at most"
        )
    return topic


def _properties(parts: SplitResult) -> dict[str, Any]:
    try:
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        raise SettingsError(
            "what stands behind '?' in the address is name=value&name=value, each a "
            "property of librdkafka"
        ) from None
    if ours := sorted(_OURS & query.keys()):
        raise SettingsError(f"{ours[0]} is not to be set: ragmonitor relies on its own")
    user, _, brokers = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    credentials = {
        "sasl.username": unquote(name),
        "sasl.password": unquote(password),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
    }
    return (
        {"reconnect.backoff.max.ms": 1_000, "socket.timeout.ms": 10_000}
        | (credentials if user else {})
        | query
        | {
            "bootstrap.servers": brokers,
            "client.id": "ragmonitor",
            "logger": _silent,
            "log_level": 0,
        }
    )


def _refused(message: str) -> str:
    """Say which property is wrong, and never its value."""
    found = _PROPERTY.search(message)
    what = f"the property {found[1]}" if found else "the address, or a property in it"
    return f"librdkafka does not take {what}"
