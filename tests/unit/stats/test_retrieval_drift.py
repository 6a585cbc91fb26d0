"""Retrieval drift: which signals an interaction shows, and the reference that processes share."""

from __future__ import annotations

import random

import pytest

from ragmonitor.records import Chunk, Interaction, Retrieval
from ragmonitor.stats.retrieval_drift import SIZE, Reference, RetrievalDrift, Scores
from ragmonitor.stats.signals import EMPTY_RETRIEVAL, WEAK_RETRIEVAL
from ragmonitor.store import Memory, Sqlite
from ragmonitor.testing import ManualClock


def interaction(id_, *, query="Where is my order?", scores=(0.9, 0.5), chunks=None, **more):
    found = tuple(Chunk(text="A passage.", score=score) for score in scores)
    return Interaction(
        id=id_,
        query=query,
        chunks=found if chunks is None else chunks,
        answer="An answer.",
        framework="python",
        started_ns=0,
        ended_ns=1,
        **more,
    )


def frozen(*, scores=lambda luck: (luck.uniform(0.7, 1), 0.5)):
    """Return a drift whose reference is full."""
    drift, luck = RetrievalDrift(Memory(), clock=ManualClock()), random.Random(1)
    for at in range(SIZE):
        drift.outcomes(interaction(f"asked-{at}", scores=scores(luck)))
    drift.tick()
    assert drift.reference is not None
    return drift


@pytest.fixture(scope="module")
def shop():
    return frozen()


def outcomes(drift, **more):
    return drift.outcomes(interaction("new", **more))


def test_a_low_best_score_is_weak(shop):
    """Below the reference's 5th percentile."""
    assert outcomes(shop, scores=(0.3, 0.2))[WEAK_RETRIEVAL] is True


def test_of_distances_the_smallest_counts():
    """Where scores rise along the list, a large smallest one is weak."""
    drift = frozen(scores=lambda luck: (luck.uniform(0.1, 0.3), 0.6))
    assert outcomes(drift, scores=(0.5, 0.7))[WEAK_RETRIEVAL] is True
    assert outcomes(drift, scores=(0.15, 0.9))[WEAK_RETRIEVAL] is False


@pytest.mark.parametrize(
    "scores", [lambda luck: (luck.random(), luck.random()), lambda _: (None, None)]
)
def test_scores_of_unknown_direction_and_lists_without_scores_are_left_out(scores):
    """Lists that rise as often as they fall tell nothing, and no score is not a weak one."""
    assert WEAK_RETRIEVAL not in outcomes(frozen(scores=scores), scores=(0.0, 0.0))


def test_no_chunk_is_an_empty_retrieval(shop):
    """The model was shown nothing."""
    assert outcomes(shop, chunks=())[EMPTY_RETRIEVAL] is True


def test_what_was_not_searched_or_not_seen_is_no_empty_retrieval(shop):
    """An error before any retrieval, or chunks that were not captured; after one it is."""
    assert EMPTY_RETRIEVAL not in outcomes(shop, chunks=(), status="error")
    assert EMPTY_RETRIEVAL not in outcomes(shop, chunks=(), capture_incomplete=True)
    searched = Retrieval(query="order", chunks=(), started_ns=0, ended_ns=1)
    told = outcomes(shop, chunks=(), status="error", retrievals=(searched,))
    assert told[EMPTY_RETRIEVAL] is True


def test_the_weak_limit_is_the_fifth_percentile():
    """Of the best scores; with fewer than fifty there is none."""
    collected = [Scores(high=float(at), low=0.0, falling=1) for at in range(100)]
    assert Reference.of(collected) == Reference(1, 5.0)
    assert Reference.of(collected[:49]).sign == 0


# --- the store that processes share ---------------------------------------------------------------


class Process:
    """One process of a service: a drift of its own, a store with others."""

    def __init__(self, folder):
        self.clock = ManualClock()
        store = Sqlite(folder / "a.db", "shop")
        self.drift = RetrievalDrift(store, clock=self.clock)

    def asked(self, ids):
        for each in ids:
            self.drift.outcomes(interaction(str(each), scores=(0.5 + each / 1_000, 0.1)))

    def later(self):
        self.clock.advance(60)
        self.drift.tick()


def test_processes_collect_together_and_freeze_one_reference(tmp_path):
    """Neither has enough alone; a third that starts later reads it."""
    first, second = Process(tmp_path), Process(tmp_path)
    first.asked(range(SIZE // 2))
    first.later()
    second.asked(range(SIZE // 2, SIZE))
    second.later()
    first.later()
    third = Process(tmp_path)
    third.drift.tick()
    assert first.drift.reference is not None
    assert first.drift.reference == second.drift.reference == third.drift.reference
