"""Answers on a stream: an application puts them there, a worker scores them, every one is counted.

The law: captured = scored and unscored by the worker + refused by the application + what is still
on the stream.
"""

from __future__ import annotations

import asyncio
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

from ragmonitor import (
    Chunk,
    Monitor,
    Scored,
    ServerSettings,
    SettingsError,
    StreamSettings,
    supervised,
)
from ragmonitor.back_half import stream_sender, stream_worker
from ragmonitor.back_half.stream_sender import StreamBackHalf
from ragmonitor.back_half.stream_worker import LeaseLostError, StreamWorker
from ragmonitor.errors import StreamError
from ragmonitor.feedback import feedback_of
from ragmonitor.records import Assessment, Interaction
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.streams import RedisStream
from ragmonitor.testing import ListExporter, ScriptedJudge
from ragmonitor.wire import decode, decode_feedback, encode
from tests.support.in_memory_stream import InMemoryStream
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until

SERVICE = "shop"


@pytest.fixture
def server(tmp_path_factory) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    with running_redis(tmp_path_factory.mktemp("redis"), password="correct-horse") as running:
        yield running


def application(url: str, **options) -> Monitor:
    return Monitor(
        SERVICE, stream=StreamSettings(url=url, **options), server=ServerSettings(enabled=False)
    )


class Work:
    """A worker on a thread of the test."""

    def __init__(self, stream, **options) -> None:
        self.reports = ListExporter()
        settings = Settings.load(service=SERVICE, server=False, exporters=[self.reports], **options)
        self.worker = StreamWorker(settings, stream, redactor=Redactor())
        self.stop = threading.Event()
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.worker.run(self.stop)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            self.failure = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def drained(self) -> Self:
        self.worker.run(self.stop, drain=True)
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
        chunks=(*interaction().chunks, Chunk(text="\ud800", metadata={"page": 2**70})),
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


def test_every_answer_of_several_applications_is_counted_once(server: RedisServer):
    """While the worker is there, before it is, and when it ends in between."""
    monitors = [application(server.url) for _ in range(2)]
    for number, monitor in enumerate(monitors):
        for each in answers(150, begin=150 * number):
            monitor.observe(each)
        assert monitor.flush()
    with Work(RedisStream(server.url, SERVICE)) as first:
        until("some are scored", lambda: first.counted() >= 50)
    with Work(RedisStream(server.url, SERVICE)) as second:
        for each in answers(20, begin=300):
            monitors[0].observe(each)
        until("all are counted", lambda: first.counted() + second.counted() >= 320)
    for monitor in monitors:
        assert monitor.close()
    assert first.counted() + second.counted() == 320
    assert sorted(first.ids + second.ids) == sorted(each.id for each in answers(320))
    state = RedisStream(server.url, SERVICE).state()
    assert (state.waiting, state.open, state.buried) == (0, 0, 0)


def test_an_answer_that_was_put_twice_is_scored_once():
    """A put whose reply was lost is made again."""
    stream = InMemoryStream()
    (one,) = answers(1)
    stream.put([encode(one), encode(one)])
    work = Work(stream).drained()
    assert work.counted() == 1
    assert stream.state().open == 0


def test_what_cannot_be_read_is_buried_and_counted():
    """Damaged bytes neither end the worker nor hold up what comes behind them."""
    stream = InMemoryStream()
    (one,) = answers(1)
    stream.put([b"nonsense", encode(one)])
    work = Work(stream).drained()
    assert len(work.reports.reports) == 1
    assert work.counted(framework="unknown", status="error") == 1
    assert outcomes(work.worker.back.registry, judge="builtin")["internal_error"] > 0
    (buried,) = stream.buried(9)
    assert buried.data == b"nonsense"


