"""Pays for the calls of one run, a batch of offline work that ends when its budget is spent."""

from __future__ import annotations

import asyncio

from ragmonitor.records import JudgeUsage
from ragmonitor.sampling.budget import TotalBudget, spent_in


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
