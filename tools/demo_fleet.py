# ruff: noqa: INP001  # a script that people run by hand
"""A fleet on one machine: three applications, two workers, an estimator and a standby, on a Redis.

Two applications are Python's, LangChain and LlamaIndex. The third one is Node.js, with a receiver
of OTLP, where node and npm are installed and npm's registry answers (`--no-nodejs`: never).

A spike of hallucinations is planted; one worker and then the estimator are killed with -9 while it
runs. At the end every question is accounted for, and the spike was announced once.
`make demo-fleet ARGS="--seconds 60 --json"`; the last line of the output is a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ragmonitor import Budget, Monitor, ServerSettings
from ragmonitor.cli.counts import read_counts
from ragmonitor.cli.demo.answerer import PROMPT, ExtractiveAnswerer
from ragmonitor.cli.demo.demo_questions import questions
from ragmonitor.cli.demo.documents import load_documents
from ragmonitor.cli.demo.phases import DemoClock, Phase, Schedule
from ragmonitor.cli.demo.quote_judge import QuoteJudge
from ragmonitor.cli.demo.term_vectors import TermVectors
from ragmonitor.cli.demo.terms import Weights
from ragmonitor.cli.demo.traffic import Asker, SpoilableModel
from ragmonitor.cli.drivers import load
from ragmonitor.fleet.estimator import Estimator
from ragmonitor.fleet.estimator_state import KEPT_STATE
from ragmonitor.fleet.fleet_stream import ESTIMATOR, FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.receive import Receiver
from ragmonitor.records import AlarmEvent
from ragmonitor.redaction import Redactor
from ragmonitor.settings import EstimationSettings, Settings
from ragmonitor.testing import ListExporter

SERVICE = "demo-fleet"
FRAMEWORKS = ("langchain", "llama_index")
NODEJS = "nodejs"
EXAMPLES = Path(__file__).parents[1] / "examples" / "nodejs"
INSTALL = (
    "npm install --no-audit --no-fund --ignore-scripts --fetch-retries 1 --fetch-timeout 20000"
)
INSTALL_S = 180.0
OBJECTIVES = {"hallucination": 0.15, "refusal": 0.4}
START_S = 30.0
DRAIN_S = 120.0


# --- the parts, each a process of its own ----------------------------------------


class AskedNotes:
    """Counts what an application was asked."""

    def __init__(self) -> None:
        self.asked = self.failures = 0

    def asking(self, framework: str, phase: Phase) -> None:  # noqa: ARG002 - of the protocol
        """Count a question."""
        self.asked += 1

    def failed(self, framework: str, error: Exception) -> None:  # noqa: ARG002 - likewise
        """Count a failure."""
        self.failures += 1


class AlarmLines(ListExporter):
    """Writes each alarm that is announced as a line of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def export(self, report: Any) -> None:
        """Keep nothing."""

    def alarm(self, event: AlarmEvent) -> None:
        """Write it down."""
        line = {"signal": event.signal, "raised": event.raised, "at_s": time.time()}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line | {"by": os.getpid()}) + "\n")


def settings_of(url: str, **options: Any) -> Settings:
    """Return what workers and estimators have in common."""
    return Settings.load(
        service=SERVICE,
        stream=url,
        judge=QuoteJudge(),
        sample=0.5,
        budget=Budget(usd_per_day=25.0),
        objectives=OBJECTIVES,
        estimation=EstimationSettings(drift_reference_size=100),
        **options,
    )


def application(framework: str, url: str, seconds: float, rate: float, out: Path) -> None:
    """Ask a real framework's application, and write down how often."""
    documents = load_documents()
    weights = Weights(paragraph for text in documents.values() for paragraph in text.split("\n\n"))
    driver, notes, stop = load(framework), AskedNotes(), threading.Event()
    model = SpoilableModel(ExtractiveAnswerer(weights))
    with Monitor(SERVICE, stream=url, server=False) as monitor:
        driver.instrument(monitor)
        app = driver.application(documents, PROMPT, model, TermVectors(weights))
        out.with_suffix(".ready").touch()
        while not out.with_name("go").exists():
            time.sleep(0.05)
        asker = Asker(
            framework,
            app,
            model,
            questions(f"7:{framework}", chinese=True),
            cause="version",
            in_spike=app,
            clock=DemoClock(Schedule.within(seconds), slowest=1.0),
            seconds=seconds,
            rate=rate,
            spike_share=0.9,
            seed=7,
            notes=notes,
            stop=stop,
        )
        asker.start()
        asker.join()
        driver.uninstrument()
        monitor.flush(30.0)
    refused = read_counts(monitor.registry).captured
    out.write_text(json.dumps({"asked": notes.asked, "failed": notes.failures, "refused": refused}))


