"""Chances by uncertainty, by tag, by route and by what the budget bears."""

import math

import pytest

from ragmonitor.records import Cause
from ragmonitor.runtime.guard import errors
from ragmonitor.sampling import AdaptiveSampler, Floors, uniform_of
from ragmonitor.sampling.floors import MAX_VALUES
from ragmonitor.store import Budget, Memory, StoreUnavailableError
from ragmonitor.testing import ManualClock
from tests.support.stories import interaction


@pytest.fixture
def clock():
    return ManualClock(1_000_000.0)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Have budgets look at each question: their view may be a second old by the real clock."""
    monkeypatch.setattr("ragmonitor.store.budget.STALE_S", -1.0)


def budget(clock, per_day=24.0, **options):
    return Budget(Memory(clock), per_day=per_day, **options)


def with_budget(clock, per_day, *, cost=1.0, rate=1.0, **options):
    return AdaptiveSampler(
        rate,
        clock=clock,
        budget=budget(clock, per_day),
        expected_cost=lambda _: cost,
        **options,
    )


def lucky(below):
    """Return an id whose coin falls at this chance."""
    return next(f"{n:x}" for n in range(100_000) if uniform_of(f"{n:x}") < below)


HARDLY_EVER = next(f"{n:x}" for n in range(100_000) if uniform_of(f"{n:x}") > 0.9999)
"""An id for which the coin falls at a chance of 1 only, or nearly so."""


def shown(sampler):
    return {reading.name: reading.value for reading in sampler.gauges("j")}


# The common rule


def test_a_budget_that_bears_everything_lets_everything_be_read(clock):
    """At rate 1 and few answers: chance 1, however sure the answers are."""
    sampler = with_budget(clock, 2_400.0)
    for number in range(100):
        clock.advance(120)  # thirty an hour, where it bears a hundred
        decision = sampler.draw(interaction(id=str(number)), uncertainty=number / 50)
        assert (decision.inclusion_probability, decision.importance_weight) == (1.0, 1.0)
        sampler.refund(decision, 1.0)


@pytest.mark.parametrize(
    ("rate", "uncertainty", "probability"),
    [
        (0.1, 1.0, 0.1),
        (0.1, 3.0, 0.2),
        (0.5, 0.0, 0.25),
        (0.8, 2.0, 0.96),
    ],
)
def test_half_of_the_rate_is_uniform_and_half_by_uncertainty(clock, rate, uncertainty, probability):
    """`f (0.5 + 0.5 u)`, and the stake is f over it: at most 2."""
    sampler = AdaptiveSampler(rate, clock=clock)
    decision = sampler.draw(interaction(), uncertainty=uncertainty)
    assert decision.inclusion_probability == pytest.approx(probability)
    assert decision.rate == rate
    assert decision.importance_weight <= 2


@pytest.mark.parametrize("uncertainty", [math.nan, math.inf, -1.0])
def test_what_is_no_uncertainty_counts_as_one(clock, uncertainty):
    """The answer is then as uncertain as most."""
    sampler = AdaptiveSampler(0.2, clock=clock)
    assert sampler.draw(interaction(), uncertainty=uncertainty).inclusion_probability == 0.2


def test_the_coin_falls_where_it_is_below_the_chance(clock):
    """The interaction's own, whatever the uncertainty makes of the chance."""
    sampler = AdaptiveSampler(0.3, clock=clock)
    for number in range(200):
        told = interaction(id=str(number))
        decision = sampler.draw(told, uncertainty=number / 100)
        assert decision.drawn is (uniform_of(told.id) < decision.inclusion_probability)


# Forced


def test_a_tag_makes_it_certain(clock):
    """Chance 1 in a stratum of its own, at a stake of the common rate; others have theirs."""
    sampler = AdaptiveSampler(0.01, clock=clock, always=("thumbs-down", "ragmonitor:judge"))
    decision = sampler.draw(interaction(tags=("beta", "thumbs-down")))
    assert (decision.inclusion_probability, decision.drawn) == (1.0, True)
    assert decision.importance_weight == pytest.approx(0.01)
    assert sampler.draw(interaction(tags=("beta",))).inclusion_probability < 1


def test_what_is_forced_is_paid_like_all_else(clock):
    """Its cost leaves the budget; when there is nothing left it has no chance."""
    sampler = with_budget(clock, 24.0, cost=0.4, rate=0.01, always=("t",))
    told = interaction(tags=("t",))
    first, second, third = (sampler.draw(told) for _ in range(3))
    assert first.reserved == second.reserved == 0.4
    assert (third.inclusion_probability, third.drawn, third.cause) == (
        0.0,
        False,
        Cause.OVER_BUDGET,
    )


# Floors


def least(floors, route, now):
    return floors.least(interaction(attributes={"route": route}), now, bearable_per_s=math.inf)


