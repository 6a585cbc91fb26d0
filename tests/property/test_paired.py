"""The difference of two means over the same questions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.stats.paired import paired_difference

shares = st.floats(0, 1)
Pair = tuple[float, float]


def of_shares(first: float, second: float, agreeing: float) -> Callable[[random.Random], Pair]:
    """Scores of 0 and 1; with this chance both versions meet the same luck."""

    def draw(rng: random.Random) -> Pair:
        luck = rng.random()
        other = luck if rng.random() < agreeing else rng.random()
        return float(luck < first), float(other < second)

    return draw


def of_sentences(first: float, second: float, kept: float) -> Callable[[random.Random], Pair]:
    """Shares of one to five sentences; with this chance the second answer is the first again."""

    def share(rng: random.Random, chance: float) -> float:
        sentences = rng.randint(1, 5)
        return sum(rng.random() < chance for _ in range(sentences)) / sentences

    def draw(rng: random.Random) -> Pair:
        before = share(rng, first)
        return before, before if rng.random() < kept else share(rng, second)

    return draw


def of_ratings(rng: random.Random) -> Pair:
    """Fine-grained scores, unrelated to each other."""
    return rng.betavariate(8, 2), rng.betavariate(6, 3)


CASES = {
    "a rare fault, both alike": (of_shares(0.04, 0.04, 0.9), 0.0),
    "a fault that grew": (of_shares(0.04, 0.2, 0.5), 0.16),
    "coins": (of_shares(0.5, 0.6, 0.8), 0.1),
    "near the top": (of_shares(0.9, 0.95, 0.9), 0.05),
    "sentences": (of_sentences(0.9, 0.8, 0.0), -0.1),
    "sentences, mostly kept": (of_sentences(0.95, 0.85, 0.7), -0.03),
    "ratings": (of_ratings, 6 / 9 - 8 / 10),
}


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("case", CASES)
def test_the_interval_holds_the_true_difference(case, n):
    """Of 1,000 seeded comparisons at least 93 % have it, where 95 % are promised."""
    draw, truth = CASES[case]
    rng = random.Random(f"{case} {n}")
    covered = 0
    for _ in range(1_000):
        found = paired_difference([draw(rng) for _ in range(n)])
        covered += found.lower <= truth <= found.upper
    assert covered >= 930


def test_shares_have_the_published_interval():
    """Bonett and Price: (b + 1) and (c + 1) of n + 2, here 12 and 5 of 52, by hand."""
    pairs = [(0.0, 1.0)] * 11 + [(1.0, 0.0)] * 4 + [(1.0, 1.0)] * 20 + [(0.0, 0.0)] * 15
    found = paired_difference(pairs)
    up, down = 12 / 52, 5 / 52
    half = 1.959964 * ((up + down - (up - down) ** 2) / 52) ** 0.5
    assert found.difference == pytest.approx(7 / 50)
    assert found.lower == pytest.approx(up - down - half)
    assert found.upper == pytest.approx(up - down + half)


def test_pairs_that_all_agree_are_no_proof_of_equality():
    """With thirty alike, a difference of some hundredths may still be there."""
    found = paired_difference([(1.0, 1.0)] * 30)
    assert found.difference == 0
    assert found.lower < -0.05
    assert found.upper > 0.05
    assert not found.is_told_apart


def test_without_a_pair_there_is_nothing_to_say():
    """No score is not a zero."""
    assert paired_difference([]) is None


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=60))
def test_the_interval_holds_the_difference_and_stays_in_range(pairs):
    """-1 <= lower <= difference <= upper <= 1, whatever the scores."""
    found = paired_difference(pairs)
    assert -1 <= found.lower <= found.difference <= found.upper <= 1


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=60))
def test_exchanging_the_versions_turns_the_sign(pairs):
    """Neither of the two is preferred."""
    there = paired_difference(pairs)
    back = paired_difference([(second, first) for first, second in pairs])
    assert back.difference == pytest.approx(-there.difference)
    assert (back.lower, back.upper) == pytest.approx((-there.upper, -there.lower))