def test_a_record_that_workers_died_of_is_buried():
    """After three deliveries, with its framework and status kept in the counts."""
    stream = InMemoryStream()
    (one,) = answers(1)
    stream.put([encode(one)])
    for number in range(3):
        assert stream.take(f"died {number}", 9, wait_s=0, stale_s=0)
    work = Work(stream).drained()
    assert not work.reports.reports
    assert work.counted(framework="python", status="ok") == 1
    (buried,) = stream.buried(9)
    assert buried.reason == "delivered 3 times and never settled"


def test_what_a_dead_worker_had_in_hand_is_scored():
    """Once its lease is over, by the next."""
    stream = InMemoryStream()
    stream.put([encode(each) for each in answers(5)])
    stream.take("dead", 3, wait_s=0, stale_s=None)
    assert len(Work(stream).drained().ids) == 5


class LosesReplies(InMemoryStream):
    """Gives records to a consumer that never hears of it, twice; and cannot bury at first."""

    lost = buried_in_vain = 0

    def take(self, consumer, max_items, *, wait_s, stale_s):
        taken = super().take(consumer, max_items, wait_s=wait_s, stale_s=stale_s)
        if taken and self.lost < 2:
            self.lost += 1
            raise StreamError("the stream cannot be read: TimeoutError")
        return taken

    def bury(self, delivery, reason):
        self.buried_in_vain += 1
        if self.buried_in_vain == 1:
            raise StreamError("the stream cannot be written: OutOfMemoryError")
        super().bury(delivery, reason)


def test_what_a_lost_reply_held_is_scored(monkeypatch):
    """No record stays with a consumer that does not know of it."""
    monkeypatch.setattr(stream_worker, "RETRY_S", 0.01)
    stream = LosesReplies()
    stream.put([b"nonsense", *(encode(each) for each in answers(5))])
    work = Work(stream).drained()
    assert work.ids == [each.id for each in answers(5)]
    assert work.counted() == 6
    assert (stream.state().open, stream.state().buried) == (0, 1)


def test_a_second_worker_is_refused(monkeypatch):
    """It says what there may be only one of; the first goes on."""
    monkeypatch.setattr(stream_worker, "LEASE_S", 0.1)
    monkeypatch.setattr(stream_worker, "RENEW_S", 0.0)
    monkeypatch.setattr(stream_worker, "RETRY_S", 0.01)
    stream = InMemoryStream(clock=lambda: 0.0)
    with Work(stream) as first:
        until("it has the lease", lambda: first.worker._has_lease)
        with pytest.raises(LeaseLostError, match="one process"):
            Work(stream).worker.run(threading.Event())
        stream.put([encode(each) for each in answers(3)])
        until("it goes on", lambda: first.counted() == 3)
    assert first.failure is None


def test_a_worker_that_lost_its_lease_settles_nothing(monkeypatch):
    """It was paused for too long: what it had is another's now."""
    monkeypatch.setattr(stream_worker, "RENEW_S", 0.0)
    stream = InMemoryStream()
    with Work(stream) as paused:
        until("it has the lease", lambda: paused.worker._has_lease)
        stream._lease = ("another", 1e18)
        until("it notices", lambda: paused.failure)
    assert isinstance(paused.failure, LeaseLostError)


class BrokenStream(InMemoryStream):
    """Cannot be reached while it is down."""

    is_down = True

    def put(self, records):
        if self.is_down:
            raise StreamError("the stream cannot be written: ConnectionError")
        return super().put(records)


@pytest.fixture
def broken() -> BrokenStream:
    return BrokenStream()


def sender(stream, size: int = 100) -> StreamBackHalf:
    settings = Settings.load(
        service=SERVICE, server=False, stream=StreamSettings(url="redis://x/0", buffer_size=size)
    )
    return StreamBackHalf(settings, redactor=Redactor(), poll=lambda: 0, open_stream=lambda: stream)


def finished(each):
    from ragmonitor.capture import Record

    return Record(each)


