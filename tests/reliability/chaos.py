"""Every endpoint, every fault, every way that an application runs: what the application felt.

    python -m tests.reliability.chaos [--endpoint otlp] [--fault hang] [--mode sync]
        [--worker thread]

Each cell of the table is an application of its own (`chaos_application.py`) that answers, has the
fault for a while, answers meanwhile, and answers again when it is over; then it is asked to end.
Measured is, of the answers under the fault, how much longer the median and the 99th percentile
took than in the same application without a monitor; what was raised into them; how many lines
reached the log; how long the end took. Then the counters are read: each answer must have one
outcome for each evaluator and judge, and what did not arrive must be counted as dropped.

The servers are real or strict doubles behind a gate that refuses, delays, hangs, resets, replies
with rubbish, with 507 or with 403. A disk is a tmpfs of the application's own mount namespace
(Linux, `unshare`); the wall clock is moved by a library loaded before libc (`cc`). What the system
does not offer is named as skipped.

Prints a Markdown table and one line of JSON; exits with 1 if something was felt, or was lost and
not counted. A cell that was felt is tried once more, right after the application alone: other work
on the machine is not ours.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from ragmonitor.back_half.shared_helper import GRACE_S
from tests.reliability.faulty_endpoints import NETWORK_FAULTS, Endpoints
from tests.support.waiting import until

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
MODES: Final = ("sync", "async", "fork", "gunicorn preload", "uvicorn workers", "celery prefork")
WORKERS: Final = ("thread", "process", "shared")
FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "otlp": NETWORK_FAULTS,
    "judge": NETWORK_FAULTS,
    "phoenix": NETWORK_FAULTS,
    "langfuse": NETWORK_FAULTS,
    "scrape": ("refused", "slow", "hang", "reset", "garbage", "full"),
    "disk": ("refused", "hang", "garbage", "full", "read-only"),
    "state": ("refused", "hang", "garbage", "full", "read-only"),
    "clock": ("jump ahead", "jump back"),
}
BEFORE, DURING, AFTER = 20, 60, 20
"""Answers in each phase."""
PAUSE_S: Final = 0.06
"""Between two answers under the fault."""
WITHIN_S: Final = 180
"""For the application to start, or to answer: the machine may be busy with other work."""
DAY_S: Final = 86_400
MAX_MEDIAN_MS: Final = 5.0
"""What the median answer may take longer than alone."""
MAX_P99_MS: Final = 100.0
"""What the 99th percentile may; two cores that others use, too, are not steady."""
MAX_LOG_LINES: Final = 10
"""Of one process: a fault is said once, not once for each answer."""
MAX_EXIT_S: Final = 7.0
"""What the end may take longer than alone: 5 s are promised."""
_PROCESSES: Final = {"fork": 5, "gunicorn preload": 3, "uvicorn workers": 3, "celery prefork": 3}
_LOGGED: Final = re.compile(r"(ragmonitor|opentelemetry)[\w.]*\|")


@dataclass(kw_only=True)
class Cell:
    """What one application made of one fault."""

    endpoint: str
    fault: str
    mode: str
    worker: str
    answers: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    """Of the answers under the fault."""
    added_p50_ms: float = 0.0
    added_p99_ms: float = 0.0
    errors: int = 0
    """Answers that raised."""
    log_lines: int = 0
    tracebacks: int = 0
    exit_s: float = 0.0
    """Until the last exit handler had run, if any did."""
    teardown_s: float = 0.0
    """What the interpreter took after that for the modules: seconds of CPU with litellm's."""
    captured: int = 0
    arrived: int = 0
    lost: int = 0
    """Spans, scores, lines or outcomes that did not arrive."""
    counted: int = 0
    """Of them, those in `ragmonitor_dropped_total` and the like."""
    dropped: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """What was felt, and what was lost without being counted; empty: nothing."""
    skipped: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.endpoint}, {self.fault}, {self.mode}, {self.worker}"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@cache
