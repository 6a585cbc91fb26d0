"""A slow judge that reads every answer, and what it leaves to the rules."""

import asyncio
from dataclasses import replace

from ragmonitor import JudgeIdentity
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.every_answer import EveryAnswerReader
from ragmonitor.records import Assessment, Cause
from ragmonitor.runtime import guard
from ragmonitor.runtime.errors import JudgeError
from tests.support.stories import interaction


class Slow:
    """Reads as the rules do; some answers it holds up, some it fails on."""

    identity = JudgeIdentity(name="tiny", version="7", kind="LLM")

    def __init__(self):
        self.released = asyncio.Event()

    async def assess(self, told):
        if "hold" in told.answer:
            await self.released.wait()
        if "fail" in told.answer:
            raise JudgeError("tiny", "out of memory", cause=Cause.JUDGE_ERROR, retryable=False)
        if "raise" in told.answer:
            raise ZeroDivisionError
        return replace(BuiltinJudge().read(told), judge=self.identity)


async def read(reader, answer):
    found = await reader.read(interaction(answer=answer))
    return None if isinstance(found, Assessment) else found


async def test_a_reading_that_takes_too_long_is_left_alone():
    """Its answer is missed, those after it too until it is through, and then it goes on."""
    judge = Slow()
    reader = EveryAnswerReader(judge, timeout_s=0.05)
    assert await read(reader, "hold") is Cause.JUDGE_TIMEOUT
    assert await read(reader, "It is tall.") is Cause.JUDGE_BUSY
    judge.released.set()
    await asyncio.wait({reader._late}, timeout=10)
    assert await read(reader, "It is tall.") is None


async def test_an_answer_that_it_fails_on_costs_itself_alone(caplog):
    """Why is in the log."""
    guard.errors.clear()
    reader = EveryAnswerReader(Slow(), timeout_s=10)
    assert await read(reader, "fail") is Cause.JUDGE_ERROR
    assert await read(reader, "raise") is Cause.JUDGE_ERROR
    assert await read(reader, "It is tall.") is None
    assert "out of memory" in caplog.text
    assert guard.errors["judge"] == 2
