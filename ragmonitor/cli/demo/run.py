"""Runs the demo's applications under a real monitor, asks them, and sums it up."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.cli.demo.answerer import PROMPT, ExtractiveAnswerer, Passages
from ragmonitor.cli.demo.documents import SETTINGS, load_documents
from ragmonitor.cli.demo.quote_judge import QuoteJudge
from ragmonitor.cli.demo.traffic import PHASES, ROUTES, Schedule, SpoilableModel, questions
from ragmonitor.cli.drivers import FRAMEWORKS, Application, installed
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


class Demo(Exporter):
    """Asks the applications, and counts the reports of the sampled judge, as an exporter."""

    def __init__(self, schedule: Schedule) -> None:
        """Have asked and seen nothing yet.

        Args:
            schedule: The times of the spike and of the end.
        """
        self._schedule = schedule
        self.phases: dict[str, Counter[str]] = {phase: Counter() for phase in PHASES}
        """Of each phase: answers, those that claim something, and those that are hallucinated."""
        self.worst: deque[dict[str, str]] = deque(maxlen=MAX_WORST)
        """Answers with a sentence that their chunks do not support; the newest first."""
        self.alarm_of_spike: AlarmEvent | None = None
        self.asked: Counter[str] = Counter()
        """Numbers of questions by framework."""
        self.failed = 0
        self._last_failure = ""
        self._quoted: dict[str, str] | None = None
        """The sentence that was said last."""

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

    def ask(
        self,
        applications: Mapping[str, Application],
        model: SpoilableModel,
        *,
        rate: float,
        quiet: bool,
    ) -> None:
        """Ask in turn, until the time is over or Ctrl-C, and say how it goes."""
        chance, signals = random.Random(1), list[int]()
        # No question is cut off: its answer would be an error that nobody asked for.
        before = signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
        next_s, status_s = time.monotonic(), time.time() + STATUS_EVERY_S
        for framework, question in zip(itertools.cycle(applications), questions(), strict=False):
            next_s = max(next_s + 1 / rate, time.monotonic())
            while not signals and (left_s := next_s - time.monotonic()) > 0:
                time.sleep(min(left_s, 0.2))
            if signals or self._schedule.is_over(time.time()):
                break
            model.is_spoiled = self._schedule.phase(time.time()) == "during"
            self.asked[framework] += 1
            try:
                for _ in applications[framework](question, {"route": chance.choice(ROUTES)}):
                    pass  # a user reads it
            except Exception as error:  # noqa: BLE001 - what fails is the monitored application
                self.failed += 1
                self._last_failure = f"{type(error).__name__}: {error}"
            if not quiet and time.time() >= status_s:
                status_s += STATUS_EVERY_S
                self._say_status()
        signal.signal(signal.SIGINT, before)

    def _say_status(self) -> None:
        now_s = time.time()
        phase = self._schedule.phase(now_s)
        counts, passed_s = self.phases[phase], now_s - self._schedule.began_s
        text = f"{passed_s:.0f} s, {phase} the spike: {self.asked.total()} questions"
        if counts["claiming"]:
            text += (
                f"; {counts['bad']} of {counts['claiming']} answers hallucinated {phase} the spike"
            )
        if self.failed:
            text += f"; {self.failed} failed: {self._last_failure}"[:200]
        say(text)
        if self.worst and self.worst[0] is not self._quoted:
            self._quoted = self.worst[0]
            say(quoted(self._quoted))

    def summary(self, monitor: Monitor) -> dict[str, Any]:
        """Return what happened, for JSON."""
        captured = _counted(monitor, f"{metrics.INTERACTIONS}_total", "framework")
        outcomes = _counted(monitor, f"{metrics.EVALUATIONS}_total", "outcome")
        expected = captured.total() * len(table.select(monitor.settings.evaluators)) * 2
        began_s, ended_s = self._schedule.spike_s
        alarm = self.alarm_of_spike
        return {
            "interactions": captured.total(),
            "asked": self.asked.total(),
            "by_framework": dict(captured),
            "failed": self.failed,
            "all_accounted_for": self.asked == captured and outcomes.total() == expected,
            "scored": outcomes.pop("scored", 0),
            "unscored": dict(outcomes),
            "hallucination_rate": {
                phase: round(counts["bad"] / counts["claiming"], 4) if counts["claiming"] else None
                for phase, counts in self.phases.items()
            },
            "spike": {"began_s": round(began_s, 3), "ended_s": round(ended_s, 3)},
            "alarm": alarm and {"delay_s": round(alarm.at_s - began_s, 2), "text": str(alarm)},
            "worst": [*self.worst],
            "seconds": round(time.time() - self._schedule.began_s, 2),
        }

    def say_summary(self, summary: dict[str, Any]) -> None:
        """Say what happened, for people."""
        say("")
        for phase, counts in self.phases.items():
            say(
                f"{phase} the spike: {counts['answers']} answers; {counts['bad']} of "
                f"{counts['claiming']} hallucinated"
            )
        if alarm := summary["alarm"]:
            say(f"{alarm['delay_s']:.0f} s after the spike began: {alarm['text']}")
        else:
            say("No alarm was raised: in a longer demo there is more evidence.")
        if self.worst:
            say("Sentences that no chunk supports:")
        for each in self.worst:
            say(quoted(each))
        unscored = ", ".join(f"{cause} {n}" for cause, n in summary["unscored"].items()) or "none"
        say(
            f"{summary['asked']} asked, {summary['interactions']} captured, {summary['scored']} "
            f"scores, without a score: {unscored}; "
            f"{accounted_for(is_complete=summary['all_accounted_for'])}"
        )


def quoted(bad: dict[str, str]) -> str:
    """Return a question with a sentence of its answer and the verdict on it, for people."""
    return f"  {bad['question']}\n    »{bad['sentence']}«  {bad['verdict']}"


def run(options: DemoOptions) -> int:
    """Run the demo and return the exit code.

    Raises:
        RagMonitorError: It cannot begin: no framework, a port that is taken, a bad setting.
    """
    quiet = options.json_output
    if quiet and options.seconds is None:
        raise SettingsError("--json needs --seconds: the object comes at the end")
    drivers = installed()
    settings = Settings.load()
    port = _port(options, settings.server)
    judging: dict[str, Any] = {}
    if settings.judge.model is None:
        judging = {"judge": QuoteJudge(), "sample": 1.0, "budget": Budget(usd_per_day=25.0)}
    documents = load_documents()
    passages = Passages(documents)
    model = SpoilableModel(ExtractiveAnswerer(passages.weights), documents[SETTINGS])
    demo = Demo(Schedule(began_s=time.time(), seconds=options.seconds))
    monitor = Monitor(
        service=SERVICE,
        objectives=OBJECTIVES,
        exporters=[*settings.exporters, demo],
        content=ContentSettings(policy=settings.content.policy or "all"),
        server=ServerSettings(
            enabled=True, port=port, ui=True, ui_url=f"http://127.0.0.1:{port}" if port else None
        ),
        **judging,
    )
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(monitor.close)
        for driver in drivers.values():
            driver.instrument(monitor)
            cleanup.callback(driver.uninstrument)
        applications = {
            name: driver.application(passages, PROMPT, model) for name, driver in drivers.items()
        }
        monitor.start().flush(FLUSH_TIMEOUT_S)  # the page is served by then
        if not quiet:
            say(f"page: {monitor.ui_url or 'not served'}")
            say(f"metrics: {monitor.metrics_url or 'not served'}")
            for name in FRAMEWORKS.keys() - drivers:
                say(f"{name} is not shown; for it: pip install {FRAMEWORKS[name]}")
        demo.ask(applications, model, rate=options.rate, quiet=quiet)
        monitor.flush(FLUSH_TIMEOUT_S)
        summary = demo.summary(monitor)
    if quiet:
        print_json(summary)
    else:
        demo.say_summary(summary)
    return FINE if summary["all_accounted_for"] else SOMETHING_WRONG


def _port(options: DemoOptions, server: ServerSettings) -> int:
    """Return the port of /metrics: the one that was asked for, or the usual one if it is free."""
    port = server.port if options.port is None else options.port
    if port == 0 or is_free(server.host, port):
        return port
    if options.port is not None:
        raise SettingsError(f"port {port} is taken; choose another with --port, or 0 for any")
    return 0


def _counted(monitor: Monitor, name: str, label: str) -> Counter[str]:
    """Return a counter of the monitor's, summed by one of its labels."""
    counts: Counter[str] = Counter()
    for family in monitor.registry.collect():
        for sample in family.samples:
            if sample.name == name and sample.value:
                counts[sample.labels[label]] += int(sample.value)
    return counts
