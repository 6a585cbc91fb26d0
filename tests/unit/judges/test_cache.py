"""Exact duplicates are read once, for as long as they are kept."""

import asyncio
from dataclasses import replace

import pytest

from ragmonitor.judges.cache import AssessmentCache, key_of
from ragmonitor.records import Chunk, JudgeIdentity, JudgeUsage, ReferenceReading
from ragmonitor.testing import ManualClock
from tests.support.stories import JUDGE, assessment, interaction

SPENT = JudgeUsage(calls=1, input_tokens=100, cost_usd=0.01, seconds=1.0)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def cache(clock):
    return AssessmentCache(size=2, age_s=60, clock=clock)


class Reading:
    """Counts how often it is asked; `free` lets it end."""

    def __init__(self, **changes):
        self.times = 0
        self.free = asyncio.Event()
        self.free.set()
        self.found = replace(assessment("supported"), usage=SPENT, **changes)
        self.error = None

    async def __call__(self):
        self.times += 1
        await self.free.wait()
        if self.error is not None:
            raise self.error
        return self.found


async def test_a_duplicate_costs_nothing(cache):
    """The same assessment, without calls, tokens or dollars, and it says so."""
    reading = Reading()
    first, second = [await cache.read(b"k", reading) for _ in range(2)]
    assert reading.times == 1
    assert first.usage == SPENT
    assert second == replace(first, usage=JudgeUsage(cache_hits=1))


async def test_what_is_old_is_read_again(cache, clock):
    """After `age_s`."""
    reading = Reading()
    await cache.read(b"k", reading)
    clock.advance(61)
    assert (await cache.read(b"k", reading)).usage == SPENT
    assert reading.times == 2


async def test_the_least_lately_used_leaves(cache):
    """It never holds more than its size."""
    reading = Reading()
    for key in (b"a", b"b", b"a", b"c", b"a"):
        await cache.read(key, reading)
    assert (len(cache), reading.times) == (2, 3)
    await cache.read(b"b", reading)
    assert reading.times == 4


async def test_gaps_are_not_kept(cache):
    """What could not be read may be readable the next time."""
    reading = Reading(answer_relevancy=None)
    await cache.read(b"k", reading)
    await cache.read(b"k", reading)
    assert reading.times == 2


async def test_a_reference_that_could_not_be_read_is_no_whole_reading(cache):
    """Its call failed, or the reply to it: the next reading may be luckier."""
    reading = Reading()
    await cache.read(b"k", reading, with_reference=True)
    await cache.read(b"k", reading, with_reference=True)
    assert reading.times == 2
    whole = Reading(reference=ReferenceReading(answer_claims=(True,), sentences=()))
    await cache.read(b"k", whole, with_reference=True)
    found = await cache.read(b"k", whole, with_reference=True)
    assert (whole.times, found.reference) == (1, whole.found.reference)


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "Why?"},
        {"answer": "Because."},
        {"chunks": ()},
        {"chunks": (Chunk(text="ab"), Chunk(text="c"))},
        {"reference": "Right."},
    ],
)
def test_whatever_the_judge_sees_is_in_the_key(changes):
    """Another text, or texts cut elsewhere, are another question."""
    told = interaction(chunks=(Chunk(text="a"), Chunk(text="bc")))
    assert key_of(told, JUDGE) != key_of(replace(told, **changes), JUDGE)


def test_another_ruler_reads_anew():
    """The judge's version is in the key."""
    other = JudgeIdentity(name=JUDGE.name, version="2", kind=JUDGE.kind)
    assert key_of(interaction(), JUDGE) != key_of(interaction(), other)


def test_what_the_judge_does_not_see_is_not_in_the_key():
    """Id, session and scores of the retriever differ between twins."""
    twin = replace(interaction(), id="other", session_id="s", chunks=interaction().chunks)
    assert key_of(interaction(), JUDGE) == key_of(twin, JUDGE)


def test_keys_hold_no_text():
    """Sixteen bytes, whatever the length; lone surrogates too."""
    assert len(key_of(interaction(answer="\ud800" * 1000), JUDGE)) == 16
