"""Means over a fixed set of questions, of which some were asked anew."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from ragmonitor.stats.golden_history import ScoreHistory, level_of
from ragmonitor.stats.paired import paired_difference


def histories(rounds: list[list[float]]) -> list[ScoreHistory]:
    """Return the histories of questions with these scores each, a second between two rounds."""
    found = []
    for scores in rounds:
        history = ScoreHistory()
        for at_s, score in enumerate(scores):
            history.add(score, float(at_s))
        found.append(history)
    return found


def test_pairs_tell_more_than_scores():
    """A hundred questions that differ much from each other tell a fall of 5 points."""
    chance = random.Random(1)
    usual = [chance.choice((0.1, 0.5, 1.0)) for _ in range(100)]
    fallen = [max(0.0, each - (0.5 if n % 10 == 0 else 0.0)) for n, each in enumerate(usual)]
    level = level_of(histories([list(each) for each in zip(usual, fallen, strict=True)]), 1.0)
    plain = paired_difference([(0.5, each) for each in fallen])
    assert level is not None
    assert plain is not None
    assert level.upper < fmean(usual)
    assert level.upper - level.lower < 0.5 * (plain.upper - plain.lower)


@pytest.mark.slow
def test_the_interval_holds_the_mean_of_all_questions_however_few_are_asked():
    """Of 1,000 samples of 30 out of 100 questions the interval misses the mean at most 6 %."""
    chance = random.Random(7)
    missed = 0
    for _ in range(1_000):
        rates = [chance.betavariate(2, 1) for _ in range(100)]
        rows = histories([[float(chance.random() < p) for _ in range(5)] for p in rates])
        now = [float(chance.random() < p) for p in rates]
        for row in chance.sample(range(100), 30):
            rows[row].add(now[row], 100.0)
        level = level_of(rows, 50.0)
        assert level is not None
        missed += not level.lower <= fmean(now) <= level.upper
    assert missed <= 60