def part(role: str, options: argparse.Namespace) -> None:
    """Be one part until asked to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    folder = Path(options.folder)
    if role in FRAMEWORKS:
        out = folder / f"{role}.json"
        application(role, options.url, options.seconds, options.rate / len(FRAMEWORKS), out)
    elif role == "worker":
        settings = settings_of(options.url, server=False)
        FleetWorker(settings, FleetStream.of(settings), redactor=Redactor()).run(stop)
    elif role == "receiver":
        addresses = {"http_port": options.port}
        receiver = Receiver(
            Settings.load(service=SERVICE, stream=options.url, server=False, receive=addresses),
            redactor=Redactor(),
        )
        receiver.listen()
        (folder / "receiver.ready").touch()
        receiver.run(stop)
    else:
        server = ServerSettings(enabled=True, port=options.port, ui=True)
        exporters = [AlarmLines(folder / "alarms.jsonl")]
        settings = settings_of(options.url, server=server, exporters=exporters)
        Estimator(settings, FleetStream.of(settings)).run(stop)


# --- the demo --------------------------------------------------------------------


def free_port() -> int:
    """Return a port of loopback that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Start a Redis that stores every write at once; yield its address."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise SystemExit("redis-server is not installed; on Debian: apt-get install redis-server")
    port = free_port()
    options = f"--bind 127.0.0.1 --port {port} --save  --appendonly yes --appendfsync always"
    arguments = [*options.split(" "), "--maxmemory-policy", "noeviction", "--dir", str(folder)]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([binary, *arguments], stdout=log, stderr=log)
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(10)


class Fleet:
    """The processes of the demo."""

    def __init__(self, url: str, folder: Path, options: argparse.Namespace) -> None:
        self.stream = FleetStream(url, SERVICE)
        self._url, self._folder, self._options = url, folder, options
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: list[str] = []

    def start(self, name: str, role: str, port: int = 0) -> None:
        """Start one part."""
        arguments = ["--role", role, "--url", self._url, "--folder", str(self._folder)]
        arguments += ["--seconds", str(self._options.seconds), "--rate", str(self._options.rate)]
        with (self._folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, __file__, *arguments, "--port", str(port)],
                stdout=log,
                stderr=log,
                env=os.environ | {"RAGMONITOR_WORKER": "thread", "OTEL_SDK_DISABLED": "true"},
            )

    def kill(self, name: str) -> None:
        """Kill one part with -9."""
        self.processes[name].kill()
        self.processes[name].wait(10)
        self.killed.append(name)

    def leader(self) -> str:
        """Return the name of the estimator that has the lease; empty: nobody has it."""
        held = self.stream.leader().removeprefix(ESTIMATOR)
        for name, process in self.processes.items():
            if f"-{process.pid}-" in held:
                return name
        return ""

    def end(self) -> None:
        """Ask every part to stop."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(what: str, is_so: Callable[[], Any], seconds: float) -> None:
    """Wait for something to be so, or end the demo."""
    until_s = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until_s:
            raise SystemExit(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)


def demo(options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the demo, and return what came of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="demo-fleet-")))
        url = stack.enter_context(redis_server(folder))
        fleet = Fleet(url, folder, options)
        stack.callback(fleet.end)
        place = installed_nodejs(folder, say) if options.nodejs else None
        wait_for("redis-server answers", lambda: _answers(fleet.stream), START_S)
        for name in ("estimator", "standby"):
            port = free_port()
            fleet.start(name, "estimator", port)
            say(f"{name}: http://127.0.0.1:{port}/ragmonitor/ while it has the lease")
        for name in ("worker 1", "worker 2"):
            fleet.start(name, "worker")
        for framework in FRAMEWORKS:
            fleet.start(framework, framework)
        ready = [folder / f"{framework}.ready" for framework in FRAMEWORKS]
        wait_for("the applications are built", lambda: all(r.exists() for r in ready), 4 * START_S)
        wait_for("an estimator has the lease", fleet.leader, START_S)
        third = None if place is None else NodeApplication(fleet, folder, place, options.seconds)
        (folder / "go").touch()
        if third is not None:
            third.ask()
        takeover_s = _break(fleet, options.seconds, say)
        results = [folder / f"{framework}.json" for framework in FRAMEWORKS]
        wait_for("the applications end", lambda: all(r.exists() for r in results), 2 * DRAIN_S)
        if third is not None:
            third.end()
            told = {"asked": third.asked, "failed": 0, "refused": 0}
            (folder / f"{NODEJS}.json").write_text(json.dumps(told))
        wait_for("everything is counted", lambda: _is_counted(fleet.stream), DRAIN_S)
        return _summary(fleet, folder, takeover_s)


def installed_nodejs(folder: Path, say: Callable[[str], None]) -> Path | None:
    """Install the application of Node.js in a folder; None: there is no Node.js, or no registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        say("no Node.js: two applications")
        return None
    place = folder / NODEJS
    place.mkdir()
    for path in (EXAMPLES / "genai.mjs", EXAMPLES / "package.json"):
        shutil.copy(path, place)
    say("installing the packages of the Node.js application")
    try:
        subprocess.run(
            INSTALL.split(), cwd=place, check=True, capture_output=True, timeout=INSTALL_S
        )
    except (subprocess.SubprocessError, OSError) as error:
        say(f"npm's registry does not answer ({type(error).__name__}): two applications")
        return None
    return place


