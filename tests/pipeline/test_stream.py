"""Answers on a stream: an application puts them there, a worker scores them, every one is counted.

The law: captured = scored and unscored by the worker + refused by the application + what is still
on the stream.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Self

import pytest

from ragmonitor import Chunk, Monitor, Scored, ServerSettings, SettingsError
from ragmonitor.pipeline import sender as back_sender
from ragmonitor.pipeline import stream_worker
from ragmonitor.pipeline.sender import StreamSender
from ragmonitor.pipeline.stream_worker import StreamWorker
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.runtime.errors import StreamError
from ragmonitor.runtime.wire import decode, encode
from ragmonitor.settings import Settings
from ragmonitor.testing import ListExporter
from tests.support.in_memory_stream import InMemoryStream
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import outcomes, total
from tests.support.stories import interaction
from tests.support.waiting import until

SERVICE = "shop"


@pytest.fixture
def server(tmp_path_factory) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    with running_redis(tmp_path_factory.mktemp("redis"), password="correct-horse") as running:
        yield running


def application(url: str, **options) -> Monitor:
    return Monitor(SERVICE, send_to=url, server=ServerSettings(enabled=False), **options)


class Work:
    """A worker."""

    def __init__(self, stream, **options) -> None:
        self.reports = ListExporter()
        settings = Settings.load(service=SERVICE, server=False, exporters=[self.reports], **options)
        self.worker = StreamWorker(settings, stream)

    def drained(self) -> Self:
        self.worker.run(threading.Event(), drain=True)
        return self

    @property
    def ids(self) -> list[str]:
        return sorted(report.interaction.id for report in self.reports.reports)

    def counted(self, **labels: str) -> float:
        return total(self.worker.back.registry, "ragmonitor_interactions_total", **labels)


def answers(count: int, begin: int = 0):
    return [interaction(id=f"{n:032x}") for n in range(begin, begin + count)]


def test_an_answer_is_scored_at_the_other_end(server: RedisServer):
    """With its texts, its labels and its scores; the application itself scores nothing."""
    asked = replace(
        interaction(),
        attributes={"route": "towers"},
        chunks=(*interaction().chunks, Chunk(text="塔", metadata={"page": 7})),
    )
    with application(server.url) as monitor:
        monitor.observe(asked)
        assert monitor.flush()
        assert total(monitor.registry, "ragmonitor_interactions_total") == 0
    work = Work(RedisStream(server.url, SERVICE)).drained()
    (report,) = work.reports.reports
    assert report.interaction == asked
    assert [each.score for each in report.evaluations if isinstance(each, Scored)]
    assert work.counted(framework="python", status="ok") == 1
    assert RedisStream(server.url, SERVICE).state().waiting == 0


def test_what_leaves_the_application_is_redacted(server: RedisServer):
    """No secret stands in the bytes on the stream."""
    secret = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5bC7dE9fG1hJ3"
    with application(server.url) as monitor:
        monitor.observe(replace(interaction(), query=f"Is {secret} my key?"))
        assert monitor.flush()
    stream = RedisStream(server.url, SERVICE)
    (delivery,) = stream.take("test", 9, wait_s=0, stale_s=None)
    assert secret not in repr(decode(delivery.data))
    assert "my key?" in decode(delivery.data).query
    stream.close()


def test_a_record_that_workers_died_of_is_given_up(monkeypatch):
    """After ten deliveries, with its framework and status kept in the counts."""
    monkeypatch.setattr(stream_worker, "STALE_S", 0.0)
    stream = InMemoryStream()
    (one,) = answers(1)
    stream.put(encode(one))
    for number in range(10):
        assert stream.take(f"died {number}", 9, wait_s=0, stale_s=0)
    work = Work(stream).drained()
    assert not work.reports.reports
    assert work.counted(framework="python", status="ok") == 1
    assert stream.state().open == 0


def test_foreign_entries_are_given_up_and_a_drained_worker_ends(caplog):
    """Each is counted; one line says why."""
    stream = InMemoryStream()
    for data in (b"", b"{}", b"\x00" * 40, encode(answers(1)[0]), b""):
        stream.put(data)
    with caplog.at_level("WARNING"):
        work = Work(stream).drained()
    assert len(work.ids) == 1
    assert (stream.state().waiting, stream.state().open) == (0, 0)
    assert work.counted(framework="unknown", status="error") == 4
    told = [each.getMessage() for each in caplog.records if "given up" in each.getMessage()]
    assert len(told) == len(set(told)) <= 3


class BrokenStream(InMemoryStream):
    """Cannot be reached while it is down."""

    is_down = True

    def put(self, data):
        if self.is_down:
            raise StreamError("the stream cannot be written: ConnectionError")
        return super().put(data)


@pytest.fixture
def broken() -> BrokenStream:
    return BrokenStream()


def sender(stream, size: int = 100) -> StreamSender:
    settings = Settings.load(
        service=SERVICE, server=False, send_to="redis://x/0", capture={"queue_size": size}
    )
    return StreamSender(settings, poll=lambda: 0, stream=stream)


def finished(each):
    from ragmonitor.capture.plain import Record

    return Record(each)


def test_an_outage_costs_nothing_as_long_as_there_is_room(broken: BrokenStream, monkeypatch):
    """It shows, and what waits is put when the stream is back, in order."""
    monkeypatch.setattr(back_sender, "TICK_S", 0.1)
    monkeypatch.setattr(back_sender, "RETRY_S", 0.1)
    back = sender(broken)
    for each in answers(50):
        back.put(finished(each))
    until("it was tried", lambda: back._is_down)
    until("it shows", lambda: total(back.registry, "ragmonitor_stream_up") == 0)
    broken.is_down = False
    assert back.flush(10)
    back.close(5)
    assert len(broken.take("test", 99, wait_s=0, stale_s=None)) == 50
    assert total(back.registry, "ragmonitor_interactions_total") == 0


def test_what_finds_no_room_in_an_outage_is_counted(broken: BrokenStream):
    """As unscored, here and not by the worker; what waits at the end, too."""
    back = sender(broken, size=10)
    back.put(finished(answers(1)[0]))
    until("it was tried", lambda: back._is_down)
    for each in answers(30, begin=1):
        back.put(finished(each))
    assert not back.flush(0.01)
    back.close(0.5)
    found = outcomes(back.registry, evaluator="faithfulness", judge="builtin")
    assert found == {"queue_full": 20, "shutdown": 11}
    assert total(back.registry, "ragmonitor_interactions_total") == 31


def test_texts_that_may_not_leave_are_refused():
    """Under another content policy nothing could be scored."""
    with pytest.raises(SettingsError, match="content"):
        Monitor(SERVICE, send_to="redis://127.0.0.1:1/0", content="hashed")


def ragmonitor(server: RedisServer, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "RAGMONITOR_SEND_TO": server.url,
        "RAGMONITOR_SERVICE": SERVICE,
        "RAGMONITOR_SERVER": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "ragmonitor.cli.app", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(server: RedisServer, tmp_path):
    """`kill -9` in the middle: the next worker scores the rest, and what was in hand again."""
    scores = tmp_path / "scores.jsonl"
    count = 1_500
    with application(server.url) as monitor:
        for each in answers(count):
            monitor.observe(each)
        assert monitor.flush(60)
        os.environ["RAGMONITOR_EXPORTERS"] = f"jsonl:{scores}"
        try:
            first = ragmonitor(server, "worker")
            until("it scores", lambda: scores.exists() and scores.stat().st_size > 100_000)
            first.send_signal(signal.SIGKILL)
            first.communicate(timeout=10)
            assert RedisStream(server.url, SERVICE).state().waiting > 0
            second = ragmonitor(server, "worker", "--drain")
            _, said = second.communicate(timeout=120)
        finally:
            del os.environ["RAGMONITOR_EXPORTERS"]
    assert second.returncode == 0, said
    ids = [json.loads(line)["id"] for line in scores.read_text().splitlines()]
    assert set(ids) == {each.id for each in answers(count)}
    assert len(ids) - len(set(ids)) <= stream_worker.MAX_OPEN
    assert RedisStream(server.url, SERVICE).state().waiting == 0
    assert "horse" not in said


def test_what_people_say_joins_its_answer_at_the_other_end(server: RedisServer):
    """It is counted there, in no rate, and as no answer of its own."""
    with application(server.url) as monitor:
        monitor.observe(interaction())
        monitor.feedback(interaction().id, False, comment="wrong")
        assert monitor.flush()
        assert total(monitor.registry, "ragmonitor_dropped_total") == 0
    registry = Work(RedisStream(server.url, SERVICE)).drained().worker.back.registry
    assert total(registry, "ragmonitor_feedback_total", direction="bad") == 1
    assert total(registry, "ragmonitor_interactions_total") == 1
