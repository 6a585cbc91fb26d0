"""At every moment a fleet's estimates are those of one process that saw the same draws."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ragmonitor.estimation.alarms import draw_order
from ragmonitor.estimation.interval import summarise
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet.estimator import Term
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.records import CompletedAnswer, Prediction, Report, SamplingDecision
from ragmonitor.settings import Settings
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wire import (
    Decided,
    SettledAnswer,
    encode,
    encode_decided,
    encode_pending,
    encode_settled,
)
from ragmonitor.wiring import builtin_judge, estimates_of, judging_of
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stories import assessment
from tests.support.streams import Records, Stream, steady

SERVICE = "shop"
NEVER_S = 1e9
LOOK_S = 600.0


@pytest.fixture(scope="module")
def one_server(tmp_path_factory) -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def server(one_server: RedisServer) -> RedisServer:
    one_server.client().flushall()
    return one_server


@pytest.fixture(autouse=True)
def told_when_to_tick(monkeypatch: pytest.MonkeyPatch):
    """Both sides tick when a test says so; reference answers would be on the stream, too."""
    monkeypatch.setattr(estimator_module, "TICK_S", 3_600.0)
    monkeypatch.setattr(estimator_module, "POLL_S", 0.0)
    monkeypatch.setenv("RAGMONITOR_JUDGE__REFERENCE_ANSWERS_PER_DAY", "0")


def settings(**options: Any) -> Settings:
    judge = ScriptedJudge(lambda _: assessment("supported"))
    shared: dict[str, Any] = {"objectives": {"hallucination": 0.05}, "judge": judge, "sample": 1.0}
    return Settings.load(service=SERVICE, server=False, **(shared | options))


class Seen(NamedTuple):
    """One answer as it came, until it is settled."""

    entry: str
    builtin: Report
    prediction: Prediction
    decision: SamplingDecision


class Twins:
    """A fleet on a real Redis and one process, which see the same answers in the same order."""

    def __init__(self, server: RedisServer, seed: int = 0, **options: Any) -> None:
        self.settings = settings(**options)
        self.stream = FleetStream(server.url, SERVICE)
        judging = judging_of(self.settings, budget=None)
        assert judging is not None
        self.records = Records(judge=judging.judge.identity, seed=seed, questions=True)
        self.now_s = self.records.began_s + LOOK_S
        """What the alarms take for now, on both sides: the next look."""
        self.alone = estimates_of(self.settings, builtin_judge(), judging)
        self.alone.alarms._now = lambda: self.now_s
        self.alone.tick()
        self.knows_pending = True
        """Whether the workers are of this release."""
        self._server = server
        self.term = self._begun()

    def _begun(self) -> Term:
        lease = self.stream.lead("test", "", 60.0)
        assert lease
        self._keeps_lease = lease
        term = Term(self.settings, FleetStream(self._server.url, SERVICE), lease)
        term.estimates.alarms._now = lambda: self.now_s
        term.begin()
        return term

    def take_over(self) -> None:
        """Have another estimator go on: this one dies without another word."""
        self.stream.release(self._keeps_lease)
        self.term.close()
        self.term = self._begun()

    def close(self) -> None:
        self.term.close()
        self.stream.close()

    def ask(self, answer: Any, *, drawn: bool, chance: float) -> Seen:
        """Let both see an answer; one that is drawn is to be judged."""
        record = self.records.interaction(answer)
        builtin = replace(self.records.builtin(answer, record), role="builtin")
        prediction = self.alone.predict(builtin)
        decision = SamplingDecision(inclusion_probability=chance, drawn=drawn, rate=0.5)
        assert self.stream.put([encode(record)]) == 1
        (taken,) = self.stream.take("worker", 1, wait_s=0, stale_s=None)
        seen = Seen(taken.id, builtin, prediction, decision)
        if not drawn:
            self.settle(seen, None)
            return seen
        self.alone.awaits(builtin, prediction, decision)
        pending = b""
        if self.knows_pending:
            pending = encode_pending(
                estimator_module.pending_verdict(
                    builtin, prediction, decision, self.settings.estimation.group_by
                )
            )
        decided = encode_decided(Decided(decision=decision, prediction=prediction, epoch=0))
        self.stream.decide(taken.id, record.id, decided, pending)
        return seen

    def settle(self, seen: Seen, judged: Report | None) -> None:
        """Let both see what came of an answer."""
        self.alone.add(
            CompletedAnswer(
                builtin=seen.builtin,
                prediction=seen.prediction,
                decision=seen.decision,
                judged=judged,
            )
        )
        self.settle_fleets(seen, judged)

    def settle_fleets(self, seen: Seen, judged: Report | None) -> None:
        """Let the fleet alone see it."""
        answer = SettledAnswer(
            interaction=seen.builtin.interaction,
            reports=(seen.builtin,) if judged is None else (seen.builtin, judged),
            prediction=seen.prediction,
            decision=seen.decision,
        )
        self.stream.settle_answer(
            seen.entry,
            seen.builtin.interaction.id,
            encode_settled(answer),
            is_decided=seen.decision.drawn,
        )

    def tick(self) -> None:
        """Let both take in what came, and estimate."""
        while self.term.step():
            pass
        self.term.tick()
        self.alone.tick()
        self.alone.keep()

    def check(self) -> None:
        """Tick, and hold the fleet's estimates against those of one process."""
        self.tick()
        fleet, alone = self.term.estimates.snapshot(), self.alone.snapshot()
        assert sums(fleet) == sums(alone)
        assert dict(fleet.totals) == dict(alone.totals)
        assert estimates(fleet) == estimates(alone)
        assert evidence(fleet) == pytest.approx(evidence(alone), rel=1e-9)


