"""Builds the demo's applications, lets them run under a real monitor, and sums it up."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragmonitor.cli.counts import Counts, read_counts
from ragmonitor.cli.demo.answerer import PROMPT, ExtractiveAnswerer
from ragmonitor.cli.demo.causes_of_spikes import PLANTED, REPLACED, SpikeCause, WrongEdition
from ragmonitor.cli.demo.collector import (
    Collector,
    ReceivedAlarm,
    UnsupportedAnswer,
    is_of_traffic,
)
from ragmonitor.cli.demo.demo_gate import VersionGate
from ragmonitor.cli.demo.demo_goldens import PER_SECOND, GoldenDesk, demo_goldens
from ragmonitor.cli.demo.demo_questions import questions
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.phases import PHASES, SLOWEST, DemoClock, Schedule
from ragmonitor.cli.demo.quote_judge import QuoteJudge
from ragmonitor.cli.demo.term_vectors import TermVectors
from ragmonitor.cli.demo.terms import Weights
from ragmonitor.cli.demo.traffic import Asker, SpoilableModel
from ragmonitor.cli.destinations import destination, is_free
from ragmonitor.cli.drivers import FRAMEWORKS, Application, Driver, installed
from ragmonitor.cli.incident_reports import incidents_of
from ragmonitor.cli.monitor_options import IncidentSource
from ragmonitor.cli.options import DemoOptions
from ragmonitor.cli.rollout import RolloutDecision
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    accounted_for,
    new_console,
    print_json,
    progress,
    say,
)
from ragmonitor.errors import MissingExtraError, SettingsError
from ragmonitor.evaluators import table
from ragmonitor.goldens.probing import Probe
from ragmonitor.incidents import Incident
from ragmonitor.judges.sentences import language
from ragmonitor.monitor import Monitor
from ragmonitor.settings import (
    Budget,
    EstimationSettings,
    ServerSettings,
    Settings,
    StreamSettings,
)

if TYPE_CHECKING:
    from rich.console import Console

SERVICE = "ragmonitor-demo"
JUDGE_RATE = 0.5
"""The share of the answers: in a demo that lasts a minute an hour's verdicts must come quickly."""
BUDGET_USD_PER_DAY = 25.0
OBJECTIVE = {"hallucination": 0.15, "refusal": 0.4}
COLUMNS = 60
"""The columns of the chart of a demo that ends."""
ENDLESS_BIN_S = 5.0
REFRESH_S = 0.25
STATUS_LINE_S = 10.0
FLUSH_TIMEOUT_S = 30.0
MODEL_TIMEOUT_S = 60.0


@dataclass(slots=True, kw_only=True)
class Demo:
    """A running demo."""

    monitor: Monitor
    collector: Collector
    clock: DemoClock
    askers: list[Asker]
    documents: int
    cause: SpikeCause
    stop: threading.Event = field(default_factory=threading.Event)
    probe: Probe | None = None
    """Asks golden questions."""
    gate: VersionGate | None = None
    """Compares the versions of the prompt; None: there is one version only."""
    remarks: list[str] = field(default_factory=list)

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
    respond = _language_model(options.model) if options.model else None
    seconds = options.seconds
    # Columns of two answers and more, or the picture would be half gaps.
    collector = Collector(
        bin_s=max(seconds / COLUMNS, 3 / options.rate) if seconds else ENDLESS_BIN_S
    )
    settings = Settings.load()
    # Workers elsewhere would have the figures that are shown at the end.
    scores_by_itself = seconds is not None and settings.stream.url is not None
    monitor = Monitor(
        service=SERVICE,
        exporters=[*settings.exporters, collector],
        server=ServerSettings(enabled=True, port=port, ui=True, ui_url=f"http://127.0.0.1:{port}"),
        stream=StreamSettings(url=None) if scores_by_itself else settings.stream,
        **_judging(options),
    )
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(monitor.close)
        for driver in drivers.values():
            driver.instrument(monitor)
            cleanup.callback(driver.uninstrument)
        demo = _begin(options, drivers, monitor, collector, respond)
        demo.remarks += [remark] if remark else []
        if scores_by_itself:
            demo.remarks.append(
                "with --seconds the demo scores by itself; without it, workers of the stream do"
            )
        demo.remarks += [
            f"{name} is not shown; for it: pip install {distribution}"
            for name, distribution in FRAMEWORKS.items()
            if name not in drivers
        ]
        interrupted = _run_to_end(demo, options)
        monitor.flush(FLUSH_TIMEOUT_S)
        if demo.gate is not None:
            demo.gate.finish()
        summary = _summary(demo, read_counts(monitor.registry))
    if options.json_output:
        print_json(summary)
    else:
        _print_summary(demo, summary, interrupted=interrupted)
    return FINE if summary["all_accounted_for"] else SOMETHING_WRONG


