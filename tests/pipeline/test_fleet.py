"""Several workers and one estimator over a real Redis: one set of numbers, whatever dies."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ragmonitor import Budget, Monitor
from ragmonitor.errors import StreamError
from ragmonitor.estimation.alarms import draw_order
from ragmonitor.feedback import feedback_of
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet import fleet_worker
from ragmonitor.fleet.estimator import Estimator, LeaseLostError, Term
from ragmonitor.fleet.estimator_state import KEPT_STATE
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.metrics import ALARM_LATE_VERDICTS
from ragmonitor.records import (
    AlarmEvent,
    Cause,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Prediction,
    SamplingDecision,
    SeriesKey,
)
from ragmonitor.redaction import Redactor
from ragmonitor.settings import SamplingSettings, Settings
from ragmonitor.testing import ListExporter, ScriptedJudge
from ragmonitor.wire import (
    Decided,
    SettledAnswer,
    encode,
    encode_decided,
    encode_feedback,
    encode_settled,
)
from ragmonitor.wiring import budget_of
from tests.support.redis_server import RedisServer, running_redis
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until

SERVICE = "shop"
BEGAN_NS = time.time_ns() - 1_500_000_000_000


@pytest.fixture
def server(tmp_path_factory) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(estimator_module, "TICK_S", 0.1)
    monkeypatch.setattr(estimator_module, "STAND_BY_S", 0.05)
    monkeypatch.setattr(fleet_worker, "REFRESH_S", 0.1)
    monkeypatch.setattr(fleet_worker, "CLAIM_S", 0.1)
    monkeypatch.setattr(fleet_worker, "RETRY_S", 0.05)


@pytest.fixture(autouse=True)
def answers_alone(monkeypatch: pytest.MonkeyPatch):
    """Leave out reference answers, which would be on the stream too: they have their own tests."""
    monkeypatch.setenv("RAGMONITOR_JUDGE__REFERENCE_ANSWERS_PER_DAY", "0")


def stream(server: RedisServer) -> FleetStream:
    return FleetStream(server.url, SERVICE)


def answers(count: int, begin: int = 0) -> list[Interaction]:
    # Ten seconds apart: evidence grows with time.
    ended_ns = [BEGAN_NS + n * 10_000_000_000 for n in range(begin, begin + count)]
    return [
        interaction(id=f"{n:032x}", started_ns=at_ns, ended_ns=at_ns)
        for n, at_ns in enumerate(ended_ns, begin)
    ]


def put(server: RedisServer, records: Sequence[Interaction]) -> None:
    assert stream(server).put([encode(each) for each in records]) == len(records)


def settings(**options: Any) -> Settings:
    return Settings.load(service=SERVICE, server=False, **options)


@contextmanager
def running(work: Any, **options: Any) -> Iterator[Any]:
    """Run a worker or an estimator on a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=work.run, args=(stop,), kwargs=options)
    thread.start()
    try:
        yield work
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


def worker(server: RedisServer, **options: Any) -> FleetWorker:
    return FleetWorker(settings(**options), stream(server), redactor=Redactor())


def estimator(server: RedisServer, **options: Any) -> Estimator:
    return Estimator(settings(**options), stream(server))


def lawful(server: RedisServer) -> Any:
    """Return the counts, once the law was seen to hold."""
    found = stream(server).counts()
    assert found.stored == (
        found.waiting + found.open + found.settled + found.buried + found.duplicates
    )
    return found