def test_a_value_in_a_flood_is_certain_only_once_and_few_are_all_read():
    """A rate is known from the second answer on; without the attribute there is no floor."""
    floors = Floors("route")
    flood = [least(floors, "busy", 0.1 * n) for n in range(1_000)]
    assert flood[0] == 1
    assert max(flood[1:]) < 0.01
    assert {least(floors, "rare", 900.0 * n) for n in range(20)} == {1}
    assert least(floors, "", 0.0) == floors.least(interaction(), 0, bearable_per_s=1.0) == 0


def test_values_are_bounded_and_those_that_are_gone_make_room():
    """The hundred-and-first and all after it have one floor together, for an hour."""
    floors = Floors("route")
    assert {least(floors, f"r{n}", 1.0) for n in range(MAX_VALUES)} == {1}
    late = [least(floors, f"late{n}", 2.0 + n) for n in range(500)]
    assert late[0] == 1
    assert sum(late[1:]) < 0.05 * 500
    assert {least(floors, f"new{n}", 4_200.0 + n) for n in range(50)} == {1}


# The budget


def test_an_empty_budget_gives_no_chance(clock):
    """What cannot be paid has chance 0 and is `over_budget`, not drawn and dropped."""
    decision = with_budget(clock, 24.0, cost=2.0).draw(interaction())
    assert (decision.inclusion_probability, decision.drawn, decision.cause) == (
        0.0,
        False,
        Cause.OVER_BUDGET,
    )


def test_the_common_rate_is_that_of_long_and_short_alike():
    """An answer's own cost decides whether it can be paid, not at which rate."""
    rates = []
    for cost in (0.01, 0.3):
        clock = ManualClock()
        costs = [0.1] * 50 + [cost]
        sampler = AdaptiveSampler(
            1.0,
            clock=clock,
            budget=budget(clock),
            expected_cost=lambda _, costs=costs: costs.pop(0),
        )
        for _ in range(51):
            clock.advance(1)
            decision = sampler.draw(interaction(id=HARDLY_EVER))
        assert not decision.drawn
        rates.append(decision.rate)
    assert rates[0] == rates[1] < 0.2


def test_the_chance_falls_before_the_budget_runs_dry(clock):
    """In a flood the budget is stretched: few answers are left without any chance."""
    sampler = with_budget(clock, 2_400.0)
    decisions = []
    for n in range(36_000):  # ten a second for an hour, where the budget bears one in 360
        clock.advance(0.1)
        decision = sampler.draw(interaction(id=f"a{n}"))
        decisions.append(decision)
        sampler.refund(decision, 1.0 if decision.drawn else 0.0)
    uncovered = sum(c.inclusion_probability == 0 for c in decisions) / len(decisions)
    assert uncovered < 0.02
    assert 100 <= sum(c.drawn for c in decisions) <= 200


def test_estimates_that_are_too_high_do_not_halve_the_sample():
    """The chance follows what readings really cost, not what they might have cost at most."""
    drawn = {}
    for share in (1.0, 0.25):
        clock = ManualClock()
        sampler = with_budget(clock, 2_400.0)
        drawn[share] = 0
        for number in range(8_000):
            clock.advance(0.5)
            decision = sampler.draw(interaction(id=f"{number:x}"))
            if decision.drawn:
                drawn[share] += 1
                sampler.refund(decision, share)
    assert drawn[0.25] > 3 * drawn[1.0]


def test_what_others_spent_after_the_coin_fell_is_a_missing_verdict(clock, monkeypatch):
    """The answer keeps its chance and stays drawn; nothing is reserved, nothing overspent."""
    monkeypatch.setattr("ragmonitor.store.budget.STALE_S", 1.0)
    store = Memory(clock)
    ours, theirs = (Budget(store, per_day=24.0) for _ in range(2))
    sampler = AdaptiveSampler(1.0, clock=clock, budget=ours, expected_cost=lambda _: 0.4)
    ours.status(0.0)  # our view of it, good for a second
    assert theirs.reserve(0.9)
    decision = sampler.draw(interaction(id=lucky(0.01)))
    assert (decision.drawn, decision.cause, decision.reserved) == (True, Cause.OVER_BUDGET, 0.0)
    assert decision.inclusion_probability > 0
    assert ours.status(0.0).level == pytest.approx(0.1)
    sampler.refund(decision, 0.0)
    assert ours.status(0.0).level == pytest.approx(0.1)


class Failing(Memory):
    """A store that is away when it is told to be."""

    is_away = False

    def row(self, kind, key):
        if self.is_away:
            raise StoreUnavailableError("away")
        return super().row(kind, key)


