"""Builds the demo's applications, lets them run under a real monitor, and sums it up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ragmonitor.cli.demo.answerer import PROMPT, ExtractiveAnswerer
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.quote_judge import QuoteJudge
from ragmonitor.cli.demo.spikes import PHASES, PLANTED, REPLACED, Schedule, WrongEdition
from ragmonitor.cli.demo.terms import TermVectors, Weights
from ragmonitor.cli.demo.traffic import Asker, Plan, SpoilableModel
from ragmonitor.cli.demo.watching import BadAnswer, Watching
from ragmonitor.cli.destinations import is_free
from ragmonitor.cli.drivers import FRAMEWORKS, Driver, installed
from ragmonitor.cli.monitor_client import Page
from ragmonitor.cli.options import DemoOptions
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    accounted_for,
    figures_table,
    new_console,
    print_json,
    say,
)
from ragmonitor.evaluators import table
from ragmonitor.judges.sentences import language
from ragmonitor.monitor import Monitor
from ragmonitor.runtime.errors import InputError, SettingsError
from ragmonitor.semconv import metrics
from ragmonitor.settings import (
    Budget,
    ContentSettings,
    EstimationSettings,
    ServerSettings,
    Settings,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

SERVICE: Final = "ragmonitor-demo"
JUDGE_RATE: Final = 0.5
"""Of the answers, where the judge changes: old answers must be left to be read again."""
BUDGET_USD_PER_DAY: Final = 25.0
OBJECTIVES: Final = {"hallucination": 0.15, "refusal": 0.4}
REFRESH_S: Final = 0.25
STATUS_LINE_S: Final = 10.0
FLUSH_TIMEOUT_S: Final = 30.0


@dataclass(slots=True, kw_only=True)
class Demo:
    """A running demo."""

    monitor: Monitor
    watching: Watching
    askers: list[Asker]
    options: DemoOptions
    stop: threading.Event
    remarks: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)

    def is_over(self) -> bool:
        """Return whether nobody asks any more."""
        return not any(asker.is_alive() for asker in self.askers)


def run(options: DemoOptions) -> int:
    """Run the demo and return the exit code.

    Raises:
        RagMonitorError: It cannot begin: no framework, a port that is taken, a bad setting.
    """
    if options.json_output and options.seconds is None:
        raise SettingsError("--json needs --seconds: the object comes at the end")
    drivers = installed()
    port, remark = _port(options)
    watching = Watching()
    settings = Settings.load()
    monitor = Monitor(
        service=SERVICE,
        exporters=[*settings.exporters, watching],
        content=ContentSettings(policy=settings.content.policy or "all"),
        server=ServerSettings(enabled=True, port=port, ui=True, ui_url=f"http://127.0.0.1:{port}"),
        **_judging(options),
    )
    watching.role = "sampled" if monitor.is_judged else "builtin"
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(monitor.close)
        for driver in drivers.values():
            driver.instrument(monitor)
            cleanup.callback(driver.uninstrument)
        demo = _begin(options, drivers, monitor, watching)
        demo.remarks += [remark] if remark else []
        demo.remarks += [
            f"{name} is not shown; for it: pip install {distribution}"
            for name, distribution in FRAMEWORKS.items()
            if name not in drivers
        ]
        interrupted = _run_to_end(demo)
        monitor.flush(FLUSH_TIMEOUT_S)
        summary = _summary(demo)
    if options.json_output:
        print_json(summary)
    else:
        _print_summary(demo, summary, interrupted=interrupted)
    return FINE if summary["all_accounted_for"] else SOMETHING_WRONG


def _judging(options: DemoOptions) -> dict[str, Any]:
    """Return who judges the demo's answers, if the settings name nobody, and the objectives."""
    watched: dict[str, Any] = {
        "objectives": OBJECTIVES,
        "estimation": EstimationSettings(
            compare_by=("service_version", "prompt_version"),
            prices=("demo=0.15/0.6",),
        ),
    }
    settings = Settings.load()
    if settings.judge.model is not None:
        return watched
    watched["judge"] = QuoteJudge()
    if "rate" not in settings.sample.model_fields_set:
        watched["sample"] = JUDGE_RATE if options.cause == "judge" else 1.0
    if not settings.budget.is_given:
        watched["budget"] = Budget(usd_per_day=BUDGET_USD_PER_DAY)
    return watched