def test_two_workers_give_one_set_of_numbers(server: RedisServer):
    """The estimator has every answer once, with its reports; the workers have no quality series."""
    put(server, answers(60))
    seen = ListExporter()
    judge = ScriptedJudge(lambda _: assessment("supported"))
    shared = {"judge": judge, "sample": 1.0}
    with (
        running(estimator(server, exporters=[seen], **shared)) as one,
        running(worker(server, **shared)) as first,
        running(worker(server, **shared)) as second,
    ):
        until("it is there", lambda: one.term is not None)
        registry = one.term.meters.registry
        until("all are counted", lambda: total(registry, "ragmonitor_interactions_total") == 60)
        found = outcomes(registry, evaluator="faithfulness")
        assert sum(found.values()) == 120
        for each in (first, second):
            names = {family.name for family in each.meters.registry.collect() if family.samples}
            assert not {name for name in names if "score" in name or "interactions" in name}
    assert {report.interaction.id for report in seen.reports} == {e.id for e in answers(60)}
    assert len(seen.reports) == 120
    counts = lawful(server)
    assert (counts.settled, counts.uncounted, counts.waiting) == (60, 0, 0)


def verdicts(record: Interaction) -> Any:
    """Find every fifth answer hallucinated."""
    return assessment("absent" if int(record.id[:32], 16) % 5 == 0 else "supported")


def evidence(found: Sequence[Any]) -> dict[str, float]:
    return {state.signal: state.evidence_s for state in found}


def lose_lease(server: RedisServer) -> None:
    """Have the lease end, as that of a process that was paused for too long."""
    server.client().delete(f"ragmonitor:{{{SERVICE}}}:worker")


@pytest.mark.slow
def test_a_successor_goes_on_with_the_same_evidence(server: RedisServer):
    """Counts, windowed means and evidence are those of one that was never replaced."""
    shared = {
        "judge": ScriptedJudge(verdicts),
        "sample": 1.0,
        "objectives": {"hallucination": 0.05},
    }
    with running(worker(server, **shared)):
        for begin in range(0, 120, 40):
            put(server, answers(40, begin=begin))
            with running(estimator(server, **shared)) as one:
                until("it is there", lambda one=one: one.term is not None)
                term = one.term
                until(
                    "all so far are counted",
                    lambda term=term, n=begin + 40: (
                        total(term.meters.registry, "ragmonitor_interactions_total") == n
                        and lawful(server).uncounted == 0
                    ),
                )
                lose_lease(server)
                until("it has noticed", lambda one=one, term=term: one.term is not term)
    snapshot = term.estimates.snapshot()
    with Monitor(SERVICE, server=False, worker="thread", **shared) as alone:
        for each in answers(120):
            alone.observe(each)
        assert alone.flush()
        expected = alone._back.worker.latest
    assert evidence(snapshot.alarms) == pytest.approx(evidence(expected.alarms), rel=1e-6)
    assert evidence(snapshot.alarms)["hallucination"] > 3_600
    means = {key: (found.judged, found.judged_value) for key, _, found in snapshot.moments}
    assert means == {key: (each.judged, each.judged_value) for key, _, each in expected.moments}
    answers_of = {key: found.answers for key, found in snapshot.totals}
    assert answers_of == {key: found.answers for key, found in expected.totals}


_TERMS: list[Term] = []


@pytest.fixture(autouse=True)
def ended():
    yield
    while _TERMS:
        _TERMS.pop().close()


def begun(server: RedisServer, lease: str, **options: Any) -> Term:
    """Return a term that has begun; it is closed after the test."""
    term = Term(settings(**options), stream(server), lease)
    _TERMS.append(term)
    term.begin()
    return term


def drained(server: RedisServer, *workers: FleetWorker, **options: Any) -> Term:
    """Have the workers work all off, and return what was estimated of it."""
    stop = threading.Event()
    for each in workers:
        each.run(stop, drain=True)
    term = begun(server, stream(server).lead("test", "", 60.0), **options)
    while term.step():
        pass
    term.tick()
    return term


@pytest.fixture
def died(monkeypatch, server: RedisServer) -> FleetStream:
    """Return a stream whose consumers count as dead at once."""
    monkeypatch.setattr(fleet_worker, "STALE_S", 0.0)
    return stream(server)


