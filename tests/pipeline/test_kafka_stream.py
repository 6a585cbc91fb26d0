"""Answers on Kafka: applications put them there, one worker scores them, every one is counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ragmonitor import Monitor, ServerSettings, SettingsError, StreamSettings
from ragmonitor.back_half import stream_worker
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.errors import StreamError
from ragmonitor.guard import errors
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import stream_of
from ragmonitor.streams.deliveries import Delivery
from ragmonitor.streams.kafka_progress import Progress
from ragmonitor.streams.kafka_streams import KafkaStream
from ragmonitor.testing import ListExporter
from ragmonitor.wire import encode
from tests.support.kafka_cluster import OFFSET_COMMIT, PRODUCE, KafkaCluster, running_kafka
from tests.support.scrape import outcomes, total
from tests.support.stories import interaction
from tests.support.waiting import until

SERVICE = "shop"
MESSAGE_TOO_LARGE, OUT_OF_ORDER, REBALANCING, UNKNOWN_MEMBER = 10, 45, 27, 25


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with running_kafka() as cluster:
        yield cluster


@pytest.fixture
def url(kafka: KafkaCluster) -> str:
    return kafka.url(f"t{uuid.uuid4().hex}", partitions=3)


def application(url: str, **options) -> Monitor:
    return Monitor(
        SERVICE, stream=StreamSettings(url=url, **options), server=ServerSettings(enabled=False)
    )


def answers(count: int, begin: int = 0):
    return [interaction(id=f"{n:032x}") for n in range(begin, begin + count)]


def opened(url: str, most: int = 1_000_000) -> KafkaStream:
    return KafkaStream(url, SERVICE, max_records=most)


def worked_off(url: str) -> tuple[list[str], float]:
    """Return the ids that a worker scores until nothing is left, and how many it counts."""
    reports = ListExporter()
    settings = Settings.load(service=SERVICE, server=False, exporters=[reports])
    worker = StreamWorker(settings, opened(url), redactor=Redactor())
    worker.run(threading.Event(), drain=True)
    counted = total(worker.back.registry, "ragmonitor_interactions_total")
    return sorted(each.interaction.id for each in reports.reports), counted


@pytest.mark.slow
def test_every_answer_on_three_partitions_is_counted_once(url: str):
    """Of two applications, one of which forks after it has put some."""
    with application(url) as monitor:
        for each in answers(70):
            monitor.observe(each)
        assert monitor.flush()
        child = os.fork()
        if child == 0:
            for each in answers(5, begin=70):
                monitor.observe(each)
            os._exit(0 if monitor.close(10) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        monitor.observe(answers(1, begin=75)[0])
        assert monitor.flush()
        assert total(monitor.registry, "ragmonitor_interactions_total") == 0
    ids, counted = worked_off(url)
    assert ids == [each.id for each in answers(76)]
    assert counted == 76
    state = opened(url).state()
    assert (state.waiting, state.open, state.buried, state.oldest_s) == (0, 0, 0, 0)


@pytest.mark.slow
def test_a_record_that_consumers_died_of_is_buried(url: str):
    """Its deliveries are known to processes that never saw those before them."""
    stream = opened(url)
    stream.put([encode(answers(1)[0])])
    stream.close()
    for number in range(3):
        dead = opened(url)
        (delivery,) = dead.take("dead", 9, wait_s=2, stale_s=0)
        assert delivery.deliveries == number + 1
        dead.close()
    ids, counted = worked_off(url)
    assert (ids, counted) == ([], 1)
    (buried,) = opened(url).buried(9)
    assert "never settled" in buried.reason


def taken_by(
    stream: KafkaStream, consumer: str, wanted: set[int], stale_s: float | None
) -> dict[int, Delivery]:
    """Take until these have come, of each partition when it comes; return the first of each."""
    found: dict[int, Delivery] = {}

    def all_came() -> bool:
        for each in stream.take(consumer, 10, wait_s=1, stale_s=stale_s):
            found.setdefault(int(each.data), each)
        return wanted <= found.keys()

    until(f"{consumer} has them", all_came)
    return found


def test_a_restart_hands_out_what_was_not_settled_and_nothing_else(url: str):
    """Also where it was settled out of order."""
    stream = opened(url)
    stream.put([b"%d" % n for n in range(30)])
    taken = taken_by(stream, "a", {*range(30)}, stale_s=None)
    stream.settle([each.id for n, each in taken.items() if n % 3])
    stream.close()
    successor = opened(url)
    state = successor.state()
    assert (state.waiting, state.open) == (0, 10)
    assert 0 <= state.oldest_s < 60
    again = taken_by(successor, "b", {*range(0, 30, 3)}, stale_s=0)
    assert len(again) == 10
    assert {each.deliveries for each in again.values()} == {2}
    successor.close()


@pytest.mark.slow
def test_a_broker_that_is_down_is_waited_for(url: str, kafka: KafkaCluster):
    """It is an error of the stream, with a code and no address; then it goes on."""
    stream = opened(url)
    assert stream.put([b"1"]) == 1
    elsewhere = kafka.url(f"t{uuid.uuid4().hex}")
    kafka.down()
    try:
        for call in (
            lambda: stream.put([b"2"]),
            stream.state,
            lambda: opened(url).take("a", 1, wait_s=0, stale_s=None),
            lambda: opened(elsewhere).hold("a", 15),
        ):
            with pytest.raises(StreamError) as failed:
                call()
            assert "127.0.0.1" not in str(failed.value)
        begun = time.monotonic()
        stream.close()
        assert time.monotonic() - begun < 5
    finally:
        kafka.up()
    stream = opened(url)
    until("it is back", lambda: stream.put([b"3"]))
    found: set[bytes] = set()  # of each partition when it comes

    def all_came() -> bool:
        found.update(each.data for each in stream.take("a", 9, wait_s=1, stale_s=None))
        return {b"1", b"3"} <= found

    until("both come", all_came)
    stream.close()


def test_what_the_topic_refuses_is_counted_and_not_tried_for_ever(url: str, kafka: KafkaCluster):
    """A batch that is too large is put record by record; one that is too large itself is not."""
    stream = opened(url)
    kafka.fail(PRODUCE, MESSAGE_TOO_LARGE)
    assert stream.put([b"1", b"2", b"3"]) == 3
    assert stream.put([b"x" * 2_000_000, b"4"]) == 1
    stream.close()


@pytest.mark.slow
def test_a_full_topic_refuses_what_is_new(url: str):
    """As `queue_full`, counted by the application; what is on the topic stays."""
    with application(url, max_records=1_000) as monitor:
        for begin in range(0, 1_200, 100):
            for each in answers(100, begin):
                monitor.observe(each)
            assert monitor.flush(20)
    assert outcomes(monitor.registry, evaluator="faithfulness")["queue_full"] == 200
    assert opened(url).state().waiting == 1_000


def test_a_group_that_changes_is_waited_for(url: str, kafka: KafkaCluster):
    """A commit is made again; whoever is no member any more settles nothing."""
    stream = opened(url)
    stream.put([b"1"])
    (taken,) = stream.take("a", 1, wait_s=1, stale_s=None)
    kafka.fail(OFFSET_COMMIT, REBALANCING, REBALANCING)
    stream.settle([taken.id])
    assert opened(url).state().open == 0
    kafka.fail(OFFSET_COMMIT, UNKNOWN_MEMBER)
    stream.put([b"2"])
    with pytest.raises(StreamError, match="UNKNOWN_MEMBER_ID"):
        stream.take("a", 1, wait_s=1, stale_s=None)
    (again,) = stream.take("b", 1, wait_s=1, stale_s=0)
    assert again.data == b"2"
    stream.close()


def test_who_has_no_lease_settles_nothing_while_another_has_it(url: str):
    """Kafka itself refuses: a worker that was paused takes nothing back."""
    stream, holder = opened(url), opened(url)
    stream.put([b"1", b"2"])
    (mine,) = stream.take("paused", 1, wait_s=1, stale_s=None)
    until("it has the lease", lambda: holder.hold("next", 15))
    with pytest.raises(StreamError, match="UNKNOWN_MEMBER_ID"):
        stream.settle([mine.id])
    assert holder.state().open == 1
    stream.close()
    holder.close()


def test_kafka_is_reminded_of_what_is_settled(url: str, monkeypatch):
    """It forgets offsets that nobody commits for a week, and all would be scored again."""
    stream = opened(url)
    until("it has the lease", lambda: stream.hold("a", 15))
    stream.take("a", 9, wait_s=0, stale_s=None)
    committed = []
    monkeypatch.setattr(stream._member, "commit", lambda places, _: committed.extend(places))
    stream.state()
    assert {each.partition for each in committed} == {0, 1, 2}
    stream.state()
    assert len(committed) == 3
    stream.close()


class Message:
    """A record of partition 0 as the client returns it, or an error in its place."""

    def __init__(self, offset: int, error: Any = None) -> None:
        self.partition = lambda: 0
        self.offset = lambda: offset
        self.value = lambda: b"record"
        self.timestamp = lambda: (1, 1_000)
        self.error = lambda: error


class Reader:
    """Returns each message once, as the client's queue does."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)

    def poll(self, _: float) -> Message:
        return self._messages.pop(0)

    def consume(self, count: int, _: float) -> list[Message]:
        taken, self._messages = self._messages[:count], self._messages[count:]
        return taken


