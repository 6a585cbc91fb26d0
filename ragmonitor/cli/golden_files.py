"""`ragmonitor goldens`: golden questions made of documents, or taken from live traffic."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, get_args

from ragmonitor.cli.golden_options import GenerateOptions, MineOptions
from ragmonitor.cli.interruption import INTERRUPTED, interruptible
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    print_json,
    progress,
    say,
)
from ragmonitor.goldens import read_goldens
from ragmonitor.goldens.generating import Generation, PaidModel, generate
from ragmonitor.goldens.golden import add_goldens
from ragmonitor.goldens.mining import mine, read_reports
from ragmonitor.goldens.source_documents import SourceChunks, read_documents
from ragmonitor.judges.kept_replies import KeepingJudge, replies_of
from ragmonitor.offline.evaluating import scorer_of
from ragmonitor.pipeline.build import redactor_of
from ragmonitor.records import Language
from ragmonitor.runtime.errors import InputError, SettingsError, file_errors
from ragmonitor.settings import Settings

PROBLEMS_SHOWN: Final = 10

# --- generate -------------------------------------------------------------------------------------


def generate_from_documents(options: GenerateOptions) -> int:
    """Make golden questions, and return the exit code: 1 if there are fewer than were wanted.

    Raises:
        RagMonitorError: Nothing was made: documents, a setting or a budget is missing or wrong.
    """
    languages = _names(options.language)
    if not {*languages} <= {*get_args(Language)}:
        raise SettingsError(f"--language {options.language!r}: expected en, zh or en,zh")
    if not options.output.parent.is_dir():
        raise InputError(f"{options.output.parent}: no such folder")
    source = read_documents(options.documents)
    run, is_interrupted = _Generating(options, source), False
    title = "making questions"
    with progress(title, options.count, quiet=options.quiet, text=run.progress_text) as advance:
        run.advance = advance
        try:
            asyncio.run(run.make())
        except (KeyboardInterrupt, asyncio.CancelledError):
            is_interrupted = True
    is_interrupted |= run.is_stopping
    run.write()
    run.report(is_interrupted=is_interrupted)
    if is_interrupted:
        say("interrupted; the same command goes on from here")
        return INTERRUPTED
    return FINE if len(run.result.goldens) >= options.count else SOMETHING_WRONG


class _Generating:
    """One run of `goldens generate`."""

    def __init__(self, options: GenerateOptions, source: SourceChunks) -> None:
        self._options = options
        self._source = source
        self._known = read_goldens(options.output) if options.output.exists() else []
        self._written = {golden.id for golden in self._known}
        self._scorer = scorer_of(
            judge=options.judge,
            budget_usd=options.budget_usd,
            budget_tokens=options.budget_tokens,
            api_base=options.api_base,
        )
        judge = KeepingJudge(self._scorer.judge, replies_of(options.output))
        self._model = PaidModel(judge, self._scorer.budget)
        self.result = Generation()
        self.advance: Any = lambda _done: None

    async def make(self) -> None:
        await self._scorer.prepare()
        with interruptible(self._model.stopping, is_said=not self._options.quiet):
            try:
                self.result = await generate(
                    self._source.chunks,
                    self._options.count,
                    self._model,
                    languages=_names(self._options.language),  # type: ignore[arg-type]  # checked
                    seed=self._options.seed,
                    known=self._known,
                    concurrency=self._options.concurrency,
                    progressed=self._progressed,
                )
            finally:
                await self._scorer.close()

    @property
    def is_stopping(self) -> bool:
        """Whether Ctrl-C has ended it."""
        return self._model.stopping.is_set()

    def _progressed(self, result: Generation) -> None:
        self.result = result
        self.write()
        self.advance(len(result.goldens))

    def write(self) -> None:
        """Add the new questions to what stands in the file by now; others may review it."""
        new = [golden for golden in self.result.goldens if golden.id not in self._written]
        if new:
            with file_errors(self._options.output):
                add_goldens(self._options.output, new)
            self._written.update(golden.id for golden in new)

    def progress_text(self) -> str:
        """Return what stands behind the bar."""
        cost = f"{self._model.usage.cost_usd:.4f} USD"
        return f"{len(self.result.goldens)} kept, {len(self.result.dropped)} dropped, {cost}"

    def report(self, *, is_interrupted: bool) -> None:
        """Say what was made, what it cost, and why there is no more."""
        result, source, usage = self.result, self._source, self._model.usage
        budget, wanted = self._scorer.budget, self._options.count
        if self._options.json_output:
            print_json(
                {
                    "output": str(self._options.output),
                    "wanted": wanted,
                    "kept": len(result.goldens),
                    "kinds": {kind: dict(counts) for kind, counts in result.counts().items()},
                    "documents": source.documents,
                    "chunks": len(source.chunks),
                    "left_out": source.problems,
                    "replies_of_this_run": self._model.paid_calls,
                    "usage": asdict(usage),
                    "budget": budget and {"total": budget.capacity, "unit": budget.unit},
                    "is_budget_spent": result.is_budget_spent,
                    "failure": result.failure,
                }
            )
        if self._options.quiet or self._options.json_output:
            return
        for problem in source.problems[:PROBLEMS_SHOWN]:
            say(f"left out: {problem}")
        for kind, counts in sorted(result.counts().items()):
            say(f"{kind}: " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
        tokens = usage.input_tokens + usage.output_tokens
        say(
            f"{len(result.goldens)} of {wanted} questions, of {source.documents} documents in "
            f"{len(source.chunks)} chunks; {usage.calls} calls, {tokens} tokens, "
            f"{usage.cost_usd:.4f} USD in all, {self._model.paid_calls} replies of this run; "
            + (f"written to {self._options.output}" if result.goldens else "nothing to write")
        )
        if result.failure:
            say(f"ended early: {result.failure}; the same command goes on from here")
        elif result.is_budget_spent:
            say(
                "what is left of the budget may not cover another call; the same command with a "
                "larger one goes on from here"
            )
        elif len(result.goldens) < wanted and not is_interrupted:
            say("these documents give no more such questions; give more documents")


# --- mine -----------------------------------------------------------------------------------------


def mine_traffic(options: MineOptions) -> int:
    """Add candidates of live traffic to a file; 1 if there is none.

    Raises:
        RagMonitorError: The traffic cannot be read, or the file cannot be written.
    """
    known = read_goldens(options.output) if options.output.exists() else []
    settings = Settings.load()
    source = Path(options.source or _reports_of(settings))
    with file_errors(source), source.open("rb") as file:
        traffic = read_reports(file, redact=redactor_of(settings).text)
    mined = mine(traffic, options.count, known=known)
    with file_errors(options.output):
        add_goldens(options.output, mined.goldens)
    written = len(mined.goldens)
    found = {name: n for name, n in mined.found.items() if n}
    if options.json_output:
        result = {
            "output": str(options.output),
            "answers": len(traffic.answers),
            "without_text": traffic.without_text,
            "bad_lines": traffic.bad_lines,
            "found": found,
            "written": written,
        }
        print_json(result)
        return FINE if written else SOMETHING_WRONG
    reasons = ", ".join(f"{name} {n}" for name, n in found.items()) or "none"
    say(f"{len(traffic.answers)} answers; reasons: {reasons}")
    if traffic.without_text:
        say(f"{traffic.without_text} without text: the monitor's setting content keeps it back")
    if traffic.bad_lines:
        say(f"{traffic.bad_lines} lines are no reports")
    say(f"{written} candidates added to {options.output}")
    if written:
        say("put their answers right, and set `status` to `accepted`: until then none is asked")
    return FINE if written else SOMETHING_WRONG


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _reports_of(settings: Settings) -> str:
    """Return the file of reports that the settings name. Raises `SettingsError`: they name none."""
    named = (str(each) for each in settings.exporters or () if isinstance(each, str))
    files = (each.removeprefix("jsonl:") for each in named if each.startswith("jsonl:"))
    file = next((file for file in files if Path(file).exists()), "")
    if not file:
        raise SettingsError("name the file of reports that the exporter jsonl:FILE writes")
    return file