def _begin(
    options: DemoOptions,
    drivers: dict[str, Driver],
    monitor: Monitor,
    watching: Watching,
) -> Demo:
    """Build the applications, and have them asked."""
    documents = load_documents()
    weights = Weights(paragraph for text in documents.values() for paragraph in text.split("\n\n"))
    edition = WrongEdition(documents[REPLACED])
    schedule = Schedule.within(options.seconds) if options.seconds else Schedule()
    demo = Demo(
        monitor=monitor, watching=watching, askers=[], options=options, stop=threading.Event()
    )
    plan = Plan(
        cause=options.cause,
        schedule=schedule,
        seconds=options.seconds,
        rate=options.rate / len(drivers),
        spike_share=options.spike_share,
        seed=options.seed,
        chinese=any(language(text) == "zh" for text in documents.values()),
    )
    for name, driver in drivers.items():
        model = SpoilableModel(ExtractiveAnswerer(weights))
        vectors = TermVectors(weights)
        application = in_spike = driver.application(documents, PROMPT, model, vectors)
        if options.cause == "document":
            replaced = documents | {REPLACED: edition.text}
            in_spike = driver.application(replaced, PROMPT, edition.remembering(model), vectors)
        applications = application, in_spike
        demo.askers.append(
            Asker(name, applications, model, plan=plan, watching=watching, stop=demo.stop)
        )
    judge = monitor.settings.judge.model
    if options.cause == "judge" and isinstance(judge, QuoteJudge):
        judge.is_swapped = lambda: demo.askers[0].phase == "during"
    monitor.start()
    demo.began_s = time.monotonic()
    for asker in demo.askers:
        asker.start()
    return demo


def _run_to_end(demo: Demo) -> bool:
    """Show the demo until it is over; return whether the user ended it."""
    import sys

    try:
        if demo.options.json_output or not sys.stdout.isatty():
            _print_status_lines(demo)
        else:
            _show_live(demo)
    except KeyboardInterrupt:
        return True
    else:
        return False
    finally:
        demo.stop.set()
        for asker in demo.askers:
            asker.join(10.0)


def _print_status_lines(demo: Demo) -> None:
    quiet, next_s = demo.options.json_output, 1.0  # the endpoint is there by then
    while not demo.is_over():
        time.sleep(0.05)
        passed_s = time.monotonic() - demo.began_s
        if quiet or passed_s < next_s:
            continue
        if next_s == 1.0:
            for line in _footer(demo):
                say(line)
        next_s = passed_s + STATUS_LINE_S
        asked = sum(demo.watching.asked.values())
        say(f"{passed_s:.0f} s, {demo.askers[0].phase} the spike: {asked} questions")


def _show_live(demo: Demo) -> None:
    from rich.live import Live

    with Live(console=new_console(), auto_refresh=False, transient=True) as live:
        while not demo.is_over():
            live.update(_picture(demo), refresh=True)
            time.sleep(REFRESH_S)


def _picture(demo: Demo) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    watching, phase = demo.watching, demo.askers[0].phase
    style = "reverse red" if phase == "during" else "reverse green"
    passed_s = time.monotonic() - demo.began_s
    asked = "   ".join(f"{name} {n}" for name, n in sorted(watching.asked.items()))
    alarm = watching.active
    lines = [
        Text.assemble((f" {phase} the spike ", style), f"  {passed_s:.0f} s   {asked}   Ctrl-C"),
        Text(f" {alarm} " if alarm else "no alarm", style="bold white on red" if alarm else ""),
    ]
    if watching.last_failure:
        lines.append(Text(f"the application failed: {watching.last_failure}"[:200], style="red"))
    latest = [_marked(each) for each in tuple(watching.latest)]
    footer = [Text(line, style="dim") for line in _footer(demo)]
    return Group(*lines, _phases(watching), *latest, Text(), *footer)


def _phases(watching: Watching) -> RenderableType:
    """Return what each phase came to."""
    shown = figures_table("", "answers", "hallucination rate", "refusals")
    for phase, counts in watching.phases.items():
        rate = "-" if counts.rate is None else f"{counts.bad} of {counts.claiming}"
        shown.add_row(f"{phase} the spike", str(counts.answers), rate, str(counts.refusals))
    return shown


def _marked(bad: BadAnswer) -> Text:
    """Return the unsupported sentence, with the words that the chunks lack marked."""
    from rich.text import Text

    sentence = Text(bad.sentence.text)
    if bad.sentence.words:
        sentence.highlight_words(bad.sentence.words, style="bold red")
    text = Text.assemble((f"  {bad.framework}  {bad.question}  ", "dim"), sentence)
    text.truncate(320, overflow="ellipsis")
    return text


def _footer(demo: Demo) -> Iterator[str]:
    if demo.monitor.ui_url is not None:
        yield f"page: {demo.monitor.ui_url}"
    yield f"metrics: {demo.monitor.metrics_url or 'not served'}"
    yield from demo.remarks


# --- what came of it -----------------------------------------------------------------------------


