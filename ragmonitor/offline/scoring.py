"""Recorded interactions through one judge and the evaluators, in order, within a budget."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ragmonitor.apart import apart
from ragmonitor.errors import InputError, JudgeError
from ragmonitor.evaluators import (
    Table,
    count_embeddings,
    diagnosis,
    evaluate,
    evaluate_asking,
    unscorable,
    unscored,
)
from ragmonitor.export.jsonl import report_line
from ragmonitor.guard import record_error
from ragmonitor.offline.shapes import Line
from ragmonitor.protocols import (
    BuiltinJudge,
    ConnectedJudge,
    Judge,
    PricedJudge,
    VersionedJudge,
)
from ragmonitor.records import (
    Assessment,
    Cause,
    Evaluation,
    Interaction,
    JudgeUsage,
    Report,
    Scored,
)

HELD_PER_CALL: Final = 4
"""Lines held for each call that may be in flight, so that one slow reply stops no others."""
KEPT: Final = ("id", "judge", "evaluations", "diagnosis", "risk", "sentences")
"""Of a report's line: what is new beside the input, and the same at every run."""
PASSING: Final = frozenset(
    {
        Cause.OVER_BUDGET,
        Cause.JUDGE_BUSY,
        Cause.JUDGE_DOWN,
        Cause.JUDGE_TIMEOUT,
        Cause.JUDGE_ERROR,
        Cause.SHUTDOWN,
    }
)
"""Causes that lie in the moment and not in the record: another run may score it."""


@dataclass(slots=True, kw_only=True)
class RunBudget:
    """A budget for one run: dollars or tokens, spent in the order of the lines."""

    total: float
    unit: Literal["usd", "tokens"]
    spent: float = 0.0
    reserved: float = 0.0
    is_spent: bool = False
    """For good: to go on with the cheaper answers alone would bias every mean."""

    def reserve(self, cost: float) -> bool:
        """Set this much aside if it is there."""
        if self.is_spent or self.spent + self.reserved + cost > self.total:
            return False
        self.reserved += cost
        return True

    def settle(self, cost: float, usage: JudgeUsage) -> None:
        """Replace what was set aside with what was spent."""
        self.reserved -= cost
        in_dollars = self.unit == "usd"
        self.spent += usage.cost_usd if in_dollars else usage.input_tokens + usage.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one line: a report, or the line's own error."""

    line: Line
    report: Report | None = None

    def as_dict(self, ruler: str = "") -> dict[str, Any]:
        """Return what `ragmonitor score` writes of it, for JSON.

        Args:
            ruler: Of the scorer; the line then says by which ruler and of which texts it is.
        """
        if self.report is None:
            return {"line": self.line.number, "error": self.line.error}
        whole = report_line(self.report)
        told = {name: whole[name] for name in KEPT}
        return told | {"key": key(ruler, self.report.interaction)} if ruler else told


@dataclass(slots=True)
class _Held:
    """A line whose report may still be coming."""

    line: Line
    coming: asyncio.Task[Report | None] | Report | None = None
    """A task that gives none was stopped before it began."""

    @property
    def is_done(self) -> bool:
        return not isinstance(self.coming, asyncio.Task) or self.coming.done()

    async def outcome(self) -> Outcome | None:
        if not isinstance(self.coming, asyncio.Task):
            return Outcome(line=self.line, report=self.coming)
        report = await self.coming
        return None if report is None else Outcome(line=self.line, report=report)