def test_what_workers_die_of_is_buried_and_its_chance_kept(server: RedisServer, died: FleetStream):
    """After three deliveries: counted as unscored, and as a verdict that is missing."""
    put(server, answers(3))
    decision = SamplingDecision(inclusion_probability=0.5, drawn=True)
    decided = encode_decided(Decided(decision=decision, prediction=Prediction(), epoch=0))
    died.take("dead 0", 1, wait_s=0, stale_s=None)
    died.decide(died.take_over("dead 1", 9, 0.0)[0].id, answers(1)[0].id, decided, b"")
    (suspect,) = died.take_over("dead 2", 9, 0.0)
    assert suspect.deliveries == 3
    shared = {"judge": ScriptedJudge(verdicts), "sample": 1.0}
    term = drained(server, worker(server, **shared), **shared)
    registry = term.meters.registry
    assert outcomes(registry, evaluator="faithfulness")["internal_error"] == 2
    key = SeriesKey(signal="hallucination", judge="scripted")
    (missing,) = {
        sums.missing for each, _, sums in term.estimates.snapshot().moments if each == key
    }
    assert missing == 2.0
    counts = lawful(server)
    assert (counts.buried, counts.uncounted) == (1, 0)
    (buried,) = died.buried(9)
    assert "never settled" in buried.reason


def test_an_answer_that_was_put_twice_counts_once(server: RedisServer):
    """While the first is in hand, and after it was settled."""
    put(server, [*answers(5), *answers(5)])
    term = drained(server, worker(server))
    put(server, answers(5))
    worker(server).run(threading.Event(), drain=True)
    term.step()
    assert total(term.meters.registry, "ragmonitor_interactions_total") == 5
    assert (lawful(server).settled, lawful(server).duplicates) == (5, 10)


class StuckJudge(ScriptedJudge):
    """Replies when it is let go."""

    def __init__(self) -> None:
        super().__init__(verdicts)
        self.is_free = threading.Event()

    async def assess(self, interaction: Interaction) -> Any:
        """Wait, and find every fifth answer hallucinated."""
        await asyncio.to_thread(self.is_free.wait)
        return await super().assess(interaction)


class PaidJudge(ScriptedJudge):
    """Costs a call each."""

    budget_unit = "calls"

    def expected_cost(self, interaction: Interaction) -> float:
        """Return one call."""
        return 1.0


def test_one_budget_for_the_fleet(server: RedisServer):
    """Two workers, and one that died with calls reserved, spend no more than there is together."""
    budget = Budget(calls_per_day=240.0)  # 10 calls at the beginning
    shared = {"sample": SamplingSettings(rate=1.0, always=("vip",)), "budget": budget}
    judge = PaidJudge(verdicts)
    dead = budget_of(settings(judge=judge, **shared), stream(server).address)
    assert dead.reserve(4.0)
    put(server, [replace(each, tags=("vip",)) for each in answers(60)])
    workers = [worker(server, judge=judge, **shared) for _ in range(2)]
    with running(workers[0], drain=True), running(workers[1], drain=True):
        until("all are settled", lambda: lawful(server).settled == 60)
    assert len(judge.asked) == 6
    left = budget_of(settings(judge=judge, **shared), stream(server).address)
    assert left.level() < 1.1


def test_a_slow_worker_keeps_what_it_has_taken(server: RedisServer, monkeypatch):
    """It lives, though a batch takes it longer than a dead worker is waited for."""
    for name, seconds in {"STALE_S": 1.5, "REFRESH_S": 0.05, "CLAIM_S": 0.05}.items():
        monkeypatch.setattr(fleet_worker, name, seconds)
    slow, quick = (worker(server) for _ in range(2))
    read, take_over = slow._read, quick._stream.take_over
    taken, taken_over = threading.Event(), []

    def slowly(record, found):
        taken.set()
        time.sleep(0.05)
        return read(record, found)

    def seen(*arguments):
        found = take_over(*arguments)
        taken_over.extend(found)
        return found

    monkeypatch.setattr(slow, "_read", slowly)
    monkeypatch.setattr(quick._stream, "take_over", seen)
    put(server, answers(40))
    with running(slow, drain=True):
        assert taken.wait(20)
        with running(quick):
            until("all are settled", lambda: lawful(server).settled == 40)
    assert taken_over == []


