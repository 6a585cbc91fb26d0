"""Chances, coins and budgets."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragmonitor.records import Cause
from ragmonitor.sampling import Budget, UniformSampler, coin
from ragmonitor.testing import ManualClock
from tests.support.stories import interaction

ids = st.text("0123456789abcdef", min_size=1, max_size=32)
rates = st.floats(0.001, 1)


@given(interaction_id=ids, low=rates, high=rates)
def test_a_higher_chance_keeps_what_a_lower_one_kept(interaction_id, low, high):
    """Turning the rate up adds judged answers and loses none."""
    assume(low <= high)
    drawn = [
        UniformSampler(rate, clock=ManualClock()).draw(interaction(id=interaction_id)).drawn
        for rate in (low, high)
    ]
    assert drawn[1] or not drawn[0]


def test_the_coin_is_fair_over_ids():
    """Of 20,000 ids, a tenth falls below 0.1, to within five standard errors."""
    below = sum(coin(f"{n:032x}") < 0.1 for n in range(20_000))
    assert abs(below - 2_000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5


def test_the_coin_is_the_same_everywhere():
    """A fixed id gives a fixed number: processes and releases agree."""
    assert coin("5eed") == 0.7487164871511403


def test_a_certain_sampler_draws_everything():
    """At rate 1 and without a budget every answer is read, with chance 1."""
    sampler = UniformSampler(1.0, clock=ManualClock())
    chances = [sampler.draw(interaction(id=str(n))) for n in range(100)]
    assert all(c.drawn and c.probability == 1 for c in chances)


def test_an_undrawn_answer_keeps_its_chance_and_says_why():
    """`not_sampled` with the chance it had."""
    sampler = UniformSampler(0.2, clock=ManualClock())
    chance = next(c for n in range(99) if not (c := sampler.draw(interaction(id=str(n)))).drawn)
    assert (chance.probability, chance.cause) == (0.2, Cause.NOT_SAMPLED)


def test_an_empty_budget_gives_no_chance():
    """What cannot be paid has chance 0 and is `over_budget`, not drawn and dropped."""
    clock = ManualClock()
    sampler = UniformSampler(
        1.0, clock=clock, budget=Budget(24.0, clock=clock), expected_cost=lambda _: 2.0
    )
    chance = sampler.draw(interaction())
    assert (chance.probability, chance.drawn, chance.cause) == (0.0, False, Cause.OVER_BUDGET)


def test_the_chance_falls_before_the_budget_runs_dry():
    """In a flood the budget is stretched: few answers are left without any chance."""
    clock = ManualClock()
    sampler = UniformSampler(
        1.0, clock=clock, budget=Budget(2_400.0, clock=clock), expected_cost=lambda _: 1.0
    )
    chances = []
    for n in range(36_000):  # ten a second for an hour, where the budget bears one in 360
        clock.advance(0.1)
        chance = sampler.draw(interaction(id=f"a{n}"))
        chances.append(chance)
        sampler.settle(chance, 1.0 if chance.drawn else 0.0)
    uncovered = sum(c.probability == 0 for c in chances) / len(chances)
    assert uncovered < 0.02
    assert 100 <= sum(c.drawn for c in chances) <= 200


@given(
    per_day=st.floats(0.5, 1_000),
    costs=st.lists(st.tuples(st.floats(0.001, 50), st.floats(0, 7_200)), min_size=1, max_size=200),
)
def test_no_24_hours_cost_more_than_a_day_s_budget(per_day, costs):
    """Whatever is asked for and when: reservations within any day stay within the budget."""
    clock = ManualClock()
    budget = Budget(per_day, clock=clock)
    spent = []
    for cost, pause_s in costs:
        clock.advance(pause_s)
        if budget.reserve(cost):
            spent.append((clock.now_s, cost))
    for began, _ in spent:
        assert sum(c for at, c in spent if began <= at <= began + 86_400) <= per_day * (1 + 1e-9)


def test_what_was_reserved_and_not_spent_comes_back():
    """Settling returns the difference, up to the bucket's size."""
    clock = ManualClock()
    budget = Budget(24.0, clock=clock)
    assert budget.reserve(1.0)
    budget.settle(1.0, 0.25)
    assert budget.level() == pytest.approx(0.75)


def test_a_clock_that_jumps_back_refills_nothing():
    """Nor does it take anything away."""
    clock = ManualClock(1_000.0)
    budget = Budget(24.0, clock=clock)
    before = budget.level()
    clock.now_s = 0.0
    assert budget.level() == before


@pytest.mark.parametrize("rate", [0, -0.1, 1.1])
def test_a_rate_outside_its_range_is_refused(rate):
    """Rates lie above 0 and up to 1."""
    with pytest.raises(ValueError, match="rate"):
        UniformSampler(rate, clock=ManualClock())