class NodeApplication:
    """An application of Node.js, and the receiver that it sends its spans to."""

    def __init__(self, fleet: Fleet, folder: Path, place: Path, seconds: float) -> None:
        self.asked = max(1, round(seconds))
        self._fleet, self._place = fleet, place
        self._port = free_port()
        fleet.start("receiver", "receiver", self._port)
        ready = folder / "receiver.ready"
        wait_for("the receiver listens", ready.exists, START_S)

    def ask(self) -> None:
        """Have it ask a question each second."""
        told = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self._port}",
            "QUESTIONS": str(self.asked),
        }
        self._process = subprocess.Popen(
            [str(shutil.which("node")), "genai.mjs"],
            cwd=self._place,
            env=os.environ | told,
            stdout=subprocess.DEVNULL,
        )

    def end(self) -> None:
        """Wait for its last question, and have the receiver put what it holds on the stream."""
        if self._process.wait(DRAIN_S):
            raise SystemExit("the application of Node.js failed")
        receiver = self._fleet.processes["receiver"]
        receiver.terminate()
        receiver.wait(20)


def _answers(stream: FleetStream) -> bool:
    try:
        stream.now_s()
    except Exception:  # noqa: BLE001 - it starts
        return False
    return True


def _break(fleet: Fleet, seconds: float, say: Callable[[str], None]) -> float:
    """Kill a worker, and in the spike the estimator; return how long the takeover took."""
    time.sleep(0.3 * seconds)
    fleet.kill("worker 1")
    say("worker 1 was killed")
    time.sleep(0.15 * seconds)
    leader = fleet.leader()
    fleet.kill(leader)
    began_s = time.monotonic()
    say(f"{leader} was killed, in the spike")
    wait_for("the other one takes over", lambda: fleet.leader() not in {"", leader}, START_S)
    took_s = time.monotonic() - began_s
    say(f"{fleet.leader()} took over after {took_s:.1f} s")
    return took_s


def _is_counted(stream: FleetStream) -> bool:
    counts = stream.counts()
    return not (counts.waiting or counts.open or counts.uncounted)


def _summary(fleet: Fleet, folder: Path, takeover_s: float) -> dict[str, Any]:
    results = {name: folder / f"{name}.json" for name in (*FRAMEWORKS, NODEJS)}
    told = {name: json.loads(path.read_text()) for name, path in results.items() if path.exists()}
    counts = fleet.stream.counts()
    state = json.loads(fleet.stream.kept_field(KEPT_STATE) or b"{}")
    counted = sum(state["interactions"].values())
    asked = sum(each["asked"] for each in told.values())
    refused = sum(each["refused"] for each in told.values())
    log = folder / "alarms.jsonl"
    alarms = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    raised = [each for each in alarms if each["signal"] == "hallucination" and each["raised"]]
    by_role = {key: n for key, n in state["outcomes"].items() if '"faithfulness' in key}
    return {
        "asked": asked,
        "by_framework": {name: each["asked"] for name, each in told.items()},
        "refused": refused,
        "stored": counts.stored,
        "settled": counts.settled,
        "buried": counts.buried,
        "duplicates": counts.duplicates,
        "checks": counts.checks,
        "waiting": counts.waiting,
        "open": counts.open,
        "counted": counted,
        "faithfulness_outcomes": sum(by_role.values()),
        "killed": fleet.killed,
        "takeover_s": round(takeover_s, 2),
        "alarms": alarms,
        "spike_announced_once": len(raised) == 1,
        "sums_agree": (
            asked == counts.stored - counts.checks - counts.duplicates + refused
            and counts.settled + counts.buried == counted + counts.checks
            and counts.stored == counts.settled + counts.buried + counts.duplicates
            and sum(by_role.values()) == 2 * counted
        ),
    }


def main() -> int:
    """Run the demo, or be one part of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=20.0, help="questions per second, in all")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    parser.add_argument("--nodejs", action=argparse.BooleanOptionalAction, default=True)
    for name in ("role", "url", "folder"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        part(options.role, options)
        return 0

    def say(text: str) -> None:
        if not options.json:
            print(text, file=sys.stderr, flush=True)

    summary = demo(options, say)
    print(json.dumps(summary))
    return 0 if summary["sums_agree"] and summary["spike_announced_once"] else 1


if __name__ == "__main__":
    sys.exit(main())
