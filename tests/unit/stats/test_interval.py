"""From sums to a mean with its interval."""

from __future__ import annotations

import random

import pytest

from ragmonitor.stats.beta import beta_cdf, beta_quantile, t_quantile
from ragmonitor.stats.interval import estimate
from ragmonitor.stats.sums import NOTHING, Answer, Ledger, Outcome
from tests.bench.core import one_window


def row_of(verdicts, *, chance=1.0, uncovered=0):
    """Return sums of answers that are all drawn; None: a verdict that failed, ...: on its way."""
    ledger = Ledger()
    for n, verdict in enumerate(verdicts):
        answer = Answer(
            id=f"{n}", at_s=0, chance=chance, rate=chance, is_drawn=True, expected={"s": NOTHING}
        )
        ledger.note(answer)
        if verdict is not ...:
            ledger.settle(answer, {"s": None if verdict is None else Outcome(1.0, verdict)})
    for n in range(uncovered):
        ledger.note(Answer(id=f"u{n}", at_s=0, chance=0.0, rate=0.5, expected={"s": NOTHING}))
    return ledger.take()["r0"]["s"]


def test_the_mean_is_that_of_the_verdicts():
    """With all of them judged and no prediction."""
    found = estimate(row_of([1.0] * 10 + [0.0] * 190))
    assert found.mean == pytest.approx(0.05)
    assert 0.02 < found.lower < 0.03
    assert 0.08 < found.upper < 0.11
    assert found.coverage == 1.0


def test_lost_verdicts_widen_the_interval_by_what_they_might_be():
    """All of them bad at the upper end, none at the lower."""
    whole, lost = estimate(row_of([0.0] * 220)), estimate(row_of([0.0] * 200 + [None] * 20))
    assert whole.upper < 0.03
    assert lost.upper > 0.09
    assert lost.lower == 0


def test_answers_without_a_chance_widen_it_by_their_share():
    """Nobody knows anything of them."""
    found = estimate(row_of([0.0] * 200, uncovered=50))
    assert found.coverage == pytest.approx(0.8)
    assert 0.2 < found.upper < 0.23


def test_below_half_of_the_answers_there_is_no_mean():
    """A number on which nobody may act is none."""
    assert estimate(row_of([0.0] * 90 + [None] * 100)) is None
    assert estimate(row_of([0.0] * 110 + [None] * 100)) is not None
    assert estimate(row_of([...])) is None


@pytest.mark.parametrize("options", [{}, {"session": 5}, {"missing": (0.2, 0.0)}, {"pending": 1.0}])
def test_the_interval_holds_the_truth(options):
    """In 30 small windows of 4 % bad answers, at least 26 times: a chance of 1 in 100."""
    rng = random.Random(7)
    held = 0
    for _ in range(30):
        found = one_window(rng, 40, rate=0.25, auroc=0.8, learned_from=60, **options)
        held += found is None or found.lower <= 0.04 <= found.upper
    assert held >= 26


@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 5), (0.5, 40), (300, 20), (4_000, 90_000)])
def test_quantiles_undo_the_distribution_function(a, b):
    """To nine digits."""
    for probability in (0.025, 0.5, 0.975):
        assert beta_cdf(beta_quantile(probability, a, b), a, b) == pytest.approx(probability, 1e-7)


def test_known_values():
    """Of tables: Student's t with 1 and 30 degrees of freedom, and the interval of 0 in 20."""
    assert t_quantile(1) == pytest.approx(12.706, 1e-4)
    assert t_quantile(30) == pytest.approx(2.0423, 1e-4)
    assert beta_quantile(0.975, 1, 20) == pytest.approx(0.168433, 1e-5)
