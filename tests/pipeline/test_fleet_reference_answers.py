"""Reference answers of a fleet: the estimator says which are due, a worker's judge reads them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from ragmonitor import Budget, Monitor, SamplingSettings
from ragmonitor.back_half.stream_sender import ask_to_refreeze
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.errors import JudgeError, StreamError
from ragmonitor.fleet import anchor_checks
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet.estimator import LeaseLostError, Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.records import AlarmEvent, Cause, Interaction, JudgeUsage
from ragmonitor.redaction import Redactor
from ragmonitor.streams import RedisStream
from ragmonitor.testing import ListExporter, ScriptedJudge
from ragmonitor.wire import decode_report
from tests.pipeline import test_fleet as fleet
from tests.pipeline.test_fleet import (
    SERVICE,
    PaidJudge,
    StuckJudge,
    answers,
    begun,
    estimator,
    lawful,
    lose_lease,
    put,
    running,
    settings,
    stream,
    worker,
)
from tests.support.redis_server import RedisServer
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction
from tests.support.waiting import until

server, died, quick, ended = fleet.server, fleet.died, fleet.quick, fleet.ended
PAID = JudgeUsage(calls=1)
FINE = assessment("supported", "supported", usage=PAID)
BAD = assessment("supported", "absent", usage=PAID)


def judged(script: Any = FINE) -> dict[str, Any]:
    """Return the settings of a fleet that judges all answers."""
    judge = ScriptedJudge(script if callable(script) else lambda _: script)
    return {"judge": judge, "sample": 1.0}


def work_off(server: RedisServer, **shared: Any) -> None:
    """Have a worker settle all that is on the stream."""
    worker(server, **shared).run(threading.Event(), drain=True)


def term_of(server: RedisServer, **shared: Any) -> Term:
    """Return a term under a lease of its own; whoever had it before has lost it."""
    lose_lease(server)
    return begun(server, stream(server).lead("test", "", 60.0), **shared)


def take_in(term: Term) -> None:
    """Take in all that is settled, and keep it."""
    while term.step():
        pass
    term.tick()


def asked_once(server: RedisServer, **shared: Any) -> Term:
    """Return a term that has asked for one reading, which waits for a worker."""
    put(server, answers(3))
    work_off(server, **shared)
    term = term_of(server, **shared)
    take_in(term)
    assert (lawful(server).checks, lawful(server).waiting) == (1, 1)
    return term


def kept(server: RedisServer) -> dict[str, Any]:
    """Return the reference answers as the checkpoint has them, by id; empty: it has none."""
    found = b"{}"
    for name, content in stream(server).kept().items():
        if name.startswith("file:anchors-") and "/" not in name:
            found = content
    anchors: dict[str, Any] = json.loads(found).get("anchors", {})
    return anchors


def confirmations(server: RedisServer) -> list[int]:
    """Return how often the judge said the same again, of each reference answer."""
    return sorted(each["confirmations"] for each in kept(server).values())


def test_what_is_due_is_judged_by_a_worker_and_counted_once(server: RedisServer):
    """It is no traffic: one reading more, whose verdict stands on the reference answer."""
    shared = judged()
    term = asked_once(server, **shared)
    take_in(term)
    assert lawful(server).checks == 1  # one at a time
    work_off(server, **shared)
    take_in(term)
    assert confirmations(server) == [0, 0, 1]
    assert term.state.asked == {}
    registry = term.meters.registry
    assert total(registry, "ragmonitor_interactions_total") == 3
    assert sum(outcomes(registry, evaluator="faithfulness").values()) == 6
    assert total(registry, "ragmonitor_judge_calls_total") == 4
    assert len(shared["judge"].asked) == 4
    assert (lawful(server).settled, lawful(server).uncounted) == (4, 0)
    take_in(term)
    assert lawful(server).checks == 1  # the next one is due in more than an hour


def test_a_successor_goes_on_with_what_was_asked_for(server: RedisServer):
    """An estimator is killed while a worker has it: the next one asks nothing, and takes it in."""
    shared = judged()
    asked_once(server, **shared)
    successor = term_of(server, **shared)
    take_in(successor)
    assert lawful(server).checks == 1
    work_off(server, **shared)
    take_in(successor)
    assert confirmations(server) == [0, 0, 1]


def test_a_kill_between_reading_and_checkpoint_counts_once(
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
):
    """What the dead one had taken in and not kept, the next one takes in as if never before."""
    shared = judged()
    dying = asked_once(server, **shared)
    work_off(server, **shared)
    monkeypatch.setattr(estimator_module, "TICK_S", 3_600.0)
    while dying.step():
        pass
    assert dying.state.asked == {}
    assert confirmations(server) == [0, 0, 0]
    take_in(term_of(server, **shared))
    take_in(term_of(server, **shared))
    assert confirmations(server) == [0, 0, 1]
    assert lawful(server).checks == 1


def test_a_lost_reply_of_the_checkpoint_asks_once(
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
):
    """State and request are kept in one step, whatever the estimator hears of it."""
    shared = judged()
    put(server, answers(3))
    work_off(server, **shared)
    term = term_of(server, **shared)
    checkpoint = FleetStream.checkpoint

    def unheard(self: FleetStream, *arguments: Any) -> bool:
        checkpoint(self, *arguments)
        raise StreamError("the reply was lost")

    with monkeypatch.context() as patch:
        patch.setattr(FleetStream, "checkpoint", unheard)
        with pytest.raises(StreamError, match="reply was lost"):
            take_in(term)
    take_in(term_of(server, **shared))
    assert lawful(server).checks == 1


def test_a_paused_estimator_asks_for_nothing(server: RedisServer):
    """Its lease was taken over meanwhile."""
    shared = judged()
    put(server, answers(3))
    work_off(server, **shared)
    paused = term_of(server, **shared)
    lose_lease(server)
    with pytest.raises(LeaseLostError):
        take_in(paused)
    assert stream(server).checkpoint("of another", {}, (), [b"check"]) is False
    assert (lawful(server).checks, lawful(server).waiting) == (0, 0)


def test_a_dead_workers_reading_is_made_again(server: RedisServer, died: FleetStream):
    """By another worker, and it counts once."""
    shared = judged()
    term = asked_once(server, **shared)
    died.take("dead", 9, wait_s=0, stale_s=None)
    work_off(server, **shared)
    take_in(term)
    assert confirmations(server) == [0, 0, 1]
    assert lawful(server).settled == 4


def test_what_workers_die_of_is_buried_and_due_again(server: RedisServer, died: FleetStream):
    """It is neither an answer nor a verdict; so is one that cannot be read."""
    shared = judged()
    term = asked_once(server, **shared)
    died.take("dead 0", 1, wait_s=0, stale_s=None)
    died.take_over("dead 1", 9, 0.0)
    died.take_over("dead 2", 9, 0.0)
    work_off(server, **shared)
    take_in(term)
    (buried,) = died.buried(9)
    assert "never settled" in buried.reason
    assert len(shared["judge"].asked) == 3
    assert term.state.asked == {}
    assert len(kept(server)) == 3
    put_raw(server, buried.data[:-5])
    work_off(server, **shared)
    take_in(term)
    assert (lawful(server).buried, term.state.unreadable) == (2, 1)
    assert total(term.meters.registry, "ragmonitor_interactions_total") == 3


def put_raw(server: RedisServer, data: bytes) -> None:
    """Put bytes on the stream of records."""
    assert stream(server).put([data]) == 1


def test_a_reference_answer_that_workers_died_of_is_buried(server: RedisServer, died: FleetStream):
    """A reading that nobody waits for any more is paid, and says nothing."""
    shared = judged()
    term = asked_once(server, **shared)
    for name in ("dead 0", "dead 1", "dead 2"):
        died.take(name, 1, wait_s=0, stale_s=0.0)
    work_off(server, **shared)
    take_in(term)
    (buried,) = stream(server).buried(9)
    assert decode_report(buried.data).interaction.id in kept(server)
    assert lawful(server).checks == 1


def test_without_money_nothing_is_asked(server: RedisServer):
    """The reference answers stay as they are, and are due again."""
    budget = Budget(calls_per_day=72.0)  # 3 calls at the beginning
    sample = SamplingSettings(rate=1.0, always=("vip",))
    shared = {"judge": PaidJudge(lambda _: FINE), "sample": sample, "budget": budget}
    put(server, [replace(each, tags=("vip",)) for each in answers(3)])
    work_off(server, **shared)
    term = term_of(server, **shared)
    take_in(term)
    assert lawful(server).checks == 1
    work_off(server, **shared)
    take_in(term)
    assert len(shared["judge"].asked) == 3
    assert term.state.asked == {}
    assert confirmations(server) == [0, 0, 0]


class FailingJudge(ScriptedJudge):
    """Reads so many answers, and fails from then on."""

    def __init__(self, reads: int) -> None:
        super().__init__(lambda _: FINE)
        self._reads = reads

    async def assess(self, interaction: Interaction) -> Any:
        """Read it, or fail."""
        found = await super().assess(interaction)
        if len(self.asked) > self._reads:
            raise JudgeError(
                "scripted",
                "no reply",
                cause=Cause.JUDGE_ERROR,
                retryable=False,
                usage=JudgeUsage(calls=1),
            )
        return found


def test_a_judge_that_fails_is_missing(server: RedisServer):
    """As in one process: a candidate that it does not read again becomes no reference answer."""
    shared = judged() | {"judge": FailingJudge(3)}
    term = asked_once(server, **shared)
    work_off(server, **shared)
    take_in(term)
    assert len(kept(server)) == 2
    assert total(term.meters.registry, "ragmonitor_interactions_total") == 3


class HangingJudge(StuckJudge):
    """Replies at once to what it reads for the first time, and to the rest when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self._script = lambda _: FINE

    async def assess(self, interaction: Interaction) -> Any:
        """Read it, or wait."""
        if any(each.id == interaction.id for each in self.asked):
            return await super().assess(interaction)
        self.asked.append(interaction)
        return FINE


