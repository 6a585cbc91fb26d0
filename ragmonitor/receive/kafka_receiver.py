"""Spans off a topic of Kafka: a Collector's exporter puts them there, as protobuf or JSON."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from ragmonitor.receive.open_traces import FullError, OpenTraces
from ragmonitor.receive.otlp_bodies import JSON, PROTOBUF, UnreadableBodyError, request_of
from ragmonitor.runtime.errors import MissingExtraError, SettingsError
from ragmonitor.runtime.guard import contained, record_error, record_problem

POLL_S: Final = 0.25
RETRY_S: Final = 1.0
"""The pause after an error, and while there is no room."""
_STOPPING_S: Final = 5.0
_OURS: Final[dict[str, Any]] = {
    "enable.auto.commit": True,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "cooperative-sticky",
}
"""Properties of the client that at least one delivery rests on."""
_DEFAULTS: Final[dict[str, Any]] = {
    "client.id": "ragmonitor",
    # As the Collector's own receiver: what was sent before anybody read is history.
    "auto.offset.reset": "latest",
    "session.timeout.ms": 15_000,
    "log_level": 3,
}
_PROPERTY: Final = re.compile(r'property[: ]+"([a-z.]+)"')


class KafkaReceiver:
    """Reads a topic as a member of the service's group, until it is closed.

    A message is committed once its spans are held: what a receiver that is killed has not read
    waits for the next one, and what it held is lost, as with spans by HTTP. Several receivers share
    the partitions, and all spans of a trace are to be in one of them.
    """

    protocol = "OTLP over Kafka"

    def __init__(self, traces: OpenTraces, url: str, service: str) -> None:
        """Begin to read.

        Args:
            traces: Takes the requests.
            url: `kafka://user:password@broker:9092,broker:9092/topic?property=value`; the
                properties are librdkafka's.
            service: Names the group, `ragmonitor.receive.<service>`.

        Raises:
            SettingsError: The address cannot be understood, or names no topic.
            MissingExtraError: `confluent-kafka` is not installed.
        """
        try:
            import confluent_kafka
        except ImportError:
            raise MissingExtraError("the client of Kafka", "kafka") from None
        topic, properties = _read_address(url)
        self._traces = traces
        self.url = f"topic {topic}"
        """The topic that it reads, for people."""
        self._ending = threading.Event()
        group = {"group.id": f"ragmonitor.receive.{service}"}
        told = {"error_cb": self._report}
        try:
            self._consumer = confluent_kafka.Consumer(
                _DEFAULTS | group | properties | _OURS | told,
                logger=logging.getLogger("ragmonitor.kafka"),
            )
        except (confluent_kafka.KafkaException, TypeError, ValueError) as error:
            # Which may quote a value, and so a password.
            named = _PROPERTY.search(str(error))
            what = f"the property {named[1]}" if named else "a property in the address"
            raise SettingsError(f"receive.kafka: librdkafka does not take {what}") from None
        self._consumer.subscribe([topic])
        self._thread = threading.Thread(target=self._run, name="ragmonitor-kafka", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more, and commit what was taken."""
        self._ending.set()
        self._thread.join(_STOPPING_S)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                message = self._consumer.poll(POLL_S)
                if message is not None:
                    self._take(message)
            except Exception as error:  # noqa: BLE001 - a message must cost only itself
                record_error("receive", error)
                self._ending.wait(RETRY_S)
        with contained("close"):
            self._consumer.close()

    def _take(self, message: Any) -> None:
        """Hand a message's spans over, and have it committed.

        While there is no room nothing more is read. The group waits so long, five minutes at most
        (`max.poll.interval.ms`); then the partitions go to another member, which reads it again.
        """
        if message.error() is not None:
            self._report(message.error())
            return
        body = message.value() or b""
        # No request in protobuf begins with a brace.
        kind = JSON if body.startswith(b"{") else PROTOBUF
        while not self._ending.is_set():
            try:
                self._traces.take(request_of(body, content_type=kind))
            except FullError:
                self._ending.wait(RETRY_S)
                continue
            except UnreadableBodyError as error:
                self._traces.count("too_large" if error.status == 413 else "malformed")
                record_problem("receive", f"a message of {self.url} cannot be read: {error}")
            self._consumer.store_offsets(message=message)
            return

    def _report(self, error: Any) -> None:
        # By its name: librdkafka's words may name the address.
        record_problem("receive", f"{self.url} cannot be read: {error.name()}")


def _read_address(url: str) -> tuple[str, dict[str, Any]]:
    """Return the topic that an address names, and the client's properties; it quotes nothing.

    Raises:
        SettingsError: It cannot be understood.
    """
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError:
        parts, query = urlsplit(""), {}
    user, _, brokers = parts.netloc.rpartition("@")
    topic = unquote(parts.path.strip("/"))
    if parts.scheme != "kafka" or not brokers or not topic or parts.fragment:
        raise SettingsError(
            "receive.kafka: the address is kafka://broker:9092,broker:9092/otlp_spans, perhaps "
            "with ?name=value&name=value, and %23 for a '#' in a password"
        )
    login = {}
    if user:
        name, _, password = user.partition(":")
        login = {
            "sasl.username": unquote(name),
            "sasl.password": unquote(password),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
        }
    return topic, login | query | {"bootstrap.servers": brokers}
