"""What a reading cost, and the budget of one run, which may spend all of it at once."""

from __future__ import annotations

import math

from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.protocols import BudgetUnit


class TotalBudget:
    """The most that one run may spend. Used from one thread.

    >>> budget = TotalBudget(1.0, unit="usd")
    >>> budget.reserve(0.75), budget.reserve(0.75)
    (True, False)
    >>> budget.settle(0.75, spent=0.25)
    >>> budget.reserve(0.75)
    True
    """

    def __init__(self, total: float, *, unit: BudgetUnit) -> None:
        """Begin without having spent anything.

        Args:
            total: The limit, in the unit.
            unit: What it counts, and whoever reserves.
        """
        self.capacity, self.unit = total, unit
        self._left = total

    def reserve(self, amount: float) -> bool:
        """Take an amount out if it is there, and return whether it was.

        Raises:
            ValueError: The amount is negative or no number.
        """
        if not 0 <= amount < math.inf:
            raise ValueError(f"{amount} cannot be reserved")
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def settle(self, reserved: float, spent: float) -> None:
        """Put back what was reserved and not spent, or take what was spent beyond it."""
        spent = reserved if math.isnan(spent) else max(0.0, spent)
        self._left += reserved - min(spent, max(self.capacity, reserved))


def spent_in(unit: BudgetUnit, usage: JudgeUsage) -> float:
    """Return what a reading cost, in the unit of a budget."""
    if unit == "usd":
        return usage.cost_usd
    if unit == "tokens":
        return usage.input_tokens + usage.output_tokens
    # A judge of the user's own that counts nothing made one call; only a cache makes none.
    return usage.calls or float(not usage.cache_hits)