def test_a_store_that_is_away_raises_nothing_and_is_shown_as_spent(clock):
    """Nothing is spent that cannot be remembered; no last rate or level stays."""
    store = Failing(clock)
    sampler = AdaptiveSampler(
        1.0, clock=clock, budget=Budget(store, per_day=24.0), expected_cost=lambda _: 0.01
    )
    assert sampler.draw(interaction(id=lucky(0.01))).cause is None
    before = {(each.name, each.labels): each.value for each in sampler.gauges("j")}
    store.is_away, counted = True, errors["state"]
    assert sampler.draw(interaction(id=lucky(0.01))).inclusion_probability == 0
    assert sampler.reserve(interaction()) is None
    after = {(each.name, each.labels): each.value for each in sampler.gauges("j")}
    assert after.keys() == before.keys()
    for name in ("ragmonitor_judge_sampling_rate", "ragmonitor_budget_level"):
        assert shown(sampler)[name] == 0
    assert errors["state"] > counted


def test_an_error_of_the_expected_cost_is_the_callers(clock):
    """A judge that could not read it at any cost says so; it is no arrival."""

    def cost(_):
        raise LookupError("too long")

    sampler = AdaptiveSampler(1.0, clock=clock, budget=budget(clock), expected_cost=cost)
    with pytest.raises(LookupError):
        sampler.draw(interaction())
    assert shown(sampler)["ragmonitor_arrivals_per_second"] == 0


# Outside the sample


def test_a_reading_outside_the_sample_is_paid(clock):
    """Reserved, and settled like another; it is no arrival."""
    sampler = with_budget(clock, 24.0, cost=0.6)
    decision = sampler.reserve(interaction())
    assert (decision.inclusion_probability, decision.drawn, decision.reserved) == (1.0, True, 0.6)
    assert sampler.reserve(interaction()) is None
    sampler.refund(decision, 0.1)
    assert shown(sampler)["ragmonitor_budget_level"] == pytest.approx(0.9)
    assert shown(sampler)["ragmonitor_arrivals_per_second"] == 0


# For people


def test_the_readings_say_what_is_going_on(clock):
    """Rate, traffic, cost and every limit, with their labels."""
    sampler = AdaptiveSampler(
        0.2,
        clock=clock,
        budget=budget(clock, 2_400.0, per_hour=400.0, unit="tokens"),
        expected_cost=lambda _: 2.0,
    )
    for number in range(100):
        clock.advance(10)
        decision = sampler.draw(interaction(id=str(number)))
        if decision.drawn:
            sampler.refund(decision, 1.0)
    found = {(r.name, r.labels): r.value for r in sampler.gauges("m")}
    judge, unit = ("judge", "m"), ("unit", "tokens")
    assert found.keys() == {
        ("ragmonitor_judge_sampling_rate", (judge,)),
        ("ragmonitor_judge_max_sampling_rate", (judge,)),
        ("ragmonitor_arrivals_per_second", ()),
        ("ragmonitor_judge_expected_cost", (judge, unit)),
        ("ragmonitor_budget_level", (unit, ("per", "day"))),
        ("ragmonitor_budget_level", (unit, ("per", "hour"))),
        ("ragmonitor_budget_limit", (unit, ("per", "day"))),
        ("ragmonitor_budget_limit", (unit, ("per", "hour"))),
    }
    assert found["ragmonitor_arrivals_per_second", ()] == pytest.approx(0.1, rel=0.05)
    assert found["ragmonitor_judge_expected_cost", (judge, unit)] == pytest.approx(1.0)
    assert found["ragmonitor_judge_sampling_rate", (judge,)] == pytest.approx(0.2)
    assert found["ragmonitor_budget_limit", (unit, ("per", "hour"))] == 400


def test_the_rate_shown_is_the_rate_drawn_at(clock):
    """Of the next answer, as far as it has the typical cost."""
    sampler = with_budget(clock, 2_400.0)
    for number in range(500):
        clock.advance(2)
        before = shown(sampler)["ragmonitor_judge_sampling_rate"]
        decision = sampler.draw(interaction(id=str(number)))
        if decision.drawn:
            sampler.refund(decision, 1.0)
    assert before == pytest.approx(decision.rate, rel=0.05)


def test_arrivals_fade_in_silence(clock):
    """By half in two minutes."""
    sampler = AdaptiveSampler(0.2, clock=clock)
    for _ in range(2_000):
        clock.advance(0.5)
        sampler.draw(interaction())
    assert shown(sampler)["ragmonitor_arrivals_per_second"] == pytest.approx(2.0, rel=0.02)
    clock.advance(120)
    assert shown(sampler)["ragmonitor_arrivals_per_second"] == pytest.approx(1.0, rel=0.02)


def test_what_costs_too_much_has_no_chance_where_others_have(clock):
    """Costs differ by answer: the level is held against this one's."""
    sampler = AdaptiveSampler(
        1.0,
        clock=clock,
        budget=budget(clock),
        expected_cost=lambda told: 1.5 if told.id == "long" else 0.01,
    )
    assert sampler.draw(interaction(id="long")).inclusion_probability == 0
    assert sampler.draw(interaction(id="short")).inclusion_probability > 0