def can_mount() -> bool:
    """Return whether a process may have a tmpfs of its own."""
    command = ["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@cache
def clock_shim() -> Path | None:
    """Return the library that moves the clock; None: there is no compiler."""
    built = Path(tempfile.mkdtemp()) / "clock_shim.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(built), str(HERE / "clock_shim.c"), "-ldl"]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return built
    return None


def skipped(endpoint: str, mode: str) -> str:
    """Return why a cell cannot be tried on this machine; empty: it can."""
    if mode == "celery prefork" and find_spec("celery") is None:
        return "celery is not installed: pip install --group dev"
    if endpoint in ("disk", "state") and not can_mount():
        return "no user namespaces with mounts here"
    if endpoint == "clock" and clock_shim() is None:
        return "no C compiler here"
    return ""


class Application:
    """One application process with its workers, in a folder of its own."""

    def __init__(
        self, cell: Cell, folder: Path, servers: Endpoints, *, alone: bool = False
    ) -> None:
        self.cell = cell
        self.folder = folder
        self.web, self.metrics = free_port(), free_port()
        self.disk = folder / "disk"
        self.state = self.disk / "state"
        self.lines = self.disk / "reports" / "reports.jsonl"
        self.clock = folder / "clock"
        self._seen = 0
        self._log = (folder / "log").open("wb")
        for each in ("disk", "metrics", "broker", "control", "ended"):
            (folder / each).mkdir()
        self.clock.write_bytes(struct.pack("q", 0))
        variables = {
            "CHAOS_MODE": cell.mode,
            "CHAOS_ANSWERED": str(folder / "answered"),
            "CHAOS_BROKER": str(folder / "broker"),
            "CHAOS_ENDED": str(folder / "ended"),
            "CHAOS_DISK": str(self.disk),
            "CHAOS_REPORTS": str(self.lines),
            "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"),
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
            "RAGMONITOR_SERVER__PORT": str(self.metrics),
            "RAGMONITOR_WORKER": cell.worker,
            "RAGMONITOR_SAMPLE": "1",
            "RAGMONITOR_JUDGE__TIMEOUT_S": "2",
            **servers.variables(cell.endpoint),
            **self._variables(),
            **({"CHAOS_ALONE": "1"} if alone else {}),
        }
        # What follows a failing endpoint is said on the log of the application, not elsewhere.
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "RAGMONITOR_"))}
        self.process = subprocess.Popen(
            [*self._wrapper(), *self._command()],
            cwd=ROOT,
            env={**kept, **variables},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def _variables(self) -> dict[str, str]:
        cell = self.cell
        if cell.endpoint == "judge":
            return {"RAGMONITOR_BUDGET__CALLS_PER_DAY": "1000000"}
        if cell.endpoint == "disk":
            return {"RAGMONITOR_EXPORTERS": f"jsonl:{self.lines}"}
        if cell.endpoint == "state":
            return {"RAGMONITOR_STATE": str(self.state)}
        if cell.endpoint == "clock":
            return {
                "LD_PRELOAD": str(clock_shim()),
                "CHAOS_CLOCK": str(self.clock),
                "RAGMONITOR_STATE": str(self.state),
            }
        return {}

    def _wrapper(self) -> list[str]:
        if self.cell.endpoint not in ("disk", "state"):
            return []
        begin = {
            ("disk", "hang"): 'mkdir "$CHAOS_DISK/reports" && mkfifo "$CHAOS_REPORTS"',
            ("disk", "garbage"): (
                'mkdir "$CHAOS_DISK/reports" && printf \'{"torn": \' > "$CHAOS_REPORTS"'
            ),
            ("disk", "read-only"): 'mount -o remount,ro "$CHAOS_DISK"',
            ("state", "read-only"): 'mount -o remount,ro "$CHAOS_DISK"',
        }.get((self.cell.endpoint, self.cell.fault), "true")
        script = f'mount -t tmpfs -o size=2m none "$CHAOS_DISK" && {begin} && exec "$@"'
        return ["unshare", "-Urm", "sh", "-c", script, "sh"]

    def _command(self) -> list[str]:
        module = "tests.reliability.chaos_application"
        served = {
            "gunicorn preload": (
                f"gunicorn --preload --workers 2 --threads 2 --bind 127.0.0.1:{self.web} "
                f"{module}:wsgi"
            ),
            "uvicorn workers": (
                f"uvicorn --workers 2 --port {self.web} --lifespan on --log-level warning "
                f"{module}:asgi"
            ),
            "celery prefork": (
                f"celery --app {module} worker --pool prefork --concurrency 2 --loglevel WARNING "
                "--without-gossip --without-mingle --without-heartbeat"
            ),
        }.get(self.cell.mode, module)
        return [sys.executable, "-m", *served.split()]

    # --- answers

    def ask(self, n: int, pause_s: float) -> list[dict[str, Any]]:
        """Have it answer so many times; return what it measured.

        Raises:
            AssertionError: It did not answer in time.
        """
        if self.cell.mode in ("gunicorn preload", "uvicorn workers"):
            self._ask_over_http(n, pause_s)
        elif self.cell.mode == "celery prefork":
            self._ask_by_tasks(n, pause_s)
        else:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"n": n, "pause_s": pause_s}).encode() + b"\n")
            self.process.stdin.flush()
        until(f"{n} answers", lambda: len(self._answers()) >= self._seen + n, within_s=WITHIN_S)
        found = self._answers()[self._seen :]
        self._seen += len(found)
        return found

    def begin(self) -> None:
        """Wait until it answers."""
        if self.cell.mode in ("sync", "async", "fork"):
            until("the application answers", self._answers, within_s=WITHIN_S)
        elif self.cell.mode == "celery prefork":
            self._ask_by_tasks(1, 0)
            until("the application answers", self._answers, within_s=WITHIN_S)
        else:
            until(
                "the application answers",
                lambda: self._ask_over_http(1, 0) or True,
                within_s=WITHIN_S,
            )
        self._seen = len(self._answers())

    def _ask_over_http(self, n: int, pause_s: float) -> None:
        for number in range(n):
            with urlopen(f"http://127.0.0.1:{self.web}/{number}", timeout=30) as response:
                response.read()
            time.sleep(pause_s)

    def _ask_by_tasks(self, n: int, pause_s: float) -> None:
        from celery import Celery

        # The worker reads what is half written, and ends: so a task is there all at once.
        written = self.folder / "tasks"
        written.mkdir(exist_ok=True)
        sender = Celery("sender", broker="filesystem://")
        sender.conf.broker_transport_options = {
            "data_folder_in": str(written),
            "data_folder_out": str(written),
            "control_folder": str(written),
        }
        for number in range(n):
            sender.send_task("chaos.answer", args=[number])
            for task in written.glob("*.msg"):
                task.rename(self.folder / "broker" / task.name)
            time.sleep(pause_s)
        sender.close()

    def _answers(self) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "answered").read_bytes().splitlines()
            return [json.loads(line) for line in lines]
        return []

    def end(self) -> float:
        """Ask it to end; return the seconds until the last exit handler had run, or all of them."""
        began = time.monotonic()
        if self.cell.mode in ("sync", "async", "fork"):
            assert self.process.stdin is not None
            self.process.stdin.close()
        else:
            self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.cell.problems.append("it did not end within a minute")
        took = time.monotonic() - began
        handled = self.folder / "ended" / str(self.process.pid)
        if handled.exists():
            self.cell.teardown_s = began + took - float(handled.read_text())
        with contextlib.suppress(AssertionError):
            # A helper of all workers waits for another one while their parent lives.
            grace_s = GRACE_S if self.cell.worker == "shared" else 0.0
            until("its processes have ended", lambda: not self._session(), within_s=20 + grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._log.close()
        return took - self.cell.teardown_s

    def _session(self) -> list[int]:
        """Return the processes that it has left."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError, ValueError):
                fields = stat.read_text().rpartition(") ")[2].split()
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    found.append(int(stat.parent.name))
        return found

    def inside(self, path: Path) -> Path:
        """Return how its own mount namespace's path is reached from here."""
        return Path(f"/proc/{self.process.pid}/root{path}")

    # --- what it left

    def counters(self) -> list[Any]:
        """Return the samples of all its processes."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self.folder / "metrics"))
        return [sample for family in registry.collect() for sample in family.samples]

    def captured(self) -> int:
        """Return how many answers were counted: helper processes start, and then catch up."""
        name = "ragmonitor_interactions_total"
        return sum(int(each.value) for each in self.counters() if each.name == name)

    @property
    def answered(self) -> int:
        """How many answers were asked for so far."""
        return self._seen

    def log(self) -> str:
        """Return what reached the log."""
        return (self.folder / "log").read_text(errors="replace")


# --- faults


@contextlib.contextmanager
def failing(app: Application, servers: Endpoints) -> Iterator[None]:
    """Have the cell's endpoint fail, until the block is left."""
    endpoint, fault = app.cell.endpoint, app.cell.fault
    if endpoint in servers.gates:
        servers.gates[endpoint].fault = fault  # type: ignore[assignment]
        try:
            yield
        finally:
            servers.gates[endpoint].fault = None
    elif endpoint == "clock":
        app.clock.write_bytes(struct.pack("q", DAY_S if fault == "jump ahead" else -DAY_S))
        yield
    elif endpoint == "scrape":
        with hostile_scraper(fault, app.metrics):
            yield
    else:
        with failing_disk(app, fault):
            yield


@contextlib.contextmanager
def hostile_scraper(fault: str, port: int) -> Iterator[None]:
    """Use /metrics as no scraper should, until the block is left."""
    over = threading.Event()
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def slow(sock: socket.socket) -> None:
        for n in range(len(request)):
            sock.send(request[n : n + 1])
            if over.wait(0.2):
                return

    def reset(sock: socket.socket) -> None:
        sock.send(request)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    acts: dict[str, Callable[[socket.socket], object]] = {
        "slow": slow,
        "hang": lambda _: over.wait(),
        "reset": reset,
        "garbage": lambda sock: sock.sendall(os.urandom(2_000)),
        "full": lambda sock: (sock.send(request), over.wait(1)),
        "refused": lambda _: over.wait(0.1),
    }

    def client() -> None:
        while not over.wait(0.02):
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 5) as s,
            ):
                acts[fault](s)

    clients = [threading.Thread(target=client) for _ in range(40 if fault == "full" else 10)]
    for each in clients:
        each.start()
    try:
        yield
    finally:
        over.set()
        for each in clients:
            each.join()


