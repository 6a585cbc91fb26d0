"""Exact duplicates are read once, for as long as they are kept."""

from dataclasses import replace

import pytest

from ragmonitor.judges.cache import AssessmentCache, key_of
from ragmonitor.records import Cause, Chunk, JudgeUsage
from ragmonitor.testing import ManualClock
from tests.support.stories import JUDGE, assessment, interaction

SPENT = JudgeUsage(calls=1, input_tokens=100, cost_usd=0.01, seconds=1.0)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def cache(clock):
    return AssessmentCache(size=2, age_s=60, clock=clock)


def found(**changes):
    return replace(assessment("supported"), usage=SPENT, **changes)


def test_a_duplicate_costs_nothing(cache):
    """The same assessment, without calls, tokens or dollars, and it says so."""
    cache.keep(b"k", found())
    assert cache.get(b"k") == replace(found(), usage=JudgeUsage(cache_hits=1))
    assert cache.get(b"other") is None


def test_what_is_old_is_read_again(cache, clock):
    """After `age_s`."""
    cache.keep(b"k", found())
    clock.advance(61)
    assert cache.get(b"k") is None


def test_the_least_lately_used_leave(cache):
    """Looking up counts as use."""
    cache.keep(b"a", found())
    cache.keep(b"b", found())
    cache.get(b"a")
    cache.keep(b"c", found())
    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]


def test_gaps_are_not_kept(cache):
    """What could not be read may be readable the next time, a reference too."""
    for gap in ({"answer_relevancy": None}, {"reference_cause": Cause.UNREADABLE}):
        cache.keep(b"k", found(**gap))
        assert cache.get(b"k") is None


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


def test_what_the_judge_does_not_see_is_not_in_the_key():
    """Id, session and scores of the retriever differ between twins."""
    twin = replace(interaction(), id="other", session_id="s", chunks=interaction().chunks)
    assert key_of(interaction(), JUDGE) == key_of(twin, JUDGE)
