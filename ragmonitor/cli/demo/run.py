"""Builds the demo's applications, lets them run under a real monitor, and sums it up."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ragmonitor.cli.demo.answerer import PROMPT, ExtractiveAnswerer, Passages
from ragmonitor.cli.demo.documents import SETTINGS, load_documents
from ragmonitor.cli.demo.quote_judge import QuoteJudge
from ragmonitor.cli.demo.traffic import PHASES, Asker, Schedule, SpoilableModel
from ragmonitor.cli.drivers import FRAMEWORKS, Driver, installed
from ragmonitor.cli.monitor_client import is_free
from ragmonitor.cli.options import DemoOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, accounted_for, print_json, say
from ragmonitor.evaluators import table
from ragmonitor.monitor import Monitor
from ragmonitor.records import AlarmEvent, Report
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.protocols import Exporter
from ragmonitor.semconv import metrics
from ragmonitor.settings import Budget, ContentSettings, ServerSettings, Settings

SERVICE: Final = "ragmonitor-demo"
OBJECTIVES: Final = {"hallucination": 0.15, "refusal": 0.4}
STATUS_EVERY_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 30.0
MAX_WORST: Final = 3


class Watcher(Exporter):
    """Counts the reports of the sampled judge by phase; an exporter of the demo's monitor."""

    def __init__(self, schedule: Schedule) -> None:
        """Have seen nothing yet.

        Args:
            schedule: Says in which phase an answer was given.
        """
        self._schedule = schedule
        self.phases: dict[str, Counter[str]] = {phase: Counter() for phase in PHASES}
        """Of each phase: answers, those that claim something, and those that are hallucinated."""
        self.worst: deque[dict[str, str]] = deque(maxlen=MAX_WORST)
        """Answers with a sentence that their chunks do not support; the newest first."""
        self.alarm_of_spike: AlarmEvent | None = None

    def export(self, report: Report) -> None:
        """Take in one report."""
        interaction, assessment = report.interaction, report.assessment
        if report.role != "sampled" or assessment is None:
            return
        phase = self._schedule.phase(interaction.started_ns / 1e9)
        counts = self.phases[phase]
        counts["answers"] += 1
        if assessment.hallucinated is None or not interaction.chunks:
            return
        counts["claiming"] += 1
        counts["bad"] += assessment.hallucinated
        bad = report.unsupported
        if bad and (phase == "during" or not self.worst):
            self.worst.appendleft(
                {
                    "phase": phase,
                    "question": interaction.query,
                    "answer": interaction.answer,
                    "sentence": bad[-1].text,
                    "verdict": bad[-1].verdict.value,
                }
            )

    def alarm(self, event: AlarmEvent) -> None:
        """Keep the first alarm of the spike."""
        is_of_spike = event.raised and event.at_s >= self._schedule.spike_s[0]
        if is_of_spike and self.alarm_of_spike is None:
            self.alarm_of_spike = event


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """A running demo."""

    monitor: Monitor
    watcher: Watcher
    asker: Asker
    schedule: Schedule


def run(options: DemoOptions) -> int:
    """Run the demo and return the exit code.

    Raises:
        RagMonitorError: It cannot begin: no framework, a port that is taken, a bad setting.
    """
    if options.json_output and options.seconds is None:
        raise SettingsError("--json needs --seconds: the object comes at the end")
    drivers = installed()
    settings = Settings.load()
    port = _port(options, settings.server)
    judging: dict[str, Any] = {}
    if settings.judge.model is None:
        judging = {"judge": QuoteJudge(), "sample": 1.0, "budget": Budget(usd_per_day=25.0)}
    ui_url = f"http://127.0.0.1:{port}" if port else None
    schedule = Schedule(began_s=time.time(), seconds=options.seconds)
    watcher = Watcher(schedule)
    monitor = Monitor(
        service=SERVICE,
        objectives=OBJECTIVES,
        exporters=[*settings.exporters, watcher],
        content=ContentSettings(policy=settings.content.policy or "all"),
        server=ServerSettings(enabled=True, port=port, ui=True, ui_url=ui_url),
        **judging,
    )
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(monitor.close)
        for driver in drivers.values():
            driver.instrument(monitor)
            cleanup.callback(driver.uninstrument)
        asker = _asker(drivers, schedule, options.rate)
        demo = Demo(monitor=monitor, watcher=watcher, asker=asker, schedule=schedule)
        monitor.start()
        asker.start()
        with contextlib.suppress(KeyboardInterrupt):
            _wait(demo, drivers, quiet=options.json_output)
        asker.stop.set()
        asker.join(10.0)
        monitor.flush(FLUSH_TIMEOUT_S)
        summary = _summary(demo)
    if options.json_output:
        print_json(summary)
    else:
        for line in _lines(demo, summary):
            say(line)
    return FINE if summary["all_accounted_for"] else SOMETHING_WRONG


