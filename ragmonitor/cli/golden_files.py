"""`ragmonitor goldens`: golden questions made of documents, or taken from live traffic."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ragmonitor.cli.options import GenerateOptions, MineOptions
from ragmonitor.cli.terminal import (
    FINE,
    INTERRUPTED,
    SOMETHING_WRONG,
    be_interruptible,
    print_json,
    progress,
    say,
    usage_text,
)
from ragmonitor.goldens.generating import Generator
from ragmonitor.goldens.golden import Golden, add_goldens, read_goldens
from ragmonitor.goldens.mining import mine, read_reports
from ragmonitor.goldens.source_documents import SourceChunks, read_documents
from ragmonitor.judges.kept_replies import KeepingJudge, replies_of
from ragmonitor.offline.scoring import scorer_of
from ragmonitor.pipeline.build import redactor_of
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.settings import Settings

PROBLEMS_SHOWN: Final = 10


def generate_from_documents(options: GenerateOptions) -> int:
    """Make golden questions, and return the exit code: 1 if there are fewer than were wanted.

    Raises:
        RagMonitorError: Nothing was made: documents, a setting or a budget is missing or wrong.
    """
    output = options.output
    if not output.parent.is_dir():
        raise InputError(f"{output.parent}: no such folder")
    source = read_documents(options.documents)
    known = _known(output)
    written = {golden.id for golden in known}
    scorer = scorer_of(
        judge=options.judge,
        budget_usd=options.budget_usd,
        budget_tokens=options.budget_tokens,
        api_base=options.api_base,
    )
    judge = KeepingJudge(scorer.judge, replies_of(output))
    made = Generator(source.chunks, judge, scorer.budget, known)

    def progressed() -> None:
        """Add the new questions to what stands in the file by now; others may review it."""
        new = [golden for golden in made.goldens if golden.id not in written]
        if new:
            with file_errors(output):
                add_goldens(output, new)
            written.update(golden.id for golden in new)
        advance()

    async def make() -> None:
        async with scorer:
            be_interruptible(made.stopping)
            await made.run(options.count, progressed)

    is_interrupted = False
    with progress(lambda: f"making questions: {len(made.goldens)} kept") as advance:
        try:
            asyncio.run(make())
        except (KeyboardInterrupt, asyncio.CancelledError):
            is_interrupted = True
    _report(options, source, made)
    if is_interrupted or made.stopping.is_set():
        say("interrupted; the same command goes on from here")
        return INTERRUPTED
    return FINE if len(made.goldens) >= options.count else SOMETHING_WRONG


def _known(output: Path) -> list[Golden]:
    return read_goldens(output) if output.exists() else []


def _report(options: GenerateOptions, source: SourceChunks, made: Generator) -> None:
    """Say what was made, what it cost, and why there is no more."""
    if options.json_output:
        print_json(
            {
                "output": str(options.output),
                "wanted": options.count,
                "kept": len(made.goldens),
                "kinds": {kind: dict(counts) for kind, counts in made.counts.items()},
                "left_out": source.problems,
                "usage": asdict(made.usage),
                "is_budget_spent": made.budget.is_spent,
                "failure": made.failure,
            }
        )
        return
    for problem in source.problems[:PROBLEMS_SHOWN]:
        say(f"left out: {problem}")
    for kind, counts in sorted(made.counts.items()):
        say(f"{kind}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    say(
        f"{len(made.goldens)} of {options.count} questions, from {len(source.chunks)} chunks; "
        f"{usage_text(made.usage)} in all"
        + (f"; written to {options.output}" if made.goldens else "")
    )
    if made.failure:
        say(f"ended early: {made.failure}; the same command goes on from here")
    elif made.budget.is_spent:
        say(
            "what is left of the budget may not cover another call; the same command with a "
            "larger one goes on from here"
        )
    elif len(made.goldens) < options.count and not made.stopping.is_set():
        say("these documents give no more such questions; give more documents")


def mine_traffic(options: MineOptions) -> int:
    """Add candidates of live traffic to a file; 1 if there is none.

    Raises:
        RagMonitorError: The traffic cannot be read, or the file cannot be written.
    """
    known = _known(options.output)
    with file_errors(options.reports), options.reports.open("rb") as file:
        traffic = read_reports(file, redact=redactor_of(Settings.load()).text)
    mined, found = mine(traffic, options.count, known=known)
    with file_errors(options.output):
        add_goldens(options.output, mined)
    reasons = ", ".join(f"{name} {n}" for name, n in found.items() if n) or "none"
    say(f"{len(traffic.answers)} answers; reasons: {reasons}")
    if traffic.without_text:
        say(f"{traffic.without_text} without text: the monitor's setting content keeps it back")
    if traffic.bad_lines:
        say(f"{traffic.bad_lines} lines are no reports")
    say(f"{len(mined)} candidates added to {options.output}")
    if mined:
        say("put their answers right, and set `status` to `accepted`: until then none is asked")
    return FINE if mined else SOMETHING_WRONG
