"""What readings for golden questions may cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.pipeline.golden_reading import GoldenBudget, GoldenReader
from ragmonitor.records import Cause, Interaction, JudgeUsage, SamplingDecision, Unscored
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.sampling import TotalBudget
from ragmonitor.store import Budget, Memory
from ragmonitor.testing import ScriptedJudge
from tests.support.stories import assessment, interaction


class Purse:
    """A sampler that pays for every reading out of one budget."""

    def __init__(self, total: float) -> None:
        self.budget = TotalBudget(total, unit="calls")

    def reserve(self, interaction: Interaction) -> SamplingDecision | None:
        if not self.budget.reserve(1.0):
            return None
        return SamplingDecision(inclusion_probability=1.0, drawn=True, reserved=1.0)

    def refund(self, decision: SamplingDecision, spent: float) -> None:
        self.budget.settle(decision.reserved, spent)


def share_of(calls: int) -> Budget:
    """Return a budget that has so many calls now."""
    return Budget(Memory(lambda: 0.0), per_hour=8.0 * calls, unit="calls")


def asked(n: int) -> Interaction:
    base = interaction(texts=["It is 330 m tall."], answer="It is 330 m tall.")
    return replace(base, id=f"a{n}", reference=base.answer, reference_chunks=base.chunks)


@given(common=st.integers(1, 12), share=st.integers(1, 12), asks=st.integers(1, 8))
def test_readings_keep_to_the_budget_and_to_their_share_of_it(common, share, asks):
    """What cannot be paid is unscored, and says so."""
    purse = Purse(common)
    judge = ScriptedJudge(lambda _: replace(assessment("supported"), usage=JudgeUsage(calls=1)))
    budget = GoldenBudget(
        sampler=purse,  # type: ignore[arg-type]
        share=share_of(share),
        spent=lambda usage: float(usage.calls),
    )
    reader = GoldenReader(as_judge(judge), budget=budget)

    async def read():
        return [await reader.read(asked(n)) for n in range(asks)]

    answers = asyncio.run(read())
    paid = sum(each.assessment is not None for each in answers)
    assert paid == len(judge.asked) == min(common, share, asks)
    assert purse.budget.reserve(common - paid)
    for each in answers:
        if each.assessment is None:
            causes = {e.cause for e in each.evaluations if isinstance(e, Unscored)}
            assert causes == {Cause.OVER_BUDGET}
