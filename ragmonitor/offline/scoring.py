"""Recorded interactions through one judge and the evaluators, in order, within a budget.

What `ragmonitor score` does, and the same as a function.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Self, TypedDict, Unpack

from ragmonitor.evaluators import Table, table, unscorable
from ragmonitor.export.jsonl import report_line
from ragmonitor.judges import JUDGES, BuiltinJudge
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies
from ragmonitor.offline.builtin_pool import AHEAD, BuiltinPool
from ragmonitor.offline.shapes import Line, read_given
from ragmonitor.offline.summary import EvaluatorSummary, Summary
from ragmonitor.pipeline.build import CONCURRENCY, judge_named
from ragmonitor.pipeline.judging import ReadingEngine, failure_of
from ragmonitor.records import (
    BUILTIN,
    Cause,
    Interaction,
    JudgeRole,
    JudgeUsage,
    Report,
    Scored,
    Verdict,
)
from ragmonitor.runtime.apart import run
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import InputError, JudgeError, SettingsError
from ragmonitor.runtime.protocols import BudgetUnit, Judge
from ragmonitor.sampling import RunBudget
from ragmonitor.settings import Settings

LINES_PER_CALL: Final = 4
"""Lines held for each call that may be in flight, so that one slow reply stops no others."""
KEPT_FIELDS: Final = ("id", "judge", "evaluations", "diagnosis", "risk", "sentences")
"""The fields of a report's line that are new beside the input, and the same at every run."""
_AT_FAULT: Final = (Verdict.ABSENT, Verdict.CONTRADICTED)


# --- for Python -----------------------------------------------------------------------------------

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
    summary = Summary(judge=str(scorer.judge.identity))

    async def outcomes() -> list[Outcome]:
        async with scorer, aclosing(scorer.outcomes(lines)) as coming:
            return [outcome async for outcome in coming]

    scored = run(outcomes())
    for outcome in scored:
        summary.add(outcome.report)
    summary.usage = scorer.usage
    return EvaluationResult(
        outcomes=tuple(scored), summary=summary.evaluators, totals=summary.as_json()
    )


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
    limits: Mapping[BudgetUnit, float | None] = {"usd": budget_usd, "tokens": budget_tokens}
    budgets = [RunBudget(each, unit=unit) for unit, each in limits.items() if each is not None]
    if len(budgets) > 1:
        raise SettingsError(
            "give one budget: --budget-usd or --budget-tokens (budget_usd, budget_tokens)"
        )
    budget = next(iter(budgets), None)
    if budget is not None and not 0 < budget.capacity < math.inf:
        unit, limit = budget.unit, budget.capacity
        raise SettingsError(f"--budget-{unit} (budget_{unit}) is above 0, not {limit:g}")
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


# --- the engine ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one line: a report, or the line's own error."""

    line: Line
    report: Report | None = None

    def as_dict(self, scoring_version: str = "") -> dict[str, Any]:
        """Return what `ragmonitor score` writes of it, for JSON.

        Args:
            scoring_version: Of the scorer.
        """
        if self.report is None:
            return {"line": self.line.number, "error": self.line.error}
        whole = report_line(self.report)
        kept = {name: whole[name] for name in KEPT_FIELDS}
        return kept | ({"scoring_version": scoring_version} if scoring_version else {})

    def as_row(self, scoring_version: str = "") -> dict[str, Any]:
        """Return the same in the cells of a table; sentences at fault stand under `unsupported`."""
        row = self.as_dict(scoring_version)
        for name, each in row.pop("evaluations", {}).items():
            row[name], row[f"{name}_unscored"] = each.get("score"), each.get("unscored")
        if self.report is not None:
            at_fault = (s["text"] for s in row.pop("sentences") if s["verdict"] in _AT_FAULT)
            row["unsupported"] = list(at_fault)
        return row