def test_a_judge_that_hangs_holds_up_nothing(server: RedisServer):
    """Answers are judged and counted meanwhile, and the estimator keeps its lease."""
    judge = HangingJudge()
    shared = judged() | {"judge": {"model": judge}}
    put(server, answers(3))
    work_off(server, **shared)
    with running(worker(server, **shared)), running(estimator(server, **shared)) as one:
        until("a reading was asked for", lambda: lawful(server).checks == 1)
        until("a worker has it", lambda: lawful(server).open == 1)
        leader, term = stream(server).leader(), one.term
        put(server, answers(40, begin=3))
        until("they are settled", lambda: lawful(server).settled == 43)
        until("they are counted", lambda: lawful(server).uncounted == 0)
        assert (lawful(server).open, stream(server).leader(), one.term) == (1, leader, term)
        judge.is_free.set()
        until("the reading is counted", lambda: 1 in confirmations(server))
    assert lawful(server).settled == 44


def test_a_worker_without_a_judge_gives_it_back(server: RedisServer):
    """So does one whose judge is down: nobody was asked, and it is due again."""
    shared = judged()
    term = asked_once(server, **shared)
    work_off(server)
    take_in(term)
    assert (term.state.asked, confirmations(server)) == ({}, [0, 0, 0])


@pytest.mark.parametrize("policy", ["hashed", "none"])
def test_texts_stay_out_of_what_is_kept(server: RedisServer, policy: str):
    """They are judged from the estimator's memory, and end with it."""
    shared = judged() | {"content": policy}
    term = asked_once(server, **shared)
    assert kept(server) == {}
    work_off(server, **shared)
    take_in(term)
    query = answers(1)[0].query.encode()
    assert not [name for name, content in stream(server).kept().items() if query in content]
    assert total(term.meters.registry, "ragmonitor_judge_calls_total") == 4
    assert sum(each.confirmations for each in anchors_of(term)) == 1


