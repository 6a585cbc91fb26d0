"""What a judge may have beside reading, and what stands in where it lacks it."""

from ragmonitor.records import JudgeIdentity
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.guard import errors
from tests.support.stories import assessment, interaction


class Minimal:
    """A judge of the user's own with nothing but what is needed."""

    identity = JudgeIdentity(name="own", version="1", kind="HUMAN")

    async def assess(self, told):
        return assessment("supported")


async def test_an_assessment_carries_the_judge_s_own_name():
    """Whatever it calls itself; its version stays."""
    found = await as_judge(Minimal()).assess(interaction())
    assert found.judge.name == "own"
    assert found.judge.version == assessment("supported").judge.version


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