def _summary(demo: Demo) -> dict[str, Any]:
    watching, monitor = demo.watching, demo.monitor
    judges = 2 if monitor.is_judged else 1
    evaluators = len(table.select(monitor.settings.evaluators))
    captured = _counted(monitor, f"{metrics.INTERACTIONS}_total", "framework")
    outcomes = _counted(monitor, f"{metrics.EVALUATIONS}_total", "outcome")
    interactions, evaluations = sum(captured.values()), sum(outcomes.values())
    scored = outcomes.pop("scored", 0)
    rates = {phase: watching.phases[phase].rate for phase in PHASES}
    spike = dict(zip(("began_s", "ended_s"), watching.spike_s, strict=False))
    return {
        "interactions": interactions,
        "asked": sum(watching.asked.values()),
        "by_framework": dict(captured),
        "failed": sum(watching.failures.values()),
        "refusals": sum(counts.refusals for counts in watching.phases.values()),
        "scored": scored,
        "unscored": dict(outcomes),
        "hallucination_rate": {p: r if r is None else round(r, 4) for p, r in rates.items()},
        "spike": {name: round(at_s, 3) for name, at_s in spike.items()},
        "alarm": _alarm(watching, spike.get("began_s", time.time())),
        "incident": _incident(demo, spike.get("began_s", time.time())),
        "worst": [bad.as_json() for bad in watching.worst],
        "metrics_url": monitor.metrics_url,
        "all_accounted_for": (
            watching.asked == captured and evaluations == interactions * evaluators * judges
        ),
        "seconds": round(time.monotonic() - demo.began_s, 2),
    }


def _counted(monitor: Monitor, name: str, label: str) -> Counter[str]:
    """Return a counter of the monitor's, summed by one of its labels."""
    counts: Counter[str] = Counter()
    for family in monitor.registry.collect():
        for sample in family.samples:
            if sample.name == name and sample.value:
                counts[sample.labels[label]] += int(sample.value)
    return counts


def _alarm(watching: Watching, began_s: float) -> dict[str, Any]:
    """Return the alarm that the spike raised; `false_alarms` counts those before it."""
    raised = [each for each in watching.alarms if each.raised]
    told: dict[str, Any] = {"raised": False, "false_alarms": sum(a.at_s < began_s for a in raised)}
    found = next((each for each in raised if each.at_s >= began_s), None)
    if found is None:
        return told
    later = (each for each in watching.alarms if not each.raised and each.at_s > found.at_s)
    cleared = next((each for each in later if each.signal == found.signal), None)
    return told | {
        "raised": True,
        "signal": found.signal,
        "judge": found.judge,
        "text": str(found),
        "delay_s": round(found.at_s - began_s, 2),
        "cleared_after_s": None if cleared is None else round(cleared.at_s - found.at_s, 2),
        "cause": None if watching.cause is None else str(watching.cause),
    }


def _incident(demo: Demo, began_s: float) -> dict[str, Any] | None:
    """Return the incident of the spike, and what it names as the cause; None: there is none."""
    if demo.monitor.ui_url is None:
        return None
    try:
        listed = Page(demo.monitor.ui_url).json("incidents.json", "incidents")["incidents"]
    except InputError:
        return None
    of_spike = [each for each in listed if each["opened_s"] >= began_s]
    if not of_spike:
        return None
    first = of_spike[-1]
    return {
        "id": first["id"],
        "planted": PLANTED[demo.options.cause],
        "cause": {key: first["cause"][key] for key in ("kind", "name")},
        "closed": first["closed_s"] is not None,
    }


def _print_summary(demo: Demo, summary: dict[str, Any], *, interrupted: bool) -> None:
    console = new_console()
    if interrupted:
        console.print("stopped")
    console.print(_phases(demo.watching))
    alarm, incident = summary["alarm"], summary["incident"]
    if alarm["raised"]:
        console.print(f"{alarm['delay_s']:.0f} s after the spike began: {alarm['text']}.")
        if alarm["cleared_after_s"] is not None:
            console.print(f"It was cleared {alarm['cleared_after_s']:.0f} s later.")
        if alarm["cause"]:
            console.print(alarm["cause"])
    else:
        console.print("No alarm was raised: in a longer demo there is more evidence.")
    if alarm["false_alarms"]:
        console.print(f"{alarm['false_alarms']} false alarms before the spike")
    if incident is not None:
        cause = incident["cause"]
        named = "no cause" if cause["kind"] == "unknown" else f"{cause['kind']} {cause['name']}"
        console.print(f"Incident {incident['id']} names {named}.", markup=False)
    if demo.watching.worst:
        console.print("The worst answers:")
    for bad in demo.watching.worst:
        console.print(_marked(bad))
    unscored = ", ".join(f"{cause} {n}" for cause, n in summary["unscored"].items()) or "none"
    console.print(
        f"\n{summary['asked']} asked, {summary['interactions']} captured, {summary['scored']} "
        f"scores, without a score: {unscored}; "
        f"{accounted_for(is_complete=summary['all_accounted_for'])}"
    )


# --- what it needs -------------------------------------------------------------------------------


def _port(options: DemoOptions) -> tuple[int, str]:
    """Return the port for /metrics, and what is to be said of it."""
    settings = Settings.load()
    port = settings.server.port if options.port is None else options.port
    if port == 0 or is_free(settings.server.host, port):
        return port, ""
    if options.port is not None:
        raise SettingsError(f"port {port} is taken; choose another with --port, or 0 for any")
    return 0, f"port {port} is taken: a free one serves /metrics instead"
