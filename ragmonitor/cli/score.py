"""Offline scoring: recorded interactions through the judges and evaluators of a monitor."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from ragmonitor.cli.readers import Format, Line, Records
from ragmonitor.cli.tally import Tally
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, progress, say
from ragmonitor.errors import InputError, JudgeError, SettingsError
from ragmonitor.evaluators import Table, evaluate, table, unscorable, unscored
from ragmonitor.export.jsonl import encoded, report_line
from ragmonitor.guard import record_error
from ragmonitor.judges import LexicalJudge, LlmJudge
from ragmonitor.protocols import EmbeddedJudge, Judge
from ragmonitor.records import Assessment, Cause, Interaction, JudgeUsage, Report
from ragmonitor.settings import Settings

LEXICAL = "lexical"
KEPT = ("id", "judge", "evaluations", "risk", "sentences")
"""Of a report's line: what is new beside the input, and the same at every run."""
GRACE_S = 5.0
BAD_LINES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `ragmonitor score` was asked for."""

    file: str
    judge: str = LEXICAL
    evaluators: tuple[str, ...] = ()
    form: Format | None = None
    output: Path | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    concurrency: int | None = None
    api_base: str | None = None
    plugins: tuple[str, ...] = ()
    json_summary: bool = False
    quiet: bool = False


@dataclass(slots=True, kw_only=True)
class Purse:
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


@dataclass(slots=True, kw_only=True)
class Summary:
    """What a run came to."""

    lines: int = 0
    bad_lines: int = 0
    judge: str = ""
    calls_failed: int = 0
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    tally: Tally = field(default_factory=Tally)

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        usage = self.usage
        return {
            "lines": self.lines,
            "bad_lines": self.bad_lines,
            "judge": self.judge,
            "judge_calls": usage.calls,
            "judge_tokens": usage.input_tokens + usage.output_tokens,
            "judge_cost_usd": round(usage.cost_usd, 6),
            "evaluators": self.tally.as_json(),
        }

    @property
    def exit_code(self) -> int:
        """1 if a line was bad, an evaluator broke, or the judge answered nothing at all."""
        broken = self.tally.unscored.get(Cause.EVALUATOR_ERROR.value, 0)
        deaf = self.calls_failed and not self.tally.scored
        return SOMETHING_WRONG if self.bad_lines or broken or deaf else FINE


def run(options: Options) -> int:
    """Score the file and return the exit code.

    Raises:
        RagMonitorError: Nothing was scored: a file, a setting or a budget is missing or wrong.
    """
    for plugin in options.plugins:
        load_plugin(plugin)
    entries = table.select(options.evaluators)
    judge, purse, concurrency = _judge_of(options)
    with Records(options.file, options.form) as records, _output(options) as output:
        # From a pipe, a line may be waited for as soon as it is known.
        scorer = Scorer(entries, output, quiet=options.quiet, flushed=records.size_bytes is None)
        scorer.summary.judge = str(judge.identity)
        # A bar between lines of output on one terminal would be read by nobody.
        bare = options.quiet or (output is sys.stdout.buffer and sys.stdout.isatty())
        with progress("scoring", records.size_bytes, quiet=bare) as advance:

            def lines() -> Iterator[Line]:
                for line in records:
                    advance(records.read_bytes)
                    yield line

            if purse is None:
                scorer.read_here(lines(), judge)
            else:
                asyncio.run(scorer.ask(lines(), judge, purse, concurrency=concurrency))
        output.flush()
    _tell(scorer.summary, purse, options)
    return scorer.summary.exit_code


def load_plugin(name: str) -> None:
    """Import a module that registers evaluators; the current folder is looked in first.

    Raises:
        SettingsError: It cannot be imported.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.import_module(name)
    except Exception as error:
        raise SettingsError(f"--plugin {name}: {type(error).__name__}: {error}") from error


