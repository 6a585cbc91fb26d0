"""Replies that are kept: in memory for an hour, within a size."""

from dataclasses import replace

import pytest

from ragmonitor.judges.kept_replies import AGE_S, SIZE, KeepingJudge, KeptReplies, key_of
from ragmonitor.records import Cause, Chunk, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.testing import ManualClock, ScriptedJudge
from tests.support.stories import assessment, interaction

TOLD = interaction(query="q", texts=("a", "b"), answer="c")
JUDGE = JudgeIdentity(name="judge", version="1", kind="LLM")


@pytest.mark.parametrize(
    ("later_s", "asked"), [(AGE_S - 1, 1), (AGE_S + 1, 2)], ids=["young", "old"]
)
async def test_a_duplicate_within_an_hour_costs_nothing(later_s, asked):
    """After that it is read again."""
    clock, scripted = ManualClock(), ScriptedJudge(lambda _: assessment("supported"))
    judge = KeepingJudge(as_judge(scripted), KeptReplies(clock=clock))
    await judge.assess(TOLD)
    clock.advance(later_s)
    again = await judge.assess(TOLD)
    assert (len(scripted.asked), again.usage.cache_hits) == (asked, 2 - asked)


async def test_a_reference_that_was_not_read_is_read_again():
    """A provider that fails once does not leave it unreadable for ever."""
    found = replace(assessment("supported"), reference_cause=Cause.JUDGE_ERROR)
    scripted = ScriptedJudge(lambda _: found)
    judge = KeepingJudge(as_judge(scripted), KeptReplies())
    for _ in range(2):
        await judge.assess(TOLD)
    assert len(scripted.asked) == 2


def test_a_file_holds_whatever_a_model_writes(tmp_path):
    """A reply that no JSON can hold does not make those beside it unreadable."""
    path = tmp_path / "replies"
    said = {"half": "a\ud800", "score": float("inf")}
    KeptReplies(path).add("key", said, JudgeUsage(calls=1), question="\udfff?")
    assert KeptReplies(path).get("key") == {"half": "a?", "score": None}


def test_the_oldest_leave():
    """Memory does not grow with the answers."""
    replies = KeptReplies()
    for number in range(SIZE + 1):
        replies.add(str(number), [number], JudgeUsage())
    assert (replies.get("0"), replies.get("1"), replies.get(str(SIZE))) == (None, [1], [SIZE])


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "Q"},
        {"answer": "C"},
        {"reference": "r"},
        {"chunks": (Chunk(text="ab"), Chunk(text=""))},
        {"started_ns": TOLD.started_ns + 86_400 * 10**9},
    ],
)
def test_whatever_the_judge_sees_is_in_the_key(changes):
    """And the judge itself; ids and scores are not."""
    key = key_of(TOLD, JUDGE)
    assert key_of(replace(TOLD, **changes), JUDGE) != key
    assert key_of(TOLD, replace(JUDGE, version="2")) != key
    assert key_of(replace(TOLD, id="another"), JUDGE) == key