class Scorer:
    """Turns lines into outcomes, in the lines' order; at most a few are held at any time.

    The one engine of `ragmonitor score` and of `ragmonitor.evaluate`. For one run.
    """

    def __init__(
        self,
        judge: Judge,
        entries: Table,
        *,
        is_fitted: bool = False,
        run_budget: RunBudget | None = None,
        concurrency: int = 8,
        within_s: float = 60.0,
    ) -> None:
        """Begin; nothing is asked yet.

        Args:
            judge: Who reads.
            entries: The evaluators.
            is_fitted: Those that need a reference answer pass over records without one, instead of
                saying `no_reference`.
            run_budget: What reading may cost; None: as much as it takes.
            concurrency: Readings in flight.
            within_s: After which an evaluator that asks the judge is given up.
        """
        self.judge = judge
        self.entries = entries
        self._without_reference = (
            Table(entry for entry in entries if not entry.needs_reference) if is_fitted else entries
        )
        self.run_budget = run_budget
        self.usage = JudgeUsage()
        """Spent so far."""
        self.calls_failed = 0
        """Readings that gave nothing."""
        self.stopping = asyncio.Event()
        """Once set no further line is begun; what is in flight is waited for."""
        self._concurrency = concurrency
        self._within_s = within_s
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def ruler(self) -> str:
        """Eight hex digits that change with the judge, its prompts and every evaluator."""
        names = [str(self.judge.identity), *(entry.identity for entry in self.entries)]
        if isinstance(self.judge, VersionedJudge):
            versions = self.judge.prompt_versions
            if self.entries.asking:
                names.append(versions["question"])
            if any(entry.needs_reference for entry in self.entries):
                names.append(versions["reference"])
        return hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest()

    async def prepare(self) -> None:
        """Have the judge ready. Raises `JudgeError`, `MissingExtraError`."""
        if isinstance(self.judge, ConnectedJudge):
            await self.judge.prepare()

    async def close(self) -> None:
        """Have the judge close its connections; on a loop of our own only, before it ends."""
        if isinstance(self.judge, ConnectedJudge):
            await self.judge.close()

    async def outcomes(
        self, lines: Iterable[Line], *, may_block: bool = False
    ) -> AsyncGenerator[Outcome]:
        """Yield an outcome for each line.

        Args:
            lines: Read as they are needed.
            may_block: The next line may be long in coming; it is then waited for on a thread.

        Raises:
            InputError: The lines did.
        """
        source = iter(lines)
        if isinstance(self.judge, BuiltinJudge):
            waits = any(entry.waits for entry in self.entries)
            for line in source:
                report = (
                    await apart(self._read, line.interaction, self.judge)
                    if waits
                    else self._read(line.interaction, self.judge)
                )
                yield Outcome(line=line, report=report)
                await asyncio.sleep(0)
                if self.stopping.is_set():
                    return
            return
        async for outcome in self._asked_for(source, may_block=may_block):
            yield outcome

    async def _asked_for(
        self, source: Iterator[Line], *, may_block: bool
    ) -> AsyncGenerator[Outcome]:
        held: deque[_Held] = deque()
        stopping = asyncio.create_task(self.stopping.wait())
        coming: asyncio.Task[Line | None] | None = None
        failure: InputError | None = None
        has_ended = False
        try:
            while held or not has_ended:
                has_room = len(held) < HELD_PER_CALL * self._concurrency
                if not has_ended and coming is None and has_room:
                    coming = asyncio.create_task(_next(source, may_block=may_block))
                awaited: set[asyncio.Task[Any]] = set()
                if held and isinstance(first := held[0].coming, asyncio.Task):
                    awaited.add(first)
                if not has_ended:
                    awaited |= {stopping} if coming is None else {stopping, coming}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                has_ended = has_ended or stopping.done()
                if coming is not None and coming.done() and not has_ended:
                    try:
                        line = coming.result()
                    except InputError as error:  # what is in flight is paid for: it comes first
                        line, failure = None, error
                    coming, has_ended = None, line is None
                    if line is not None:
                        held.append(_Held(line, await self._begun(line, held)))
                while held and held[0].is_done:
                    outcome = await held.popleft().outcome()
                    if outcome is not None:
                        yield outcome
            if failure is not None:
                raise failure
        finally:
            for task in (stopping, coming, *(each.coming for each in held)):
                if isinstance(task, asyncio.Task):
                    task.cancel()

    async def _begun(
        self, line: Line, held: Iterable[_Held]
    ) -> asyncio.Task[Report | None] | Report | None:
        interaction = line.interaction
        if interaction is None:
            return None
        cause = unscorable(interaction)
        if cause is not None:
            return self._unread(interaction, cause)
        cost = 0.0
        if self.run_budget is not None and isinstance(self.judge, PricedJudge):
            try:
                # A question more is not dearer than a reading: it shows the judge no more.
                questions = sum(entry.asks for entry in self._entries_for(interaction))
                cost = self.judge.expected_cost(interaction) * (1 + questions)
            except JudgeError as error:  # at no price: evidence too long, no price known
                self.calls_failed += 1
                return self._unread(interaction, error.cause, str(error))
        if self.run_budget is not None and not self.run_budget.reserve(cost):
            # What is under way was reserved with an upper estimate; some of it may come back.
            under_way = [e.coming for e in held if isinstance(e.coming, asyncio.Task)]
            if under_way and not self.run_budget.is_spent:
                await asyncio.wait(under_way)
            if not self.run_budget.reserve(cost):
                self.run_budget.is_spent = True
                return self._unread(interaction, Cause.OVER_BUDGET)
        return asyncio.create_task(self._asked(interaction, cost))

    async def _asked(self, interaction: Interaction, cost: float) -> Report | None:
        usage = JudgeUsage()
        try:
            async with self._slots:
                if self.stopping.is_set():
                    self._spend(cost, usage)
                    return None
                assessment = await self.judge.assess(interaction)
                usage = assessment.usage
                evaluations, asked = await evaluate_asking(
                    self._entries_for(interaction),
                    interaction,
                    assessment,
                    self.judge,
                    within_s=self._within_s,
                )
                usage += asked
        except JudgeError as error:
            usage, cause, detail = error.usage, error.cause, str(error)
        except Exception as error:  # noqa: BLE001 - one failed reading must cost only itself
            cause, detail = Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
        else:
            self._spend(cost, usage)
            return self._report(interaction, assessment, evaluations, usage)
        self._spend(cost, usage)
        self.calls_failed += 1
        return self._unread(interaction, cause, detail)

    def _read(self, interaction: Interaction | None, judge: BuiltinJudge) -> Report | None:
        if interaction is None:
            return None
        cause = unscorable(interaction)
        if cause is not None:
            return self._unread(interaction, cause)
        try:
            assessment = judge.read(interaction)
        except JudgeError as error:  # no failed call: it says why there is no score
            return self._unread(interaction, error.cause, str(error))
        except Exception as error:  # noqa: BLE001 - one unreadable answer must cost only itself
            record_error("judge", error)
            self.calls_failed += 1
            return self._unread(interaction, Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}")
        with count_embeddings() as embedded:
            evaluations = evaluate(self._entries_for(interaction), interaction, assessment)
        usage = assessment.usage + embedded.usage
        self.usage += embedded.usage
        return self._report(interaction, assessment, evaluations, usage)

    def _entries_for(self, interaction: Interaction) -> Table:
        return self.entries if interaction.reference.strip() else self._without_reference

    def _report(
        self,
        interaction: Interaction,
        assessment: Assessment,
        evaluations: tuple[Evaluation, ...],
        usage: JudgeUsage,
    ) -> Report:
        return Report(
            interaction=interaction,
            judge=self.judge.identity,
            evaluations=evaluations,
            assessment=assessment,
            diagnosis=diagnosis(interaction, assessment),
            usage=usage,
        )

    def _unread(self, interaction: Interaction, cause: Cause, detail: str = "") -> Report:
        return Report(
            interaction=interaction,
            judge=self.judge.identity,
            evaluations=unscored(
                self._entries_for(interaction), self.judge.identity, cause, detail
            ),
            assessment=None,
        )

    def _spend(self, cost: float, usage: JudgeUsage) -> None:
        self.usage += usage
        if self.run_budget is not None:
            self.run_budget.settle(cost, usage)


async def _next(source: Iterator[Line], *, may_block: bool) -> Line | None:
    if may_block:
        return await apart(next, source, None)
    return next(source, None)


def key(ruler: str, interaction: Interaction) -> str:
    """Return by which ruler, and of which texts: the same for the same, `ruler-texts` in hex."""
    return f"{ruler}-{texts_key(interaction)}"


def texts_key(interaction: Interaction) -> str:
    """Return 16 hex digits that change with every text that is scored."""
    texts: list[Any] = [
        interaction.query,
        interaction.answer,
        interaction.reference,
        [[chunk.id, chunk.text] for chunk in interaction.chunks],
        [[chunk.id, chunk.text] for chunk in interaction.reference_chunks],
        # Only where it keeps an answer from being scored, so that older outputs stay known.
        *([interaction.status] if interaction.status != "ok" else []),
    ]
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=8).hexdigest()


def is_finished(evaluations: Iterable[Evaluation]) -> bool:
    """Return whether another run could add nothing: something was scored, or the record is why."""
    evaluations = tuple(evaluations)
    return any(isinstance(each, Scored) for each in evaluations) or not any(
        not isinstance(each, Scored) and each.cause in PASSING for each in evaluations
    )
