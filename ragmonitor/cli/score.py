"""Offline scoring: recorded interactions through the judges and evaluators of a monitor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, cast

from ragmonitor.cli.options import ScoreOptions, ScoringOptions
from ragmonitor.cli.terminal import (
    FINE,
    INTERRUPTED,
    SOMETHING_WRONG,
    be_interruptible,
    print_json,
    print_table,
    progress,
    say,
    usage_text,
)
from ragmonitor.evaluators import by_reference, register_embedding
from ragmonitor.export.jsonl import encoded
from ragmonitor.judges.kept_replies import KeptReplies, replies_of
from ragmonitor.judges.provider import LitellmEmbedding
from ragmonitor.offline.bottleneck import ADVICE
from ragmonitor.offline.scoring import Outcome, Scorer, scorer_of
from ragmonitor.offline.shapes import Line, read_file
from ragmonitor.offline.summary import EvaluatorSummary, Summary
from ragmonitor.records import BUILTIN, Cause
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.runtime.imports import imported
from ragmonitor.runtime.tables import CsvWriter, owners_alone
from ragmonitor.sampling import RunBudget

BAD_LINES_SHOWN: Final = 20
RAGCHECKER: Final = "ragchecker_"
"""Before RAGChecker's own name of a score."""
_NAMES: Final = [*by_reference.RAGCHECKER]
GROUPS: Final = {
    "overall_metrics": _NAMES[:3],
    "retriever_metrics": _NAMES[3:5],
    "generator_metrics": _NAMES[5:],
}
"""RAGChecker's, in its order."""


def load_plugins_and_embedding(options: ScoringOptions) -> None:
    """Load the plugins and the embedding model that were asked for.

    Raises:
        SettingsError: A plugin cannot be imported.
        MissingExtraError: litellm is not installed.
    """
    for plugin in options.plugin or ():
        imported(plugin, option="--plugin")
    if not options.embedding:
        return
    embedding = LitellmEmbedding(options.embedding, api_base=options.api_base)
    # The version follows from the model's name, and is the same at every run.
    version = 2 + zlib.crc32(options.embedding.encode()) % 1_000_000
    register_embedding(embedding, version=version)


def run(options: ScoreOptions) -> int:
    """Score the file and return the exit code.

    It is 1 if a line was bad, an evaluator broke, or the judge answered nothing at all.

    Raises:
        RagMonitorError: Nothing was scored: a file, a setting or a budget is missing or wrong.
    """
    load_plugins_and_embedding(options)
    lines = read_file(options.file)
    scorer = scorer_for(options)
    # Before an output is touched: a file of no known format, a judge that cannot read.
    head = [*islice(lines, 1)]
    if not head:
        raise InputError(f"{options.file} holds no record: nothing was scored")
    asyncio.run(scorer.prepare())
    summary = Summary(judge=str(scorer.judge.identity))
    with _output(options) as file:
        try:
            asyncio.run(_score(options, scorer, chain(head, lines), file, summary))
        except (KeyboardInterrupt, asyncio.CancelledError):
            summary.is_interrupted = True
    summary.usage = scorer.usage
    summary.is_interrupted |= scorer.stopping.is_set()
    if options.json_output and options.output is not None:
        print_json(summary.as_json())
    elif options.json_output:
        say(json.dumps(summary.as_json(), ensure_ascii=False))
    elif not options.quiet:
        _print_tables(options, scorer, summary)
    if summary.is_interrupted:
        return INTERRUPTED
    is_scored = any(row.scored for row in summary.evaluators.values())
    has_failed = scorer.failed_readings and not is_scored
    broken = summary.unscored(Cause.EVALUATOR_ERROR)
    return SOMETHING_WRONG if summary.bad_lines or broken or has_failed else FINE