@contextlib.contextmanager
def failing_disk(app: Application, fault: str) -> Iterator[None]:
    """Spoil the disk that the reports or the state are on, until the block is left."""
    disk = app.inside(app.disk)
    place = disk / ("reports" if app.cell.endpoint == "disk" else "state")
    aside = disk / "aside"
    filler = disk / "filler"
    if fault == "full":
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
        yield
        filler.unlink()
    elif fault == "refused":
        if place.exists():
            place.rename(aside)
        place.write_text("no folder")
        yield
        place.unlink()
        if aside.exists():
            aside.rename(place)
    elif fault == "hang" and app.cell.endpoint == "state":
        with contextlib.ExitStack() as stack:
            for lock in place.glob("*.lock"):
                fcntl.flock(stack.enter_context(lock.open("w")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    elif fault == "garbage" and app.cell.endpoint == "state":
        for file in place.glob("*.json"):
            file.write_bytes(os.urandom(4_096))
        yield
    else:  # from the beginning: see `Application`
        yield


# --- one cell


def tried(cell: Cell, servers: Endpoints, *, alone: bool = False) -> Cell:
    """Run one application and fill in its cell."""
    servers.forget()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        if cell.endpoint == "scrape" and cell.fault == "refused":
            taken = socket.socket()
        app = Application(cell, Path(temporary), servers, alone=alone)
        if cell.endpoint == "scrape" and cell.fault == "refused":
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", app.metrics))
                taken.listen()
        try:
            with contextlib.suppress(OSError):
                measured(cell, app, servers, alone=alone)
        except AssertionError as error:
            cell.problems.append(str(error))
            app.process.kill()
        finally:
            if app.process.poll() is None:
                cell.exit_s = app.end()
            if cell.endpoint == "scrape" and cell.fault == "refused":
                taken.close()
        if not alone:
            accounted(cell, app, servers)
        if cell.problems and os.environ.get("CHAOS_KEEP"):
            shutil.copytree(temporary, os.environ["CHAOS_KEEP"], dirs_exist_ok=True)
    return cell


def measured(cell: Cell, app: Application, servers: Endpoints, *, alone: bool) -> None:
    """Have the application answer before, during and after the fault, and end."""
    app.begin()
    app.ask(BEFORE, PAUSE_S / 3)
    if not alone and cell.mode != "fork":  # whose children begin and end with each phase
        until("all was captured", lambda: app.captured() >= app.answered, within_s=WITHIN_S)
    if not alone and cell.endpoint == "scrape" and cell.fault != "refused":
        # In an application that forks nothing else waited for the helper, which serves it.
        until("a scrape is answered", lambda: is_scraped(app), within_s=WITHIN_S)
    if alone:
        found = app.ask(DURING, PAUSE_S)
    else:
        with failing(app, servers):
            found = app.ask(DURING, PAUSE_S)
            if cell.endpoint == "scrape" and cell.fault != "refused":
                scraped(cell, app)
        app.ask(AFTER, PAUSE_S / 3)
    with kept_disk(cell, app):
        cell.exit_s = app.end()
    seconds = sorted(each["s"] for each in found)
    cell.p50_ms = seconds[len(seconds) // 2] * 1e3
    cell.p99_ms = seconds[int(0.99 * (len(seconds) - 1))] * 1e3
    everything = app._answers()
    cell.answers = len(everything)
    cell.errors = sum(1 for each in everything if each["error"])


@contextlib.contextmanager
def kept_disk(cell: Cell, app: Application) -> Iterator[None]:
    """Keep the application's disk until it has ended, and copy the reports that it left there.

    Its last processes write until they end, and with them its mounts are gone.
    """
    if cell.endpoint != "disk":
        yield
        return
    disk = os.open(app.inside(app.disk), os.O_RDONLY)
    try:
        yield
        with contextlib.suppress(OSError):
            reports = Path(f"/proc/self/fd/{disk}/{app.lines.relative_to(app.disk)}")
            if reports.is_file():
                shutil.copy(reports, app.folder / "reports")
    finally:
        os.close(disk)


def is_scraped(app: Application) -> bool:
    """Return whether an honest scraper is answered."""
    with (
        contextlib.suppress(OSError, HTTPException),  # or cut short, to make room for another
        urlopen(f"http://127.0.0.1:{app.metrics}/metrics", timeout=10) as response,
    ):
        return b"ragmonitor_interactions_total" in response.read()
    return False


def scraped(cell: Cell, app: Application) -> None:
    """Check that an honest scraper is answered beside the others."""
    for _ in range(5):
        if is_scraped(app):
            return
        time.sleep(0.3)
    cell.problems.append("no scrape was answered during the fault")


def accounted(cell: Cell, app: Application, servers: Endpoints) -> None:
    """Compare what was captured, what arrived, and what is counted as lost."""
    outcomes: Counter[tuple[str, str]] = Counter()
    dropped: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    """Of outcomes: every score; else answers, by the built-in judge's faithfulness."""
    for sample in app.counters():
        match sample.name:
            case "ragmonitor_interactions_total":
                cell.captured += int(sample.value)
            case "ragmonitor_evaluations_total":
                key = sample.labels["judge"], sample.labels["evaluator"]
                outcomes[key] += int(sample.value)
                outcome = sample.labels["outcome"]
                if outcome == "scored" or key == ("builtin", "faithfulness"):
                    totals[outcome] += int(sample.value)
            case "ragmonitor_dropped_total":
                dropped[sample.labels["reason"]] += int(sample.value)
    cell.dropped = dict(dropped)
    # What was never scored was sent nowhere, and is counted by its outcome.
    unseen = sum(totals[cause] for cause in ("shutdown", "internal_error", "queue_full"))
    if cell.captured != cell.answers:
        cell.problems.append(f"{cell.answers} answers, {cell.captured} captured")
    wrong = {key: n for key, n in outcomes.items() if n != cell.captured}
    if wrong or not outcomes:
        cell.problems.append(f"of {cell.captured} captured have outcomes: {wrong}")
    cell.lost, cell.counted = losses(cell, app, servers, dropped, totals["scored"])
    cell.counted += unseen * (SPANS if cell.endpoint == "otlp" else 1)
    if cell.lost > cell.counted:
        cell.problems.append(f"{cell.lost - cell.counted} lost and not counted")
    text = app.log()
    cell.log_lines = sum(1 for line in text.splitlines() if _LOGGED.match(line))
    cell.tracebacks = text.count("Traceback (most recent call last)")


def losses(
    cell: Cell, app: Application, servers: Endpoints, dropped: Counter[str], scored: int
) -> tuple[int, int]:
    """Return how much did not arrive at the cell's endpoint, and how much of it is counted."""
    counted = sum(n for why, n in dropped.items() if why.startswith(cell.endpoint))
    match cell.endpoint:
        case "otlp":
            cell.arrived = servers.arrived("otlp")
            return max(0, SPANS * cell.captured - cell.arrived), counted
        case "phoenix" | "langfuse":
            cell.arrived = servers.arrived(cell.endpoint)
            return max(0, scored - cell.arrived), counted
        case "disk":
            reports = app.folder / "reports"
            lines = reports.read_bytes().splitlines() if reports.exists() else []
            cell.arrived = sum(1 for line in lines if _is_report(line))
            counted = sum(n for why, n in dropped.items() if why.startswith("jsonl"))
            return max(0, cell.captured - cell.arrived), counted
    return 0, 0


SPANS: Final = 3
"""Of each interaction: its root, its retrieval and its answer."""


def _is_report(line: bytes) -> bool:
    try:
        return "judge" in json.loads(line)
    except ValueError:
        return False


def judged(cell: Cell, alone: Cell) -> Cell:
    """Name what the application felt."""
    cell.added_p50_ms = cell.p50_ms - alone.p50_ms
    cell.added_p99_ms = cell.p99_ms - alone.p99_ms
    most_lines = MAX_LOG_LINES * _PROCESSES.get(cell.mode, 1)
    for is_felt, problem in (
        (cell.errors, f"{cell.errors} answers raised"),
        (cell.added_p50_ms > MAX_MEDIAN_MS, f"the median took {cell.added_p50_ms:.1f} ms longer"),
        (cell.added_p99_ms > MAX_P99_MS, f"p99 took {cell.added_p99_ms:.0f} ms longer"),
        (cell.log_lines > most_lines, f"{cell.log_lines} lines on the log"),
        (cell.exit_s > alone.exit_s + MAX_EXIT_S, f"the end took {cell.exit_s:.1f} s"),
    ):
        if is_felt:
            cell.problems.append(problem)
    return cell


# --- the table


HEAD: Final = (
    "| endpoint | fault | mode | worker | added p50, ms | added p99, ms | raised | log lines | "
    "end, s | lost | counted | felt |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(cell: Cell) -> str:
    """Return a row of the table."""
    names = f"| {cell.endpoint} | {cell.fault} | {cell.mode} | {cell.worker} |"
    if cell.skipped:
        return f"{names} {'– | ' * 7}skipped: {cell.skipped} |"
    return (
        f"{names} {cell.added_p50_ms:+.1f} | {cell.added_p99_ms:+.1f} | {cell.errors} | "
        f"{cell.log_lines} | {cell.exit_s:.1f} | {cell.lost} | {cell.counted} | "
        f"{'; '.join(cell.problems) or 'nothing'} |"
    )


def cells(chosen: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells that were asked for."""
    for endpoint, faults in FAULTS.items():
        for fault in faults:
            for mode in MODES:
                for worker in WORKERS:
                    cell = Cell(endpoint=endpoint, fault=fault, mode=mode, worker=worker)
                    wanted = (
                        not (asked := getattr(chosen, name)) or getattr(cell, name) in asked
                        for name in ("endpoint", "fault", "mode", "worker")
                    )
                    if all(wanted):
                        yield cell


def filled(cell: Cell, alone: dict[str, Cell], servers: Endpoints) -> Cell:
    """Return the cell, tried; once more if something was felt, beside a new measure of `alone`."""
    mode = cell.mode
    if mode not in alone:
        alone[mode] = by_itself(mode, servers)
    found = judged(tried(cell, servers), alone[mode])
    if not found.problems:
        return found
    names = {name: getattr(cell, name) for name in ("endpoint", "fault", "mode", "worker")}
    alone[mode] = by_itself(mode, servers)
    return judged(tried(Cell(**names), servers), alone[mode])


def by_itself(mode: str, servers: Endpoints) -> Cell:
    """Return what the application does without a monitor."""
    cell = Cell(endpoint="none", fault="none", mode=mode, worker="thread")
    return tried(cell, servers, alone=True)


def options() -> argparse.ArgumentParser:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    faults = sorted({fault for each in FAULTS.values() for fault in each})
    for name, choices in (
        ("endpoint", [*FAULTS]),
        ("fault", faults),
        ("mode", MODES),
        ("worker", WORKERS),
    ):
        parser.add_argument(f"--{name}", choices=choices, action="append", help="default: all")
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if something was felt, or lost without being counted."""
    chosen = options().parse_args(given)
    began = time.monotonic()
    found: list[Cell] = []
    alone: dict[str, Cell] = {}
    print(HEAD, flush=True)
    with Endpoints() as servers:
        for cell in cells(chosen):
            cell.skipped = skipped(cell.endpoint, cell.mode)
            if not cell.skipped:
                cell = filled(cell, alone, servers)  # noqa: PLW2901 - tried
            found.append(cell)
            print(row(cell), flush=True)
    felt = [cell for cell in found if cell.problems]
    summary = {
        "cells": len(found),
        "tried": sum(not cell.skipped for cell in found),
        "skipped": sorted({cell.skipped for cell in found if cell.skipped}),
        "felt_or_uncounted": len(felt),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "problems": [asdict(cell) for cell in felt],
    }
    print(json.dumps(summary))
    return 1 if felt else 0


if __name__ == "__main__":
    sys.exit(main())
