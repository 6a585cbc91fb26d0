"""The interval that Prometheus computes covers the truth as often as it says."""

from __future__ import annotations

import random

import pytest

from tests.support.recorded import recorded, sampled

DRAWS = 2_000


@pytest.mark.parametrize("truth", [0.04, 0.15, 0.5])
@pytest.mark.parametrize("chance", [0.05, 1.0])
@pytest.mark.parametrize("judged_about", [20, 60, 200])
def test_it_covers(truth: float, chance: float, judged_about: int):
    """In at least 93 of 100 windows of random traffic, few verdicts and rare errors included."""
    draws = random.Random(7)
    answers = round(judged_about / chance)
    covered = windows = 0
    for _ in range(DRAWS):
        judged = judged_about
        if chance < 1:
            judged = max(0, round(draws.gauss(judged_about, (judged_about * (1 - chance)) ** 0.5)))
        bad = sum(draws.random() < truth for _ in range(judged))
        found = recorded(
            sampled(answers=answers, judged=judged, bad=bad, chance=chance, predicted=truth)
        )
        if found is None:
            continue
        windows += 1
        covered += found.lower <= truth <= found.upper
    assert windows > 0.95 * DRAWS
    assert covered / windows >= 0.93


def test_no_bad_answer_among_few_is_no_proof():
    """Of 20 good answers the rate may be 16 %: the variance seen, which is 0, is not believed."""
    found = recorded(sampled(answers=20, judged=20, bad=0, chance=1, predicted=0))
    assert found is not None
    assert found.lower == 0
    assert 0.13 < found.upper < 0.2
