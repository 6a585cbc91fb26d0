"""An inclusion probability for every answer, by its uncertainty and by the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ragmonitor.records import Cause, GaugeValue, Interaction, SamplingDecision
from ragmonitor.runtime.guard import record_problem
from ragmonitor.runtime.protocols import Clock
from ragmonitor.sampling.consistent_draws import is_drawn
from ragmonitor.sampling.floors import Floors
from ragmonitor.semconv import metrics as names
from ragmonitor.store import Budget

FADING_PER_S: Final = math.log(2) / 120.0
"""Of arrivals: they have a half-life of two minutes."""
UNIFORM_SHARE: Final = 0.5
"""The share of the common rate that is the same for all answers: so that no weight is above 2
however wrong the uncertainty is. A larger share where the rate is larger: there is less left to
choose from."""
SHARE_SPENT_AT_FIRST: Final = 0.5
"""Until anything was settled: what is reserved has room for a second call, which few need."""
LEAST_SHARE_SPENT: Final = 0.05
"""Below it, what was settled was not a reading: failures cost nothing, and duplicates neither."""
LEARNING: Final = 0.05
"""Weight of the newest in the typical cost and in the share that is spent."""
_SMALLEST: Final = 1e-12


class AdaptiveSampler:
    """Draws at `rate` while the budget allows it, else at the rate that the budget can bear.

    The common rate f follows the bucket's level: `level / (arrivals per second * horizon)`, with
    the horizon half the time a full bucket would last, in readings of typical cost: what is
    expected of each, times the share of it that earlier ones came to. An answer's probability is
    `min(1, f (s + (1 - s) uncertainty))` with s the uniform share, 0.5, or f where that is more:
    at f = 1 everything is read. Floors raise it, and answers that `always` names have 1; what
    cannot be paid has 0. Only then it is drawn.

    Nothing is drawn and then dropped for lack of money, which would bias every mean in a burst.
    Where another process, or thread, spends the last of it in between, the answer stays drawn and
    says `over_budget`: a verdict that is missing.

    Any thread may draw and refund; averages may lose an update by it, the budget may not.

    Source:
        Controlled Poisson sampling; Zrnic & Candes, "Active Statistical Inference" (2024),
        arXiv:2403.03208, for probabilities by uncertainty that keep means unbiased; Li, Zrnic &
        Candes, "Robust Sampling for Active Statistical Inference" (2025), for the uniform share.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Clock,
        budget: Budget | None = None,
        expected_cost: Callable[[Interaction], float] = lambda _: 0.0,
        always: Collection[str] = (),
        floors: Floors | None = None,
    ) -> None:
        """Begin without any traffic.

        Args:
            rate: Share of the answers that is read while the budget bears it, above 0 and up to 1.
            clock: Of the arrivals.
            budget: What readings may cost together; None: there is no limit.
            expected_cost: Of one reading, at most, in the budget's unit; finite, and 0 or more.
                What it raises, `draw` and `reserve` raise.
            always: Tags, or names of attributes, of answers that are read for certain.
            floors: Least probabilities, by the value of an attribute; None: there are none.
        """
        self._rate = rate
        self._clock = clock
        self._budget = budget
        self._expected_cost = expected_cost
        self._always = frozenset(always)
        self._floors = floors
        self._is_warned = False
        self._arrived_s, self._per_s = -math.inf, 0.0
        self._typical_cost: float | None = None
        """The typical cost as it is reserved; None: nothing has arrived."""
        self._share_spent = SHARE_SPENT_AT_FIRST
        """The share that is spent of what was reserved; estimates are upper ones."""

    # --- drawing --------------------------------------------------------------------------------

    def draw(self, interaction: Interaction, *, uncertainty: float = 1.0) -> SamplingDecision:
        """Return whether this answer is drawn, and how likely that was; reserve its cost if so."""
        now = self._clock()
        cost, level, bearable_per_s = self._cost_of(interaction), math.inf, math.inf
        self._per_s = self._arrivals_per_s(now) + FADING_PER_S
        self._arrived_s = now
        if self._budget is not None:
            if self._typical_cost is None:
                self._typical_cost = cost
            # By the cost of those before and not its own: alarms rest on a rate common to all.
            status = self._budget.status(self._typical_cost)
            level, bearable_per_s = status.level, self._bearable_per_s(status.pace_per_s)
            self._typical_cost += LEARNING * (cost - self._typical_cost)
        rate, least = self._common(bearable_per_s, now), 0.0
        if self._floors is not None:
            least = self._floors.least(interaction, now, bearable_per_s=bearable_per_s)
        probability = max(least, _by_uncertainty(rate, uncertainty))
        if self._always and not (
            self._always.isdisjoint(interaction.tags)
            and self._always.isdisjoint(interaction.attributes)
        ):
            probability = 1.0
        if level < cost:
            self._warn_of(cost)
            probability = 0.0
        # Its probability stays what it was, also where the cost cannot be reserved any more.
        drawn = is_drawn(interaction, probability)
        is_paid = drawn and (self._budget is None or self._budget.reserve(cost))
        unpaid = Cause.OVER_BUDGET if drawn or probability <= 0 else Cause.NOT_SAMPLED
        return SamplingDecision(
            inclusion_probability=probability,
            drawn=drawn,
            cause=None if is_paid else unpaid,
            reserved=cost if is_paid else 0.0,
            rate=rate,
        )

    def _common(self, bearable_per_s: float, now: float) -> float:
        """Return what is common to all answers of the moment, 0 to 1."""
        # Not over the time since the first one: the first burst would look like all the traffic.
        bearable = bearable_per_s / max(_SMALLEST, self._arrivals_per_s(now))
        return min(1.0, self._rate, bearable)

    def _arrivals_per_s(self, now: float) -> float:
        """Return the answers per second; too low until a few half-lives have been seen."""
        # A clock that was put back lets nothing fade.
        return self._per_s * math.exp(-FADING_PER_S * max(0.0, now - self._arrived_s))

    def _cost_of(self, interaction: Interaction) -> float:
        return 0.0 if self._budget is None else self._expected_cost(interaction)

    def _warn_of(self, cost: float) -> None:
        """Say once that the budget is too small for such readings, however long one waits."""
        if self._budget is None or self._is_warned or cost <= self._budget.capacity:
            return
        self._is_warned = True
        record_problem(
            "sampling",
            f"a reading may cost up to {cost:.3g} {self._budget.unit}, and the budget never holds "
            f"more than {self._budget.capacity:.3g} at once (two hours' worth of a day's limit, "
            "fifteen minutes' of an hour's): such answers are not judged; raise the budget, or "
            "lower judge.tokens_per_call",
        )

    # --- paying ---------------------------------------------------------------------------------

    def reserve(self, interaction: Interaction) -> SamplingDecision | None:
        """Pay for a reading outside the sample; None: the budget has nothing for it now."""
        cost = self._cost_of(interaction)
        if self._budget is not None and not self._budget.reserve(cost):
            return None
        return SamplingDecision(inclusion_probability=1.0, drawn=True, reserved=cost)

    def refund(self, decision: SamplingDecision, spent: float) -> None:
        """Say what a drawn answer's judging cost in the end."""
        if self._budget is None or not decision.drawn:
            return
        self._budget.settle(decision.reserved, spent)
        if decision.reserved > 0:
            share = min(1.0, max(LEAST_SHARE_SPENT, spent / decision.reserved))
            self._share_spent += LEARNING * (share - self._share_spent)

    def _bearable_per_s(self, pace_per_s: float) -> float:
        """Return for how many readings a second there is money, by their typical cost."""
        return pace_per_s / max(_SMALLEST, (self._typical_cost or 0.0) * self._share_spent)

    # --- steering and showing -------------------------------------------------------------------

    def gauges(self, judge: str) -> Sequence[GaugeValue]:
        """Return the common rate, the traffic and the budget as of now.

        A budget whose store is away is shown as spent, which `RagMonitorBudgetExhausted` tells of.
        """
        now = self._clock()
        bearable_per_s = math.inf
        money: list[GaugeValue] = []
        if self._budget is not None:
            unit = self._budget.unit
            status = self._budget.status(self._typical_cost or 0.0)
            bearable_per_s = self._bearable_per_s(status.pace_per_s)
            if self._typical_cost is not None:
                cost = self._typical_cost * self._share_spent
                money.append(GaugeValue.of(names.EXPECTED_COST, cost, judge=judge, unit=unit))
            for per, limit in self._budget.limits.items():
                money += (
                    GaugeValue.of(names.BUDGET_LEVEL, status.levels[per], unit=unit, per=per),
                    GaugeValue.of(names.BUDGET_LIMIT, limit.limit, unit=unit, per=per),
                )
        return (
            GaugeValue.of(names.SAMPLING_RATE, self._common(bearable_per_s, now), judge=judge),
            GaugeValue.of(names.MAX_SAMPLING_RATE, self._rate, judge=judge),
            GaugeValue.of(names.ARRIVALS, self._arrivals_per_s(now)),
            *money,
        )


def _by_uncertainty(rate: float, uncertainty: float) -> float:
    if not 0 <= uncertainty < math.inf:
        uncertainty = 1.0
    uniform = max(UNIFORM_SHARE, rate)
    return min(1.0, rate * (uniform + (1 - uniform) * uncertainty))
