"""The tick, over a store."""

from __future__ import annotations

import random

import pytest

from ragmonitor.stats.streams import Stream
from ragmonitor.stats.sums import NOTHING, Answer, Ledger, Outcome
from ragmonitor.stats.tick import WATERMARK_S, Tick
from ragmonitor.store import BET_S, DAY_S, HOUR_S, Memory

BEGAN_S = 1_800_000_000.0 // DAY_S * DAY_S


class Service:
    """A service on a clock of its own: answers, verdicts some seconds later, ticks."""

    def __init__(self, *watched: Stream, days: float = 30.0, seed: int = 1) -> None:
        self.now_s = BEGAN_S
        self.store = Memory(lambda: self.now_s)
        self.watched = watched or (Stream(series="s", objective=0.05),)
        self.tick = Tick(self.store, self.watched, false_alarm_every_days=days)
        self.rng = random.Random(seed)
        self.events: list = []
        self.evaluation = None
        self.waiting: list = []
        self.number = self.late = 0

    def run(self, for_s: float, rate, *, each_s: float = 20.0, after_s=lambda bad: 2.0, tick_s=60.0,
            slices=lambda n: (), clock_s=0.0) -> list:  # fmt: skip
        """Live for a while; return what happened to alarms."""
        end_s, ticked_s, seen = self.now_s + for_s, self.now_s, len(self.events)
        while self.now_s < end_s:
            self.now_s += each_s
            self.number += 1
            bad = self.rng.random() < rate(self.now_s - BEGAN_S, slices(self.number))
            answer = Answer(
                id=f"{self.number}", at_s=self.now_s + clock_s, chance=1.0, rate=1.0, is_drawn=True,
                expected={"s": NOTHING}, slices=slices(self.number),
            )  # fmt: skip
            self.put(answer)
            late_s = after_s(bad)
            if late_s is not None:
                self.waiting.append((self.now_s + late_s, answer, float(bad)))
            for each in [w for w in self.waiting if w[0] <= self.now_s]:
                self.waiting.remove(each)
                self.settle(each[1], each[2])
            if self.now_s - ticked_s >= tick_s:
                ticked_s = self.now_s
                self.evaluate()
        return self.events[seen:]

    def put(self, answer: Answer) -> None:
        ledger = Ledger()
        ledger.note(answer)
        answer.bucket = self.store.add(ledger.take()).bucket

    def settle(self, answer: Answer, value: float | None) -> None:
        ledger = Ledger()
        ledger.settle(answer, {"s": None if value is None else Outcome(1.0, value)})
        self.late += self.store.add(ledger.take()).late

    def evaluate(self) -> None:
        found = self.tick.run()
        if found is not None:
            self.evaluation = found
            self.events += found.events


def test_a_rise_is_raised_and_cleared_and_said_in_one_number():
    """The mean since the rise began is the page's, too."""
    service = Service()
    assert service.run(3 * HOUR_S, lambda t, _: 0.02) == []
    [raised] = service.run(1_800.0, lambda t, _: 0.4)
    assert raised.raised
    assert BEGAN_S + 2 * HOUR_S < raised.since_s < raised.at_s < service.now_s
    said = service.tick.level(service.watched[0], raised.since_s)
    assert 0.2 < said.lower < said.mean < said.upper < 0.6
    assert service.evaluation.alarms["s"].is_active
    [cleared] = service.run(8 * HOUR_S, lambda t, _: 0.0)
    assert (cleared.raised, cleared.since_s) == (False, raised.at_s)


def test_blocks_of_before_a_pause_are_compared():
    """Each in its turn, though their bets are older than any that is kept for alarms."""
    service = Service()
    service.run(1_200.0, lambda t, _: 0.1, tick_s=9_000.0)
    service.now_s += 2 * HOUR_S
    service.run(1_800.0, lambda t, _: 0.1)
    began = int(BEGAN_S)
    assert service.store.names("c")[:4] == [began + block for block in (0, 300, 600, 900)]
    assert service.store.names("b")[0] > began + HOUR_S


def test_a_worker_whose_clock_is_behind_alarms_like_any_other():
    """The store's clock places its draws."""
    right, behind = Service(), Service()
    for service, clock_s in ((right, 0.0), (behind, -90.0)):
        service.run(1_800.0, lambda t, _: 1.0, each_s=10.0, clock_s=clock_s)
    assert right.events
    assert behind.events == right.events


def test_ticks_of_many_processes_are_those_of_one():
    """Whoever has the lease goes on where the last one was, killed or not."""
    one, many = Service(), Service()
    for service in (one, many):
        for part in range(24):
            if service is many:
                service.tick = Tick(service.store, service.watched)
                service.tick.holder = "same"
            service.run(600.0, lambda t, _: 0.3 if t > 9_000 else 0.02)
            if service is many and part % 3 == 0:
                service.tick._store, broken = _Refusing(service.store), service.tick
                broken.run()
    assert [(e.raised, e.at_s) for e in one.events] == [(e.raised, e.at_s) for e in many.events]
    assert one.events
    assert one.evaluation.alarms["s"].evidence == pytest.approx(
        many.evaluation.alarms["s"].evidence, rel=1e-9
    )
    assert one.evaluation.means["1h"]["s"] == many.evaluation.means["1h"]["s"]


class _Refusing:
    """A store in which somebody else was faster."""

    def __init__(self, store) -> None:
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def commit(self, *args, **kwargs) -> bool:
        return False


