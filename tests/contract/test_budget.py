"""A budget is a limit and not a target: it is never exceeded."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragmonitor import Interaction, JudgeUsage, Monitor, SettingsError
from tests.contract.kit import (
    HERE,
    JudgeObject,
    assessment,
    interaction,
    outcomes,
    parametrize,
    run,
    samples,
    settings,
    total,
)

ANSWERS = 160


class PricedJudge(JudgeObject):
    """A judge that knows what a reading costs, at most; it costs nine tenths of that."""

    def __init__(self, unit: str, cost: float) -> None:
        self.budget_unit = unit
        self.cost = cost
        usage = (
            JudgeUsage(calls=1, cost_usd=0.9 * cost)
            if unit == "usd"
            else JudgeUsage(calls=1, input_tokens=int(0.9 * cost))
        )
        super().__init__(lambda answer: replace(assessment(answer), usage=usage))

    def expected_cost(self, _answer: Interaction) -> float:
        return self.cost


def wanted(number: int) -> Interaction:
    """Return an answer that is judged for certain, if the budget bears it."""
    return interaction(number, tags=("user_feedback",))


@parametrize("budgets.jsonl")
def test_several_threads_at_once_do_not_exceed_a_budget(case: dict[str, Any]) -> None:
    """As much is judged as may be spent at once; the others are unscored, for that reason."""
    unit, cost = case.get("unit"), case["cost"]
    judge = PricedJudge(unit, cost) if unit else JudgeObject()
    monitor = Monitor(**settings(sample=1.0, judge=judge, budget=case["budget"]))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: monitor.observe(wanted(number)), range(ANSWERS)))
    assert monitor.flush(20)
    monitor.close(5)
    spent = len(judge.asked) * (0.9 * cost if unit else cost)
    assert 0 < spent <= case["at_once"] + cost / 100 < case["limit"]
    found = samples(monitor.registry)
    counts = outcomes(found, judge="contract", evaluator="faithfulness")
    assert counts.keys() == {"scored", "over_budget"}
    assert sum(counts.values()) == ANSWERS
    assert 0 < counts["scored"] <= len(judge.asked)
    limits = [s.value for s in found if s.name == "ragmonitor_budget_limit"]
    assert min(limits) == pytest.approx(case["limit"])


@parametrize("budgets.jsonl")
def test_an_even_sample_does_not_exceed_a_budget_either(case: dict[str, Any]) -> None:
    """The chance to be judged falls before the draw, so that what is over budget was not drawn."""
    unit, cost = case.get("unit"), case["cost"]
    judge = PricedJudge(unit, cost) if unit else JudgeObject()
    monitor = Monitor(**settings(sample=1.0, judge=judge, budget=case["budget"]))
    for number in range(ANSWERS):
        monitor.observe(interaction(number))
    assert monitor.flush(20)
    monitor.close(5)
    assert len(judge.asked) * (0.9 * cost if unit else cost) <= case["at_once"] + cost / 100
    found = outcomes(samples(monitor.registry), judge="contract", evaluator="faithfulness")
    assert sum(found.values()) == ANSWERS
    assert found.keys() <= {"scored", "not_sampled", "over_budget"}


def test_what_was_spent_is_counted() -> None:
    """Dollars of the readings that were made, by judge."""
    judge = PricedJudge("usd", 0.01)
    monitor = Monitor(**settings(sample=1.0, judge=judge, budget={"usd_per_day": 100}))
    for number in range(10):
        monitor.observe(wanted(number))
    assert monitor.flush(20)
    monitor.close(5)
    found = samples(monitor.registry)
    counted = total(found, "ragmonitor_judge_cost_usd_total", judge="contract")
    assert counted == pytest.approx(0.009 * len(judge.asked))
    assert total(found, "ragmonitor_judge_calls_total", judge="contract") == len(judge.asked) >= 10


def test_restarts_and_processes_that_share_a_state_share_the_budget(tmp_path: Path) -> None:
    """32 monitors, sixteen at a time, of which each alone would spend an eighth of the limit."""

    def spend(_: int) -> int:
        ended = run([sys.executable, HERE / "programs" / "spending.py", "8"], tmp_path)
        assert (ended.status, ended.err) == (0, "")
        return int(ended.out)

    with ThreadPoolExecutor(2) as pool:
        spent = sum(pool.map(spend, range(4)))
    assert 0 < spent <= 10 < 32 * 40 / 8


@pytest.mark.parametrize(
    "options",
    [
        {"judge": "openai/gpt-4o-mini"},
        {"judge": JudgeObject(), "budget": {"usd_per_day": 1}},
        {"judge": JudgeObject(), "budget": {"usd_per_day": 0}},
        {"judge": JudgeObject(), "budget": {"usd_per_day": 1, "calls_per_day": 1}},
        {"judge": JudgeObject(), "budget": "5"},
    ],
    ids=["a model without one", "no price", "nothing", "two units", "no unit"],
)
def test_a_budget_that_cannot_hold_is_refused(options: dict[str, Any]) -> None:
    """Where the monitor is built, and not when money was spent."""
    with pytest.raises(SettingsError):
        Monitor(**settings(sample=1.0, **options))
