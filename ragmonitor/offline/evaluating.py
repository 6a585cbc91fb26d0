"""Recorded interactions scored from Python: what `ragmonitor score` does, as a function."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from ragmonitor.apart import call_apart, run
from ragmonitor.errors import JudgeError, SettingsError
from ragmonitor.evaluators import table
from ragmonitor.offline.judging import JudgeConfig, judging_of
from ragmonitor.offline.scoring import Outcome, Scorer
from ragmonitor.offline.shapes import Line, read_given
from ragmonitor.offline.summary import Summary
from ragmonitor.protocols import Judge
from ragmonitor.records import Estimate, Interaction, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSummary:
    """One evaluator over all records."""

    evaluator: str
    scored: int
    unscored: Mapping[str, int]
    """By cause."""
    estimate: Estimate | None
    """The mean with its 95 % interval; None where nothing was scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """What `evaluate` found."""

    outcomes: tuple[Outcome, ...]
    """One for each record, in order: a report, or why the record could not be read."""
    summary: Mapping[str, EvaluatorSummary]
    """By the evaluators' names, in the order of the table."""
    totals: Mapping[str, Any]
    """All that `ragmonitor score --json` says: by language, bottlenecks, what the judge cost."""

    @property
    def reports(self) -> tuple[Report, ...]:
        """Of the records that could be read."""
        return tuple(each.report for each in self.outcomes if each.report is not None)

    @property
    def errors(self) -> tuple[Line, ...]:
        """The records that could not be read, each with its number from 1."""
        return tuple(each.line for each in self.outcomes if each.report is None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one object for each record, as `ragmonitor score` writes them."""
        return [outcome.as_dict() for outcome in self.outcomes]


async def aevaluate(
    records: Iterable[Interaction | Mapping[str, Any]] | Mapping[str, Any],
    *,
    evaluators: Iterable[str] | str = (),
    judge: Judge | str | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    concurrency: int | None = None,
    api_base: str | None = None,
    builtin_max_characters: int | None = None,
) -> EvaluationResult:
    """Return the scores of recorded interactions. As `evaluate`, on the running event loop.

    The built-in judge reads on the loop itself, a few milliseconds for each answer.
    """
    lines = [*read_given(records)]
    judging = judging_of(
        judge,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        concurrency=concurrency,
        api_base=api_base,
        builtin_max_characters=builtin_max_characters,
    )
    return await _evaluated(lines, scorer_of(judging, evaluators))


def evaluate(
    records: Iterable[Interaction | Mapping[str, Any]] | Mapping[str, Any],
    *,
    evaluators: Iterable[str] | str = (),
    judge: Judge | str | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    concurrency: int | None = None,
    api_base: str | None = None,
    builtin_max_characters: int | None = None,
) -> EvaluationResult:
    """Return the scores of recorded interactions, by the judges and evaluators of a monitor.

    Without a judge nothing leaves the process: the built-in one reads. Blocks; on a running event
    loop, as in a notebook, it works on a thread of its own meanwhile.

    Args:
        records: `Interaction`s, or mappings in the columns of RAGAS, of RAGChecker or of ours:
            `question`, `contexts`, `answer`, and a `reference` where there is one. Or one mapping
            with a list for each column.
        evaluators: Names or patterns of names, also in one text with commas; none: the default
            ones, of which those that need a reference answer score the records that have one.
        judge: None or `builtin`; a litellm model's name; or a judge.
        budget_usd: The most to be spent, in dollars. A model needs a budget; what it does not
            suffice for is `over_budget`.
        budget_tokens: The same, in tokens.
        concurrency: Readings by a model in flight.
        api_base: Address of an OpenAI-compatible server for the model.
        builtin_max_characters: Most characters of question, chunks and answer together that the
            built-in judge reads; longer is `too_long`. None: the setting of that name, 200,000.

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
    judging = judging_of(
        judge,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        concurrency=concurrency,
        api_base=api_base,
        builtin_max_characters=builtin_max_characters,
    )
    scorer = scorer_of(judging, evaluators)

    async def work() -> EvaluationResult:
        try:
            return await _evaluated(lines, scorer)
        finally:
            await scorer.close()

    if not _is_on_a_loop():
        return run(work())
    return call_apart(run, work())


def scorer_of(judging: JudgeConfig, evaluators: Iterable[str] | str = ()) -> Scorer:
    """Return the engine of one run.

    Args:
        judging: Who judges.
        evaluators: Names or patterns, also in one text with commas; none: the default ones, of
            which those that need a reference answer score the records that have one.

    Raises:
        SettingsError: A name is unknown.
    """
    if isinstance(evaluators, str):
        evaluators = [name.strip() for name in evaluators.split(",")]
    names = tuple(name for name in evaluators if name)
    return Scorer(
        judging.judge,
        table.select(names, with_reference=True),
        is_fitted=not names,
        run_budget=judging.run_budget,
        concurrency=judging.concurrency,
        within_s=judging.within_s,
    )


async def _evaluated(lines: list[Line], scorer: Scorer) -> EvaluationResult:
    try:
        await scorer.prepare()
    except JudgeError as error:
        raise SettingsError(
            f"{error.judge}: litellm knows no price of this model; give budget_tokens instead of "
            "budget_usd, or set RAGMONITOR_JUDGE__INPUT_USD_PER_MILLION_TOKENS and "
            "RAGMONITOR_JUDGE__OUTPUT_USD_PER_MILLION_TOKENS"
            if scorer.run_budget is not None and scorer.run_budget.unit == "usd"
            else str(error)
        ) from error
    summary = Summary(judge=str(scorer.judge.identity))
    outcomes: list[Outcome] = []
    async with aclosing(scorer.outcomes(lines)) as coming:
        async for outcome in coming:
            summary.add(outcome)
            outcomes.append(outcome)
    summary.usage = scorer.usage
    return EvaluationResult(
        outcomes=tuple(outcomes),
        summary={
            row.evaluator: EvaluatorSummary(
                evaluator=row.evaluator,
                scored=row.scored,
                unscored=dict(row.unscored),
                estimate=row.estimate,
            )
            for row in summary.tally.rows
        },
        totals=summary.as_json(),
    )


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