def anchors_of(term: Term) -> Sequence[Any]:
    """Return the reference answers that an estimator knows."""
    drift = term.estimates._judge_drift
    assert drift is not None
    return list(drift._anchors._set.anchors.values())


def test_the_stream_can_be_drained(server: RedisServer):
    """An estimator that is to end then puts nothing on it."""
    shared = judged()
    put(server, answers(3))
    work_off(server, **shared)
    estimator(server, **shared).run(threading.Event(), drain=True)
    assert (lawful(server).checks, lawful(server).uncounted) == (0, 0)


def test_one_that_never_comes_back_is_not_waited_for(
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
):
    """After its time others are asked for; a reading that comes later is taken for no verdict."""
    shared = judged()
    term = asked_once(server, **shared)
    monkeypatch.setattr(anchor_checks, "ASKED_FOR_S", 0.0)
    take_in(term)
    assert term.state.asked == {}
    work_off(server, **shared)
    take_in(term)
    assert confirmations(server) == [0, 0, 0]
    assert total(term.meters.registry, "ragmonitor_judge_calls_total") == 4


def test_what_is_no_reference_answer_any_more_leaves_the_checkpoint(
    server: RedisServer,
):
    """Its texts are deleted there, and so is their field."""
    shared = judged() | {"judge": FailingJudge(3)}
    term = asked_once(server, **shared)
    texts = [name for name in stream(server).kept() if name.count("/") == 1]
    assert len(texts) == 3
    work_off(server, **shared)
    take_in(term)
    assert len([name for name in stream(server).kept() if name.count("/") == 1]) == 2
    again = term_of(server, **shared)
    assert len(anchors_of(again)) == 0  # read when they are needed
    take_in(again)
    assert len(kept(server)) == 2