def test_an_outage_costs_nothing_as_long_as_there_is_room(broken: BrokenStream, monkeypatch):
    """It shows, and what waits is put when the stream is back, in order."""
    monkeypatch.setattr(stream_sender, "REFRESH_S", 0.1)
    monkeypatch.setattr(stream_sender, "RETRY_S", 0.1)
    back = sender(broken)
    for each in answers(50):
        back.put(finished(each))
    until("it was tried", lambda: back._is_down)
    until("it knows", lambda: total(back.registry, "ragmonitor_stream_limit") == 1_000_000)
    until("it shows", lambda: total(back.registry, "ragmonitor_stream_up") == 0)
    broken.is_down = False
    assert back.flush(10)
    back.close(5)
    assert len(broken.take("test", 99, wait_s=0, stale_s=None)) == 50
    assert total(back.registry, "ragmonitor_interactions_total") == 0


def test_what_finds_no_room_in_an_outage_is_counted(broken: BrokenStream):
    """As unscored, cause `stream_down`, here and not by the worker."""
    back = sender(broken, size=10)
    back.put(finished(answers(1)[0]))
    until("it was tried", lambda: back._is_down)
    for each in answers(30, begin=1):
        back.put(finished(each))
    assert not back.flush(0.01)
    back.close(0.5)
    found = outcomes(back.registry, evaluator="faithfulness", judge="builtin")
    assert found == {"stream_down": 31}
    assert total(back.registry, "ragmonitor_interactions_total") == 31


def test_what_an_error_of_ours_keeps_from_the_stream_is_counted(monkeypatch):
    """Not an outage but a fault: nobody would put these again, so they are unscored."""
    monkeypatch.setattr(supervised, "FIRST_PAUSE_S", 0.001)

    class Faulty(InMemoryStream):
        is_faulty = True

        def put(self, records):
            if self.is_faulty:
                raise ValueError("a fault")
            return super().put(records)

    stream = Faulty()
    back = sender(stream)
    back.put(finished(answers(1)[0]))
    until("it failed", lambda: not back._is_waiting())
    stream.is_faulty = False
    back.put(finished(answers(1, begin=1)[0]))
    assert back.flush(10)
    back.close(5)
    assert len(stream.take("test", 99, wait_s=0, stale_s=None)) == 1
    found = outcomes(back.registry, evaluator="faithfulness", judge="builtin")
    assert found == {"internal_error": 1}


def test_an_outage_is_one_line_of_the_log(broken: BrokenStream, caplog):
    """What failed and what follows from it, without the lines of our code."""
    caplog.set_level("WARNING", "ragmonitor")
    back = sender(broken)
    back.put(finished(answers(1)[0]))
    until("it was tried", lambda: back._is_down)
    back.close(0)
    (said,) = caplog.records
    assert "ConnectionError; answers wait meanwhile" in said.getMessage()
    assert said.exc_info is None


def test_checks_are_counted_and_events_are_said_to_be_lost(caplog):
    """What the application decides by itself it counts by itself."""
    with Monitor(SERVICE, stream="redis://127.0.0.1:1/0", server=False) as monitor:
        monitor.check("It is 300 m tall.", ["The tower is 300 m tall."])
        monitor.event("deployment", version="2")
    assert "events are not carried" in caplog.text
    assert "deployment" not in caplog.text


def test_a_full_stream_refuses_what_is_new():
    """It is counted as `queue_full`; what is on the stream stays."""
    stream = InMemoryStream(max_records=10)
    back = sender(stream)
    for each in answers(15):
        back.put(finished(each))
    assert back.flush(10)
    back.close(5)
    assert outcomes(back.registry, evaluator="faithfulness")["queue_full"] == 5
    assert stream.state().waiting == 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
