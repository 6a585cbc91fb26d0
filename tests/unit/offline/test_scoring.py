"""The engine of offline scoring."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ragmonitor.evaluators import Table, table
from ragmonitor.evaluators.table import Entry
from ragmonitor.offline.scoring import Scorer
from ragmonitor.offline.shapes import Line
from ragmonitor.records import Cause, JudgeIdentity, JudgeUsage, Unscored
from ragmonitor.runtime.errors import InputError, JudgeError
from ragmonitor.sampling import RunBudget
from ragmonitor.testing import ScriptedJudge
from tests.support import stories

FAITHFULNESS = table.select(["faithfulness"])


def line(number, **changes):
    told = stories.interaction(id=str(number), **changes)
    return Line(number=number, interaction=told)


def scripted():
    return ScriptedJudge(lambda _: stories.assessment("supported"))


class PricedJudge:
    """Says 10 tokens, and takes what it is told to."""

    identity = JudgeIdentity(name="priced", version="1", kind="LLM")

    def __init__(self, tokens=10):
        self.tokens = tokens
        self.asked = []

    budget_unit = "tokens"

    def expected_cost(self, interaction):
        if interaction.id == "long":
            raise JudgeError("priced", "too long", cause=Cause.EVIDENCE_TOO_LONG, retryable=False)
        if interaction.id == "broken":
            raise KeyError("price")
        return math.nan if interaction.id == "unknown" else 10.0

    async def assess(self, interaction):
        self.asked.append(interaction.id)
        return replace(
            stories.assessment("supported"),
            judge=self.identity,
            usage=JudgeUsage(calls=1, input_tokens=self.tokens),
        )


async def all_of(scorer, lines, **options):
    return [outcome async for outcome in scorer.outcomes(lines, **options)]


def causes(outcomes):
    return [
        found.cause.value if isinstance(found, Unscored) else "scored"
        for outcome in outcomes
        for found in outcome.report.evaluations
    ]


async def test_what_is_under_way_when_the_lines_break_is_delivered():
    """It is paid for. Then the error comes."""

    def lines():
        yield from (line(1), line(2))
        raise InputError("torn")

    told = []

    async def read():
        async for outcome in Scorer(scripted(), FAITHFULNESS).outcomes(lines()):
            told.append(outcome.line.number)

    with pytest.raises(InputError, match="torn"):
        await read()
    assert told == [1, 2]


async def test_a_budget_is_settled_with_what_was_spent():
    """Readings that were cheaper than feared leave room for more; then it is over for good."""
    judge = PricedJudge(tokens=4)
    scorer = Scorer(judge, FAITHFULNESS, budget=RunBudget(20, unit="tokens"), concurrency=1)
    outcomes = await all_of(scorer, [line(n) for n in range(6)])
    assert causes(outcomes) == ["scored"] * 3 + ["over_budget"] * 3
    assert scorer.budget.is_spent
    assert not await scorer.budget.reserve(1)


async def test_a_cost_that_nobody_can_say_is_a_judge_error_of_one_line():
    """Nothing is asked for it, and the others go on."""
    scorer = Scorer(PricedJudge(), FAITHFULNESS, budget=RunBudget(99, unit="tokens"))
    lines = [line(name) for name in ("broken", "unknown", "1")]
    assert causes(await all_of(scorer, lines)) == ["judge_error", "judge_error", "scored"]


async def test_an_evaluator_that_asks_has_its_share_of_the_budget():
    """Reserved like a reading, so that the limit holds whatever is asked."""

    async def kind(_interaction, _assessment, _asker):
        return 1.0

    entries = Table([*FAITHFULNESS, Entry(name="kind", version=1, evaluator=kind)])
    scorer = Scorer(PricedJudge(), entries, budget=RunBudget(19, unit="tokens"))
    assert causes(await all_of(scorer, [line(1)])) == ["over_budget"] * 2


def test_the_scoring_version_changes_with_judge_and_evaluators():
    """And with nothing else."""
    scoring_version = Scorer(scripted(), FAITHFULNESS).scoring_version
    assert Scorer(scripted(), FAITHFULNESS, concurrency=3).scoring_version == scoring_version
    assert Scorer(PricedJudge(), FAITHFULNESS).scoring_version != scoring_version
    (entry,) = FAITHFULNESS
    newer: Entry = replace(entry, version=entry.version + 1)
    assert Scorer(scripted(), Table([newer])).scoring_version != scoring_version
