"""What a reading cost, and the budget of one run, which may spend all of it at once."""

from __future__ import annotations

import asyncio
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


class RunBudget:
    """Reserves for calls on one event loop, and is spent for good once no further one can be paid.

    A call that cannot be paid waits for those that are under way: they were reserved by upper
    estimates, and some of it may come back. Going on with cheaper calls would bias every mean.
    """

    def __init__(self, budget: TotalBudget | None) -> None:
        """Begin; None: calls cost nothing."""
        self._budget = budget
        self._n_under_way = 0
        self._returned = asyncio.Event()
        self.is_spent = False

    async def reserve(self, cost: float) -> bool:
        """Return whether the call is paid; then `refund` has to follow."""
        while not self.is_spent and self._budget is not None and not self._budget.reserve(cost):
            self.is_spent = not self._n_under_way
            if self._n_under_way:
                self._returned.clear()
                await self._returned.wait()
        if not self.is_spent:
            self._n_under_way += 1
        return not self.is_spent

    def refund(self, cost: float, usage: JudgeUsage | None) -> None:
        """Say what a call has used; None: nobody knows, and what was reserved is spent."""
        self._n_under_way -= 1
        self._returned.set()
        if self._budget is not None:
            spent = cost if usage is None else spent_in(self._budget.unit, usage)
            self._budget.settle(cost, spent)
