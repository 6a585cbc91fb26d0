"""What a reading costs in the unit of a budget, or that nobody can tell."""

from __future__ import annotations

from typing import Final

from ragmonitor.errors import SettingsError
from ragmonitor.protocols import (
    BudgetUnit,
    BuiltinJudge,
    Judge,
    PricedJudge,
    RecountingJudge,
)
from ragmonitor.records import Interaction

_WORDS: Final[dict[BudgetUnit, str]] = {"usd": "US dollars", "tokens": "tokens", "calls": "calls"}


def priced_in(judge: Judge, unit: BudgetUnit) -> Judge:
    """Return the judge, with what it says of its cost in the unit of a budget.

    Calls can be counted of any judge: one that does not say makes one for each reading.

    Raises:
        SettingsError: It does not say what a reading costs in this unit, so that the budget could
            not hold.
    """
    if isinstance(judge, RecountingJudge):
        return judge.counting(unit)
    if unit == "calls" or isinstance(judge, BuiltinJudge):
        return judge
    if isinstance(judge, PricedJudge) and judge.budget_unit in (None, unit):
        return judge
    says = (
        f"says what a reading costs in {_WORDS[judge.budget_unit]}, and the budget is in"
        if isinstance(judge, PricedJudge) and judge.budget_unit is not None
        else "does not say what a reading costs in"
    )
    raise SettingsError(
        f"judge {judge.identity.name} {says} {_WORDS[unit]}; give it budget_unit = {unit!r} and "
        "expected_cost(interaction) (budget_unit = None and 0.0 if it is free)"
    )


def cost_in(judge: Judge, unit: BudgetUnit, interaction: Interaction) -> float:
    """Return what one reading costs at most, of a judge that `priced_in` returned.

    Raises:
        JudgeError: It could not be read at any cost.
    """
    if isinstance(judge, PricedJudge) and judge.budget_unit == unit:
        return judge.expected_cost(interaction)
    return 1.0 if unit == "calls" else 0.0
