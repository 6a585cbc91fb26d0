"""Offline scoring: recorded interactions through the judges and evaluators of a monitor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from ragmonitor.cli.interruption import INTERRUPTED, interruptible
from ragmonitor.cli.options import ScoreOptions, ScoringOptions
from ragmonitor.cli.score_files import FILES, ScoreFile, check_fits
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    figures_table,
    new_console,
    print_json,
    progress,
    say,
)
from ragmonitor.evaluators import register_embedding
from ragmonitor.judges.kept_replies import SUFFIX, KeptReplies
from ragmonitor.judges.litellm_embedding import LitellmEmbedding
from ragmonitor.offline.bottleneck import ADVICE, Bottleneck
from ragmonitor.offline.evaluating import scorer_of
from ragmonitor.offline.scoring import Outcome, Scorer
from ragmonitor.offline.shapes import Line, read_file
from ragmonitor.offline.summary import Summary
from ragmonitor.records import BUILTIN, Cause
from ragmonitor.runtime.errors import InputError, SettingsError, file_errors
from ragmonitor.runtime.imports import imported
from ragmonitor.runtime.tables import owners_alone
from ragmonitor.sampling import TotalBudget

if TYPE_CHECKING:
    from rich.table import Table

BAD_LINES_SHOWN = 20
RAGCHECKERS_OWN = "ragchecker_*"


def load_plugins_and_embedding(options: ScoringOptions) -> None:
    """Load the plugins and the embedding model that were asked for. Raises `RagMonitorError`."""
    for plugin in options.plugin or ():
        imported(plugin, option="--plugin")
    if options.embedding:
        use_embedding(options)


def run(options: ScoreOptions) -> int:
    """Score the file and return the exit code.

    Raises:
        RagMonitorError: Nothing was scored: a file, a setting or a budget is missing or wrong.
    """
    load_plugins_and_embedding(options)
    lines = read_file(options.file)
    replies = _replies(options)
    scorer = scorer_for(options, replies)
    check_fits(options.written_form, scorer.entries)
    # Before an output is touched: a file of no known format, a judge that cannot read.
    head = [*islice(lines, 1)]
    if not head:
        raise InputError(f"{options.file} holds no record: nothing was scored")
    asyncio.run(scorer.prepare())
    scoring = Scoring(scorer, options)
    scoring.run(chain(head, lines))
    scoring.print_summary()
    return scoring.exit_code


def use_embedding(options: ScoringOptions) -> None:
    """Have a model embed for the scores that compare texts by vectors."""
    embedding = LitellmEmbedding(options.embedding, api_base=options.api_base)
    # Of the model's name, and the same at every run: another embedding is another version.
    version = 2 + zlib.crc32(options.embedding.encode()) % 1_000_000
    register_embedding(embedding, version=version)


def _replies(options: ScoreOptions) -> Path | None:
    """Return the file that keeps a model's replies, beside the output; None: none is needed.

    Raises:
        InputError: It holds replies of an earlier run, and nobody said what is to become of them.
        SettingsError: There is no output that could be gone on with.
    """
    is_kept = options.file_out is not None and options.judge != BUILTIN
    if not is_kept or options.file_out is None or _is_special(options.file_out):
        if options.resume:
            raise SettingsError("--resume goes on with a file, -o FILE, that a model scores")
        return None
    path = options.file_out.with_name(f"{options.file_out.name}{SUFFIX}")
    if path.exists() and options.overwrite:
        path.unlink()
    if path.exists() and not options.resume:
        raise InputError(
            f"{path} holds replies of {options.judge} or another model, which were paid for; "
            "--resume goes on with them, --overwrite begins anew"
        )
    return path


def _is_special(path: Path) -> bool:
    """Return whether it is a pipe or a device, beside which nothing can be kept."""
    return path.exists() and not path.is_file()


def scorer_for(options: ScoringOptions, replies: Path | None = None) -> Scorer:
    """Return the engine.

    Args:
        options: Of the command.
        replies: A file of replies that need not be paid for again.

    Raises:
        SettingsError: There is no budget, or there are two; an evaluator is unknown, or a setting
            is wrong.
    """
    names = options.evaluators
    if not names and isinstance(options, ScoreOptions) and options.written_form == "ragchecker":
        names = RAGCHECKERS_OWN
    return scorer_of(
        judge=options.judge,
        evaluators=names,
        budget_usd=options.budget_usd,
        budget_tokens=options.budget_tokens,
        concurrency=options.concurrency,
        api_base=options.api_base,
        replies=None if replies is None else KeptReplies(replies),
    )


@dataclass(slots=True)
class Scoring:
    """One run: writes its lines, sums them up, and ends it."""

    scorer: Scorer
    options: ScoreOptions
    summary: Summary = field(init=False)

    def __post_init__(self) -> None:
        self.summary = Summary(judge=str(self.scorer.judge.identity))

    def run(self, lines: Iterator[Line]) -> None:
        """Score the lines. Ctrl-C ends it after what is in flight; a second one at once.

        At the end, however it comes, the output can be read.

        Raises:
            InputError: The output cannot be written, or is the input.
        """
        path = self.options.file_out
        if path is None:
            self._run(lines, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        if self.options.file != "-" and path.exists() and path.samefile(self.options.file):
            raise InputError(f"{path} is the input; name another file with -o")
        with file_errors(path), open(path, "wb", opener=owners_alone) as file:
            self._run(lines, cast("BinaryIO", file))

    def _run(self, lines: Iterator[Line], file: BinaryIO) -> None:
        output = FILES[self.options.written_form](file, self.scorer)
        is_terminal = self.options.file_out is None and sys.stdout.isatty()
        # A bar between lines of output on one terminal would be read by nobody.
        bare = self.options.quiet or is_terminal
        try:
            with progress("scoring", None, quiet=bare, text=self._progress_text) as advance:
                asyncio.run(self._score(lines, file, output, advance))
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.summary.is_interrupted = True
        finally:
            output.finish(self.summary.evaluators.values())
        self.summary.usage = self.scorer.usage
        self.summary.is_interrupted |= self.scorer.stopping.is_set()

    async def _score(
        self,
        lines: Iterator[Line],
        file: BinaryIO,
        output: ScoreFile,
        advance: Callable[[float], None],
    ) -> None:
        outcomes = self.scorer.outcomes(lines)
        with self._interruptible():
            async with contextlib.aclosing(outcomes):
                try:
                    async for outcome in outcomes:
                        output.write(outcome)
                        if self._is_piped:
                            file.flush()
                        self._count(outcome)
                        advance(self.summary.lines)
                finally:
                    await self.scorer.close()

    @property
    def _is_piped(self) -> bool:
        """Whether the next line may be long in coming."""
        return self.options.file == "-"

    def _interruptible(self) -> contextlib.AbstractContextManager[None]:
        if self._is_piped:  # nothing but Python's own way ends a read of standard input
            return contextlib.nullcontext()
        is_said = not self.options.quiet and self.scorer.budget is not None
        return interruptible(self.scorer.stopping, is_said=is_said)

    def _count(self, outcome: Outcome) -> None:
        self.summary.add(outcome)
        is_shown = not self.options.quiet and self.summary.bad_lines <= BAD_LINES_SHOWN
        if outcome.report is None and is_shown:
            say(f"line {outcome.line.number}: {outcome.line.error}")

    def _progress_text(self) -> str:
        done = f"{self.summary.lines} answers"
        return done if self.scorer.budget is None else f"{done}, {_usage_text(self.scorer)}"

    @property
    def exit_code(self) -> int:
        """1 if a line was bad, an evaluator broke, or the judge answered nothing at all."""
        if self.summary.is_interrupted:
            return INTERRUPTED
        broken = self.summary.unscored(Cause.EVALUATOR_ERROR)
        is_scored = any(row.scored for row in self.summary.evaluators.values())
        all_failed = self.scorer.failed_readings and not is_scored
        return SOMETHING_WRONG if self.summary.bad_lines or broken or all_failed else FINE

    def print_summary(self) -> None:
        """Show the summary."""
        if self.options.json_output:
            self._print_json_summary()
        elif not self.options.quiet:
            self._print_tables()
        if not self.options.quiet:
            self._print_how_to_resume()

    def _print_json_summary(self) -> None:
        record = self.summary.as_json()
        budget = self.scorer.budget
        if budget is not None:
            record["budget"] = {
                "total": budget.capacity,
                "unit": budget.unit,
                "is_spent": self.scorer.run_budget.is_spent,
            }
        if self.options.file_out is not None:
            print_json(record)
        else:
            say(json.dumps(record, ensure_ascii=False))

    def _print_tables(self) -> None:
        summary = self.summary
        console = new_console(err=True)
        console.print(scores_table(summary))
        if summary.bottlenecks:
            console.print(_bottlenecks(summary.bottlenecks))
        console.print(
            f"{summary.lines} {'line' if summary.lines == 1 else 'lines'}, {summary.bad_lines} bad"
            f"; judge {summary.judge}"
            + (f"; {hits} read before" if (hits := summary.usage.cache_hits) else "")
            + (f"; written to {self.options.file_out}" if self.options.file_out else "")
        )
        hidden = summary.bad_lines - BAD_LINES_SHOWN
        if hidden > 0:
            console.print(f"{hidden} more bad lines are not shown")
        if self.scorer.budget is not None:
            console.print(cost_text(self.scorer, self.scorer.budget))

    def _print_how_to_resume(self) -> None:
        over = self.summary.unscored(Cause.OVER_BUDGET)
        if not self.summary.is_interrupted and not over:
            return
        end = "interrupted" if self.summary.is_interrupted else "the budget is spent"
        if self.options.judge != BUILTIN and self.options.file_out is not None:
            end += "; the same command with --resume goes on from here"
        if not self.options.json_output or self.options.file_out is not None:
            say(end)


def scores_table(summary: Summary) -> Table:
    """Return a row for each evaluator."""
    columns = ("evaluator", "scored", "not scored", "mean", "95 % interval")
    table = figures_table(*columns, texts=["not scored"])
    for row in summary.evaluators.values():
        estimate = row.estimate
        causes = ", ".join(f"{cause} {n}" for cause, n in sorted(row.unscored.items()))
        table.add_row(
            row.evaluator,
            str(row.scored),
            causes or "-",
            f"{estimate.mean:.3f}" if estimate else "-",
            f"{estimate.lower:.3f} to {estimate.upper:.3f}" if estimate else "-",
        )
    return table


def cost_text(scorer: Scorer, budget: TotalBudget) -> str:
    """Return what the judge cost, for people."""
    return f"judge: {_usage_text(scorer)}; budget {budget.capacity:g} {budget.unit}" + (
        ", spent" if scorer.run_budget.is_spent else ""
    )


def _usage_text(scorer: Scorer) -> str:
    used = scorer.usage
    return (
        f"{used.calls} {'call' if used.calls == 1 else 'calls'}, "
        f"{used.input_tokens + used.output_tokens} tokens, {used.cost_usd:.4f} USD"
    )


def _bottlenecks(counts: Counter[Bottleneck]) -> Table:
    table = figures_table("work on", "answers", "share", "advice", texts=["advice"])
    for name, n in counts.most_common():
        table.add_row(name.value, str(n), f"{n / counts.total():.0%}", ADVICE[name])
    return table
