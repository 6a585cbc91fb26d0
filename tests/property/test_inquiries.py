"""Judge or application: what old answers, read again, say of a rate that rises."""

from __future__ import annotations

import pytest

from tests.support.inquiries import World, inquire

pytestmark = pytest.mark.slow

SEEDS = range(20)


def found(world):
    """Return the causes that are found, and the median number of readings."""
    results = [inquire(world, seed) for seed in SEEDS]
    causes = [result.cause for result in results]
    return causes, sorted(result.readings for result in results)[len(results) // 2]


@pytest.mark.parametrize("slips", [0.005, 0.02])
def test_a_judge_that_got_stricter_is_found(slips):
    """Of one answer in twenty: the rate rises from 4 to 8.8 %, and old answers flip with it."""
    causes, readings = found(World(stricter=0.05, verdicts=300, slips=slips))
    assert causes.count("judge") >= 0.65 * len(causes)
    assert causes.count("application") <= 0.15 * len(causes)
    assert readings < 250


def test_a_judge_that_got_much_stricter_is_found_in_a_few_readings():
    """From 4 to 20 %: fewer answers are read again than verdicts raised the alarm."""
    causes, readings = found(World(stricter=0.17, verdicts=40))
    assert causes.count("judge") >= 0.85 * len(causes)
    assert readings <= 25


def test_an_application_that_got_worse_is_no_judge():
    """From 4 to 20 %: the judge says of old answers what it said."""
    causes, readings = found(World(after=0.2, verdicts=40))
    assert causes.count("application") >= 0.85 * len(causes)
    assert causes.count("judge") <= 0.1 * len(causes)
    assert readings < 60


def test_a_small_rise_that_cannot_be_told_is_not_yet_known():
    """From 4 to 5.5 %: rather nothing than a guess."""
    causes, _ = found(World(after=0.055, verdicts=300))
    assert causes.count("judge") <= 0.1 * len(causes)
    assert "unknown" in causes
