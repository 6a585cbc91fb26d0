"""What a judge may have beside reading, and what stands in where it lacks it."""

from ragmonitor.records import JudgeIdentity
from ragmonitor.runtime.capabilities import as_judge
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