def _judging(options: DemoOptions) -> dict[str, Any]:
    """Return who judges the demo's answers, and the objectives of them.

    A model of one's own answers in its own words: then the built-in judge alone reads them, or the
    judge that the settings name.
    """
    watched: dict[str, Any] = {
        "objectives": OBJECTIVE,
        "estimation": EstimationSettings(
            drift_reference_size=100,
            compare_by=("service_version", "prompt_version"),
            prices=("demo=0.15/0.6",),
        ),
    }
    settings = Settings.load()
    if options.model is not None or settings.judge.model is not None:
        return watched
    # Of a part of the traffic enough verdicts must come within seconds: of a route to tell its rate
    # before the spike, of a version for the gate, of a document to name it.
    rate = JUDGE_RATE if options.cause == "judge" else 1.0
    watched["judge"] = QuoteJudge()
    if "rate" not in settings.sample.model_fields_set:
        watched["sample"] = rate
    if not settings.budget.is_given:
        watched["budget"] = Budget(usd_per_day=BUDGET_USD_PER_DAY)
    return watched


def _begin(
    options: DemoOptions,
    drivers: dict[str, Driver],
    monitor: Monitor,
    collector: Collector,
    respond: Callable[[str], str] | None,
) -> Demo:
    documents = load_documents()
    weights = Weights(paragraph for text in documents.values() for paragraph in text.split("\n\n"))
    chinese = any(language(text) == "zh" for text in documents.values())
    built: list[tuple[str, Application, Application, SpoilableModel]] = []
    edition = WrongEdition(documents[REPLACED])
    with progress("building the applications", len(drivers), quiet=options.json_output) as advance:
        for done, (name, driver) in enumerate(drivers.items(), 1):
            model = SpoilableModel(respond or ExtractiveAnswerer(weights))
            vectors = TermVectors(weights)
            application = in_spike = driver.application(documents, PROMPT, model, vectors)
            if options.cause == "document":
                in_spike = driver.application(
                    documents | {REPLACED: edition.text},
                    PROMPT,
                    edition.remembering(model),
                    vectors,
                )
            built.append((name, application, in_spike, model))
            advance(done)
    monitor.start()
    _wait_for_endpoint(monitor)
    clock = DemoClock(
        Schedule.within(options.seconds) if options.seconds else Schedule(),
        # A language model's seconds per answer are what they are.
        slowest=SLOWEST if respond is None else 1.0,
    )
    demo = Demo(
        monitor=monitor,
        collector=collector,
        clock=clock,
        askers=[],
        documents=len(documents),
        cause=options.cause,
    )
    collector.began_ns = time.time_ns()
    collector.phase_now = lambda: clock.phase
    desk = GoldenDesk()
    demo.askers += [
        Asker(
            name,
            application,
            model,
            questions(f"{options.seed}:{name}", chinese=chinese),
            cause=options.cause,
            in_spike=in_spike,
            clock=clock,
            seconds=options.seconds,
            rate=options.rate / len(built),
            spike_share=options.spike_share,
            seed=options.seed,
            notes=collector,
            stop=demo.stop,
            goldens=desk,
        )
        for name, application, in_spike, model in built
    ]
    for asker in demo.askers:
        asker.start()
    _watch_goldens(demo, desk, documents)
    _watch_versions(demo)
    return demo


def _watch_goldens(demo: Demo, desk: GoldenDesk, documents: dict[str, str]) -> None:
    """Have golden questions asked; with the cause `judge`, another judge reads in the spike."""
    goldens, judge = demo_goldens(documents), demo.monitor.settings.judge.model
    if demo.cause == "judge" and isinstance(judge, QuoteJudge):
        judge.is_swapped = lambda: demo.clock.phase == "during"
    demo.probe = demo.monitor.probe(
        desk.ask, goldens, every=len(goldens) / PER_SECOND, per_hour=3_600 * PER_SECOND
    )


