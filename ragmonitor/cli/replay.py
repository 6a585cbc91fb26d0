"""Recorded interactions driven through a real framework; checks that nothing is lost on the way."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.cli.counts import Counts, read_counts
from ragmonitor.cli.drivers import Driver, load
from ragmonitor.cli.options import ReplayOptions
from ragmonitor.cli.record_files import Line, Records
from ragmonitor.cli.score_files import opened
from ragmonitor.cli.score_tables import scores_table
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, accounted_for, print_json, progress, say
from ragmonitor.errors import InputError
from ragmonitor.evaluators import table
from ragmonitor.export import JsonLines
from ragmonitor.monitor import Monitor
from ragmonitor.offline.summary import Tally
from ragmonitor.protocols import Exporter
from ragmonitor.records import Interaction, Report
from ragmonitor.settings import ServerSettings, Settings

MAX_EXPLANATIONS = 5
MAX_BATCH = 200
"""Records between two flushes: a replay is no live traffic, and must never fill the queue."""
FLUSH_TIMEOUT_S = 600.0
SHOWN_CHARACTERS = 60


Texts = tuple[str, tuple[str, ...], str]
"""Question, contexts and answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One record as the monitor must have captured it."""

    number: int
    query: str
    contexts: tuple[str, ...]
    answer: str

    @property
    def texts(self) -> Texts:
        """By which the captured interaction is recognised."""
        return self.query, self.contexts, self.answer


class Checker:
    """An exporter that compares what was captured with what was recorded.

    Frameworks give their own ids, so records are recognised by their content. What is held is
    bounded by what is under way: `match_rest` empties it after every flush.
    """

    def __init__(self) -> None:
        self.matched = 0
        self.mismatched = 0
        self.missing = 0
        self.tally = Tally()
        self.explanations: list[str] = []
        self._expected: dict[Texts, deque[Expected]] = {}
        self._unexpected: deque[Interaction] = deque(maxlen=2 * MAX_BATCH)
        self._seen: dict[str, None] = {}
        """Ids since the last flush: with two judges there are two reports of an interaction."""
        self._lock = threading.Lock()

    def expect(self, expected: Expected) -> None:
        """Note a record before it is sent on its way."""
        with self._lock:
            self._expected.setdefault(expected.texts, deque()).append(expected)

    def fail(self, expected: Expected, error: Exception) -> None:
        """Note that the framework refused a record."""
        self._explain(f"record {expected.number}: {type(error).__name__}: {_short(str(error))}")

    def differ(self, expected: Expected, shown: str) -> None:
        """Note that the framework's user would have seen another answer."""
        self.mismatched += 1
        self._explain(
            f"record {expected.number}: shown {_short(shown)}, not {_short(expected.answer)}"
        )

    def export(self, report: Report) -> None:
        """Compare one captured interaction."""
        interaction = report.interaction
        with self._lock:
            self.tally.add(report.evaluations, report.decision.inclusion_probability)
            if interaction.id in self._seen:
                return
            self._seen[interaction.id] = None
            texts = _expected(0, interaction).texts
            waiting = self._expected.get(texts)
            if not waiting:
                self._unexpected.append(interaction)
                return
            waiting.popleft()
            if not waiting:
                del self._expected[texts]
            self.matched += 1

    def match_rest(self) -> None:
        """Pair what was not recognised with what was not found; everything is flushed by now."""
        with self._lock:
            lost = sorted(
                (record for records in self._expected.values() for record in records),
                key=lambda record: record.number,
            )
            for record in lost:
                if self._unexpected:
                    self.mismatched += 1
                    self._explain(_difference(record, self._unexpected.popleft()))
                else:
                    self.missing += 1
                    self._explain(f"record {record.number}: not captured")
            for interaction in self._unexpected:
                self.mismatched += 1
                self._explain(f"captured, but in no record: {_short(interaction.query)}")
            self._expected.clear()
            self._unexpected.clear()
            self._seen.clear()

    def flush(self, timeout_s: float) -> bool:
        """Have nothing to send."""
        return timeout_s >= 0

    def close(self) -> None:
        """Have nothing to release."""

    def _explain(self, what: str) -> None:
        if len(self.explanations) < MAX_EXPLANATIONS:
            self.explanations.append(what)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of a replay."""

    framework: str
    read: int = 0
    bad_lines: int = 0
    replayed: int = 0
    failed: int = 0
    """Records that the framework refused."""
    seconds: float = 0.0
    metrics_url: str | None = None
    flushed: bool = True
    evaluators: int = 0
    judges: int = 1
    bad: list[str] = field(default_factory=list)
    """The first bad lines, for people."""

    def is_all_accounted_for(self, checker: Checker, counts: Counts) -> bool:
        """Return whether everything that was read is accounted for."""
        return (
            self.read == self.replayed + self.failed + self.bad_lines
            and self.failed == 0
            and checker.mismatched == 0
            and checker.missing == 0
            and checker.matched == self.replayed == counts.captured
            and counts.evaluations == counts.captured * self.evaluators * self.judges
            and not counts.dropped
        )

    def as_json(self, checker: Checker, counts: Counts) -> dict[str, Any]:
        """Return an object for JSON."""
        return {
            "framework": self.framework,
            "read": self.read,
            "bad_lines": self.bad_lines,
            "replayed": self.replayed,
            "failed": self.failed,
            "captured": counts.captured,
            "matched": checker.matched,
            "missing": checker.missing,
            "mismatches": checker.mismatched,
            "explanations": checker.explanations,
            "scored": counts.scored,
            "unscored": counts.unscored,
            "dropped": counts.dropped,
            "internal_errors": counts.errors,
            "evaluators": checker.tally.as_json(),
            "all_accounted_for": self.is_all_accounted_for(checker, counts),
            "flushed": self.flushed,
            "metrics_url": self.metrics_url,
            "seconds": round(self.seconds, 2),
        }


def run(options: ReplayOptions, driver: Driver | None = None) -> int:
    """Replay the file and return the exit code.

    Raises:
        RagMonitorError: Nothing was replayed: a file, a setting or a driver is missing or wrong.
    """
    with Records(options.file, options.form) as records:
        driver = driver or load(options.framework)
        checker = Checker()
        monitor = _monitor(options, checker)
        outcome = Outcome(
            framework=driver.framework,
            evaluators=len(table.select(monitor.settings.evaluators)),
            judges=1 if monitor.settings.judge.model is None else 2,
        )
        began = time.monotonic()
        driver.instrument(monitor)
        try:
            with progress(
                "replaying", options.limit or records.size_bytes, quiet=options.quiet
            ) as advance:
                replayer = _Replayer(driver, monitor, checker, outcome, options)
                for line in records:
                    replayer.replay(line)
                    advance(outcome.read if options.limit else records.read_bytes)
                    if outcome.read == options.limit:
                        break
                replayer.flush()
        finally:
            driver.uninstrument()
            outcome.metrics_url = monitor.metrics_url
            monitor.close(FLUSH_TIMEOUT_S)
        outcome.seconds = time.monotonic() - began
    counts = read_counts(monitor.registry)
    if options.json_output:
        print_json(outcome.as_json(checker, counts))
    if not options.quiet:
        _print_summary(outcome, checker, counts, in_full=not options.json_output)
    fine = outcome.is_all_accounted_for(checker, counts) and not outcome.bad_lines
    return FINE if fine else SOMETHING_WRONG


class _Replayer:
    """Sends one record after the other, and waits for the worker now and then."""

    def __init__(
        self,
        driver: Driver,
        monitor: Monitor,
        checker: Checker,
        outcome: Outcome,
        options: ReplayOptions,
    ) -> None:
        self._driver = driver
        self._monitor = monitor
        self._checker = checker
        self._outcome = outcome
        self._options = options
        self._batch = max(1, min(MAX_BATCH, monitor.settings.capture.queue_size // 2))
        self._began = time.monotonic()
        if options.metrics:
            monitor.start()

    def replay(self, line: Line) -> None:
        """Replay one line."""
        outcome = self._outcome
        outcome.read += 1
        if line.interaction is None:
            outcome.bad_lines += 1
            if len(outcome.bad) < MAX_EXPLANATIONS:
                outcome.bad.append(f"line {line.number}: {line.error}")
            return
        expected = _expected(line.number, line.interaction)
        self._pace()
        # What is captured comes back redacted.
        self._checker.expect(_expected(line.number, self._monitor.redacted(line.interaction)))
        try:
            shown = self._driver.replay(expected.query, expected.contexts, expected.answer)
        except Exception as error:  # noqa: BLE001 - a framework's own; it costs this record only
            outcome.failed += 1
            self._checker.fail(expected, error)
        else:
            outcome.replayed += 1
            if shown != expected.answer:
                self._checker.differ(expected, shown)
        if (outcome.replayed + outcome.failed) % self._batch == 0:
            self.flush()

    def flush(self) -> None:
        """Wait until everything so far is judged, and compare."""
        self._outcome.flushed = self._monitor.flush(FLUSH_TIMEOUT_S) and self._outcome.flushed
        self._checker.match_rest()

    def _pace(self) -> None:
        if self._options.rate is None:
            return
        sent = self._outcome.replayed + self._outcome.failed
        wait_s = self._began + sent / self._options.rate - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)


def _monitor(options: ReplayOptions, checker: Checker) -> Monitor:
    exporters: list[str | Exporter] = [*Settings.load().exporters, checker]
    if options.output is not None:
        try:
            opened(options.output).close()
        except OSError as error:
            raise InputError(f"{options.output}: {error.strerror or error}") from error
        exporters.append(JsonLines(options.output))
    return Monitor(server=ServerSettings(enabled=options.metrics), exporters=exporters)


def _expected(number: int, interaction: Interaction) -> Expected:
    return Expected(
        number=number,
        query=interaction.query,
        contexts=tuple(chunk.text for chunk in interaction.chunks),
        answer=interaction.answer,
    )


def _difference(record: Expected, captured: Interaction) -> str:
    texts = tuple(chunk.text for chunk in captured.chunks)
    prefix = f"record {record.number}: "
    if captured.query != record.query:
        return f"{prefix}question {_short(captured.query)}, not {_short(record.query)}"
    if captured.answer != record.answer:
        return f"{prefix}answer {_short(captured.answer)}, not {_short(record.answer)}"
    if len(texts) != len(record.contexts):
        return f"{prefix}{len(texts)} contexts, not {len(record.contexts)}"
    pairs: Iterator[int] = (
        position
        for position, (text, wanted) in enumerate(zip(texts, record.contexts, strict=True))
        if text != wanted
    )
    position = next(pairs, None)
    if position is None:
        return f"{prefix}captured after its batch"
    return (
        f"{prefix}context {position}: {_short(texts[position])}, "
        f"not {_short(record.contexts[position])}"
    )


def _short(text: str) -> str:
    text = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
    return repr(text)


def _print_summary(outcome: Outcome, checker: Checker, counts: Counts, *, in_full: bool) -> None:
    for bad in outcome.bad:
        say(bad)
    if outcome.bad_lines > len(outcome.bad):
        say(f"{outcome.bad_lines - len(outcome.bad)} more bad lines")
    for explanation in checker.explanations:
        say(explanation)
    if not outcome.flushed:
        say("some traces or reports did not leave in time; see `ragmonitor doctor`")
    if not in_full:
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(scores_table(checker.tally))
    causes = ", ".join(f"{cause} {n}" for cause, n in counts.unscored.items())
    console.print(
        f"{outcome.framework}: {outcome.read} read, {outcome.replayed} replayed, "
        f"{counts.captured} captured, {outcome.failed} failed, "
        f"{checker.mismatched} mismatches, {checker.missing} missing, {outcome.bad_lines} bad lines"
    )
    console.print(
        f"{counts.scored} scored, {sum(counts.unscored.values())} unscored"
        + (f" ({causes})" if causes else "")
        + f"; {outcome.seconds:.1f} s"
    )
    console.print(accounted_for(is_complete=outcome.is_all_accounted_for(checker, counts)))
