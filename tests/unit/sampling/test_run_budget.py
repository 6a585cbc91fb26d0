"""What one run may spend on calls that are made at once."""

import asyncio

from ragmonitor.records import JudgeUsage
from ragmonitor.sampling import RunBudget


async def test_a_call_waits_for_what_comes_back_of_those_under_way():
    """The first was reserved with 10 and used 4, which leaves enough for the second."""
    budget = RunBudget(16, unit="tokens")
    assert await budget.reserve(10)
    waiting = asyncio.ensure_future(budget.reserve(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.refund(10, JudgeUsage(calls=1, input_tokens=4))
    assert await waiting
    assert not budget.is_spent


async def test_a_budget_is_spent_for_good_once_a_call_cannot_be_paid():
    """Cheaper calls are refused from then on, too: their answers alone would bias every mean."""
    budget = RunBudget(16, unit="tokens")
    assert not await budget.reserve(17)
    assert budget.is_spent
    assert not await budget.reserve(1)


async def test_a_call_of_unknown_usage_has_spent_what_was_reserved():
    """Nobody knows what a call that failed has cost."""
    budget = RunBudget(16, unit="tokens")
    assert await budget.reserve(10)
    budget.refund(10, None)
    assert not await budget.reserve(10)