def _watch_versions(demo: Demo) -> None:
    """Have the gate decide of the new version of the prompt, where there is one."""
    address = demo.monitor.metrics_url
    if demo.cause == "version" and address is not None:
        demo.gate = VersionGate(service=SERVICE, address=address, clock=demo.clock)
        demo.gate.start()


def _run_to_end(demo: Demo, options: DemoOptions) -> bool:
    """Show the demo until it is over; return whether the user ended it."""
    import sys

    try:
        if options.json_output or not sys.stdout.isatty():
            _print_status_lines(demo, quiet=options.json_output)
        else:
            _show_live(demo)
    except KeyboardInterrupt:
        return True
    else:
        return False
    finally:
        demo.stop.set()
        if demo.probe is not None:
            demo.probe.stop()
        for asker in demo.askers:
            asker.join(MODEL_TIMEOUT_S if options.model else 10.0)


def _print_status_lines(demo: Demo, *, quiet: bool) -> None:
    if not quiet:
        for line in _footer(demo):
            say(line)
    next_s = STATUS_LINE_S
    while not demo.is_over():
        time.sleep(0.05)
        if not quiet and demo.clock.elapsed_s >= next_s:
            next_s += STATUS_LINE_S
            say(
                f"{demo.clock.elapsed_s:.0f} s, {demo.clock.phase} the spike: "
                f"{sum(demo.collector.asked.values())} questions"
            )


def _show_live(demo: Demo) -> None:
    from rich.console import Console
    from rich.live import Live

    from ragmonitor.cli.demo.screen import screen

    console = Console()

    def picture() -> Any:
        return screen(
            demo.collector,
            phase=demo.clock.phase,
            elapsed_s=demo.clock.elapsed_s,
            width=console.width,
            title=f"ragmonitor demo: real traffic over {demo.documents} documents",
            gate="" if demo.gate is None else _gate_line(demo.gate.latest),
            footer=_footer(demo),
        )

    with Live(picture(), console=console, auto_refresh=False, transient=True) as live:
        while not demo.is_over():
            time.sleep(REFRESH_S)
            live.update(picture(), refresh=True)


def _footer(demo: Demo) -> Iterator[str]:
    if demo.monitor.ui_url is not None:
        yield f"page: {demo.monitor.ui_url}"
    yield f"metrics: {demo.monitor.metrics_url or 'not served'}"
    sink = destination("TRACES") if demo.monitor.settings.export.traces else None
    yield (
        f"traces: {sink.address} ({sink.protocol})"
        if sink
        else "traces: nowhere; set OTEL_EXPORTER_OTLP_ENDPOINT to send them somewhere"
    )
    yield from demo.remarks


def _summary(demo: Demo, counts: Counts) -> dict[str, Any]:
    collector = demo.collector
    judges = 2 if demo.monitor.is_judged else 1
    evaluators = len(table.select(demo.monitor.settings.evaluators))
    asked = sum(collector.asked.values())
    faithfulness = {phase: collector.phases[phase].mean_faithfulness for phase in PHASES}
    rates = {phase: collector.phases[phase].hallucination_rate for phase in PHASES}
    return {
        "interactions": counts.captured,
        "asked": asked,
        "by_framework": counts.by_framework,
        "failed": sum(collector.failures.values()),
        "refusals": sum(sums.refusals for sums in collector.phases.values()),
        "scored": counts.scored,
        "unscored": counts.unscored,
        "faithfulness": {p: e and round(e.mean, 4) for p, e in faithfulness.items()},
        "hallucination_rate": {p: e and round(e.mean, 4) for p, e in rates.items()},
        "by_phase": {phase: collector.phases[phase].interactions for phase in PHASES},
        "spike": _spike(demo),
        "alarm": _alarm(demo),
        "golden": collector.goldens.as_json(golden_alarms(collector)),
        "incident": _incident(demo),
        "gate": None
        if demo.gate is None or demo.gate.latest is None
        else demo.gate.latest.as_json(),
        "worst": [unsupported.as_json() for unsupported in collector.worst],
        "metrics_url": demo.monitor.metrics_url,
        "all_accounted_for": (
            asked == counts.captured
            and dict(collector.asked) == counts.by_framework
            and counts.evaluations == counts.captured * evaluators * judges
        ),
        "seconds": round(demo.clock.real_s, 2),
    }


