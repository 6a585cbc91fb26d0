"""What a good answer costs, by hand and by simulation."""

import math
import random
from types import SimpleNamespace

import pytest

from ragmonitor.stats.answer_cost import GROUPS, WIDTH, AnswerCost, cost_per_good
from ragmonitor.stats.sums import NOTHING, Outcome
from tests.support.means import FixedMeans

GOOD, BAD = Outcome(scored=True, value=0.0), Outcome(scored=True, value=1.0)


def answer(n, verdict=None, *, probability=1.0, predicted=0.0, model="m", cost=1.0):
    """Return a completed answer as the part reads it; no verdict: it was not drawn."""
    return SimpleNamespace(
        interaction=SimpleNamespace(id=f"answer {n}", session_id="", model=model, cost=cost),
        judged=None if verdict is None else [("hallucination", verdict[0])],
        builtin=[("hallucination", GOOD)],
        weight=1 / probability if probability else 0.0,
        completed=SimpleNamespace(
            builtin=SimpleNamespace(judge=SimpleNamespace(name="builtin")),
            prediction=SimpleNamespace(expected={"hallucination": (1.0, predicted)}),
        ),
    )


def part(judge="model"):
    """Return the part, on a clock that stands still."""
    return AnswerCost(
        lambda interaction: interaction.cost, reader="builtin", judge=judge, clock=lambda: 0.0
    )


def shown(costs, window="1h"):
    """Return the gauges of a window by name and model."""
    costs.tick()
    return {
        (dict(each.labels)["bound"], dict(each.labels)["model"]): each.value
        for each in costs.gauges(FixedMeans())
        if dict(each.labels)["window"] == window
    }


def test_a_bad_answer_and_a_refusal_cost_and_are_not_good():
    """100 answers at 1 dollar of which 80 are good: 1.25 dollars."""
    costs = part()
    for n in range(100):
        verdict = GOOD if n % 5 else BAD if n % 10 else NOTHING
        costs.add(answer(n, [verdict]))
    found = shown(costs)
    assert found["mean", ""] == pytest.approx(1.25)
    assert found["mean", "m"] == pytest.approx(1.25)
    lower = found["lower", ""]
    upper = found["upper", ""]
    assert 1.0 < lower < 1.25 < upper < 1.6


def test_without_a_judge_the_built_in_verdicts_count():
    """All of them are good."""
    costs = part(judge=None)
    for n in range(50):
        costs.add(answer(n, cost=0.5))
    assert shown(costs)["mean", ""] == pytest.approx(0.5)


def test_what_is_not_known_says_nothing():
    """Costs that are not known, no chance to be judged, too few verdicts."""
    costs = part()
    for n in range(100):
        costs.add(answer(n, [GOOD], cost=None))
        costs.add(answer(n, None, probability=0))
    for n in range(19):
        costs.add(answer(n, [GOOD]))
    assert shown(costs) == {}
    costs.clear()
    assert costs.records() == {}


def test_models_beyond_the_bound_are_one():
    """A name of its own in every answer."""
    costs = part()
    for n in range(2_000):
        costs.add(answer(n, [GOOD], model=f"model {n}"))
    assert {model for _, model in shown(costs)} <= {"", "other"} | {f"model {n}" for n in range(20)}


def test_the_interval_covers_the_truth():
    """A tenth to half is judged, by risk; costs are skewed, and bad answers are dearer."""
    rng = random.Random(7)
    covered, rounds = 0, 400
    share, factor = 0.8, math.exp(0.5**2 / 2)
    truth = (factor * (0.8 + 0.2 * 2)) / share
    for _ in range(rounds):
        row = [0.0] * WIDTH
        for _ in range(600):
            good = rng.random() < share
            cost = rng.lognormvariate(0, 0.5) * (1 if good else 2)
            predicted = 0.75 if good else 0.65
            probability = 0.15 if good else 0.3
            pseudo = predicted
            if rng.random() < probability:
                pseudo += (good - predicted) / probability
                row[-1] += 1
            at = 4 * rng.randrange(GROUPS)
            for add, amount in enumerate((1.0, cost, 1.0, pseudo)):
                row[at + add] += amount
        found = cost_per_good(row)
        covered += found is not None and found.lower <= truth <= found.upper
    assert 0.92 <= covered / rounds <= 0.98
