"""What a reading cost, and the budget of one run, which may spend all of it at once."""

from __future__ import annotations

import asyncio
import math

from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.protocols import BudgetUnit


class RunBudget:
    """The most that one run may spend; spent for good once no further call can be paid.

    A call that cannot be paid waits for those that are under way: they were reserved by upper
    estimates, and some of it may come back. Going on with cheaper calls would bias every mean. It
    is used from one event loop.
    """

    def __init__(self, capacity: float = math.inf, *, unit: BudgetUnit = "usd") -> None:
        """Begin without having spent anything.

        Args:
            capacity: The limit, in the unit.
            unit: What it counts, and whoever reserves.
        """
        self.capacity, self.unit = capacity, unit
        self._left = capacity
        self._n_under_way = 0
        self._returned = asyncio.Event()
        self.is_spent = False

    def has_spent(self, usage: JudgeUsage) -> None:
        """Take out what earlier runs have spent."""
        self._left -= spent_in(self.unit, usage)
        self.is_spent = self._left < 0

    async def reserve(self, cost: float) -> bool:
        """Return whether the call is paid; then `refund` has to follow."""
        while not self.is_spent and self._left < cost:
            self.is_spent = not self._n_under_way
            if self._n_under_way:
                self._returned.clear()
                await self._returned.wait()
        if not self.is_spent:
            self._n_under_way += 1
            self._left -= cost
        return not self.is_spent

    def refund(self, cost: float, usage: JudgeUsage | None) -> None:
        """Say what a call has used; None: nobody knows, and what was reserved is spent."""
        self._n_under_way -= 1
        self._returned.set()
        if usage is not None:
            self._left += cost - max(0.0, spent_in(self.unit, usage))


def spent_in(unit: BudgetUnit, usage: JudgeUsage) -> float:
    """Return what a reading cost, in the unit of a budget."""
    if unit == "usd":
        return usage.cost_usd
    if unit == "tokens":
        return usage.input_tokens + usage.output_tokens
    # A judge of the user's own that counts nothing made one call; only a cache makes none.
    return usage.calls or float(not usage.cache_hits)