def golden_alarms(collector: Collector) -> list[str]:
    """Return the signals of the alarms of golden questions that were raised, in order."""
    return [
        each.event.signal
        for each in collector.alarms
        if each.event.raised and each.event.signal.startswith("golden_")
    ]


def _spike(demo: Demo) -> dict[str, float]:
    """Return when the first spike was, in seconds since the epoch."""
    began_s, ended_s = (demo.collector.began_ns / 1e9 + end_s for end_s in demo.clock.spike)
    return {"began_s": round(began_s, 3), "ended_s": round(ended_s, 3)}


def _spike_alarm(demo: Demo) -> tuple[ReceivedAlarm | None, float]:
    """Return the alarm that received the spike, and when the spike began."""
    began_s = demo.clock.began_s + demo.clock.spike[0]
    quality = [a for a in demo.collector.alarms if is_of_traffic(a.event) and a.event.raised]
    return next((a for a in quality if a.at_s >= began_s), None), began_s


def _incident(demo: Demo) -> dict[str, Any] | None:
    """Return the incident of the spike: what it names as the cause, and how soon; None: none."""
    began_s = _spike(demo)["began_s"]
    spikes = [each for each in served_incidents(demo.monitor) if each.opened_s >= began_s]
    if not spikes:
        return None
    incident = spikes[-1]
    cause = incident.cause
    return {
        "id": incident.id,
        "planted": PLANTED[demo.cause],
        "cause": {
            "kind": cause.kind,
            "name": cause.name,
            "after_alarm_s": round(cause.named_s - incident.opened_s, 2),
            "after_spike_s": round(cause.named_s - began_s, 2),
        },
        "parts": [{"kind": each.kind, "name": each.name} for each in incident.parts],
        "closed": not incident.is_open,
    }


def served_incidents(monitor: Monitor) -> Sequence[Incident]:
    """Return the incidents that the monitor's page serves, the newest first; none without it."""
    token = monitor.settings.server.ui_token
    if monitor.ui_url is None:
        return ()
    return incidents_of(
        IncidentSource(
            address=monitor.ui_url, token="" if token is None else token.get_secret_value()
        )
    )


def _alarm(demo: Demo) -> dict[str, Any]:
    """Return how the spike was received; `false_alarms` is what was received before it."""
    found, began_s = _spike_alarm(demo)
    received = demo.collector.alarms
    quality = [a for a in received if is_of_traffic(a.event) and a.event.raised]
    cleared = next(
        (
            a
            for a in received
            if found is not None
            and not a.event.raised
            and a.event.signal == found.event.signal
            and a.at_s > found.at_s
        ),
        None,
    )
    told: dict[str, Any] = {
        "raised": found is not None,
        "false_alarms": sum(a.at_s < began_s for a in quality),
    }
    if found is None:
        return told
    event = found.event
    told |= {
        "signal": event.signal,
        "judge": event.judge,
        "delay_s": round(found.at_s - began_s, 2),
        "objective": event.objective,
        "cleared_after_s": None if cleared is None else round(cleared.at_s - found.at_s, 2),
        "cause": None,
        "estimate": None,
        "worst": [
            unsupported.as_json() for unsupported in demo.collector.unsupported_answers(event)
        ],
    }
    cause = demo.collector.cause
    if cause is not None:
        told["cause"] = {
            "is": cause.cause,
            "reread": cause.reread,
            "flipped": cause.flipped,
            "text": str(cause),
        }
    if event.telling is not None:
        told["estimate"] = {
            "mean": round(event.telling.mean, 4),
            "lower": round(event.telling.lower, 4),
            "upper": round(event.telling.upper, 4),
            "effective_n": round(event.telling.effective_n, 1),
        }
    return told


def _print_summary(demo: Demo, summary: dict[str, Any], *, interrupted: bool) -> None:
    from ragmonitor.cli.demo.screen import chart, phases

    console = new_console()
    if interrupted:
        console.print("stopped")
    console.print(chart(demo.collector, width=max(10, min(120, console.width - 10))), end="")
    console.print(phases(demo.collector))
    _print_alarm(console, demo, summary["alarm"])
    _print_incident(console, summary["incident"])
    _print_goldens(console, summary["golden"])
    if demo.gate is not None:
        console.print(_gate_line(demo.gate.latest), highlight=False, markup=False)
    by_framework = ", ".join(f"{name} {n}" for name, n in summary["by_framework"].items())
    unscored = sum(summary["unscored"].values())
    console.print(
        f"\n{summary['asked']} asked, {summary['interactions']} captured ({by_framework}); "
        f"{summary['scored']} scores, {unscored} without a score; "
        f"{accounted_for(is_complete=summary['all_accounted_for'])}"
    )