class Scorer:
    """Turns lines into reports, and writes them in the lines' order."""

    def __init__(
        self, entries: Table, output: BinaryIO, *, quiet: bool = False, flushed: bool = False
    ) -> None:
        self.summary = Summary()
        self._flushed = flushed
        self._entries = entries
        self._output = output
        self._quiet = quiet

    def read_here(self, lines: Iterator[Line], judge: Judge) -> None:
        """Score with a judge that needs nobody else."""
        assert isinstance(judge, EmbeddedJudge)  # noqa: S101 - for the type; `run` built it
        for line in lines:
            self._write(line, self._read(line.interaction, judge) if line.interaction else None)

    async def ask(
        self, lines: Iterator[Line], judge: Judge, purse: Purse, *, concurrency: int
    ) -> None:
        """Score with a judge that is waited for; at most a few lines are held at any time."""
        prepare = getattr(judge, "prepare", None)
        if prepare is not None:
            try:
                await prepare()
            except JudgeError as error:
                raise SettingsError(
                    f"--judge {judge.identity.name}: litellm knows no price of this model; give "
                    "--budget-tokens instead of --budget-usd, or set "
                    "RAGMONITOR_JUDGE_PRICE_INPUT_USD and RAGMONITOR_JUDGE_PRICE_OUTPUT_USD"
                    if purse.unit == "usd"
                    else str(error)
                ) from error
        slots = asyncio.Semaphore(concurrency)
        held: deque[tuple[Line, asyncio.Task[Report] | Report | None]] = deque()
        async for line in _in_background(lines):
            held.append((line, await self._begun(line, judge, purse, held, slots)))
            while held and (len(held) > 4 * concurrency or _is_done(held[0][1])):
                await self._write_first(held)
        while held:
            await self._write_first(held)

    async def _begun(
        self,
        line: Line,
        judge: Judge,
        purse: Purse,
        held: deque[tuple[Line, asyncio.Task[Report] | Report | None]],
        slots: asyncio.Semaphore,
    ) -> asyncio.Task[Report] | Report | None:
        interaction = line.interaction
        if interaction is None:
            return None
        cause = unscorable(interaction)
        if cause is not None:
            return self._unread(interaction, judge, cause)
        cost = judge.expected_cost(interaction) if hasattr(judge, "expected_cost") else 0.0
        if not purse.reserve(cost):
            # What is under way was reserved with an upper estimate; some of it may come back.
            under_way = [task for _, task in held if isinstance(task, asyncio.Task)]
            if under_way and not purse.is_spent:
                await asyncio.wait(under_way)
            if not purse.reserve(cost):
                purse.is_spent = True
                return self._unread(interaction, judge, Cause.OVER_BUDGET)
        return asyncio.create_task(self._asked(interaction, judge, purse, cost, slots))

    async def _asked(
        self,
        interaction: Interaction,
        judge: Judge,
        purse: Purse,
        cost: float,
        slots: asyncio.Semaphore,
    ) -> Report:
        usage = JudgeUsage()
        try:
            async with slots:
                assessment = await judge.assess(interaction)
        except JudgeError as error:
            usage, cause, detail = error.usage, error.cause, str(error)
        except Exception as error:  # noqa: BLE001 - one failed reading must cost only itself
            cause, detail = Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
        else:
            purse.settle(cost, assessment.usage)
            self._spend(assessment.usage)
            return self._report(interaction, judge, assessment)
        purse.settle(cost, usage)
        self._spend(usage)
        self.summary.calls_failed += 1
        return self._unread(interaction, judge, cause, detail)

    async def _write_first(
        self, held: deque[tuple[Line, asyncio.Task[Report] | Report | None]]
    ) -> None:
        line, coming = held.popleft()
        self._write(line, await coming if isinstance(coming, asyncio.Task) else coming)

    def _read(self, interaction: Interaction, judge: EmbeddedJudge) -> Report:
        cause = unscorable(interaction)
        if cause is not None:
            return self._unread(interaction, judge, cause)
        try:
            return self._report(interaction, judge, judge.read(interaction))
        except Exception as error:  # noqa: BLE001 - one unreadable answer must cost only itself
            record_error("judge", error)
            self.summary.calls_failed += 1
            return self._unread(
                interaction, judge, Cause.JUDGE_ERROR, f"{type(error).__name__}: {error}"
            )

    def _report(self, interaction: Interaction, judge: Judge, assessment: Assessment) -> Report:
        return Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=evaluate(self._entries, interaction, assessment),
            assessment=assessment,
            usage=assessment.usage,
        )

    def _unread(
        self, interaction: Interaction, judge: Judge, cause: Cause, detail: str = ""
    ) -> Report:
        return Report(
            interaction=interaction,
            judge=judge.identity,
            evaluations=unscored(self._entries, judge.identity, cause, detail),
            assessment=None,
        )

    def _spend(self, usage: JudgeUsage) -> None:
        so_far = self.summary.usage
        self.summary.usage = JudgeUsage(
            calls=so_far.calls + usage.calls,
            input_tokens=so_far.input_tokens + usage.input_tokens,
            output_tokens=so_far.output_tokens + usage.output_tokens,
            cost_usd=so_far.cost_usd + usage.cost_usd,
            seconds=so_far.seconds + usage.seconds,
        )

    def _write(self, line: Line, report: Report | None) -> None:
        summary = self.summary
        summary.lines += 1
        self._put(line, report)
        if report is None:
            summary.bad_lines += 1
            if not self._quiet and summary.bad_lines <= BAD_LINES_SHOWN:
                say(f"line {line.number}: {line.error}")
        else:
            summary.tally.add(report.evaluations)

    def _put(self, line: Line, report: Report | None) -> None:
        if report is None:
            told: dict[str, Any] = {"line": line.number, "error": line.error}
        else:
            whole = report_line(report)
            told = {name: whole[name] for name in KEPT}
        self._output.write(encoded(told))
        if self._flushed:
            self._output.flush()