def test_a_forked_child_puts_its_own(server: RedisServer):
    """And none of its parent's."""
    with application(server.url) as monitor:
        monitor.observe(answers(1)[0])
        assert monitor.flush()
        child = os.fork()
        if child == 0:
            monitor.observe(answers(1, begin=1)[0])
            os._exit(0 if monitor.close(10) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        monitor.observe(answers(1, begin=2)[0])
        assert monitor.flush()
    assert Work(RedisStream(server.url, SERVICE)).drained().ids == [each.id for each in answers(3)]


def test_texts_that_may_not_leave_are_refused():
    """Under another content policy nothing could be scored."""
    with pytest.raises(SettingsError, match="content"):
        Monitor(SERVICE, stream="redis://127.0.0.1:1/0", content="hashed")


def ragmonitor(server: RedisServer, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {
        "RAGMONITOR_STREAM": server.url,
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
    assert total(registry, "ragmonitor_feedback_answers", people="bad") == 1
    assert total(registry, "ragmonitor_interactions_total") == 1


def test_comments_leave_redacted(server: RedisServer):
    secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with application(server.url) as monitor:
        monitor.feedback("a" * 32, False, comment=f"my key {secret}")
    (delivery,) = RedisStream(server.url, SERVICE).take("test", 9, wait_s=1, stale_s=None)
    comment = decode_feedback(delivery.data).comment
    assert comment.startswith("my key")
    assert secret not in comment


def test_labels_leave_redacted(server: RedisServer):
    """What is no word for good or bad may be anything."""
    secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    with application(server.url) as monitor:
        monitor.feedback("a" * 32, secret)
    (delivery,) = RedisStream(server.url, SERVICE).take("test", 9, wait_s=1, stale_s=None)
    assert decode_feedback(delivery.data).label == "[redacted:github_token]"


def test_late_feedback_finds_an_answer_of_an_earlier_worker(server: RedisServer, tmp_path):
    """By the worker's state folder; an exporter of the later worker is told of it."""
    with application(server.url) as monitor:
        monitor.observe(interaction())
    Work(RedisStream(server.url, SERVICE), state=tmp_path).drained()
    with application(server.url) as monitor:
        monitor.feedback(interaction().id, True)
    late = Work(RedisStream(server.url, SERVICE), state=tmp_path)
    late.reports.feedback = (told := []).append  # type: ignore[attr-defined]
    late.drained()
    assert [each.feedback.score for each in told] == [1.0]


def test_feedback_that_cannot_be_read_is_buried_and_is_no_answer():
    stream = InMemoryStream()
    stream.put([b"\xc1f\x01\x00not MessagePack"])
    work = Work(stream).drained()
    assert stream.state().buried == 1
    assert work.counted() == 0


def test_feedback_that_finds_no_room_is_counted(broken: BrokenStream):
    """In an outage it waits; what still waits at the end is lost, and said to be."""
    back = sender(broken)
    told = feedback_of("a" * 32, True, kind="thumbs", at_s=1.0)
    assert back.feedback(told)
    back.close(0.1)
    assert not back.feedback(told)
    assert total(back.registry, "ragmonitor_dropped_total", reason="feedback_lost") == 1


class StuckJudge(ScriptedJudge):
    """Replies when it is let go."""

    def __init__(self) -> None:
        super().__init__(lambda _: assessment("supported"))
        self.is_free = threading.Event()

    async def assess(self, interaction: Interaction) -> Assessment:
        """Wait, and find the answer supported."""
        await asyncio.to_thread(self.is_free.wait)
        return await super().assess(interaction)


def test_a_slow_judge_does_not_hold_up_the_others():
    """More records are taken and read than a worker has in hand at once."""
    stream, judge = InMemoryStream(), StuckJudge()
    stream.put([encode(each) for each in answers(300)])
    with Work(stream, judge=judge, sample=1.0) as work:
        until("all were taken", lambda: stream.state().waiting == 0)
        assert stream.state().open == 300
        judge.is_free.set()
        until("all are settled", lambda: stream.state().open == 0)
    assert len(work.reports.reports) == 600