def test_a_paused_estimator_writes_nothing(server: RedisServer):
    """Its lease was taken over meanwhile: the fence stands before its state."""
    put(server, answers(3))
    worker(server).run(threading.Event(), drain=True)
    paused = begun(server, stream(server).lead("paused", "", 60.0))
    lose_lease(server)
    successor = drained(server)
    with pytest.raises(LeaseLostError):
        paused.step()
    assert total(successor.meters.registry, "ragmonitor_interactions_total") == 3
    third = begun(server, "")
    assert total(third.meters.registry, "ragmonitor_interactions_total") == 3


def drawn_answer(server: RedisServer, worker: FleetWorker) -> tuple[str, SettledAnswer]:
    """Put an answer that a worker draws, and return its entry and what the judge failed at."""
    (record,) = records = answers(1)
    put(server, records)
    decided = Decided(
        decision=SamplingDecision(inclusion_probability=1.0, drawn=True),
        prediction=Prediction(),
        epoch=0,
    )
    (delivery,) = stream(server).take(worker._consumer.name, 9, wait_s=0, stale_s=None)
    stream(server).decide(delivery.id, record.id, encode_decided(decided), b"")
    return delivery.id, worker._unscored(record, Cause.JUDGE_ERROR, decided)


def settle(server: RedisServer, entry: str, answer: SettledAnswer) -> None:
    """Exchange a record that was decided for its reports."""
    stream(server).settle_answer(
        entry, answer.interaction.id, encode_settled(answer), is_decided=True
    )


def test_a_late_verdict_is_counted_and_no_fallback_stands_in(server: RedisServer, monkeypatch):
    """The sampled verdict is missing, whichever model gave it.

    So it is where the means knew nothing of the draw, which an earlier release has made.
    """
    monkeypatch.setattr(draw_order, "WAIT_S", 0.0)
    shared = {"judge": ScriptedJudge(verdicts), "sample": 1.0}
    entry, answer = drawn_answer(server, worker(server, **shared))
    term = begun(server, stream(server).lead("test", "", 60.0), **shared)
    term.step()
    term.tick()
    builtin, judged = answer.reports
    other = JudgeIdentity(name="other", version="1", kind="LLM")
    by_other = replace(judged, judge=other, assessment=verdicts(answer.interaction))
    settle(server, entry, replace(answer, reports=(builtin, by_other)))
    taken_in: list[CompletedAnswer] = []
    monkeypatch.setattr(term.estimates, "add", taken_in.append)
    term.tick()
    term.step()
    late = {gauge.name: gauge.value for gauge in term.estimates.snapshot().gauges}
    assert [each.stand_in for each in taken_in] == [None]
    assert late[ALARM_LATE_VERDICTS] == 1


def test_a_server_that_is_gone_shows(server: RedisServer):
    """On workers and on estimators, with the error."""

    def is_up(meters: Any) -> float | None:
        return None if meters is None else total(meters.registry, "ragmonitor_stream_up")

    with running(worker(server)) as one, running(estimator(server)) as other:
        until("it estimates", lambda: other.term is not None)
        until("the worker is up", lambda: is_up(one.meters) == 1)
        server.process.kill()
        until("the worker is not", lambda: is_up(one.meters) == 0)
        until("nor is the estimator", lambda: is_up(other._standby) == 0)
        errors = total(one.meters.registry, "ragmonitor_internal_errors_total", stage="stream")
        assert errors > 0


