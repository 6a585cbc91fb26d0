"""Slices with an alarm of their own: which, at which limit, with which weights; restarts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ragmonitor.causes.slice_watch import SliceWatch, e_value_of
from ragmonitor.estimation.alarm_streams import slice_slots, streams
from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.parts import Observation
from ragmonitor.records import SamplingDecision
from ragmonitor.testing import ManualClock
from tests.support.sliced_service import BEGAN_S, SlicedService, alarms_file

BILLING = "hallucination{route=billing}"


def live(
    service: SlicedService,
    *,
    hours: float,
    begin_h: float = 0.0,
    rates: dict[str, float],
    share: float = 0.1,
    seed: int = 0,
    per_hour: float = 120.0,
) -> None:
    """Let answers of two routes come, of which `billing` has a share, with their rates."""
    rng = random.Random(seed)
    at_s = begin_h * 3_600
    while at_s < (begin_h + hours) * 3_600:
        at_s += rng.expovariate(per_hour / 3_600)
        route = "billing" if rng.random() < share else "faq"
        service.answer(at_s, {"route": route}, lambda rate=rates[route]: rng.random() < rate)


def sliced(**options: object) -> SlicedService:
    """Return a service that judges every answer."""
    given = {"rate": 1.0, "tick_s": 300.0, "look_each_s": 3_600.0} | options
    return SlicedService(**given)  # type: ignore[arg-type]


QUIET = {"billing": 0.03, "faq": 0.03}


def test_a_small_route_that_got_worse_has_an_alarm_of_its_own_and_is_named():
    """One in ten answers goes to 60 %: its alarm comes, names it, and clears when it is over."""
    service = sliced(objective=0.12)
    live(service, hours=20, rates=QUIET)
    assert BILLING in service.alarms.adopted()
    live(service, begin_h=20, hours=4, rates=QUIET | {"billing": 0.6}, seed=1)
    raised = [each for each in service.events if each.raised]
    assert [each.signal for each in raised] == [BILLING]
    assert raised[0].kind == "slice"
    found = service.slices.candidates("hallucination", raised[0].since_s)
    assert found[0].name == "route=billing"
    assert found[0].is_discovery
    assert found[0].e_value > 20
    live(service, begin_h=24, hours=30, rates=QUIET | {"billing": 0.0}, seed=2)
    assert [each.raised for each in service.events] == [True, False]


def test_the_limit_of_a_slice_that_was_always_worse_is_learned():
    """A route at 25 % from the beginning raises no alarm where the objective is 12 %."""
    service = sliced(objective=0.12)
    live(service, hours=60, rates={"billing": 0.25, "faq": 0.02})
    assert not service.raised(BILLING)
    limit = service.alarms.adopted()[BILLING].objective
    assert limit is not None
    assert 0.25 < limit < 0.6


def test_what_everything_has_is_no_slice_and_what_is_the_same_is_one():
    """Only slices that part the traffic get a slot, one for each set of answers."""
    service = sliced()
    rng = random.Random(3)
    for number in range(600):
        route = rng.choice(("billing", "faq"))
        values = {"route": route, "team": route.upper(), "version": "1", "request": str(number)}
        service.answer(30.0 * number, values, lambda: False)
    assert {each.partition("{")[2] for each in service.alarms.adopted()} in (
        {"route=billing}", "route=faq}"},
        {"team=BILLING}", "team=FAQ}"},
    )


def test_its_state_outlives_a_restart_and_is_shared(tmp_path):
    """Another process of the folder goes on with the slices, their limits and their evidence."""
    first = sliced(objective=0.12, file=alarms_file(tmp_path))
    live(first, hours=20, rates=QUIET)
    live(first, begin_h=20, hours=4, rates=QUIET | {"billing": 0.6}, seed=1)
    second = sliced(objective=0.12, file=alarms_file(tmp_path))
    states = {each.signal: each for each in second.alarms.states()}
    assert states[BILLING].active
    ours, theirs = first.alarms.adopted()[BILLING], second.alarms.adopted()[BILLING]
    assert (theirs.objective, theirs.held_days) == (ours.objective, ours.held_days)


def slot_of_billing(
    folder: Path, clock: ManualClock, *, objective: float = 0.05, **limits: float
) -> Alarms:
    """Return a process's alarms of the folder, in which `billing` may have the only slot."""
    return Alarms(
        streams(
            evaluators=(),
            lower_is_better=(),
            builtin="builtin",
            judge="judge",
            patterns=("hallucination",),
            slices_share=0.4,
        ),
        false_alarm_every_days=30.0,
        objectives={"hallucination": objective},
        slots=slice_slots(1, 0.4, judge="judge", is_sampled=False),
        limits={f"route={route}": limit for route, limit in limits.items()},
        now=clock,
        file=alarms_file(folder),
    )


