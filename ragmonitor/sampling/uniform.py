"""The same chance for every answer of the moment, lowered before the budget runs dry."""

from __future__ import annotations

import math
from collections.abc import Callable

from ragmonitor.protocols import Clock
from ragmonitor.records import Cause, Chance, Interaction
from ragmonitor.sampling.budget import Budget
from ragmonitor.sampling.coin import coin

ARRIVALS_HALF_LIFE_S = 120.0
SHARE_SPENT_AT_FIRST = 0.5
"""Until anything was settled: what is reserved has room for a second call, which few need."""
LEAST_SHARE_SPENT = 0.05
"""Below it, what was settled was not a reading: failures cost nothing, and duplicates neither."""


class UniformSampler:
    """Draws at `rate` while the budget allows it, else at the rate that the budget can bear.

    The chance follows the bucket's level: `level / (arrivals per second * horizon)`, with the
    horizon half the time a full bucket would last, in judgements of typical cost: what is expected
    of each, times the share of it that earlier ones came to. Nothing is drawn and then dropped for
    lack of money, which would bias every mean in a burst.

    Source:
        Controlled Poisson sampling; Zrnic & Candes, "Active Statistical Inference" (2024),
        arXiv:2403.03208, for why chances that are known beforehand keep means unbiased.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Clock,
        budget: Budget | None = None,
        expected_cost: Callable[[Interaction], float] = lambda _: 0.0,
    ) -> None:
        if not 0 < rate <= 1:
            raise ValueError(f"a rate lies above 0 and up to 1, not at {rate}")
        self._rate = rate
        self._budget = budget
        self._expected_cost = expected_cost
        self._clock = clock
        self._arrivals = 0.0
        self._arrived_at: float | None = None
        self._typical_cost = 0.0
        self._share_spent = SHARE_SPENT_AT_FIRST
        """Of what was reserved; estimates are upper ones."""

    def draw(self, interaction: Interaction) -> Chance:
        """Return the chance this answer had and whether it is read; reserves its cost if so."""
        if self._budget is None:
            return self._toss(interaction, self._rate, 0.0)
        cost = self._expected_cost(interaction)
        self._note_arrival(cost)
        level = self._budget.level()
        if level < cost:
            return Chance(probability=0.0, drawn=False, cause=Cause.OVER_BUDGET)
        typical_cost = self._typical_cost * self._share_spent
        bearable = self._budget.pace_per_s(cost) / max(1e-12, self._arrivals * typical_cost)
        chance = self._toss(interaction, min(self._rate, bearable), cost)
        if chance.drawn and not self._budget.reserve(cost):
            # Another process, or another thread, has spent it since we looked.
            return Chance(probability=0.0, drawn=False, cause=Cause.OVER_BUDGET)
        return chance

    def settle(self, chance: Chance, spent: float) -> None:
        """Say what a drawn answer's judging cost in the end."""
        if self._budget is None or not chance.drawn:
            return
        self._budget.settle(chance.reserved, spent)
        if chance.reserved > 0:
            share = min(1.0, max(LEAST_SHARE_SPENT, spent / chance.reserved))
            self._share_spent += 0.05 * (share - self._share_spent)

    def _toss(self, interaction: Interaction, probability: float, cost: float) -> Chance:
        if probability <= 0:
            return Chance(probability=0.0, drawn=False, cause=Cause.OVER_BUDGET)
        if coin(interaction.id) < probability:
            return Chance(probability=probability, drawn=True, reserved=cost)
        return Chance(probability=probability, drawn=False, cause=Cause.NOT_SAMPLED)

    def _note_arrival(self, cost: float) -> None:
        """Update the arrivals per second and the typical cost, both exponentially weighted."""
        now = self._clock()
        rate = math.log(2) / ARRIVALS_HALF_LIFE_S
        elapsed_s = 0.0 if self._arrived_at is None else max(0.0, now - self._arrived_at)
        self._arrivals = self._arrivals * math.exp(-rate * elapsed_s) + rate
        self._typical_cost += (cost - self._typical_cost) * (
            1.0 if self._arrived_at is None else 0.05
        )
        self._arrived_at = now