def _print_alarm(console: Console, demo: Demo, alarm: dict[str, Any]) -> None:
    from ragmonitor.cli.demo.screen import marked

    unsupported_answers: Iterable[UnsupportedAnswer] = demo.collector.worst
    if alarm["raised"]:
        line = (
            f"[bold red]alarm[/] {alarm['delay_s']:.0f} s after the spike began: {alarm['signal']}"
        )
        if alarm["estimate"] is not None:
            line += " {mean:.2f} ({lower:.2f} to {upper:.2f})".format(**alarm["estimate"])
        line += f", objective {alarm['objective']:.2f}, by {alarm['judge']}"
        if alarm["cleared_after_s"] is not None:
            line += f"; cleared {alarm['cleared_after_s']:.0f} s later"
        console.print(f"{line}.")
        if alarm["cause"] is not None:
            console.print(alarm["cause"]["text"])
        console.print("The worst answers behind it:")
        found, _ = _spike_alarm(demo)
        unsupported_answers = (
            demo.collector.unsupported_answers(found.event) if found else []
        ) or unsupported_answers
    else:
        console.print("no alarm was raised")
    for unsupported in unsupported_answers:
        console.print(marked(unsupported))
    if alarm["false_alarms"]:
        console.print(f"{alarm['false_alarms']} false alarms before the spike")


def _print_incident(console: Console, incident: dict[str, Any] | None) -> None:
    from rich.markup import escape

    if incident is None:
        return
    cause = incident["cause"]
    if cause["kind"] in ("unknown", "everywhere"):
        console.print(f"Incident {incident['id']}: no part of the answers is named.")
    else:
        console.print(
            f"Incident {incident['id']} names the {cause['kind']} [bold]{escape(cause['name'])}[/],"
            f" {cause['after_alarm_s']:.0f} s after the alarm."
        )


def _gate_line(now: RolloutDecision | None) -> str:
    """Return what the gate says of the new version; empty: it has not looked yet."""
    if now is None:
        return ""
    if now.decision == "undecided":
        return f"gate: {now}"
    return f"gate: {now}; exit code {now.exit_code}, {now.waited_s:.0f} s after the version came"


def _print_goldens(console: Console, golden: dict[str, Any]) -> None:
    told = ", ".join(f"{each:.2f} {p}" for p, each in golden["answer_correctness"].items())
    if told:
        faults = max(golden["faults"].values(), default=0)
        console.print(
            f"Golden questions, {golden['asked']} asked: answer_correctness {told} the spike; the "
            f"judge rejects {faults} reference answers. At fault: {golden['at_fault']}."
        )


def _port(options: DemoOptions) -> tuple[int, str]:
    """Return the port for /metrics, and what is to be said of it."""
    settings = Settings.load()
    port = settings.server.port if options.port is None else options.port
    if port == 0 or is_free(settings.server.host, port):
        return port, ""
    if options.port is not None:
        raise SettingsError(f"port {port} is taken; choose another with --port, or 0 for any")
    return 0, f"port {port} is taken: a free one serves /metrics instead"


def _wait_for_endpoint(monitor: Monitor) -> None:
    for _ in range(200):
        if monitor.metrics_url is not None:
            return
        time.sleep(0.01)


def _language_model(model: str) -> Callable[[str], str]:
    """Return a function that asks a model through litellm, tried once.

    Raises:
        MissingExtraError: litellm is not installed.
        SettingsError: The model does not answer.
    """
    try:
        import litellm
    except ImportError as error:
        raise MissingExtraError("litellm", "litellm") from error
    litellm.suppress_debug_info = True

    def respond(prompt: str) -> str:
        messages: Sequence[dict[str, str]] = [{"role": "user", "content": prompt}]
        reply = litellm.completion(model=model, messages=messages, timeout=MODEL_TIMEOUT_S)
        return str(reply.choices[0].message.content or "")

    try:
        respond("Say: ready")
    except Exception as error:
        problem = " ".join(str(error).split())[:240]
        raise SettingsError(f"--model {model}: {type(error).__name__}: {problem}") from error
    return respond
