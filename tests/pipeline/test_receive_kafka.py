"""Spans on a topic of Kafka, and what `ragmonitor receive` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ragmonitor.runtime.errors import SettingsError
from tests.support.kafka_cluster import KafkaCluster, running_kafka
from tests.support.receiving import Receiving, answer, json_of, receiving, request_of
from tests.support.waiting import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with running_kafka() as made:
        yield made


class Topic:
    """A topic of one test's, which is the service's too, and its group's place in it."""

    def __init__(self, cluster: KafkaCluster, name: str) -> None:
        self.name = name
        self.url = cluster.url(name)
        self._brokers = {"bootstrap.servers": cluster.brokers}
        self._producer = Producer(self._brokers)
        self.begin()

    def _committing(self) -> Consumer:
        return Consumer({**self._brokers, "group.id": f"ragmonitor.receive.{self.name}"})

    def begin(self) -> None:
        """Have the group begin at the topic's begin: a group without a place begins at its end."""
        consumer = self._committing()
        consumer.commit(offsets=[TopicPartition(self.name, 0, 0)], asynchronous=False)
        consumer.close()

    def put(self, *bodies: bytes) -> None:
        for body in bodies:
            self._producer.produce(self.name, body, partition=0)
        assert self._producer.flush(10) == 0

    def committed(self) -> int:
        consumer = self._committing()
        (place,) = consumer.committed([TopicPartition(self.name, 0)], timeout=10)
        consumer.close()
        return int(place.offset)


@pytest.fixture
def topic(cluster: KafkaCluster, request: pytest.FixtureRequest) -> Topic:
    return Topic(cluster, request.node.name)


def body(trace: int) -> bytes:
    return request_of(*answer(trace)).SerializeToString()


def reading(topic: Topic, **options: Any) -> Any:
    return receiving(service=topic.name, receive={"kafka": topic.url, **options})


def taken(receiver: Receiving, spans: int) -> None:
    """Wait until so many spans are held, or were."""
    until(
        f"{spans} spans came",
        lambda: (
            receiver.receiver.traces._counts["spans", "taken"] >= spans  # with no tick's delay
        ),
    )


def test_answers_on_a_topic_are_scored(topic: Topic) -> None:
    """In protobuf and in JSON; what cannot be read is counted and costs only itself."""
    with reading(topic) as receiver:
        topic.put(body(1), b"\xff no request", b"{", json_of(request_of(*answer(2))))
        taken(receiver, 6)
        found = receiver.after(7)
        assert len(found) == 2
        assert {each.answer for each in found} == {found[0].answer}
        assert receiver.counted("ragmonitor_received_total", what="requests", outcome="taken") == 2
        assert (
            receiver.counted("ragmonitor_received_total", what="requests", outcome="malformed") == 2
        )


def test_a_clean_end_leaves_nothing_to_the_next(topic: Topic) -> None:
    """What is held at the end is handed over, and committed."""
    with reading(topic) as receiver:
        topic.put(body(1), body(2))
        taken(receiver, 6)
        receiver.receiver.close()
        assert len({each.id for each in receiver.reports.interactions()}) == 2
    assert topic.committed() == 2


def test_without_room_the_topic_waits(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refused, and nothing is lost: it is read when there is room again."""
    monkeypatch.setattr("ragmonitor.receive.open_traces.MAX_TRACES", 10)
    with reading(topic) as receiver:
        topic.put(*(body(trace) for trace in range(1, 31)))
        seen: set[str] = set()

        def all_came() -> bool:
            seen.update(each.id for each in receiver.after(7))
            assert len(receiver.receiver.traces) <= 10
            return len(seen) == 30

        until("thirty answers came, ten at a time", all_came, within_s=60)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("kafka://broker:9092", "receive.kafka: the address is kafka://"),
        ("kafka:///otlp", "receive.kafka: the address is kafka://"),
        ("kafka://me:horse@[/otlp", "receive.kafka: the address is kafka://"),
        ("kafka://me:horse@b:1/otlp?fetch.min.bytes=horse", "take the property fetch.min.bytes"),
    ],
)
def test_what_is_no_topic_is_refused(url: str, told: str) -> None:
    """In words that quote nothing of the address, which may have a password."""
    with pytest.raises(SettingsError, match=told) as refused, receiving(receive={"kafka": url}):
        pass
    assert "horse" not in f"{refused.value!r} {refused.value.__cause__!r}"