def test_a_worker_alone_drops_what_a_fleet_has_asked_for(server: RedisServer):
    """It has reference answers of its own."""
    asked_once(server, **judged())
    lose_lease(server)
    with closing(RedisStream(server.url, SERVICE)) as records:
        alone = StreamWorker(settings(), records, redactor=Redactor())
        alone.run(threading.Event(), drain=True)
        assert total(alone.back.meters.registry, "ragmonitor_interactions_total") == 0
    state = stream(server).state()
    assert (state.waiting, state.open, state.buried) == (0, 0, 0)


class Heard(ListExporter):
    """Hears of alarms, too."""

    def __init__(self) -> None:
        super().__init__()
        self.alarms: list[AlarmEvent] = []

    def alarm(self, event: AlarmEvent) -> None:
        """Keep it."""
        self.alarms.append(event)


def at_once(count: int, begin: int) -> list[Interaction]:
    """Return answers of this moment."""
    now_ns = time.time_ns()
    return [
        interaction(id=f"{n:032x}", started_ns=now_ns, ended_ns=now_ns)
        for n in range(begin, begin + count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("cause", ["judge", "application"])
def test_a_fleet_says_whether_it_is_the_judge(server: RedisServer, cause: str):
    """Over a takeover; in two workers at once; the alarm on the judge is raised once."""
    has_changed, new = threading.Event(), 10_000

    def script(told: Interaction) -> Any:
        number = int(told.id, 16)
        is_bad = number % 50 == 0
        if has_changed.is_set():
            # Of old answers all or none flip: else a few of them could say the other thing.
            is_bad |= cause == "judge" if number < new else number % 2 == 1
        return BAD if is_bad else FINE

    heard = Heard()
    options = {
        **judged(script),
        "objectives": 0.08,
        "alarms": ("hallucination", "faithfulness", "anchors"),
    }
    shown = options | {"exporters": [heard]}

    def known(one: Any) -> str:
        """Return what the gauges say of the cause; empty: nothing yet."""
        term = one.term
        if term is None:
            return ""
        said = lambda which: total(  # noqa: E731
            term.meters.registry, "ragmonitor_alarm_cause", cause=which
        )
        return next((each for each in ("judge", "application") if said(each)), "")

    with running(worker(server, **options)), running(worker(server, **options)):
        with running(estimator(server, **shown)):
            put(server, at_once(300, 0))
            until("all are counted", lambda: settled_and_counted(server, 300), within_s=60)
            assert heard.alarms == []
        has_changed.set()
        with running(estimator(server, **shown)) as one:
            put(server, at_once(200, new))
            assert until("the cause is known", lambda: known(one), within_s=60) == cause
            until("all are counted", lambda: settled_and_counted(server, 500), within_s=60)
            until("no reading is under way", lambda: not one.term.state.asked, within_s=60)
            registry = one.term.meters.registry
            is_raised = total(registry, "ragmonitor_alarm_active", signal="anchors")
            reread = total(registry, "ragmonitor_alarm_cause_reread")
            counted = total(registry, "ragmonitor_interactions_total")
    events = [each for each in heard.alarms if each.signal == "anchors"]
    assert [each.kind for each in events] == ["judge"] * (cause == "judge")
    assert is_raised == (cause == "judge")
    assert 0 < reread < 100
    assert counted == 500


def settled_and_counted(server: RedisServer, count: int) -> bool:
    """Return whether so many answers, and all readings, are settled and estimated."""
    found = lawful(server)
    return found.settled == count + found.checks and found.uncounted == 0


def test_a_judge_of_another_identity_reads_them_anew(server: RedisServer):
    """After an update of the workers: what it says is frozen, and the change is told."""
    old = judged()
    term = asked_once(server, **old)
    work_off(server, **old)
    take_in(term)
    assert confirmations(server) == [0, 0, 1]
    new = judged(replace(BAD, judge=replace(BAD.judge, version="another")))
    put(server, answers(1, begin=10))
    work_off(server, **new)
    successor = term_of(server, **new)
    take_in(successor)
    assert lawful(server).checks == 2
    work_off(server, **new)
    take_in(successor)
    drift = successor.estimates._judge_drift
    assert drift is not None
    change = drift._anchors.last_change
    assert change is not None
    assert (change.checked, change.flipped, change.to_hallucinated) == (1, 1, 1)


def test_a_judge_that_changed_in_silence_is_accepted(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    """Asked for once, it is carried out once, also if the estimator dies before it has kept it."""
    old, new = judged(), judged(BAD)
    term = asked_once(server, **old)
    work_off(server, **old)
    take_in(term)
    assert confirmations(server) == [0, 0, 1]
    ask_to_refreeze(stream(server))
    put(server, answers(1, begin=10))
    work_off(server, **new)
    dying = term_of(server, **new)
    with monkeypatch.context() as patch:
        patch.setattr(estimator_module, "TICK_S", 3_600.0)
        while dying.step():
            pass
    successor = term_of(server, **new)
    take_in(successor)
    assert (lawful(server).checks, len(successor.state.asked)) == (2, 1)
    work_off(server, **new)
    take_in(successor)
    drift = successor.estimates._judge_drift
    assert drift is not None
    change = drift._anchors.last_change
    assert change is not None
    assert (change.before, change.checked, change.flipped) == (change.after, 1, 1)
    assert not change.drifted
    take_in(term_of(server, **new))
    assert (lawful(server).checks, lawful(server).uncounted) == (2, 0)
    assert lawful(server).buried == 0


def test_an_application_asks_a_worker_alone(server: RedisServer, monkeypatch: pytest.MonkeyPatch):
    """The request passes through the stream, as feedback does; one that is full says so."""
    with closing(Monitor(SERVICE, stream=server.url, server=False)) as monitor:
        monitor.refreeze_anchors()
    heard: list[bool] = []
    with closing(RedisStream(server.url, SERVICE)) as records:
        alone = StreamWorker(settings(**judged()), records, redactor=Redactor())
        monkeypatch.setattr(alone.back, "refreeze", lambda: heard.append(True))
        alone.run(threading.Event(), drain=True)
    assert heard == [True]
    state = stream(server).state()
    assert (state.waiting, state.open, state.buried) == (0, 0, 0)
    full = RedisStream(server.url, SERVICE, max_records=0)
    with closing(full), pytest.raises(StreamError, match="full"):
        ask_to_refreeze(full)