def test_an_alarm_that_is_told_again_is_the_same_one(server: RedisServer, monkeypatch):
    """An estimator dies before it notes that it has told one: its successor tells it, of then."""
    event = AlarmEvent(
        signal="hallucination", judge="scripted", kind="quality", raised=True, at_s=BEGAN_NS / 1e9,
        since_s=BEGAN_NS / 1e9 - 60.0, evidence_s=1.0, threshold_s=1.0, objective=0.05,
    )  # fmt: skip
    seen = ListExporter()
    seen.alarm = (told := []).append  # type: ignore[attr-defined]
    dying = begun(server, stream(server).lead("dying", "", 60.0), exporters=[seen])
    keep = dying._checkpoint

    def dies(events: Sequence[AlarmEvent]) -> None:
        if not events:
            raise StreamError("killed")
        keep(events)

    monkeypatch.setattr(dying.estimates, "tick", lambda: [event])
    monkeypatch.setattr(dying, "_checkpoint", dies)
    with pytest.raises(StreamError, match="killed"):
        dying.tick()
    for _ in range(2):
        lose_lease(server)
        drained(server, exporters=[seen])
    assert told == [event, event]


def test_a_slow_judge_does_not_hold_up_the_others(server: RedisServer):
    """More records are taken than a worker has in hand at once, while drawn ones wait."""
    put(server, answers(300))
    judge = StuckJudge()
    with running(worker(server, judge=judge, sample=1.0)):
        until("all were taken", lambda: lawful(server).open == 300)
        judge.is_free.set()
        until("all are settled", lambda: lawful(server).settled == 300)


def test_feedback_arrives(server: RedisServer):
    """It is joined with its answer by the estimator, and what cannot be read holds nothing up."""
    seen = ListExporter()
    seen.feedback = (told := []).append  # type: ignore[attr-defined]
    put(server, answers(1))
    term = drained(server, worker(server), exporters=[seen])
    said = feedback_of(answers(1)[0].id, True, kind="thumbs", at_s=time.time())
    stream(server).put([encode_feedback(said), encode_feedback(said)[:-3]])
    worker(server).run(threading.Event(), drain=True)
    term.step()
    term.tick()
    assert [each.feedback.score for each in told] == [1.0]
    assert (term.state.unreadable, lawful(server).buried) == (1, 1)
    assert total(term.meters.registry, "ragmonitor_interactions_total") == 1


def command(server: RedisServer, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command of ragmonitor's on the server's stream."""
    environment = os.environ | {
        "RAGMONITOR_STREAM": server.url,
        "RAGMONITOR_SERVICE": SERVICE,
        "RAGMONITOR_SERVER": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "ragmonitor.cli.app", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_kills_of_workers_and_estimators_lose_nothing(server: RedisServer):
    """`kill -9` of each in turn, while it works: every answer is counted once in the end."""
    records = answers(6_000)
    roles = [("worker", "--fleet"), ("estimator",), ("worker", "--fleet"), ("estimator",)]
    processes = [command(server, *role) for role in roles]
    try:
        for at in (0, 1, 2, 3):
            before = lawful(server) if at else None
            put(server, records[1_500 * at : 1_500 * (at + 1)])
            until(
                "some more are settled",
                lambda n=0 if before is None else before.settled: lawful(server).settled > n,
                within_s=60,
            )
            processes[at].kill()
            processes[at].wait(10)
            lawful(server)
            processes[at] = command(server, *roles[at])
        until("all are counted", lambda: is_counted(server, 6_000), within_s=150)
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            each.wait(30)
    state = json.loads(stream(server).kept_field(KEPT_STATE))
    assert sum(state["interactions"].values()) == 6_000
    assert state["unreadable"] == 0
    assert lawful(server).buried == 0


def is_counted(server: RedisServer, count: int) -> bool:
    """Return whether so many records are settled and estimated."""
    found = lawful(server)
    return found.settled == count and found.uncounted == 0