def test_what_was_read_beside_an_error_is_kept(url: str):
    """The client returns it no more: without it the next record would stand for a gap."""
    failure = pytest.importorskip("confluent_kafka").KafkaError(3)
    stream = opened(url)
    stream._partitions = {0: Progress(0, 0)}
    stream._reader = Reader(Message(0), Message(0, failure), Message(1), Message(2))
    with stream._reported("read"), pytest.raises(stream._client.failure):
        stream._read(10, 0.0)
    assert [each.offset for each in stream._partitions[0].ahead] == [0, 1, 2]
    stream._reader = None
    stream.close()


def test_what_retention_deleted_is_told(url: str, monkeypatch):
    """And is neither waited for nor open."""
    stream = opened(url)
    stream.put([b"1", b"2"])
    real = stream._client.bounds
    monkeypatch.setattr(
        stream._client,
        "bounds",
        lambda *asked: {id_: (high, high) for id_, (_, high) in real(*asked).items()},
    )
    before = errors["stream"]
    committed = dict.fromkeys(range(3), (0, ""))
    monkeypatch.setattr(stream._client, "committed", lambda *_: committed)
    assert stream.take("a", 9, wait_s=0, stale_s=None) == []
    assert errors["stream"] > before
    state = stream.state()
    assert (state.waiting, state.open) == (0, 0)
    stream.close()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("kafka://", "malformed"),
        ("kafka://b:9092/a/b", "topic"),
        ("kafka://u:secret@b/t?sasl.mechanism=secret", "property"),
        ("kafka://u:secret@b/t?secret", "name=value"),
        ("kafka://u:secret@b/t?group.id=secret", "group.id"),
        ("kafka://u:sec#ret@b/t", "malformed"),
        ("kafka://b/t?linger.mss=5", "property"),
        ("kafka://b/t?error_cb=secret", "property"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str, said: str):
    """When the application starts, without a word of its secrets."""
    with pytest.raises(SettingsError, match=said) as refused:
        stream_of(address, SERVICE, max_records=9)
    assert "secret" not in str(refused.value)


