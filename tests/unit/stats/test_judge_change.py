"""Judge or application."""

from __future__ import annotations

import random

import pytest

from ragmonitor.records import Estimate
from ragmonitor.stats.judge_change import Rereads, judge_or_application, rise_at_least


def level(mean: float, n: float) -> Estimate:
    half = 1.96 * (mean * (1 - mean) / n) ** 0.5
    return Estimate(mean, mean - half, mean + half, n, n, 1.0)


def sequence(rng, flip: float, usual: Rereads, after: Estimate) -> str:
    """Return what is said in the end of readings one after the other."""
    since = Rereads()
    for _ in range(600):
        since = Rereads(since.reads + 1, since.flips + (rng.random() < flip))
        said = judge_or_application(since, usual, level(0.04, 2_000), after)
        if said != "unknown":
            return said
    return "unknown"


@pytest.mark.parametrize(("flip", "right"), [(0.03 + 0.1, "judge"), (0.03, "application")])
def test_either_cause_is_told_from_the_other(flip, right):
    """Of 60 sequences at most 6 end wrongly: where each error is 5 %, that holds in 49 of 50."""
    rng = random.Random(1)
    said = [sequence(rng, flip, Rereads(400, 12), level(0.14, 400)) for _ in range(60)]
    assert sum(each != right for each in said) <= 6


def test_a_judge_that_contradicts_itself_more_is_not_the_cause_of_a_rise():
    """Its flips are measured: 8 in 100 are usual for this one."""
    rng = random.Random(2)
    said = [sequence(rng, 0.08, Rereads(600, 48), level(0.14, 400)) for _ in range(40)]
    assert said.count("judge") <= 4


def test_the_rise_is_a_lower_bound():
    """Few verdicts say little, and a small rise nothing."""
    assert rise_at_least(level(0.04, 2_000), level(0.14, 400)) < 0.1
    assert (
        judge_or_application(Rereads(50, 10), Rereads(), level(0.04, 2_000), level(0.05, 50))
        == "unknown"
    )
    assert judge_or_application(Rereads(50, 10), Rereads(), None, level(0.3, 50)) == "unknown"
    assert judge_or_application(Rereads(50, 10), Rereads(), level(0.04, 99), None) == "unknown"
