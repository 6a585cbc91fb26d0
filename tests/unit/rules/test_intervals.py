"""The interval that Prometheus computes covers the truth as often as it says."""

from __future__ import annotations

import random

import pytest

from tests.support.recorded import recorded, sampled, together

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


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(((100, 1.0, 0.3), (2_000, 0.02, 0.03)), id="sample.always beside a low rate"),
        pytest.param(((300, 1.0, 0.05), (2_000, 0.01, 0.05)), id="a budget that runs out"),
        pytest.param(((600, 0.25, 0.15), (6_000, 0.01, 0.03)), id="a floor"),
    ],
)
def test_it_covers_where_chances_differ_within_a_window(
    parts: tuple[tuple[int, float, float], ...],
):
    """At least 95 of 100 hold the truth; where the weights were left out 57 to 84 did."""
    draws = random.Random(7)
    truth = sum(n * rate for n, _, rate in parts) / sum(n for n, *_ in parts)
    covered = 0
    for _ in range(DRAWS):
        window = []
        for n, chance, rate in parts:
            judged = n if chance == 1 else sum(draws.random() < chance for _ in range(n))
            bad = sum(draws.random() < rate for _ in range(judged))
            window.append(sampled(answers=n, judged=judged, bad=bad, chance=chance, predicted=0))
        found = recorded(together(*window))
        assert found is not None
        covered += found.lower <= truth <= found.upper
    assert covered / DRAWS >= 0.95


def test_no_bad_answer_among_few_is_no_proof():
    """Of 20 good answers the rate may be 16 %: the variance seen, which is 0, is not believed."""
    found = recorded(sampled(answers=20, judged=20, bad=0, chance=1, predicted=0))
    assert found is not None
    assert found.lower == 0
    assert 0.13 < found.upper < 0.2