def scorer_for(options: ScoringOptions) -> Scorer:
    """Return the engine.

    Raises:
        SettingsError: There is no budget, or there are two; an evaluator is unknown, or a setting
            is wrong.
    """
    names, replies, workers = options.evaluators, None, 1
    if isinstance(options, ScoreOptions):
        replies, workers = _replies(options), options.workers
        if file_class(options.output) is RagCheckerFile:
            names = f"{names},{RAGCHECKER}*"
    return scorer_of(
        judge=options.judge,
        evaluators=names,
        budget_usd=options.budget_usd,
        budget_tokens=options.budget_tokens,
        api_base=options.api_base,
        replies=replies,
        workers=workers,
    )


def _replies(options: ScoreOptions) -> KeptReplies | None:
    """Return what a model replied to earlier runs with this output; None: nothing is kept."""
    output = options.output
    is_kept = output is not None and (output.is_file() or not output.exists())
    return replies_of(output) if output and is_kept and options.judge != BUILTIN else None


@contextlib.contextmanager
def _output(options: ScoreOptions) -> Iterator[BinaryIO]:
    """Open what the lines go to. Raises `InputError`: it cannot be written, or is the input."""
    path = options.output
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if options.file != "-" and path.exists() and path.samefile(options.file):
        raise InputError(f"{path} is the input; name another file with -o")
    with file_errors(path), open(path, "wb", opener=owners_alone) as file:
        yield cast("BinaryIO", file)


async def _score(
    options: ScoreOptions, scorer: Scorer, lines: Iterator[Line], file: BinaryIO, summary: Summary
) -> None:
    """Score the lines. Ctrl-C ends it after what is in flight; a second one at once.

    At the end, however it comes, the output can be read.
    """

    def text() -> str:
        done = f"scoring {summary.lines} answers"
        return done if scorer.budget is None else f"{done}, {usage_text(scorer.usage)}"

    output = file_class(options.output)(file, scorer)
    is_piped = options.file == "-"
    # A bar between lines of output on one terminal would be read by nobody.
    is_bare = options.quiet or (options.output is None and sys.stdout.isatty())
    if not is_piped:  # nothing but Python's own way ends a read of standard input
        be_interruptible(scorer.stopping)
    try:
        with progress(text, quiet=is_bare) as advance:
            async with contextlib.aclosing(scorer.outcomes(lines)) as outcomes:
                async for outcome in outcomes:
                    output.write(outcome)
                    if is_piped:  # the next line may be long in coming
                        file.flush()
                    summary.add(outcome.report)
                    is_shown = summary.bad_lines <= BAD_LINES_SHOWN and not options.quiet
                    if outcome.report is None and is_shown:
                        say(f"line {outcome.line.number}: {outcome.line.error}")
                    advance()
    finally:
        output.finish(summary.evaluators.values())
        await scorer.judge.close()


def _print_tables(options: ScoreOptions, scorer: Scorer, summary: Summary) -> None:
    columns: tuple[str, ...] = ("evaluator", "scored", "not scored", "mean", "95 % interval")
    rows = map(_cells, summary.evaluators.values())
    print_table(columns, rows, texts=["not scored"], err=True)
    if counts := summary.bottlenecks:
        shares = [
            (name.value, str(n), f"{n / counts.total():.0%}", ADVICE[name])
            for name, n in counts.most_common()
        ]
        columns = ("work on", "answers", "share", "advice")
        print_table(columns, shares, texts=["advice"], err=True)
    say(
        f"{summary.lines} {'line' if summary.lines == 1 else 'lines'}, {summary.bad_lines} bad"
        f"; judge {summary.judge}"
        + (f"; {hits} read before" if (hits := summary.usage.cache_hits) else "")
        + (f"; written to {options.output}" if options.output else "")
    )
    if scorer.budget is not None:
        say(cost_text(scorer, scorer.budget))
    if summary.is_interrupted or summary.unscored(Cause.OVER_BUDGET):
        end = "interrupted" if summary.is_interrupted else "the budget is spent"
        say(f"{end}; the same command goes on from here" if _replies(options) else end)