def sums(snapshot: Any) -> dict[Any, Any]:
    return {(key, window): each for key, window, each in snapshot.moments}


def estimates(snapshot: Any) -> dict[Any, Any]:
    return {(key, window): summarise(each) for key, window, each in snapshot.moments}


def evidence(snapshot: Any) -> dict[str, float]:
    return {state.signal: state.evidence_s for state in snapshot.alarms}


@pytest.fixture
def twins(server: RedisServer) -> Iterator[Twins]:
    both = Twins(server)
    yield both
    both.close()


def simulated(seed: int) -> Iterator[tuple[str, Any]]:
    """Yield what happens: answers that come, verdicts on those that were drawn, and looks at both.

    The judge takes 40 minutes over a bad answer and 3 over a good one; of some its verdict fails,
    and some of the last it never returns. A look is every ten minutes, by the time of the answers.
    """
    luck = random.Random(seed)
    stream = Stream(
        seed=seed, for_s=9_000.0, per_minute=1.0, rate=steady(0.3), chinese=0.2, session_length=2.0
    )
    events: list[tuple[float, int, str, Any]] = [
        (float(at_s), -at_s, "look", None) for at_s in range(int(LOOK_S), 12_000, int(LOOK_S))
    ]
    for answer in stream.answers():
        drawn, fate = luck.random() < 0.6, luck.random()
        events.append((answer.at_s, answer.number, "drawn" if drawn else "passed", answer))
        is_last = answer.at_s > 6_000
        late_s = NEVER_S if fate < 0.1 and is_last else 2_400.0 if answer.hallucinated else 180.0
        what = "fails" if fate > 0.9 else "verdict"
        if drawn:
            events.append((answer.at_s + late_s, answer.number, what, answer))
    heapq.heapify(events)
    while events:
        at_s, _, what, answer = heapq.heappop(events)
        if at_s < NEVER_S:
            yield what, answer


def live(twins: Twins, seed: int, *, looks: Any) -> None:
    """Live through a simulated stream; `looks` is called with the number of each look."""
    luck, waiting, number = random.Random(seed), dict[int, Seen](), 0
    for what, answer in simulated(seed):
        if what == "look":
            looks(number)
            number += 1
        elif what in ("drawn", "passed"):
            chance = luck.choice((0.25, 0.5, 1.0)) if what == "drawn" else 0.5
            seen = twins.ask(answer, drawn=what == "drawn", chance=chance)
            if what == "drawn":
                waiting[answer.number] = seen
        else:
            seen = waiting.pop(answer.number)
            judged = twins.records.judged(answer, seen.builtin.interaction, seen.decision)
            if what == "fails":
                judged = twins.records.failed(seen.builtin.interaction, seen.decision)
            twins.settle(seen, judged)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
@pytest.mark.parametrize("takeovers", [False, True], ids=["one estimator", "a takeover each look"])
def test_estimates_are_those_of_one_process_at_every_moment(
    server: RedisServer, seed: int, takeovers: bool, monkeypatch: pytest.MonkeyPatch
):
    """Sums, means, intervals, coverage and evidence, while verdicts are on their way."""
    monkeypatch.setattr(draw_order, "WAIT_S", NEVER_S)  # another clock than the answers'
    options = {"estimation": {"group_by": ["language", "latency_s", "model"]}}
    both = Twins(server, seed, **options)
    waited: list[float] = []

    def look(_: int) -> None:
        both.check()
        waited.append(max(each.pending for each in sums(both.alone.snapshot()).values()))
        if takeovers:
            both.take_over()
            both.check()
        both.now_s += LOOK_S

    live(both, seed, looks=look)
    # The law would be empty if no verdict was ever on its way.
    assert sum(each > 0 for each in waited) > 10
    both.close()


def begins(seed: int = 0) -> Iterator[Any]:
    """Return the answers of a stream, one after another."""
    return Stream(seed=seed, rate=steady(0.5)).answers()


def judged(twins: Twins, answer: Any, seen: Seen) -> Report:
    return twins.records.judged(answer, seen.builtin.interaction, seen.decision)


def some_settled(twins: Twins, answers: Iterator[Any], count: int) -> None:
    """Have some answers drawn and judged at once."""
    for _ in range(count):
        answer = next(answers)
        seen = twins.ask(answer, drawn=True, chance=0.5)
        twins.settle(seen, judged(twins, answer, seen))


def test_a_verdict_that_never_comes_stays_open(twins: Twins):
    """As in one process it widens the interval, however long it is waited for."""
    answers = begins()
    some_settled(twins, answers, 30)
    twins.check()
    before = estimates(twins.term.estimates.snapshot())
    for _ in range(20):
        twins.ask(next(answers), drawn=True, chance=0.5)
    twins.check()
    after = estimates(twins.term.estimates.snapshot())
    judge = twins.records.judge.name
    (key,) = [k for k in before if k[0].signal == "hallucination" and k[0].judge == judge
              and not k[0].dimension and k[1] == "1h"]  # fmt: skip
    assert after[key].upper - after[key].lower > before[key].upper - before[key].lower
    assert after[key].coverage < before[key].coverage
