"""Processes that read answers: each test starts real ones."""

from __future__ import annotations

import asyncio
import os

import pytest

from ragmonitor.evaluators import table
from ragmonitor.offline.reader_pool import ReaderPool
from ragmonitor.offline.scoring import Scorer
from ragmonitor.offline.shapes import Line
from ragmonitor.pipeline.judging import Reading
from ragmonitor.records import Report
from ragmonitor.testing import ScriptedJudge
from tests.support import stories
from tests.support.answer_readers import NamingReader


async def readings(ids, *, n=2, make=NamingReader):
    """Return what a pool gave for each id: the process that read it, or the error."""
    pool = ReaderPool(make, n)
    try:
        coming = [pool.read(stories.interaction(id=each)) for each in ids]
        gave = await asyncio.gather(*coming, return_exceptions=True)
    finally:
        await pool.close()
    for each, reading in zip(ids, gave, strict=True):
        assert not isinstance(reading, Reading) or reading.report.interaction.id == each
    return [
        int(each.report.interaction.chunks[0].text) if isinstance(each, Reading) else each
        for each in gave
    ]


async def test_each_answer_gets_its_own_reading_from_another_process():
    """And none of them by the process that hands them out."""
    ids = [str(n) for n in range(100)]
    gave = await readings(ids, make=NamingReader)
    assert len(set(gave)) <= 2
    assert os.getpid() not in gave


@pytest.mark.slow
async def test_a_process_that_dies_ends_the_run():
    """With what to do, and not one more judge_error for each of a million lines."""
    gave = await readings(["die", *map(str, range(99))])
    assert "a worker process has ended" in str(gave[0])


class PoolHere:
    """Reads on the loop of the test; every `late`th answer waits until it is let go."""

    n = 2

    def __init__(self, late):
        self.late = late
        self.open = asyncio.Event()

    async def read(self, interaction):
        if int(interaction.id) % self.late == 0:
            await self.open.wait()
        assessment = stories.assessment("supported")
        return Reading(
            report=Report(
                interaction=interaction,
                judge=assessment.judge,
                evaluations=(),
                assessment=assessment,
            )
        )


def scorer_with(pool):
    judge = ScriptedJudge(lambda _: stories.assessment("supported"))
    return Scorer(judge, table.select(["faithfulness"]), concurrency=8, pool=pool)


async def test_lines_are_read_a_bounded_number_ahead_and_come_in_order():
    """One slow answer holds a few dozen lines, not the file."""
    pool = PoolHere(late=50)
    begun = []

    def lines():
        for number in range(1, 1_001):
            begun.append(number)
            if number == 400:
                pool.open.set()
            yield Line(number=number, interaction=stories.interaction(id=str(number)))

    ahead, came = 0, []
    async for outcome in scorer_with(pool).outcomes(lines()):
        came.append(outcome.line.number)
        ahead = max(ahead, len(begun) - len(came))
        if len(came) == 49:
            asyncio.get_running_loop().call_later(0, pool.open.set)
    assert came == [*range(1, 1_001)]
    assert ahead <= 34  # four for each of eight readings, and two in hand
