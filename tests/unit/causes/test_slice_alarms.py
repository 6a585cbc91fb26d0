"""Slices with an alarm of their own: which, at which limit, with which weights; restarts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ragmonitor.causes.slice_watch import SliceWatch, e_value_of
from ragmonitor.estimation.alarm_streams import slice_slots, streams
from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.alarms.objectives import LEASE_S
from ragmonitor.estimation.parts import Observation
from ragmonitor.records import SamplingDecision
from ragmonitor.testing import ManualClock
from tests.support.sliced_service import BEGAN_S, SlicedService, alarms_file

BILLING = "hallucination{route=billing}"
DAY_S = 86_400.0


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


def test_a_slice_that_is_new_is_held_to_the_objective_of_the_service():
    """A canary that comes a day later has no past to learn from."""
    service = sliced(objective=0.05)
    live(service, hours=26, rates=QUIET, share=0.0)
    live(service, begin_h=26, hours=2, rates=QUIET, share=0.2, seed=1)
    assert service.alarms.adopted()[BILLING].objective == 0.05


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


def test_a_slice_follows_an_objective_that_was_raised(tmp_path):
    """It is held to that of all answers where nothing else is known of it."""
    clock = ManualClock(BEGAN_S)
    before = slot_of_billing(tmp_path, clock)
    before.adopt(BILLING)
    assert bad_billing(before, clock, 20) == [True]
    after = slot_of_billing(tmp_path, clock, objective=0.2)
    assert bad_billing(after, clock, 1) == []
    clock.advance(LEASE_S)
    assert bad_billing(after, clock, 1) == [False]
    assert after.adopted()[BILLING].objective == 0.2


def test_replicas_with_different_limits_of_a_slice_keep_its_evidence(tmp_path):
    """The strictest that is said holds for all, and nobody begins anew at each turn."""
    clock = ManualClock(BEGAN_S)
    replicas = [slot_of_billing(tmp_path, clock, billing=limit) for limit in (0.12, 0.2)]
    replicas[0].adopt(BILLING)
    for _ in range(20):
        found = [bad_billing(each, clock, 1) for each in replicas]
    assert found == [[], []]
    (monitor,) = replicas[1].adopted().values()
    assert (monitor.objective, monitor.raised, monitor.clearing is None) == (0.12, 1, False)


def test_a_limit_that_is_taken_back_leaves_what_was_learned(tmp_path):
    """What the slice was before it had a limit, or has been since."""
    clock = ManualClock(BEGAN_S)
    given = slot_of_billing(tmp_path, clock, billing=0.4)
    given.adopt(BILLING)
    given.apply(lambda _: None)
    given.adopt(BILLING, 0.25, 60)
    given.apply(lambda _: None)
    assert given.adopted()[BILLING].objective == 0.4
    clock.advance(LEASE_S)
    after = slot_of_billing(tmp_path, clock)
    after.apply(lambda _: None)
    assert after.adopted()[BILLING].objective == 0.25


def test_a_limit_is_looked_at_as_seldom_over_restarts_as_without(tmp_path):
    """Each look may err; a process that begins anew has not four times as many verdicts."""
    clock = ManualClock(BEGAN_S)
    for limit, verdicts in ((0.3, 50), (0.1, 60), (0.1, 199), (0.2, 200), (0.1, 210)):
        process = slot_of_billing(tmp_path, clock)
        process.adopt(BILLING, limit, verdicts)
        process.apply(lambda _: None)
    assert process.adopted()[BILLING].objective == 0.2


def test_evidence_of_alarms_by_luck_is_an_e_value_of_at_most_1_on_average():
    """While limits are kept, a threshold of N days is reached in one of N days, at any age."""
    days = 20_000
    assert sum(e_value_of(days, day + 0.5) / days for day in range(days)) <= 1


def test_no_share_no_alarm():
    """`alarms.slices_share=0`: no slice has one, and the other signals have their whole share."""
    service = sliced(share=0.0, objective=0.12)
    live(service, hours=20, rates=QUIET)
    assert not service.alarms.adopted()


def test_a_slot_that_changes_hands_begins_without_evidence_and_drops_what_was_on_its_way():
    """A verdict that was noted for the slice before does not count for the next one."""
    now = [BEGAN_S]
    alarms = Alarms(
        (),
        false_alarm_every_days=30.0,
        slots=slice_slots(1, 0.5, judge="judge", is_sampled=False),
        now=lambda: now[0],
    )

    def note(signal: str, count: int) -> None:
        for _ in range(count):
            now[0] += 60.0
            alarms.update(Observation(signal=signal, value=1.0, at_s=now[0]))

    alarms.adopt(BILLING, 0.1)
    alarms.apply(lambda _: None)
    note(BILLING, 3)
    alarms.apply(lambda _: None)
    assert alarms.adopted()[BILLING].detector.evidence > 0
    note(BILLING, 3)
    alarms.release(BILLING)
    alarms.adopt("hallucination{route=faq}", 0.1)
    alarms.apply(lambda _: None)
    (monitor,) = alarms.adopted().values()
    assert monitor.detector.evidence == 0
    assert monitor.objective == 0.1


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


@pytest.mark.parametrize(
    "slots", ["no list", [3, None, {}], ["hallucination{a=b}"] * 9, ["x" * 900], ["plain"]]
)
def test_slots_of_a_state_that_anything_was_written_to(tmp_path, slots):
    """What is no slice is none; what is there twice is there once."""
    file = alarms_file(tmp_path)
    file.update(lambda _: {"writing": "a", "slots": slots, "streams": {}}, stage="x", what="x")
    service = sliced(file=file)
    assert len(list(service.alarms.states())) == len(
        {each.signal for each in service.alarms.states()}
    )
    assert set(service.alarms.adopted()) <= {"hallucination{a=b}"}


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
