"""The capabilities of a judge beside reading, each with a default for a judge that lacks it.

A judge is an object with `identity` and `assess`. Whoever runs judges wraps each of them once, by
`as_judge`, and then never asks of which class it is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ragmonitor.records import Assessment, Interaction, JudgeIdentity
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Asker, BreakerState, BudgetUnit, Judge


class CapableJudge:
    """A judge with every capability: its own, or a default.

    | members that the judge has | what they are for | default |
    |---|---|---|
    | `read` | it needs neither network nor model, and reads within milliseconds | none |
    | `prepare`, `close` | it loads or connects before its first reading | nothing to load |
    | `budget_unit`, `expected_cost` | a budget in dollars or tokens can hold | calls only |
    | `counting` | it can say its cost in several units | one unit |
    | `fallbacks` | models that read where its own cannot, by their names | none |
    | `breaker_state`, `admits` | it leaves a failing provider alone | always asked |
    | `asker` | evaluators can ask questions of their own | `not_asked` |
    """

    def __init__(self, judge: Judge, *, unit: BudgetUnit | None = None) -> None:
        """Wrap the judge.

        Args:
            judge: Anything with `identity` and `assess`.
            unit: What `expected_cost` is to count; None: there is no budget.
        """
        self._judge = judge
        self._unit = unit

    def _own(self, name: str) -> Any:
        """Return a member that the judge has beside those two; None: it has none."""
        return getattr(self._judge, name, None)

    @property
    def is_builtin(self) -> bool:
        """Whether it can read every answer: `read` may be called."""
        return self._own("read") is not None

    @property
    def identity(self) -> JudgeIdentity:
        """The name, version and kind of the judge."""
        return self._judge.identity

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the judge found, under its own name. Raises what the judge raises."""
        assessment = await self._judge.assess(interaction)
        identity, name = assessment.judge, self.identity.name
        if identity.name in (name, *(self._own("fallbacks") or ())):
            return assessment
        # The version stays: the same judge may read by another prompt.
        return replace(assessment, judge=replace(identity, name=name))

    def read(self, interaction: Interaction) -> Assessment:
        """Return what a built-in judge found, within milliseconds. Raises what it raises."""
        assessment: Assessment = self._own("read")(interaction)
        return assessment

    async def prepare(self) -> None:
        """Load and check, so that the first reading need not. Raises what the judge raises."""
        if (prepare := self._own("prepare")) is not None:
            await prepare()

    async def close(self) -> None:
        """Close connections of the running loop. Raises what the judge raises."""
        if (close := self._own("close")) is not None:
            await close()

    # --- costs ----------------------------------------------------------------------------------

    @property
    def budget_unit(self) -> BudgetUnit | None:
        """The unit of the judge's cost; None: it says none, or a reading costs nothing."""
        unit: BudgetUnit | None = self._own("budget_unit")
        return unit

    def within_budget(self, unit: BudgetUnit | None) -> CapableJudge:
        """Return this judge with `expected_cost` in the unit of a budget.

        Calls can be counted of any judge: one that does not say makes one for each reading.

        Args:
            unit: The budget's; None: there is no budget, and nothing is reserved.

        Raises:
            SettingsError: The judge does not say its cost in this unit, so that the budget could
                not hold.
        """
        if (counting := self._own("counting")) is not None:
            # One that can count in dollars only needs no price where there is no budget.
            return CapableJudge(counting(unit or "tokens"), unit=unit)
        is_priced = self._own("expected_cost") is not None and self.budget_unit in (None, unit)
        if unit in (None, "calls") or is_priced or self.is_builtin:
            return CapableJudge(self._judge, unit=unit)
        raise SettingsError(
            f"judge {self.identity.name} does not say what a reading costs in {unit}, as the "
            f"budget is; give it budget_unit = {unit!r} and expected_cost(interaction) "
            "(budget_unit = None and 0.0 if it is free)"
        )

    def expected_cost(self, interaction: Interaction) -> float:
        """Return an upper estimate of one reading's cost, in the unit of the budget.

        Raises:
            JudgeError: It could not be read at any cost.
            ValueError: No budget can be held by what it is said to cost. One NaN in an average
                would be there for good.
        """
        if self._unit is None or self.budget_unit != self._unit:
            return 1.0 if self._unit == "calls" else 0.0
        cost = float(self._own("expected_cost")(interaction))
        if not 0 <= cost < math.inf:
            raise ValueError(
                f"a reading cannot cost {cost}; expected_cost is finite, and 0 or more"
            )
        return cost

    # --- the rest -------------------------------------------------------------------------------

    @property
    def breaker_state(self) -> BreakerState | None:
        """Whether the judge leaves its provider alone; None: it never does."""
        with contained("judge"):
            state: BreakerState | None = self._own("breaker_state")
            return state
        return None

    def admits(self) -> bool:
        """Return whether a reading would be made now; if not, it costs nothing and gives none."""
        with contained("judge"):
            admits = self._own("admits")
            return admits is None or bool(admits())
        return True

    def asker(self, interaction: Interaction, assessment: Assessment) -> Asker | None:
        """Return whom evaluators ask about one answer; None: the judge cannot be asked."""
        make = self._own("asker")
        asker: Asker | None = None if make is None else make(interaction, assessment)
        return asker


def as_judge(judge: Judge) -> CapableJudge:
    """Return the judge with all capabilities; one that has them already as it is."""
    return judge if isinstance(judge, CapableJudge) else CapableJudge(judge)