def _port(options: DemoOptions, server: ServerSettings) -> int:
    """Return the port of /metrics: the one that was asked for, or the usual one if it is free."""
    port = server.port if options.port is None else options.port
    if port == 0 or is_free(server.host, port):
        return port
    if options.port is not None:
        raise SettingsError(f"port {port} is taken; choose another with --port, or 0 for any")
    return 0


def _asker(drivers: dict[str, Driver], schedule: Schedule, rate: float) -> Asker:
    """Build an application of each framework over the same documents."""
    documents = load_documents()
    passages = Passages(documents)
    model = SpoilableModel(ExtractiveAnswerer(passages.weights), documents[SETTINGS])
    applications = {
        name: driver.application(passages, PROMPT, model) for name, driver in drivers.items()
    }
    return Asker(applications, model, schedule, rate=rate)


def _wait(demo: Demo, drivers: dict[str, Driver], *, quiet: bool) -> None:
    """Say how it goes until the demo is over."""
    demo.asker.join(1.0)  # the page is served by then
    if not quiet:
        say(f"page: {demo.monitor.ui_url or 'not served'}")
        say(f"metrics: {demo.monitor.metrics_url or 'not served'}")
        for name in FRAMEWORKS.keys() - drivers:
            say(f"{name} is not shown; for it: pip install {FRAMEWORKS[name]}")
    shown: dict[str, str] | None = None
    next_s = demo.schedule.began_s + STATUS_EVERY_S
    while demo.asker.is_alive():
        demo.asker.join(0.25)
        if quiet or time.time() < next_s:
            continue
        next_s += STATUS_EVERY_S
        say(_status(demo))
        newest = next(iter(demo.watcher.worst), None)
        if newest is not None and newest is not shown:
            shown = newest
            say(_quoted(newest))


def _quoted(bad: dict[str, str]) -> str:
    return f"  {bad['question']}\n    »{bad['sentence']}«  {bad['verdict']}"


def _status(demo: Demo) -> str:
    phase = demo.asker.phase
    passed_s = time.time() - demo.schedule.began_s
    counts = demo.watcher.phases[phase]
    text = f"{passed_s:.0f} s, {phase} the spike: {demo.asker.asked.total()} questions"
    if counts["claiming"]:
        text += f"; {counts['bad']} of {counts['claiming']} answers hallucinated {phase} the spike"
    if demo.asker.failed:
        text += f"; {demo.asker.failed} failed: {demo.asker.last_failure}"[:200]
    return text


def _summary(demo: Demo) -> dict[str, Any]:
    watcher, monitor, asked = demo.watcher, demo.monitor, demo.asker.asked
    captured = _counted(monitor, f"{metrics.INTERACTIONS}_total", "framework")
    outcomes = _counted(monitor, f"{metrics.EVALUATIONS}_total", "outcome")
    expected = captured.total() * len(table.select(monitor.settings.evaluators)) * 2
    began_s, ended_s = demo.schedule.spike_s
    alarm = watcher.alarm_of_spike
    return {
        "interactions": captured.total(),
        "asked": asked.total(),
        "by_framework": dict(captured),
        "failed": demo.asker.failed,
        "all_accounted_for": asked == captured and outcomes.total() == expected,
        "scored": outcomes.pop("scored", 0),
        "unscored": dict(outcomes),
        "hallucination_rate": {
            phase: round(counts["bad"] / counts["claiming"], 4) if counts["claiming"] else None
            for phase, counts in watcher.phases.items()
        },
        "spike": {"began_s": round(began_s, 3), "ended_s": round(ended_s, 3)},
        "alarm": alarm and {"delay_s": round(alarm.at_s - began_s, 2), "text": str(alarm)},
        "worst": [*watcher.worst],
        "seconds": round(time.time() - demo.schedule.began_s, 2),
    }


def _counted(monitor: Monitor, name: str, label: str) -> Counter[str]:
    """Return a counter of the monitor's, summed by one of its labels."""
    counts: Counter[str] = Counter()
    for family in monitor.registry.collect():
        for sample in family.samples:
            if sample.name == name and sample.value:
                counts[sample.labels[label]] += int(sample.value)
    return counts


def _lines(demo: Demo, summary: dict[str, Any]) -> Iterator[str]:
    """Yield the summary for people."""
    yield ""
    for phase, counts in demo.watcher.phases.items():
        yield (
            f"{phase} the spike: {counts['answers']} answers; {counts['bad']} of "
            f"{counts['claiming']} hallucinated"
        )
    if alarm := summary["alarm"]:
        yield f"{alarm['delay_s']:.0f} s after the spike began: {alarm['text']}"
    else:
        yield "No alarm was raised: in a longer demo there is more evidence."
    if demo.watcher.worst:
        yield "Sentences that no chunk supports:"
    yield from map(_quoted, demo.watcher.worst)
    unscored = ", ".join(f"{cause} {n}" for cause, n in summary["unscored"].items()) or "none"
    yield (
        f"{summary['asked']} asked, {summary['interactions']} captured, {summary['scored']} "
        f"scores, without a score: {unscored}; "
        f"{accounted_for(is_complete=summary['all_accounted_for'])}"
    )
