"""Predictions from past verdicts, as sums in bins."""

from __future__ import annotations

import random

import pytest

from ragmonitor.stats.prediction import KEPT, Calibration, calibrations
from ragmonitor.stats.sums import LEARNED_WIDTH, NOTHING, Answer, Ledger, Outcome
from ragmonitor.store import HOUR_S, Change, Memory


def teach(store, rng, *, n: int, at_s: float = 0.0, useful: bool = True, session: str = "") -> None:
    """Add verdicts of which 20 % are bad; their features are higher if `useful`."""
    ledger = Ledger()
    for _ in range(n):
        bad = rng.random() < 0.2
        feature = rng.betavariate(4, 2) if bad and useful else rng.betavariate(2, 5)
        answer = Answer(id=f"{rng.random()}", at_s=at_s, chance=0.5, rate=0.5, is_drawn=True,
                        expected={"s": NOTHING}, features={"s": feature})  # fmt: skip
        ledger.note(answer)
        ledger.settle(answer, {"s": Outcome(1.0, float(bad))})
    store.add(ledger.take())


def learned(**options) -> dict[str, Calibration]:
    store = Memory(lambda: 0.0)
    teach(store, random.Random(1), **options)
    return calibrations(store)


def test_a_score_that_tells_apart_predicts_and_never_falls():
    """The higher the built-in judge's value, the more is expected."""
    predictions = learned(n=800)
    means = [predictions["s"].expected(x / 20).value for x in range(21)]
    assert means == sorted(means)
    assert means[1] < 0.1
    assert means[17] > 0.5


def test_a_score_that_says_nothing_predicts_the_base_rate():
    """It is left out of account, and not turned round."""
    means = [learned(n=800, useful=False)["s"].expected(x).value for x in (0.1, 0.9)]
    assert max(means) - min(means) < 0.15


@pytest.mark.parametrize("n", [0, 10])
def test_nothing_is_expected_until_there_are_verdicts(n):
    """Estimates then rest on verdicts alone."""
    row = [0.0] * LEARNED_WIDTH
    assert learned(n=n).get("s", Calibration(row)).expected(0.5).scored == 0.0


def test_answers_of_which_the_built_in_judge_says_nothing_are_a_bin_of_their_own():
    """They have the mean that such verdicts had, drawn to the base rate."""
    row = [0.0] * LEARNED_WIDTH
    row[-6:] = [100.0, 50.0, 10.0, 100.0, 50.0, 10.0]
    scored, value = Calibration(row).expected(None)
    assert scored == pytest.approx(0.5, abs=0.01)
    assert value == pytest.approx(0.2, abs=0.02)


def test_processes_learn_together_from_the_newest_verdicts():
    """Their sums add up; older hours are left out once there are enough."""
    rng, store = random.Random(2), Memory(lambda: 0.0)
    teach(store, rng, n=200, at_s=0.0, useful=False)
    for hour in (1, 2):
        teach(store, rng, n=int(KEPT) // 2, at_s=hour * HOUR_S)
    assert calibrations(store)["s"].verdicts == KEPT
    store.change(Change(moves=[("p0", "q0"), ("p3600", "q0"), ("p7200", "q0")]))
    assert calibrations(store)["s"].verdicts == KEPT + 200