async def _in_background(lines: Iterator[Line]) -> AsyncIterator[Line]:
    """Yield the lines without blocking the loop: standard input may be slow."""
    while (line := await asyncio.to_thread(next, lines, None)) is not None:
        yield line


def _is_done(coming: asyncio.Task[Report] | Report | None) -> bool:
    return not isinstance(coming, asyncio.Task) or coming.done()


def _judge_of(options: Options) -> tuple[Judge, Purse | None, int]:
    """Return the judge, its budget (None: it costs nothing) and how many calls may be in flight."""
    if options.judge == LEXICAL:
        return LexicalJudge(), None, 1
    if options.budget_usd is not None and options.budget_tokens is not None:
        raise SettingsError("give one budget: --budget-usd or --budget-tokens")
    settings = Settings.load()
    if options.budget_usd is not None:
        purse = Purse(total=options.budget_usd, unit="usd")
    elif options.budget_tokens is not None:
        purse = Purse(total=options.budget_tokens, unit="tokens")
    else:
        raise SettingsError(
            f"--judge {options.judge} costs money and has no budget; "
            "add --budget-usd X or --budget-tokens N, the most this run may spend"
        )
    judge = LlmJudge(
        options.judge,
        api_base=options.api_base or settings.judge_api_base,
        timeout_s=settings.judge_timeout_s,
        price_input_usd=settings.judge_price_input_usd,
        price_output_usd=settings.judge_price_output_usd,
        budget_unit=purse.unit,
    )
    return judge, purse, options.concurrency or settings.judge_concurrency


@contextlib.contextmanager
def _output(options: Options) -> Iterator[BinaryIO]:
    if options.output is None or str(options.output) == "-":
        yield sys.stdout.buffer
        return
    try:
        if (
            options.file != "-"
            and options.output.exists()
            and options.output.samefile(options.file)
        ):
            raise InputError(f"{options.output} is the input; name another file with -o")
        with options.output.open("wb") as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise InputError(f"{options.output}: {error.strerror or error}") from error


def _tell(summary: Summary, purse: Purse | None, options: Options) -> None:
    if options.json_summary:
        import json

        if options.output is not None and str(options.output) != "-":
            print_json(summary.as_json())
        else:
            say(json.dumps(summary.as_json(), ensure_ascii=False))
        return
    if options.quiet:
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    console.print(summary.tally.table())
    console.print(f"{summary.lines} lines, {summary.bad_lines} bad; judge {summary.judge}")
    hidden = summary.bad_lines - BAD_LINES_SHOWN
    if hidden > 0:
        console.print(f"{hidden} more bad lines are not shown; each stands in the output")
    if purse is not None:
        used = summary.usage
        console.print(
            f"{used.calls} judge calls, {used.input_tokens + used.output_tokens} tokens, "
            f"{used.cost_usd:.4f} USD; budget {purse.total:g} {purse.unit}"
            + (", spent" if purse.is_spent else "")
        )