def bad_billing(alarms: Alarms, clock: ManualClock, count: int) -> list[bool]:
    """Let bad answers come; return which alarms were raised, and which cleared."""
    events = []
    for _ in range(count):
        clock.advance(60.0)
        alarms.update(Observation(signal=BILLING, value=1.0, at_s=clock()))
        events += alarms.apply(lambda _: None)
    return [each.raised for each in events if each.signal == BILLING]


def test_a_limit_that_is_given_takes_the_place_of_the_slice_s_own(tmp_path):
    """The runbook's remedy: the alarm ends, and evidence begins anew about the limit."""
    clock = ManualClock(BEGAN_S)
    before = slot_of_billing(tmp_path, clock)
    before.adopt(BILLING)
    assert bad_billing(before, clock, 20) == [True]
    after = slot_of_billing(tmp_path, clock, billing=0.12)
    assert bad_billing(after, clock, 1) == [False]
    assert after.adopted()[BILLING].objective == 0.12


def test_evidence_of_alarms_by_luck_is_an_e_value_of_at_most_1_on_average():
    """While limits are kept, a threshold of N days is reached in one of N days, at any age."""
    days = 20_000
    assert sum(e_value_of(days, day + 0.5) / days for day in range(days)) <= 1


def test_no_share_no_alarm():
    """`alarms.slices_share=0`: no slice has one, and the other signals have their whole share."""
    service = sliced(share=0.0, objective=0.12)
    live(service, hours=20, rates=QUIET)
    assert not service.alarms.adopted()


def test_an_active_alarm_of_a_slice_that_gives_its_slot_back_is_cleared():
    """Nobody is left with an alarm that no verdict can end."""
    now = [BEGAN_S]
    alarms = Alarms(
        (),
        false_alarm_every_days=1.0,
        slots=slice_slots(1, 1.0, judge="judge", is_sampled=False),
        now=lambda: now[0],
    )
    alarms.adopt(BILLING, 0.05)
    alarms.apply(lambda _: None)
    for _ in range(60):
        now[0] += 600.0
        alarms.update(Observation(signal=BILLING, value=1.0, at_s=now[0]))
        alarms.apply(lambda _: None)
    assert alarms.adopted()[BILLING].clearing is not None
    alarms.release(BILLING)
    events = alarms.apply(lambda _: None)
    assert [(each.signal, each.raised) for each in events] == [(BILLING, False)]
    assert not list(alarms.states())


def test_patterns_choose_dimensions():
    """What is recorded of an answer counts where it is named; attributes by pattern."""
    service = sliced()
    watch = SliceWatch(service.alarms, patterns=("rou*", "language"))
    assert [watch._wants(each) for each in ("route", "tenant", "language", "model")] == [
        True,
        False,
        True,
        False,
    ]
    assert not SliceWatch(service.alarms, patterns=("*",))._wants("language")


def test_verdicts_that_a_floor_pays_for_count_in_full_in_the_slice_alone():
    """At a rate of 0.1 and a floor of 0.8 a verdict weighs 1/8 in the whole and 1 in the slice."""
    decision = SamplingDecision(
        inclusion_probability=0.8, drawn=True, rate=0.1, floors=(("route=billing", 0.8),)
    )
    assert decision.importance_weight == pytest.approx(0.125)
    assert decision.weight_in("route=billing") == 1
    assert decision.weight_in("tenant=acme") == pytest.approx(0.125)
    assert replace(decision, inclusion_probability=0.0).weight_in("route=billing") == 0