def _cells(row: EvaluatorSummary) -> tuple[str, ...]:
    estimate = row.estimate
    causes = ", ".join(f"{cause} {n}" for cause, n in sorted(row.unscored.items()))
    return (
        row.evaluator,
        str(row.scored),
        causes or "-",
        f"{estimate.mean:.3f}" if estimate else "-",
        f"{estimate.lower:.3f} to {estimate.upper:.3f}" if estimate else "-",
    )


def cost_text(scorer: Scorer, budget: RunBudget) -> str:
    """Return what the judge cost, for people."""
    return f"judge: {usage_text(scorer.usage)}; budget {budget.capacity:g} {budget.unit}" + (
        ", spent" if budget.is_spent else ""
    )


# --- the files ------------------------------------------------------------------------------------


class ScoreFile:
    """Writes outcomes in order, as JSON lines."""

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        self._file = file
        self._scoring_version = scorer.scoring_version

    def write(self, outcome: Outcome) -> None:
        """Write one line's outcome."""
        self._file.write(encoded(outcome.as_dict(self._scoring_version)))

    def finish(self, rows: Iterable[EvaluatorSummary]) -> None:
        """Write the end of the file, which JSON lines and CSV do not have."""


class CsvFile(ScoreFile):
    """A row for each line: what scored, and why the rest did not."""

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        super().__init__(file, scorer)
        names = [entry.name for entry in scorer.entries]
        columns = ["id", "line", "error", *names, *(f"{name}_unscored" for name in names)]
        columns += ["diagnosis", "risk", "unsupported", "judge", "scoring_version"]
        self._table = CsvWriter(file, columns)

    def write(self, outcome: Outcome) -> None:
        """Write one row."""
        row = outcome.as_row(self._scoring_version) | {"line": outcome.line.number}
        self._table.write(row | {"unsupported": "\n".join(row.get("unsupported", ()))})


class RagCheckerFile(ScoreFile):
    """The file that RAGChecker's own command writes, one record a line.

    Shares of records are from 0 to 1, those of the whole in percent, as there. Where there is no
    score it is left out, of the record and of the mean; RAGChecker counts 0.
    """

    def __init__(self, file: BinaryIO, scorer: Scorer) -> None:
        super().__init__(file, scorer)
        self._before = b""
        file.write(b'{"results": [\n')

    def write(self, outcome: Outcome) -> None:
        """Write one record; a line that could not be read has no place in this format."""
        if outcome.report is None:
            return
        interaction = outcome.report.interaction
        evaluations = outcome.as_dict()["evaluations"]
        record = {
            "query_id": interaction.id,
            "query": interaction.query,
            "gt_answer": interaction.reference,
            "response": interaction.answer,
            "retrieved_context": [
                {"doc_id": chunk.id or None, "text": chunk.text} for chunk in interaction.chunks
            ],
            "metrics": {
                name.removeprefix(RAGCHECKER): evaluation["score"]
                for name, evaluation in evaluations.items()
                if name.startswith(RAGCHECKER) and "score" in evaluation
            },
        }
        self._file.write(self._before + encoded(record).rstrip(b"\n"))
        self._before = b",\n"

    def finish(self, rows: Iterable[EvaluatorSummary]) -> None:
        """Write the means over all records, as RAGChecker groups them, and close the document."""
        means = {
            row.evaluator.removeprefix(RAGCHECKER): round(100 * row.estimate.mean, 1)
            for row in rows
            if row.evaluator.startswith(RAGCHECKER) and row.estimate is not None
        }
        groups = {
            group: {name: means[name] for name in names if name in means}
            for group, names in GROUPS.items()
        }
        self._file.write(b'\n], "metrics": ' + json.dumps(groups).encode() + b"}\n")


def file_class(output: Path | None) -> type[ScoreFile]:
    """Return what writes an output, by its suffix."""
    by_suffix = {".csv": CsvFile, ".json": RagCheckerFile}
    return ScoreFile if output is None else by_suffix.get(output.suffix.lower(), ScoreFile)
