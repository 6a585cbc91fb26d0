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

    def __init__(self, cluster: KafkaCluster, name: str, partitions: int = 1) -> None:
        self.name = name
        self.url = cluster.url(name, partitions=partitions)
        self._brokers = {"bootstrap.servers": cluster.brokers}
        self._producer = Producer(self._brokers)
        self.begin(partitions)

    def _committing(self) -> Consumer:
        return Consumer({**self._brokers, "group.id": f"ragmonitor.receive.{self.name}"})

    def begin(self, partitions: int) -> None:
        """Have the group begin at the topic's begin: a group without a place begins at its end."""
        consumer = self._committing()
        consumer.commit(
            offsets=[TopicPartition(self.name, each, 0) for each in range(partitions)],
            asynchronous=False,
        )
        consumer.close()

    def put(self, *bodies: bytes, partition: int = 0) -> None:
        for body in bodies:
            self._producer.produce(self.name, body, partition=partition)
        assert self._producer.flush(10) == 0

    def committed(self, partition: int = 0) -> int:
        consumer = self._committing()
        (place,) = consumer.committed([TopicPartition(self.name, partition)], timeout=10)
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
            receiver.receiver.intake._spans["taken"] >= spans  # without the two seconds of a tick
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


@pytest.mark.slow  # the mock of the cluster takes a session's time to let another member in
def test_what_a_killed_receiver_held_is_read_again(topic: Topic) -> None:
    """An offset is committed once no trace is open that the message's spans are in."""
    retrieval, model, root = answer(2)
    with reading(topic) as first:
        topic.put(body(1))
        taken(first, 3)
        first.clock.advance(1)
        topic.put(request_of(retrieval, model).SerializeToString())
        taken(first, 5)
        assert len(first.after(7)) == 1  # the second has no root yet
        listener = first.receiver.listeners[-1]
        until("the first is committed", lambda: first.clock.advance(6) or topic.committed() == 1)
        listener._store = lambda *_: None  # type: ignore[attr-defined]  # as one that is killed
        listener.close()
        topic.put(request_of(root).SerializeToString())
        with reading(topic) as second:
            taken(second, 3)
            assert len(second.after(7)) == 1


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
    monkeypatch.setattr("ragmonitor.receive.receiver.MAX_TRACES", 10)
    with reading(topic) as receiver:
        topic.put(*(body(trace) for trace in range(1, 31)))
        seen: set[str] = set()

        def all_came() -> bool:
            seen.update(each.id for each in receiver.after(7))
            assert len(receiver.receiver.traces) <= 10
            return len(seen) == 30

        until("thirty answers came, ten at a time", all_came, within_s=60)


@pytest.mark.slow
def test_two_receivers_share_a_topic(cluster: KafkaCluster) -> None:
    """Whichever has a partition, each answer is handed over once."""
    topic = Topic(cluster, "shared", partitions=2)
    with reading(topic) as first:
        topic.put(body(1), partition=0)
        topic.put(body(2), partition=1)
        taken(first, 6)  # held, and not complete: time stands still
        with reading(topic) as second:
            until(
                "both have a partition",
                lambda: len(second.receiver.listeners[-1].partitions) == 1,  # type: ignore[attr-defined]
                within_s=60,
            )
            taken(second, 3)
            ids = [each.id for one in (first, second) for each in one.after(7)]
            assert len(ids) == len(set(ids)) == 2


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("kafka://broker:9092", "receive.kafka: the address is kafka://"),
        ("kafka://broker:9092/otlp?group.id=1", "receive.kafka: group.id is not to be set"),
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
