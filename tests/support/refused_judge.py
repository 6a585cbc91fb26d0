"""A model as judge whose provider refuses every call."""

from __future__ import annotations

from typing import Any, NoReturn

from ragmonitor.records import Cause, Interaction, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.errors import JudgeError


class RefusedJudge:
    """Stands in for `LlmJudge` with a key that the provider does not know."""

    budget_unit = "tokens"

    def __init__(self, model: str, **_: Any) -> None:
        self.identity = JudgeIdentity(name=model, version="1", kind="LLM")

    def counting(self, unit: str) -> RefusedJudge:
        """Count in any unit."""
        self.budget_unit = unit
        return self

    def expected_cost(self, _interaction: Interaction) -> float:
        """Return what a reading costs."""
        return 10.0

    async def assess(self, _interaction: Interaction) -> NoReturn:
        """Refuse it."""
        raise JudgeError(
            self.identity.name,
            "the key is refused",
            cause=Cause.JUDGE_ERROR,
            retryable=False,
            usage=JudgeUsage(calls=1),
        )
