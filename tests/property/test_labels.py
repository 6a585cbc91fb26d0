"""The corrected rate holds what people would find, whatever the judge does."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.records import Estimate
from ragmonitor.stats.labels import Label, combined, corrected, wilson

REPETITIONS = 500
SENSITIVITY = 0.85

shares = st.floats(0, 1)
counts = st.integers(1, 500)


class World:
    """Answers of which a known share is hallucinated, and a judge that errs."""

    def __init__(self, *, truth, specificity, name):
        self.truth = truth
        self.specificity = specificity
        self.rng = random.Random(f"{name} {truth} {specificity}")

    def answer(self):
        """Return what is so, and what the judge says."""
        bad = self.rng.random() < self.truth
        right = self.rng.random() < (SENSITIVITY if bad else self.specificity)
        return bad, bad is right

    def judged(self, n):
        return [self.answer() for _ in range(n)]


def labelled(answers, count):
    """Return labels of a random part, 60 % of them of what the judge found hallucinated."""
    bad = [each for each in answers if each[1]][: round(0.6 * count)]
    fine = [each for each in answers if not each[1]][: count - len(bad)]
    return [Label(interaction_id="", judged=judged, human=human) for human, judged in bad + fine]


def judged_rate(answers):
    mean = sum(judged for _, judged in answers) / len(answers)
    lower, upper = wilson(mean, len(answers))
    return Estimate(mean=mean, lower=lower, upper=upper, effective_n=len(answers))


@pytest.mark.parametrize("truth", [0.02, 0.04, 0.15])
@pytest.mark.parametrize(("n", "m"), [(400, 100), (1_000, 300), (2_000, 1_000)])
def test_it_is_unbiased_and_its_interval_holds_the_truth(n, m, truth):
    """In 93 to 98 % of seeded repetitions; the judged rate itself is off by half as much again.

    The judge overlooks 15 % of the hallucinated answers and suspects 3 % of the fine ones.
    """
    world = World(truth=truth, specificity=0.97, name=f"{n} {m}")
    found = []
    for _ in range(REPETITIONS):
        answers = world.judged(n)
        found.append(corrected(judged_rate(answers), labelled(answers, m)))
    holds = sum(each.lower <= truth <= each.upper for each in found) / REPETITIONS
    bias = sum(each.mean for each in found) / REPETITIONS - truth
    assert 0.93 <= holds <= 0.99
    assert abs(bias) < 0.003


@pytest.mark.parametrize(("n", "m"), [(1_000, 100), (1_000, 300)])
def test_it_follows_a_judge_that_drifts(n, m):
    """From suspecting 3 % of the fine answers to 6 %: a rate off by five points, and it is not."""
    truth = 0.04
    before = World(truth=truth, specificity=0.97, name=f"before {m}")
    after = World(truth=truth, specificity=0.94, name=f"after {m}")
    holds = bias = judged = 0.0
    for _ in range(REPETITIONS):
        answers = before.judged(n // 2) + after.judged(n // 2)
        after.rng.shuffle(answers)
        rate = judged_rate(answers)
        found = corrected(rate, labelled(answers, m))
        holds += (found.lower <= truth <= found.upper) / REPETITIONS
        bias += (found.mean - truth) / REPETITIONS
        judged += (rate.mean - truth) / REPETITIONS
    assert judged > 0.03
    assert 0.93 <= holds <= 0.99
    assert abs(bias) < 0.004


def test_unequal_chances_of_being_judged_bring_no_bias():
    """Risky answers are judged more often, and the judge is right about more of them.

    Half of the answers are risky, judged four times as often, hallucinated in 15 % instead of 2 %.
    """
    rng = random.Random(3)
    truth = (0.15 + 0.02) / 2
    holds = bias = unweighted = 0.0
    for _ in range(REPETITIONS):
        drawn = []
        for _ in range(1_200):
            risky = rng.random() < 0.5
            chance = 0.8 if risky else 0.2
            bad = rng.random() < (0.15 if risky else 0.02)
            judged = bad is (rng.random() < (SENSITIVITY if bad else 0.97))
            if rng.random() < chance:
                drawn.append((bad, judged, chance))
        weights = [1 / chance for _, _, chance in drawn]
        total = math.fsum(weights)
        mean = math.fsum(w * judged for w, (_, judged, _) in zip(weights, drawn, strict=True))
        n = total**2 / math.fsum(w**2 for w in weights)
        lower, upper = wilson(mean / total, n)
        rate = Estimate(mean=mean / total, lower=lower, upper=upper, effective_n=n)
        kinds = {kind: [each for each in drawn if each[1] is kind] for kind in (True, False)}
        labels = [
            Label(interaction_id="", judged=judged, human=bad, chance=chance)
            for kind, most in ((True, 180), (False, 120))
            for bad, judged, chance in kinds[kind][:most]
        ]
        found = corrected(rate, labels)
        plain = corrected(
            rate,
            [Label(interaction_id="", judged=each.judged, human=each.human) for each in labels],
        )
        holds += (found.lower <= truth <= found.upper) / REPETITIONS
        bias += (found.mean - truth) / REPETITIONS
        unweighted += (plain.mean - truth) / REPETITIONS
    assert abs(bias) < 0.004
    assert unweighted > 2 * abs(bias)
    assert 0.93 <= holds <= 0.99


@given(
    rate=st.tuples(shares, counts), bad=st.tuples(shares, counts), fine=st.tuples(shares, counts)
)
def test_the_interval_holds_the_rate_and_stays_in_range(rate, bad, fine):
    """0 <= lower <= rate <= upper <= 1, whatever was found."""

    def share(mean, labels):
        lower, upper = wilson(mean, labels)
        return Estimate(mean, lower, upper, labels)

    lower, upper = wilson(*rate)
    judged = Estimate(mean=rate[0], lower=lower, upper=upper, effective_n=rate[1])
    found = combined(judged, share(*bad), share(*fine))
    assert 0 <= found.lower <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.upper <= 1
    assert found.effective_n >= 0
