"""What a judge may have beside reading, and what stands in where it lacks it."""

import pytest

from ragmonitor.capabilities import as_judge
from ragmonitor.errors import SettingsError
from ragmonitor.guard import errors
from ragmonitor.records import JudgeIdentity
from tests.support.stories import assessment, interaction


class Minimal:
    """A judge of the user's own with nothing but what is needed."""

    identity = JudgeIdentity(name="own", version="1", kind="HUMAN")

    async def assess(self, told):
        return assessment("supported")


async def test_a_minimal_judge_has_every_default():
    """Whoever runs it asks nothing of its class."""
    judge = as_judge(Minimal())
    await judge.prepare()
    await judge.close()
    assert not judge.is_builtin
    assert judge.admits()
    assert judge.breaker_state is None
    assert judge.budget_unit is None
    assert judge.prompt_versions == {}
    assert judge.uncached() is judge
    assert judge.asker(interaction(), assessment("supported")) is None
    assert judge.expected_cost(interaction()) == 0.0


async def test_an_assessment_carries_the_judge_s_own_name():
    """Whatever it calls itself; its version stays."""
    found = await as_judge(Minimal()).assess(interaction())
    assert found.judge.name == "own"
    assert found.judge.version == assessment("supported").judge.version


def test_it_is_wrapped_once():
    """At whichever door."""
    judge = as_judge(Minimal())
    assert as_judge(judge) is judge


async def test_half_a_capability_is_none():
    """A `close` that has no `prepare` beside it may be anything."""

    class Closing(Minimal):
        def close(self):
            raise AssertionError

    await as_judge(Closing()).close()


def test_looking_at_a_judge_runs_none_of_its_code():
    """A property may take seconds, or raise."""

    class Property(Minimal):
        @property
        def breaker_state(self):
            raise ValueError("no")

        def admits(self):
            raise ValueError("no")

    before = errors["judge"]
    judge = as_judge(Property())
    assert errors["judge"] == before
    assert judge.breaker_state is None
    assert judge.admits()
    assert errors["judge"] == before + 2


def test_calls_can_be_counted_of_any_judge():
    """It makes one for each reading; what it costs otherwise it would have to say."""
    judge = as_judge(Minimal())
    assert judge.within_budget("calls").expected_cost(interaction()) == 1.0
    assert judge.within_budget(None).expected_cost(interaction()) == 0.0
    with pytest.raises(SettingsError, match="own does not say what a reading costs in tokens"):
        judge.within_budget("tokens")


def test_a_judge_without_its_cache_counts_in_the_same_unit():
    """A repeated reading is paid for as the first one is."""

    class Caching(Minimal):
        budget_unit = "usd"

        def expected_cost(self, told):
            return 0.25

        def uncached(self):
            return Caching()

    judge = as_judge(Caching()).within_budget("usd")
    assert judge.uncached() is not judge
    assert judge.uncached().expected_cost(interaction()) == 0.25
