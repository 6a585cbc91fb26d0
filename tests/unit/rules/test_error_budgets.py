"""What a service is held to, as people write it, and how fast its budget may burn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.errors import SettingsError
from ragmonitor.evaluators import table
from ragmonitor.rules import parse_days, parse_objective
from ragmonitor.rules.error_budgets import BURNS, LOW_IS_GOOD, Objective


@pytest.mark.parametrize(
    ("text", "shown", "budget"),
    [
        ("faithfulness=0.95", "faithfulness>=0.95", 0.05),
        ("hallucination=0.05", "hallucination<=0.05", 0.05),
        ("refusal = 0.1", "refusal<=0.1", 0.1),
        ("toxicity<=0.02", "toxicity<=0.02", 0.02),
        ("politeness>=0.8", "politeness>=0.8", 0.2),
    ],
)
def test_the_sign_follows_from_the_signal(text: str, shown: str, budget: float):
    """Unless it is written: of one's own evaluator nobody else knows which way is better."""
    objective = parse_objective(text)
    assert (str(objective), objective.budget) == (shown, budget)


def test_every_evaluator_that_is_better_low_is_known():
    """The table of evaluators and the rules must not disagree on which way is up."""
    assert {entry.name for entry in table if entry.lower_is_better} <= LOW_IS_GOOD
    assert not LOW_IS_GOOD & {entry.name for entry in table if not entry.lower_is_better}


@pytest.mark.parametrize(
    "text",
    ["", "faithfulness", "faithfulness=", "=0.9", "faithfulness=much", "faithfulness=1",
     "faithfulness=0", "hallucination=nan", "hallucination>=0.05", 'a"b=0.5'],
)  # fmt: skip
def test_what_cannot_be_an_objective_is_refused(text: str):
    """With a message that says how it is written."""
    with pytest.raises(SettingsError):
        parse_objective(text)


@pytest.mark.parametrize(
    ("budget", "factors"),
    [
        (0.01, [14.4, 6, 3, 1]),
        (0.05, [14.4, 6, 3, 1]),
        (0.0694, [14.4, 6, 3, 1]),
        (0.0695, [6, 3, 1]),
        (0.166, [6, 3, 1]),
        (1 / 6, [3, 1]),
        (0.3, [3, 1]),
        (1 / 3, [1]),
        (0.9, [1]),
    ],
)
def test_a_burn_that_cannot_be_reached_is_left_out(budget: float, factors: list[float]):
    """An error share is at most 1, so a budget of 7 % cannot burn 14.4 times too fast."""
    objective = Objective(signal="hallucination", level=budget, is_floor=False)
    assert [burn.factor for burn in objective.burns()] == factors


@given(budget=st.floats(min_value=1e-6, max_value=1 - 1e-6), is_floor=st.booleans())
def test_every_burn_rate_that_is_left_can_be_reached(budget: float, is_floor: bool):
    """And there is always one, so no objective is without an alert."""
    level = 1 - budget if is_floor else budget
    objective = Objective(signal="s", level=level, is_floor=is_floor)
    burns = objective.burns()
    assert burns
    assert all(objective.threshold(burn) < 1 for burn in burns)
    assert all(objective.threshold(burn) >= 1 for burn in BURNS if burn not in burns)


@pytest.mark.parametrize(("text", "days"), [("30d", 30), ("2w", 14), ("12h", 0.5), ("1.5d", 1.5)])
def test_times_are_read_in_days(text: str, days: float):
    """As Prometheus writes them."""
    assert parse_days(text) == days


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-3d", "30 days", "5m"])
def test_what_is_no_time_is_refused(text: str):
    """Minutes of evidence would page all the time."""
    with pytest.raises(SettingsError):
        parse_days(text)
