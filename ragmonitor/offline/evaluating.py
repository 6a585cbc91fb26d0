"""Recorded interactions scored from Python: what `ragmonitor score` does, as a function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from ragmonitor.evaluators import table
from ragmonitor.judges import JUDGES, BuiltinJudge
from ragmonitor.judges.kept_replies import KeptReplies
from ragmonitor.offline.builtin_pool import AHEAD, BuiltinPool
from ragmonitor.offline.scoring import Outcome, Scorer
from ragmonitor.offline.shapes import Line, read_given
from ragmonitor.offline.summary import EvaluatorSummary, Summary
from ragmonitor.pipeline.build import CONCURRENCY, judge_named
from ragmonitor.records import BUILTIN, Interaction, Report
from ragmonitor.runtime.apart import run
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.protocols import BudgetUnit, Judge
from ragmonitor.sampling import RunBudget
from ragmonitor.settings import Settings

Records = Iterable[Interaction | Mapping[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of `evaluate`."""

    outcomes: tuple[Outcome, ...]
    """One for each record, in order: a report, or why the record could not be read."""
    summary: Mapping[str, EvaluatorSummary]
    """The summary by the evaluators' names, in the order of the table."""
    totals: Mapping[str, Any]
    """All that `ragmonitor score --json` says: by language, bottlenecks, what the judge cost."""

    @property
    def reports(self) -> tuple[Report, ...]:
        """The reports on the records that could be read."""
        return tuple(each.report for each in self.outcomes if each.report is not None)

    @property
    def errors(self) -> tuple[Line, ...]:
        """The records that could not be read, each with its number from 1."""
        return tuple(each.line for each in self.outcomes if each.report is None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one object for each record, as `ragmonitor score` writes them."""
        return [outcome.as_dict() for outcome in self.outcomes]


class RunOptions(TypedDict, total=False):
    """The options of `evaluate`, which explains them."""

    evaluators: Iterable[str] | str
    judge: Judge | str | None
    budget_usd: float | None
    budget_tokens: int | None
    concurrency: int | None
    api_base: str | None


def evaluate(records: Records, **options: Unpack[RunOptions]) -> EvaluationResult:
    """Return the scores of recorded interactions, by the judges and evaluators of a monitor.

    Without a judge nothing leaves the process: the built-in one reads. Blocks, on a running event
    loop too, as in a notebook; an application awaits it by `asyncio.to_thread`.

    Args:
        records: `Interaction`s, or mappings in the columns of RAGAS, of RAGChecker or of ours:
            `question`, `contexts`, `answer`, and a `reference` where there is one; of a table
            with columns its rows, `to_dict("records")` or `to_list()`.
        evaluators: Names or patterns of names, also in one text with commas; none: the default
            ones, of which those that need a reference answer score the records that have one.
        judge: None or `builtin`; `encoder:MODEL`; a litellm model's name; or a judge.
        budget_usd: The most to be spent, in dollars. A model needs a budget; what it does not
            suffice for is `over_budget`.
        budget_tokens: The same, in tokens.
        concurrency: Readings by a model in flight.
        api_base: Address of an OpenAI-compatible server for the model.

    Raises:
        InputError: The first record is none, or of no format that we know. Later ones that cannot
            be read are in `errors`, and the others go on.
        SettingsError: An evaluator is unknown, or a budget is missing.
        MissingExtraError: The judge needs litellm, which is not installed.

    Example:
        ```python
        result = ragmonitor.evaluate(
            [{"question": "How tall is it?", "contexts": ["It is 330 m tall."], "answer": "330 m."}]
        )
        result.summary["faithfulness"].estimate.mean
        ```
    """
    lines = [*read_given(records)]
    scorer = scorer_of(**options)
    return run(_evaluated(lines, scorer))


def scorer_of(
    *,
    evaluators: Iterable[str] | str = (),
    judge: Judge | str | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    concurrency: int | None = None,
    api_base: str | None = None,
    replies: KeptReplies | None = None,
    workers: int = 1,
) -> Scorer:
    """Return the engine of one run: arguments as of `evaluate`, then as of `Scorer`.

    A model is asked with the settings of a monitor's judge. The built-in judge reads in `workers`
    processes, which only a program may start whose main module can be imported.

    Raises:
        SettingsError: There is no budget, or there are two, or the judge cannot say what it costs
            in the budget's unit; or an evaluator or a setting is wrong.
    """
    if isinstance(evaluators, str):
        evaluators = [name.strip() for name in evaluators.split(",")]
    names = tuple(name for name in evaluators if name)
    made: Judge
    at_once, asking_timeout_s = concurrency or CONCURRENCY, 60.0
    if judge is None or judge == BUILTIN:
        made, at_once = BuiltinJudge(), 1
        if workers > 1:
            made, at_once = BuiltinPool(workers), AHEAD * workers
    elif isinstance(judge, str):
        settings = Settings.load()
        api_base = api_base or settings.judge.api_base
        is_model = judge.partition(":")[0] not in JUDGES and "@http" not in judge
        made = judge_named(settings, f"{judge}@{api_base}" if api_base and is_model else judge)
        asking_timeout_s = 2 * settings.judge.timeout_s
    else:
        made = judge
    budget = _budget(budget_usd, budget_tokens)
    if budget is None and as_judge(made).budget_unit is not None:
        raise SettingsError(
            f"judge {judge if isinstance(judge, str) else made.identity.name} costs money and has "
            "no budget; add budget_usd=X or budget_tokens=N (--budget-usd X or --budget-tokens N), "
            "the most this run may spend"
        )
    return Scorer(
        made,
        table.select(names, with_reference=True),
        is_fitted=not names,
        budget=budget,
        concurrency=at_once,
        asking_timeout_s=asking_timeout_s,
        replies=replies,
    )


def _budget(budget_usd: float | None, budget_tokens: int | None) -> RunBudget | None:
    limits: dict[BudgetUnit, float | None] = {"usd": budget_usd, "tokens": budget_tokens}
    given = {unit: limit for unit, limit in limits.items() if limit is not None}
    if len(given) > 1:
        raise SettingsError(
            "give one budget: --budget-usd or --budget-tokens (budget_usd, budget_tokens)"
        )
    for unit, limit in given.items():
        if not 0 < limit < math.inf:
            raise SettingsError(f"--budget-{unit} (budget_{unit}) is above 0, not {limit:g}")
        return RunBudget(limit, unit=unit)
    return None


async def _evaluated(lines: list[Line], scorer: Scorer) -> EvaluationResult:
    summary = Summary(judge=str(scorer.judge.identity))
    outcomes: list[Outcome] = []
    async with scorer, aclosing(scorer.outcomes(lines)) as coming:
        async for outcome in coming:
            summary.add(outcome)
            outcomes.append(outcome)
    summary.usage = scorer.usage
    return EvaluationResult(
        outcomes=tuple(outcomes),
        summary=summary.evaluators,
        totals=summary.as_json(),
    )
