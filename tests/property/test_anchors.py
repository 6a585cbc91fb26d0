"""Anchors and the alarm together: a steady judge raises none, one that moved in silence does."""

from __future__ import annotations

import random
import statistics

import pytest

from ragmonitor.estimation.anchors import Anchors
from ragmonitor.estimation.anchors.anchor_set import DAY_S
from ragmonitor.estimation.detector import Detector
from ragmonitor.records import Chunk, Interaction, JudgeIdentity

pytestmark = pytest.mark.slow

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
BEGAN_S = 1_790_000_000.0
PER_DAY = 20
DAYS = 180
MOVED_AFTER_DAYS = 90
THRESHOLD_DAYS = 90.0
OBJECTIVE = 0.04
SEEDS = range(6)


class Judge:
    """Finds 4 % hallucinated; slips now and then, tosses a coin for some answers, may move."""

    def __init__(self, seed, *, slips, coins, moves):
        self.rng = random.Random(seed)
        self.slips, self.coins, self.moves = slips, coins, moves
        self.kinds = {}
        self.has_moved = False

    def read(self, identity):
        if identity not in self.kinds:
            draw = self.rng.random
            self.kinds[identity] = (draw() < 0.04, draw() < self.coins, draw() < self.moves)
        bad, coin, moves = self.kinds[identity]
        if coin:
            return self.rng.random() < 0.5
        return bad ^ (self.rng.random() < self.slips) ^ (self.has_moved and moves)


def run(seed, **of_judge):
    """Return the share of flips and the alarms before the move, and the days until one after it."""
    judge = Judge(seed, **of_judge)
    anchors = Anchors(per_day=PER_DAY)
    detector = Detector(objective=OBJECTIVE, threshold_days=THRESHOLD_DAYS)
    now_s, number, flips, false_alarms = BEGAN_S, 0, [], 0
    for step in range(DAYS * 2 * PER_DAY):
        day = step / (2 * PER_DAY)
        now_s += DAY_S / (2 * PER_DAY)
        judge.has_moved = day >= MOVED_AFTER_DAYS
        for _ in range(6):
            number += 1
            anchors.offer([(answer(number, now_s), judge.read(f"a{number}"), JUDGE)])
        for told in anchors.due(now_s, JUDGE):
            anchors.checked(told.id, judge.read(told.id), JUDGE, now_s)
        detector.pass_time(now_s)
        for _, flipped in anchors.take():
            detector.update(float(flipped))
            if not judge.has_moved:
                flips.append(flipped)
        if detector.evidence >= THRESHOLD_DAYS:
            detector.restart()
            if judge.has_moved:
                return sum(flips) / len(flips), false_alarms, day - MOVED_AFTER_DAYS
            false_alarms += 1
    return sum(flips) / len(flips), false_alarms, float("inf")


def answer(number, at_s):
    return Interaction(
        id=f"a{number}",
        query="?",
        chunks=(Chunk(text="."),),
        answer="!",
        framework="python",
        started_ns=int(at_s * 1e9),
        ended_ns=int(at_s * 1e9),
    )


@pytest.mark.parametrize(
    ("moves", "within_days"), [(0.12, 10), (0.2, 5)], ids=["12 % move", "20 % move"]
)
def test_a_judge_that_moved_in_silence_is_told_from_one_that_slips(moves, within_days):
    """One reading in a hundred slips, and for 2 % of the answers the judge tosses a coin.

    Of answers that it calls hallucinated one in three is then a slip or a coin; the anchors that
    settle flip in less than half of the objective, and the alarm comes with the move alone.
    """
    found = [run(seed, slips=0.01, coins=0.02, moves=moves) for seed in SEEDS]
    assert statistics.mean(share for share, _, _ in found) < OBJECTIVE / 2
    assert sum(alarms for _, alarms, _ in found) <= 1
    assert statistics.median(days for _, _, days in found) <= within_days
