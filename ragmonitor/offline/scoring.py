"""Recorded interactions through one judge and the evaluators, in order, within a budget."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from ragmonitor.evaluators import Table, unscorable
from ragmonitor.export.jsonl import report_line
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies
from ragmonitor.offline.shapes import Line
from ragmonitor.pipeline.judging import ReadingEngine
from ragmonitor.records import Cause, Interaction, JudgeRole, JudgeUsage, Report, Scored, Verdict
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import InputError, JudgeError, SettingsError
from ragmonitor.runtime.guard import record_error
from ragmonitor.runtime.protocols import Judge
from ragmonitor.sampling import RunBudget

LINES_PER_CALL: Final = 4
"""Lines held for each call that may be in flight, so that one slow reply stops no others."""
KEPT_FIELDS: Final = ("id", "judge", "evaluations", "diagnosis", "risk", "sentences")
"""The fields of a report's line that are new beside the input, and the same at every run."""
_AT_FAULT: Final = (Verdict.ABSENT, Verdict.CONTRADICTED)


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
        self._asking_timeout_s = asking_timeout_s
        self._role: JudgeRole = "builtin" if self.judge.is_builtin else "sampled"
        self.budget = budget
        self.run_budget = budget or RunBudget()
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

    async def close(self) -> None:
        """Have the judge close its connections; on a loop of our own only, before it ends."""
        await self.judge.close()

    async def __aenter__(self) -> Self:
        """Have the judge ready. Raises as `prepare`."""
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have the judge close its connections."""
        await self.close()

    async def outcomes(self, lines: Iterable[Line]) -> AsyncGenerator[Outcome]:
        """Yield an outcome for each line, in order; lines are read as they are needed.

        Raises:
            InputError: The lines raised it, after the outcomes of those before.
        """
        held: deque[tuple[Line, asyncio.Future[Report | None]]] = deque()
        coming, failure = iter(lines), None
        is_over = False
        try:
            while held or not is_over:
                is_over = is_over or self.stopping.is_set()
                if is_over or len(held) >= self._max_held_lines or (held and held[0][1].done()):
                    if held:
                        line, reading = held.popleft()
                        report = await reading
                        if report is not None or line.interaction is None:
                            yield Outcome(line=line, report=report)
                    continue
                try:
                    next_line = next(coming, None)
                except InputError as error:  # what is in flight is paid for
                    next_line, failure = None, error
                if next_line is None:
                    is_over = True
                else:
                    held.append((next_line, await self._begun(next_line.interaction)))
        finally:
            for _, reading in held:
                reading.cancel()
        if failure is not None:
            raise failure

    async def _begun(self, interaction: Interaction | None) -> asyncio.Future[Report | None]:
        """Return what gives the report, once the budget has room for it.

        It gives None of a line that is no record, and of one that was stopped before it began.
        """
        unread: asyncio.Future[Report | None] = asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        if interaction is None:
            unread.set_result(None)
            return unread
        cause, detail = unscorable(interaction), ""
        try:
            if cause is None:
                cost = self._cost_of(interaction)
                if await self.run_budget.reserve(cost):
                    return asyncio.create_task(self._report(interaction, cost))
                cause = Cause.OVER_BUDGET
        except Exception as error:  # noqa: BLE001 - a judge is anybody's code
            self.failed_readings += 1
            if isinstance(error, JudgeError):  # evidence too long, no price known
                cause, detail = error.cause, str(error)
            else:
                record_error("judge", error)
                cause, detail = Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
        engine = self._engine_for(interaction)
        unread.set_result(
            engine.unread(self.judge.identity, self._role, interaction, cause, detail=detail)
        )
        return unread

    async def _report(self, interaction: Interaction, cost: float) -> Report | None:
        usage: JudgeUsage | None = None
        try:
            async with self._slots:
                if self.stopping.is_set():
                    return None
                engine = self._engine_for(interaction)
                reading = await engine.read(self.judge, self._role, interaction)
            usage = reading.report.usage if reading.is_usage_known else None
            self.usage += reading.report.usage or JudgeUsage()
            # Of a record that is too long for the built-in judge the judge is not to blame.
            self.failed_readings += reading.cause not in (None, Cause.TOO_LONG)
            return reading.report
        finally:
            self.run_budget.refund(cost, usage)

    def _cost_of(self, interaction: Interaction) -> float:
        if self.budget is None:
            return 0.0
        # A question more is not dearer than a reading: it shows the judge no more.
        questions = sum(entry.asks for entry in self._entries_for(interaction))
        cost = self.judge.expected_cost(interaction) * (1 + questions)
        if not 0 <= cost < math.inf:
            raise ValueError(f"a reading cannot cost {cost}: it is to be finite, 0 or more")
        return cost

    def _engine_for(self, interaction: Interaction) -> ReadingEngine:
        entries = self._entries_for(interaction)
        return ReadingEngine(entries, asking_timeout_s=self._asking_timeout_s)

    def _entries_for(self, interaction: Interaction) -> Table:
        return self.entries if interaction.reference.strip() else self.entries_without_reference


def unread_because(report: Report) -> str:
    """Return why the judge gave nothing on an answer that it was to read: `cause: detail`.

    Empty: it has read it, or there was nothing to read.
    """
    if report.assessment is not None or unscorable(report.interaction) is not None:
        return ""
    first = next((each for each in report.evaluations if not isinstance(each, Scored)), None)
    return "" if first is None else f"{first.cause}: {first.detail}".removesuffix(": ")