def test_services_have_topics_of_their_own():
    """Also those whose names Kafka refuses."""
    names = [
        KafkaStream("kafka://b", each)._topic for each in ("shop", "a b", "a-b", "客服", "销售")
    ]
    assert len(set(names)) == 5
    assert names[0] == "ragmonitor.shop"
    assert all(each.isascii() and " " not in each for each in names)


def ragmonitor(url: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    variables = os.environ | {
        "RAGMONITOR_STREAM": url,
        "RAGMONITOR_SERVICE": SERVICE,
        "RAGMONITOR_SERVER": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "ragmonitor.cli.app", *arguments],
        env=variables | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("command", [["worker", "--fleet"], ["estimator"]])
@pytest.mark.slow
def test_a_fleet_is_refused(command: list[str]):
    fleet = ragmonitor("kafka://user:secret@127.0.0.1:1/t", *command)
    _, said = fleet.communicate(timeout=60)
    assert fleet.returncode == 2
    assert "Redis" in said
    assert "secret" not in said


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(url: str, tmp_path):
    """`kill -9` in the middle: the next worker scores the rest, and what was in hand again."""
    scores, count = tmp_path / "scores.jsonl", 1_500
    exporters = {"RAGMONITOR_EXPORTERS": f"jsonl:{scores}"}
    with application(url) as monitor:
        for each in answers(count):
            monitor.observe(each)
        assert monitor.flush(60)
    first = ragmonitor(url, "worker", **exporters)
    until("it scores", lambda: scores.exists() and scores.stat().st_size > 100_000)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=10)
    assert opened(url).state().waiting > 0
    second = ragmonitor(url, "worker", "--drain", **exporters)
    _, said = second.communicate(timeout=200)
    assert second.returncode == 0, said
    ids = [json.loads(line)["id"] for line in scores.read_text().splitlines()]
    assert set(ids) == {each.id for each in answers(count)}
    assert len(ids) - len(set(ids)) <= stream_worker.MAX_OPEN
    state = opened(url).state()
    assert (state.waiting, state.open) == (0, 0)


@pytest.mark.slow
def test_a_worker_goes_on_after_an_outage(url: str, kafka: KafkaCluster, tmp_path):
    """It waits, and scores what comes afterwards; each answer once."""
    scores = tmp_path / "scores.jsonl"
    worker = ragmonitor(url, "worker", RAGMONITOR_EXPORTERS=f"jsonl:{scores}")
    with application(url) as monitor:
        monitor.observe(answers(1)[0])
        until("one is scored", lambda: scores.exists() and scores.read_text(), within_s=60)
        kafka.down()
        for each in answers(20, begin=1):
            monitor.observe(each)
        time.sleep(25)  # longer than the lease
        assert worker.poll() is None
        kafka.up()
        assert monitor.flush(60)
        until("all are scored", lambda: len(scores.read_text().splitlines()) >= 21, within_s=120)
    worker.terminate()
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said
    ids = [json.loads(line)["id"] for line in scores.read_text().splitlines()]
    assert sorted(ids) == [each.id for each in answers(21)]
