"""Recorded interactions driven through a real framework; checks that nothing is lost on the way."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from ragmonitor.cli.counts import Counts, read_counts
from ragmonitor.cli.drivers import Driver, load
from ragmonitor.cli.options import ReplayOptions
from ragmonitor.cli.record_files import Line, Records
from ragmonitor.cli.score_files import opened, refuse_input
from ragmonitor.cli.score_tables import scores_table
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    accounted_for,
    new_console,
    print_json,
    progress,
    say,
)
from ragmonitor.errors import InputError, file_errors
from ragmonitor.evaluators import table
from ragmonitor.export import JsonLines
from ragmonitor.monitor import Monitor
from ragmonitor.offline.summary import Tally
from ragmonitor.protocols import Exporter
from ragmonitor.records import Interaction, Report
from ragmonitor.settings import Settings

MAX_EXPLANATIONS = 5
MAX_BATCH = 200
"""Records between two flushes: a replay is no live traffic, and must never fill the queue."""
FLUSH_TIMEOUT_S = 600.0
SHOWN_CHARACTERS = 60


Texts = tuple[str, tuple[str, ...], str]
"""Question, contexts and answer."""


class Checker:
    """An exporter that compares what was captured with what was recorded.

    Frameworks give their own ids, so records are recognised by their content. What is held is
    bounded by what is under way: `match` empties it after every flush.
    """

    def __init__(self) -> None:
        self.matched = 0
        self.mismatched = 0
        self.missing = 0
        self.tally = Tally()
        self.explanations: list[str] = []
        self._expected: list[tuple[int, Texts]] = []
        self._captured: dict[str, Interaction] = {}
        """Interactions by id: with two judges there are two reports of each."""
        self._lock = threading.Lock()

    def expect(self, number: int, texts: Texts) -> None:
        """Note a record before it is sent on its way."""
        self._expected.append((number, texts))

    def explain(self, what: str) -> None:
        """Keep one of the first explanations for people."""
        if len(self.explanations) < MAX_EXPLANATIONS:
            self.explanations.append(what)

    def differ(self, explanation: str) -> None:
        """Count a record whose answer or capture was another one."""
        self.mismatched += 1
        self.explain(explanation)

    def export(self, report: Report) -> None:
        """Keep one captured interaction until the next comparison."""
        with self._lock:
            self.tally.add(report.evaluations, report.decision.inclusion_probability)
            self._captured.setdefault(report.interaction.id, report.interaction)

    def match(self) -> None:
        """Pair what was recorded with what was captured; everything is flushed by now."""
        captured: defaultdict[Texts, list[Interaction]] = defaultdict(list)
        with self._lock:
            for interaction in self._captured.values():
                captured[_texts(interaction)].append(interaction)
            self._captured.clear()
        lost = []
        for number, texts in self._expected:
            if captured[texts]:
                captured[texts].pop()
                self.matched += 1
            else:
                lost.append((number, texts))
        self._expected.clear()
        unexpected = [interaction for equal in captured.values() for interaction in equal]
        for (number, texts), interaction in zip(lost, unexpected, strict=False):
            self.differ(f"record {number}: {_difference(texts, _texts(interaction))}")
        for number, _ in lost[len(unexpected) :]:
            self.missing += 1
            self.explain(f"record {number}: not captured")
        for interaction in unexpected[len(lost) :]:
            self.differ(f"captured, but in no record: {_short(interaction.query)}")

    def flush(self, timeout_s: float) -> bool:
        """Have nothing to send."""
        return timeout_s >= 0

    def close(self) -> None:
        """Have nothing to release."""


@dataclass(slots=True, kw_only=True)
class Replay:
    """Sends one record after the other, waits for the worker now and then, and sums it up."""

    driver: Driver
    monitor: Monitor
    checker: Checker
    began_s: float = field(default_factory=time.monotonic)
    read: int = 0
    bad_lines: int = 0
    replayed: int = 0
    failed: int = 0
    """Records that the framework refused."""
    flushed: bool = True
    bad: list[str] = field(default_factory=list)
    """The first bad lines, for people."""

    def replay(self, line: Line) -> None:
        """Replay one line."""
        self.read += 1
        if line.interaction is None:
            self.bad_lines += 1
            if len(self.bad) < MAX_EXPLANATIONS:
                self.bad.append(f"line {line.number}: {line.error}")
            return
        texts = _texts(line.interaction)
        # What is captured comes back redacted.
        self.checker.expect(line.number, _texts(self.monitor.redacted(line.interaction)))
        try:
            shown = self.driver.replay(*texts)
        except Exception as error:  # noqa: BLE001 - a framework's own; it costs this record only
            self.failed += 1
            problem = f"{type(error).__name__}: {_short(str(error))}"
            self.checker.explain(f"record {line.number}: {problem}")
        else:
            self.replayed += 1
            if shown != texts[2]:
                self.checker.differ(
                    f"record {line.number}: shown {_short(shown)}, not {_short(texts[2])}"
                )
        batch = max(1, min(MAX_BATCH, self.monitor.settings.capture.queue_size // 2))
        if (self.replayed + self.failed) % batch == 0:
            self.flush()

    def flush(self) -> None:
        """Wait until everything so far is judged, and compare."""
        self.flushed = self.monitor.flush(FLUSH_TIMEOUT_S) and self.flushed
        self.checker.match()

    def is_all_accounted_for(self, counts: Counts) -> bool:
        """Return whether everything that was read is accounted for."""
        checker, settings = self.checker, self.monitor.settings
        judges = 1 if settings.judge.model is None else 2
        evaluations = counts.captured * len(table.select(settings.evaluators)) * judges
        return (
            self.read == self.replayed + self.failed + self.bad_lines
            and not (self.failed or checker.mismatched or checker.missing or counts.dropped)
            and checker.matched == self.replayed == counts.captured
            and counts.evaluations == evaluations
        )

    def as_json(self, counts: Counts, seconds: float) -> dict[str, Any]:
        """Return an object for JSON."""
        return {
            "framework": self.driver.framework,
            "read": self.read,
            "bad_lines": self.bad_lines,
            "replayed": self.replayed,
            "failed": self.failed,
            "captured": counts.captured,
            "matched": self.checker.matched,
            "missing": self.checker.missing,
            "mismatches": self.checker.mismatched,
            "explanations": self.checker.explanations,
            "scored": counts.scored,
            "unscored": counts.unscored,
            "dropped": counts.dropped,
            "internal_errors": counts.errors,
            "evaluators": self.checker.tally.as_json(),
            "all_accounted_for": self.is_all_accounted_for(counts),
            "flushed": self.flushed,
            "seconds": round(seconds, 2),
        }


def run(options: ReplayOptions, driver: Driver | None = None) -> int:
    """Replay the file and return the exit code.

    Raises:
        RagMonitorError: Nothing was replayed: a file, a setting or a driver is missing or wrong.
    """
    records = Records(options.file, options.form)
    driver = driver or load(options.framework)
    if options.output is not None:
        refuse_input(options.output, options.file)
    lines = iter(records)
    # Before an output is touched: a file of no known format, or without a record.
    head = [*islice(lines, 1)]
    if not head:
        raise InputError(f"{options.file} holds no record: nothing was replayed")
    checker = Checker()
    monitor = _monitor(options, checker)
    replay = Replay(driver=driver, monitor=monitor, checker=checker)
    driver.instrument(monitor)
    try:
        with progress(
            "replaying", options.limit or records.size_bytes, quiet=options.quiet
        ) as advance:
            for line in chain(head, lines):
                replay.replay(line)
                advance(replay.read if options.limit else records.read_bytes)
                if replay.read == options.limit:
                    break
            replay.flush()
    finally:
        driver.uninstrument()
        monitor.close(FLUSH_TIMEOUT_S)
    seconds = time.monotonic() - replay.began_s
    counts = read_counts(monitor.registry)
    if options.json_output:
        print_json(replay.as_json(counts, seconds))
    if not options.quiet:
        _print_problems(replay)
        if not options.json_output:
            _print_summary(replay, counts, seconds)
    fine = replay.is_all_accounted_for(counts) and not replay.bad_lines
    return FINE if fine else SOMETHING_WRONG


def _monitor(options: ReplayOptions, checker: Checker) -> Monitor:
    exporters: list[str | Exporter] = [*Settings.load().exporters, checker]
    if options.output is not None:
        with file_errors(options.output):
            opened(options.output).close()
        exporters.append(JsonLines(options.output))
    return Monitor(server=False, exporters=exporters)


def _texts(interaction: Interaction) -> Texts:
    return interaction.query, tuple(c.text for c in interaction.chunks), interaction.answer


def _difference(recorded: Texts, captured: Texts) -> str:
    query, contexts, answer = recorded
    if captured[0] != query:
        return f"question {_short(captured[0])}, not {_short(query)}"
    if captured[2] != answer:
        return f"answer {_short(captured[2])}, not {_short(answer)}"
    if len(captured[1]) != len(contexts):
        return f"{len(captured[1])} contexts, not {len(contexts)}"
    for position, (text, wanted) in enumerate(zip(captured[1], contexts, strict=True)):
        if text != wanted:
            return f"context {position}: {_short(text)}, not {_short(wanted)}"
    return "captured after its batch"


def _short(text: str) -> str:
    text = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return repr(text)


def _print_problems(replay: Replay) -> None:
    for bad in replay.bad:
        say(bad)
    if replay.bad_lines > len(replay.bad):
        say(f"{replay.bad_lines - len(replay.bad)} more bad lines")
    for explanation in replay.checker.explanations:
        say(explanation)
    if not replay.flushed:
        say("some traces or reports did not leave in time; see `ragmonitor doctor`")


def _print_summary(replay: Replay, counts: Counts, seconds: float) -> None:
    checker = replay.checker
    console = new_console()
    console.print(scores_table(checker.tally))
    causes = ", ".join(f"{cause} {n}" for cause, n in counts.unscored.items())
    console.print(
        f"{replay.driver.framework}: {replay.read} read, {replay.replayed} replayed, "
        f"{counts.captured} captured, {replay.failed} failed, "
        f"{checker.mismatched} mismatches, {checker.missing} missing, {replay.bad_lines} bad lines"
    )
    console.print(
        f"{counts.scored} scored, {sum(counts.unscored.values())} unscored"
        + (f" ({causes})" if causes else "")
        + f"; {seconds:.1f} s"
    )
    console.print(accounted_for(is_complete=replay.is_all_accounted_for(counts)))