def test_evidence_is_the_same_however_often_it_is_looked_at():
    """Recomputed from the last closed bucket at each look, it is the incremental one."""
    often, seldom = Service(seed=3), Service(seed=3)
    often.run(2 * HOUR_S, lambda t, _: 0.08, tick_s=10.0, after_s=lambda bad: 45.0)
    seldom.run(2 * HOUR_S, lambda t, _: 0.08, tick_s=300.0, after_s=lambda bad: 45.0)
    for service in (often, seldom):
        service.now_s = BEGAN_S + 2 * HOUR_S + WATERMARK_S
        service.evaluate()
    assert often.evaluation.alarms["s"].evidence == pytest.approx(
        seldom.evaluation.alarms["s"].evidence, rel=1e-9
    )


def test_nobody_waits_for_slow_verdicts_and_none_is_counted_twice():
    """Two thirds of the verdicts take nine minutes: an alarm is raised by those that are there."""
    service = Service()
    slow = service.rng
    service.run(HOUR_S, lambda t, _: 0.02)
    events = service.run(
        2 * HOUR_S, lambda t, _: 0.6, after_s=lambda bad: 2.0 if slow.random() < 0.35 else 540.0
    )
    assert [event.raised for event in events] == [True]
    assert events[0].at_s - BEGAN_S - HOUR_S < 2_400


def test_bad_verdicts_that_are_held_back_and_arrive_together_raise_nothing():
    """They come past the watermark: they bet in no alarm, are counted, and are in the means."""
    service = Service()
    held = []
    for _ in range(2):
        events = service.run(
            4 * HOUR_S, lambda t, _: 0.05, each_s=20.0,
            after_s=lambda bad: 4_000.0 - service.now_s % 4_000.0 if bad else 2.0,
        )  # fmt: skip
        held += events
    assert held == []
    assert service.late > 20
    assert 0.03 < service.evaluation.means["24h"]["s"].estimate.mean < 0.07


def test_a_verdict_that_never_comes_counts_as_fine():
    """Its bucket closes after ten minutes, and not before."""
    service = Service()
    service.run(3_000.0, lambda t, _: 0.0, after_s=lambda bad: None)
    assert service.store.state()[1]["closed"] <= service.now_s - WATERMARK_S
    service.run(3_000.0, lambda t, _: 0.0)
    assert service.evaluation.alarms["s"].evidence < 0.09 * 30


def test_an_objective_that_changes_is_the_services():
    """The process that began last decides; the row says so to all."""
    service = Service(Stream(series="s", objective=0.5))
    service.run(600.0, lambda t, _: 0.2)
    assert service.evaluation.alarms["s"].objective == 0.5
    other = Tick(service.store, [Stream(series="s", objective=0.1)])
    other.holder = service.tick.holder
    assert other.run().alarms["s"].objective == 0.1
    service.run(120.0, lambda t, _: 0.2)
    assert service.evaluation.alarms["s"].objective == 0.1


def test_buckets_are_folded_and_dropped():
    """Five minutes become hours, and nothing of means is lost."""
    service = Service()
    service.run(5 * HOUR_S, lambda t, _: 0.1, each_s=60.0)
    store = service.store
    assert len(store.names("r")) <= 14
    assert 4 <= len(store.names("h")) <= 5
    assert len(store.names("b")) * BET_S < HOUR_S
    assert sum(store.read(f"{k}{t}")["s"][0] for k in "rh" for t in store.names(k)) == 300


def test_the_slice_that_got_worse_is_named_and_no_other():
    """Within blocks of time, from the onset on."""
    service = Service()
    tenants = lambda n: (f"tenant={'abcd'[n % 4]}",)  # noqa: E731
    service.run(2 * HOUR_S, lambda t, _: 0.04, slices=tenants, each_s=10.0)
    onset_s = service.now_s
    service.run(
        2 * HOUR_S, lambda t, s: 0.5 if s == ("tenant=b",) else 0.04, slices=tenants, each_s=10.0
    )
    assert service.tick.named("s", onset_s) == ["tenant=b"]
    assert service.tick.named("s", service.now_s) == []
    found = service.tick.differences([("tenant=b", "tenant=a"), ("tenant=c", "tenant=a")])
    assert found["s", "tenant=b", "tenant=a"].decision(0.05) == "worse"
    assert found["s", "tenant=c", "tenant=a"].decision(0.5) == "equivalent"


def test_a_bet_is_read_about_once_however_often_time_ticks(monkeypatch):
    service = Service()
    read, rows = Memory.read, []

    def counting(store, name):
        found = read(store, name)
        rows.extend(found if name[0] == "b" else ())
        return found

    monkeypatch.setattr(Memory, "read", counting)
    service.run(600, lambda at_s, _: 0.05, each_s=1.0, after_s=lambda _: 0.0, tick_s=2.0)
    assert 600 <= len(rows) < 3 * 600


def test_what_another_release_wrote_of_alarms_and_means_begins_anew():
    """Sums are what counts; a row that cannot be read stops nothing."""
    service = Service()
    unreadable = {"alarm:s": b"\xc1", "window:1h": b'{"s":[[1,0,0],null]}'}
    service.store.keep_all("tick", unreadable)
    service.store.keep("objective", "all", b"[0.05")
    service.run(HOUR_S, lambda _t, _s: 0.5)
    assert [event.raised for event in service.events] == [True]