class Scorer:
    """Turns lines into outcomes, in the lines' order; at most a few are held at any time.

    It runs `ragmonitor score` and `ragmonitor.evaluate`. One scorer is for one run.
    """

    def __init__(
        self,
        judge: Judge,
        entries: Table,
        *,
        is_fitted: bool = False,
        budget: RunBudget | None = None,
        concurrency: int = 8,
        asking_timeout_s: float = 60.0,
        replies: KeptReplies | None = None,
    ) -> None:
        """Begin; nothing is asked yet.

        Args:
            judge: Reads the answers.
            entries: The evaluators.
            is_fitted: Those that need a reference answer pass over records without one, instead of
                saying `no_reference`.
            budget: What reading may cost; None: as much as it takes.
            concurrency: Readings in flight.
            asking_timeout_s: For an evaluator's own questions to the judge.
            replies: Replies that earlier runs paid for; the judge is not asked for them again.

        Raises:
            SettingsError: The judge cannot say its cost in the budget's unit.
        """
        judge = as_judge(judge)
        if replies is not None:
            judge = KeepingJudge(judge, replies)
        self.judge = judge.within_budget(None if budget is None else budget.unit)
        self.entries = entries
        self.entries_without_reference = (
            Table(entry for entry in entries if not entry.needs_reference) if is_fitted else entries
        )
        """The evaluators of a record without a reference answer."""
        self._role: JudgeRole = "builtin" if self.judge.is_builtin else "sampled"
        self.budget = budget
        self._run_budget = budget or RunBudget()
        self._turn = asyncio.Lock()
        """Of the reading that reserves its cost; they come in the lines' order."""
        self._asking_timeout_s = asking_timeout_s
        self.usage = JudgeUsage()
        """Spent so far."""
        self.failed_readings = 0
        """Readings that gave nothing."""
        self.stopping = asyncio.Event()
        """Once set no further line is begun; what is in flight is waited for."""
        self._max_held_lines = LINES_PER_CALL * concurrency
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def scoring_version(self) -> str:
        """Eight hex digits that change with the judge, its prompts and every evaluator."""
        names = [str(self.judge.identity), *(entry.identity for entry in self.entries)]
        return hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest()

    async def prepare(self) -> None:
        """Have the judge ready.

        Raises:
            SettingsError: It cannot be; says what to do.
            MissingExtraError: litellm is not installed.
        """
        try:
            await self.judge.prepare()
        except JudgeError as error:
            raise SettingsError(str(error)) from error

    async def __aenter__(self) -> Self:
        """Have the judge ready. Raises as `prepare`."""
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have the judge close its connections; on a loop of our own only, before it ends."""
        await self.judge.close()

    async def outcomes(self, lines: Iterable[Line]) -> AsyncGenerator[Outcome]:
        """Yield an outcome for each line, in order; lines are read as they are needed.

        Raises:
            InputError: The lines raised it, after the outcomes of those before.
        """
        held: deque[tuple[Line, asyncio.Task[Report | None]]] = deque()
        coming, failure = iter(lines), None
        is_over = False
        try:
            while held or not is_over:
                is_over = is_over or self.stopping.is_set()
                if held and (is_over or len(held) >= self._max_held_lines or held[0][1].done()):
                    line, reading = held.popleft()
                    report = await reading
                    if report is not None or line.interaction is None:
                        yield Outcome(line=line, report=report)
                    continue
                if is_over:
                    break
                try:
                    next_line = next(coming, None)
                except InputError as error:  # what is in flight is paid for
                    next_line, failure = None, error
                is_over = next_line is None
                if next_line is not None:
                    task = asyncio.create_task(self._report(next_line.interaction))
                    held.append((next_line, task))
                    await asyncio.sleep(0)
        finally:
            for _, reading in held:
                reading.cancel()
        if failure is not None:
            raise failure

    async def _report(self, interaction: Interaction | None) -> Report | None:
        """Return the report; None: it is no record, or the run was stopped before its reading."""
        if interaction is None:
            return None
        has_reference = bool(interaction.reference.strip())
        entries = self.entries if has_reference else self.entries_without_reference
        engine = ReadingEngine(entries, asking_timeout_s=self._asking_timeout_s)
        cause, detail, cost = unscorable(interaction), "", 0.0
        try:
            if cause is None:
                # A question more is not dearer than a reading: it shows the judge no more.
                questions = sum(entry.asks for entry in entries)
                cost = self.judge.expected_cost(interaction) * (1 + questions)
                async with self._turn:
                    is_paid = await self._run_budget.reserve(cost)
                cause = None if is_paid else Cause.OVER_BUDGET
        except Exception as error:  # noqa: BLE001 - a judge is anybody's code
            self.failed_readings += 1
            cause, detail = failure_of(error)  # evidence too long, no price known
        if cause is not None:
            identity = self.judge.identity
            return engine.unread(identity, self._role, interaction, cause, detail=detail)
        usage: JudgeUsage | None = None
        try:
            async with self._slots:
                if self.stopping.is_set():
                    return None
                reading = await engine.read(self.judge, self._role, interaction)
            usage = reading.counted
            self.usage += reading.report.usage or JudgeUsage()
            # Of a record that is too long for the built-in judge the judge is not to blame.
            self.failed_readings += reading.cause not in (None, Cause.TOO_LONG)
            return reading.report
        finally:
            self._run_budget.refund(cost, usage)


def unread_because(report: Report) -> str:
    """Return why the judge gave nothing on an answer that it was to read: `cause: detail`.

    Empty: it has read it, or there was nothing to read.
    """
    if report.assessment is not None or unscorable(report.interaction) is not None:
        return ""
    first = next((each for each in report.evaluations if not isinstance(each, Scored)), None)
    return "" if first is None else f"{first.cause}: {first.detail}".removesuffix(": ")
