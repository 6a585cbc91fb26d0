"""Least numbers of judged answers for each value of an attribute."""

import math
import random

import pytest

from ragmonitor.sampling import Floors
from ragmonitor.sampling.floors import MAX_VALUES
from tests.support.stories import interaction


def of(route):
    return interaction(attributes={"route": route} if route else {})


def least(floors, answer, now, *, bearable_per_s=math.inf):
    """Return the least probability of an answer."""
    found = floors.of(answer, now, bearable_per_s=bearable_per_s)
    return max((chance for _, chance in found), default=0.0)


def hours(floors, per_hour, hours_, *, seed=3, route="rare", bearable_per_s=math.inf):
    """Return the chances of each whole hour of Poisson arrivals."""
    rng = random.Random(seed)
    now, found = 0.0, [[] for _ in range(hours_)]
    while (now := now + rng.expovariate(per_hour / 3_600)) < 3_600 * hours_:
        found[int(now // 3_600)].append(
            least(floors, of(route), now, bearable_per_s=bearable_per_s)
        )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("per_hour", [20, 72, 600, 6_000])
def test_a_value_gets_its_number_per_hour(per_hour):
    """On average over two days, from 20 to 6,000 answers an hour; at most a quarter more."""
    chances = hours(Floors("route", 9.0), per_hour, 48)
    expected = sum(map(sum, chances)) / 48
    assert 9.0 * 0.97 <= expected <= 9.0 * 1.25


def test_most_hours_of_a_rare_route_can_be_read():
    """At 72 answers an hour, a floor of 9 gives 5 verdicts or more in nine hours of ten."""
    rng = random.Random(5)
    chances = hours(Floors("route", 9.0), 72, 400)
    enough = sum(sum(rng.random() < chance for chance in hour) >= 5 for hour in chances)
    assert enough >= 0.9 * 400


def test_fewer_than_the_floor_are_all_read():
    """Four answers in an hour, nine wanted: chance 1 each."""
    floors = Floors("route", 9.0)
    chances = [least(floors, of("r"), 900.0 * n, bearable_per_s=math.inf) for n in range(20)]
    assert set(chances) == {1.0}


def test_a_value_in_a_flood_is_certain_only_once():
    """Its rate is known from the second answer on."""
    floors = Floors("route", 9.0)
    chances = [least(floors, of("r"), 0.1 * n, bearable_per_s=math.inf) for n in range(1_000)]
    assert chances[0] == 1.0
    assert max(chances[1:]) < 0.01


def test_without_the_attribute_there_is_no_floor():
    """Nor with an empty one."""
    floors = Floors("route", 9.0)
    assert least(floors, of(""), 0.0, bearable_per_s=math.inf) == 0.0
    told = interaction(attributes={"route": ""})
    assert least(floors, told, 0.0, bearable_per_s=math.inf) == 0.0


def test_all_floors_together_are_half_of_what_the_budget_bears():
    """Twenty routes want 180 an hour where 100 can be paid: they get 50."""
    floors = Floors("route", 9.0)
    rng = random.Random(11)
    now, total = 0.0, 0.0
    while (now := now + rng.expovariate(2.0)) < 12 * 3_600:
        told = of(f"r{rng.randrange(20)}")
        chance = least(floors, told, now, bearable_per_s=100 / 3_600)
        total += chance if now > 3_600 else 0.0
    assert total / 11 == pytest.approx(50, rel=0.1)


def test_values_are_bounded_and_the_others_share_one():
    """The hundred-and-first and all after it have one floor together."""
    floors = Floors("route", 9.0)
    for number in range(MAX_VALUES):
        assert least(floors, of(f"r{number}"), 1.0, bearable_per_s=math.inf) == 1.0
    late = [least(floors, of(f"late{n}"), 2.0 + n, bearable_per_s=math.inf) for n in range(500)]
    assert late[0] == 1.0
    assert sum(late[1:]) < 0.05 * 500


def test_a_value_that_is_gone_makes_room():
    """After an hour of silence its place is another's."""
    floors = Floors("route", 9.0)
    for number in range(MAX_VALUES):
        least(floors, of(f"r{number}"), 1.0, bearable_per_s=math.inf)
    for number in range(30):
        least(floors, of("shared"), 2.0 + number, bearable_per_s=math.inf)
    chances = [
        least(floors, of(f"new{n}"), 3_700.0 + n, bearable_per_s=math.inf) for n in range(50)
    ]
    assert set(chances) == {1.0}


@pytest.mark.parametrize("per_hour", [0.0, -1.0, math.inf, math.nan])
def test_a_floor_outside_its_range_is_refused(per_hour):
    """Above 0, and a number."""
    with pytest.raises(ValueError, match="floor"):
        Floors("route", per_hour)
