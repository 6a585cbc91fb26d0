"""Slices and versions beside the others of the same time."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from ragmonitor.stats.comparison import ODDS, compare_block, difference, e_bh, e_value
from ragmonitor.stats.sums import ALL, NOTHING, Answer, Ledger, Outcome


def block_of(rng, rate, *, answers=40, share=0.25, session=1, only_at=None):
    """Return bets of a block of time: a slice with a share of the answers, half of them drawn."""
    cells: dict = {"s": {ALL: [0.0] * 4}, "s|t=a": {ALL: [0.0] * 4}}
    for _ in range(answers // session):
        own = rng.random() < share if only_at is None else only_at
        group, p = str(rng.randrange(4_096)), rate(own)
        p = p if session == 1 else rng.betavariate(p, 1 - p)
        for _ in range(session):
            chance = rng.choice([0.25, 0.5, 1.0])
            for series in ("s", "s|t=a") if own else ("s",):
                cells[series][ALL][0] += 0.5
            if rng.random() < chance:
                bad = float(rng.random() < p)
                for series in ("s", "s|t=a") if own else ("s",):
                    cell = cells[series].setdefault(group, [0.0] * 4)
                    cell[0] += 0.5 / chance
                    cell[1] += 0.5 / chance * bad
    return cells


@pytest.mark.parametrize("session", [1, 5])
@pytest.mark.parametrize("p", [0.02, 0.1, 0.5])
def test_the_mean_of_an_e_value_is_at_most_one_whatever_the_common_rate(p, session):
    """Of a slice that is no worse, in blocks of any rate, with sessions and unequal chances."""
    rng = random.Random(11)
    gains = [
        compare_block(block_of(rng, lambda own: p, session=session), {})["s|t=a"]
        for _ in range(300)
    ]
    for part in range(len(ODDS)):
        found = [e_value([gain[part]]) for gain in gains]
        error = statistics.stdev(found) / len(found) ** 0.5
        assert statistics.fmean(found) <= 1 + 3 * error


def test_a_slice_that_is_merely_active_at_a_bad_hour_gains_nothing():
    """In each block there is nobody else, or the others are as bad."""
    rng = random.Random(1)
    total = [0.0] * len(ODDS)
    for n in range(60):
        share, p = (0.6, 0.4) if n % 4 == 0 else (0.05, 0.02)
        gains = compare_block(block_of(rng, lambda _, p=p: p, share=share), {"s": 0.05})
        total = [a + b for a, b in zip(total, gains["s|t=a"], strict=True)]
    assert e_value(total) < 20
    assert compare_block(block_of(rng, lambda own: 0.5, only_at=True), {})["s|t=a"] == [0.0] * 3


def test_a_slice_that_got_worse_is_found():
    """An odds ratio of ten, in an hour."""
    rng = random.Random(2)
    total = [0.0] * len(ODDS)
    for _ in range(12):
        gains = compare_block(block_of(rng, lambda own: 0.35 if own else 0.04), {"s": 0.05})
        total = [a + b for a, b in zip(total, gains["s|t=a"], strict=True)]
    assert e_value(total) > 1_000


def test_names_are_few_where_many_are_asked():
    """Twenty slices of which one has 390: the limit is 20 / .05 = 400."""
    values = {f"t={n}": 1.0 for n in range(19)}
    assert e_bh(values | {"t=x": 390.0}) == []
    assert e_bh(values | {"t=x": 410.0}) == ["t=x"]
    assert e_bh(values | {"t=x": 215.0, "t=y": 211.0}) == ["t=x", "t=y"]


def arm(rng, p, answers) -> list[float]:
    ledger = Ledger()
    for _ in range(answers):
        answer = Answer(id=f"{rng.random()}", at_s=0, chance=0.5, rate=0.5,
                        is_drawn=rng.random() < 0.5, expected={"s": NOTHING})  # fmt: skip
        ledger.note(answer)
        if answer.is_drawn:
            ledger.settle(answer, {"s": Outcome(1.0, float(rng.random() < p))})
    return ledger.take().get("r0", {}).get("s", [0.0] * 107)


def test_a_ramped_canary_of_the_same_version_is_not_worse():
    """Its share grows while the rate does: buckets are compared within themselves."""
    rng = random.Random(3)
    pairs = [(arm(rng, p, n), arm(rng, p, 200 - n)) for p, n in [(0.02, 10), (0.1, 60), (0.3, 180)]]
    found = difference(pairs)
    assert found.lower < 0 < found.upper
    naive = [
        sum(sum(row[11::3]) for row in side) / sum(row[0] for row in side)
        for side in zip(*pairs, strict=True)
    ]
    assert naive[0] - naive[1] > 0.1
    assert found.decision(0.0) == "undecided"


@pytest.mark.parametrize(("p", "says"), [(0.3, "worse"), (0.001, "better"), (0.1, "undecided")])
def test_a_difference_is_decided_once_it_is_certain(p, says):
    """And on a scale where more is better, the other way round."""
    rng = random.Random(4)
    found = difference([(arm(rng, p, 1_200), arm(rng, 0.1, 1_200))])
    assert found.decision(0.01) == says
    turned = {"worse": "better", "better": "worse"}.get(says, says)
    assert replace(found, lower=-found.upper, upper=-found.lower).decision(0.01) == turned
    assert replace(found, higher_is_better=True).decision(0.01) == turned


def test_versions_that_never_answered_at_the_same_time_cannot_be_compared():
    """That would compare the hours."""
    rng = random.Random(5)
    one, none = arm(rng, 0.1, 100), [0.0] * 107
    assert difference([(one, none), (none, one)]) is None
