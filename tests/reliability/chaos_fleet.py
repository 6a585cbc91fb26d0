"""A fleet whose processes, server and network fail has the sums of one process.

    python -m tests.reliability.chaos_fleet [--rounds 200] [--fault "kill the estimator"] [--seed 1]

An application puts answers on a real Redis (`appendfsync always`), two workers judge them, one
estimator counts and another stands by; each reaches Redis through a gate of its own. A batch has
one fault, which comes at a random moment of each round and goes; the leases are four times
shorter than in use, so that all of them end many times. One batch judges every answer, the next
has a budget that does not suffice.

After each round the law has to hold and work has to go on. After each batch Redis' own log of
writes (its AOF) says what was ever decided and settled: each answer decided at most once and
settled once, by that decision; each reference answer that was to be judged again back once;
nothing lost that no killed application had in hand; the counts of
the estimator, its means and its alarms are those of a single process that is given the same
answers; each alarm announced once; judges' calls within the budget; and each
interaction's spans in a collector are one set, whoever emitted them how often.

Prints a Markdown table and one line of JSON; exits with 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from ragmonitor import Budget, Monitor, SamplingSettings
from ragmonitor.cli.counts import read_counts
from ragmonitor.conventions import INTERACTION_ID
from ragmonitor.fleet import estimator as estimator_module
from ragmonitor.fleet import fleet_worker
from ragmonitor.fleet.estimator import Estimator, Term
from ragmonitor.fleet.fleet_stream import ESTIMATOR, FleetStream
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.records import Assessment, Interaction, Report
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.state import redis_state
from ragmonitor.testing import ListExporter, ScriptedJudge
from ragmonitor.wire import (
    SettledAnswer,
    decode,
    decode_decided,
    decode_report,
    decode_settled,
    is_kind,
)
from tests.reliability.chaos import DAY_S, ROOT, clock_shim, free_port
from tests.reliability.faulty_endpoints import Gate, spans_of
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver, plain
from tests.support.redis_server import RedisServer, running_redis
from tests.support.stories import assessment, interaction
from tests.support.waiting import until

SERVICE: Final = "chaos"
PER_S: Final = 40.0
CALM: Final = 40
"""Answers before hallucinations become frequent."""
CALLS_PER_HOUR: Final = 1_200.0
SHORTER: Final = 4.0
TIMEOUTS: Final = "?socket_timeout=0.5&socket_connect_timeout=0.5"
"""Of a client of Redis: a quarter, too."""
APPLICATION: Final = "application"
WORKERS: Final = ("worker 1", "worker 2")
ESTIMATORS: Final = ("estimator 1", "estimator 2")
STARTED_S: Final = 180.0
"""For the processes to start: the machine may be busy with other work."""
GOES_ON_S: Final = 90.0
DRAINED_S: Final = 120.0


# --- one process of the fleet ---------------------------------------------------------------------


def hurry() -> None:
    """Shorten every lease and pause of this process."""
    for module, names in (
        (estimator_module, ("LEASE_S", "TICK_S", "STAND_BY_S")),
        (fleet_worker, ("STALE_S", "REFRESH_S", "CLAIM_S", "RETRY_S")),
        (redis_state, ("LOCK_S",)),
    ):
        for name in names:
            setattr(module, name, getattr(module, name) / SHORTER)


def answer(number: int) -> Interaction:
    """Return the answer of this number, given now."""
    at_ns = time.time_ns()
    return interaction(
        id=f"{number + 1:032x}",
        started_ns=at_ns,
        ended_ns=at_ns,
        tags=("vip",) if number % 3 == 0 else (),
    )


def verdict(record: Interaction) -> Assessment:
    """Find few answers hallucinated at first, then a third of them."""
    number = int(record.id, 16) - 1
    is_bad = number % 3 == 0 if number >= CALM else number % 50 == 0
    return assessment("absent" if is_bad else "supported")


def appending(path: Path) -> int:
    """Return a file that is written at once: what a killed process wrote is there."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


class SlowJudge(ScriptedJudge):
    """Costs a call, takes a moment, and writes down who was judged."""

    budget_unit = "calls"

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(verdict)
        self._calls = (
            None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        )

    def expected_cost(self, interaction: Interaction) -> float:
        """Return one call."""
        return 1.0

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the script says, after a moment."""
        if self._calls is not None:
            os.write(self._calls, f"{interaction.id}\n".encode())
            await asyncio.sleep(random.random() * 0.05)
        return verdict(interaction)


class AlarmLines(ListExporter):
    """Writes each alarm that is announced as a line of a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def export(self, report: Any) -> None:
        """Keep nothing."""

    def alarm(self, event: Any) -> None:
        """Write it down."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([event.signal, event.raised, event.at_s]) + "\n")


def settings_of(url: str, *, scarce: bool, folder: Path | None, **options: Any) -> Settings:
    """Return what all processes have in common.

    Args:
        url: Of Redis.
        scarce: Whether the budget does not suffice; otherwise every answer is judged.
        folder: Where the judge writes; None: nowhere.
        options: Further settings.
    """
    budget: dict[str, Any] = {"sample": 1.0}
    if scarce:
        budget = {
            "sample": SamplingSettings(rate=0.5, always=("vip",)),
            "budget": Budget(calls_per_hour=CALLS_PER_HOUR),
        }
    return Settings.load(
        service=SERVICE,
        stream=url,
        server=False,
        judge=SlowJudge(None if folder is None else folder / "calls"),
        objectives={"hallucination": 0.05},
        **budget,
        **options,
    )


def ask(url: str, folder: Path, first: int, stop: threading.Event) -> None:
    """Be the application: hand answers over, and write down which."""
    handed = appending(folder / "handed")
    with Monitor(SERVICE, stream=url, server=False) as monitor:
        number = first
        while not stop.wait(1 / PER_S):
            os.write(handed, f"{number}\n".encode())
            monitor.observe(answer(number))
            number += 1
        monitor.flush(30.0)
    refused = read_counts(monitor.registry).captured
    (folder / f"refused {os.getpid()}").write_text(str(refused))


def part(options: argparse.Namespace) -> None:
    """Be one process until asked to stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    hurry()
    url, folder = options.url, Path(options.folder)
    if options.role == "application":
        ask(url, folder, options.first, stop)
        return
    exporters = [AlarmLines(folder / "alarms")] if options.role == "estimator" else []
    settings = settings_of(url, scarce=options.scarce, folder=folder, exporters=exporters)
    stream = FleetStream(url, SERVICE)
    if options.role == "worker":
        FleetWorker(settings, stream, redactor=Redactor()).run(stop)
    else:
        Estimator(settings, stream).run(stop)


# --- the fleet ------------------------------------------------------------------------------------


class Fleet:
    """All processes of a batch, and what they leave."""

    def __init__(self, folder: Path, otlp: str, *, scarce: bool) -> None:
        self.folder, self.scarce = folder, scarce
        self._otlp = otlp
        self.port = free_port()
        self.began_s = time.monotonic()
        self._redis = contextlib.ExitStack()
        self.server: RedisServer
        self.gates: dict[str, Gate] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kills: Counter[str] = Counter()
        self.turns = itertools.cycle(SINGLE.values())
        (folder / "redis").mkdir()

    def __enter__(self) -> Self:
        self.start_redis()
        self.stream = FleetStream(self.server.url, SERVICE)
        for name in (*ESTIMATORS, *WORKERS, APPLICATION):
            self.gates[name] = Gate(self.port)
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.end([*self.processes])
        for gate in self.gates.values():
            gate.close()
        self._redis.close()

    def start_redis(self) -> None:
        """Start the server, on what it has written."""
        running = running_redis(self.folder / "redis", port=self.port)
        self.server = self._redis.enter_context(running)
        self.server.client().config_set("auto-aof-rewrite-percentage", 0)

    def kill_redis(self) -> None:
        """Kill the server, and start it anew."""
        self.server.process.kill()
        self._redis.close()
        self._redis = contextlib.ExitStack()

    def start(self, name: str) -> None:
        """Start a process."""
        clock = self.folder / f"clock {name}"
        clock.write_bytes(struct.pack("q", 0))
        variables = {
            "RAGMONITOR_WORKER": "thread",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._otlp,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
            "OTEL_LOGS_EXPORTER": "none",
            "CHAOS_CLOCK": str(clock),
        } | ({"LD_PRELOAD": str(clock_shim())} if clock_shim() is not None else {})
        arguments = ["--role", name.split(maxsplit=1)[0], "--folder", str(self.folder)]
        arguments += ["--url", f"redis://127.0.0.1:{self.gates[name].port}/0{TIMEOUTS}"]
        arguments += ["--first", str(self.handed())]
        arguments += ["--scarce"] if self.scarce else []
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.reliability.chaos_fleet", *arguments],
                cwd=ROOT,
                env=os.environ | variables,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """Kill a process with -9."""
        self.processes[name].kill()
        self.processes[name].wait(10)
        self.kills[name.split(maxsplit=1)[0]] += 1

    def end(self, names: Sequence[str]) -> None:
        """Ask processes to end."""
        ending = [self.processes.pop(name) for name in names]
        for process in ending:
            process.terminate()
        for process in ending:
            try:
                process.wait(45)
            except subprocess.TimeoutExpired:
                process.kill()

    def clock(self, name: str, seconds: int) -> None:
        """Move the wall clock of a process."""
        with (self.folder / f"clock {name}").open("r+b") as file:
            file.write(struct.pack("q", seconds))

    def leader(self) -> str:
        """Return the name of the estimator that has the lease; the first if none has."""
        held = self.stream.leader().removeprefix(ESTIMATOR)
        for name in ESTIMATORS:
            if f"-{self.processes[name].pid}-" in held:
                return name
        return ESTIMATORS[0]

    def handed(self) -> int:
        """Return how many answers the application has handed over."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "handed").read_bytes().count(b"\n")
        return 0

    def refused(self) -> int:
        """Return how many answers the application said it could not store."""
        return sum(int(each.read_text()) for each in self.folder.glob("refused *"))

    def announced(self) -> list[list[Any]]:
        """Return each alarm that was announced: its signal, whether it was raised, and when."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.folder / "alarms").read_text().splitlines()
            return [json.loads(line) for line in lines]
        return []

    def until_it_goes_on(self, within_s: float = GOES_ON_S) -> None:
        """Wait until some more are settled, and some more are counted. Raises `AssertionError`."""
        for what in ("settled", "counted"):
            before = until("Redis answers", self._progress)[what]
            until(
                f"more are {what}",
                lambda what=what, before=before: self._progress()[what] > before,
                within_s=within_s,
            )

    def _progress(self) -> dict[str, int]:
        counts = self.stream.counts()
        settled = counts.settled + counts.buried
        return {"settled": settled, "counted": settled - counts.uncounted}

    def drain(self) -> None:
        """End the application, and wait until all is counted. Raises `AssertionError`."""
        self.end([APPLICATION])
        until("everything is counted", self._is_counted, within_s=DRAINED_S)

    def _is_counted(self) -> bool:
        counts = self.stream.counts()
        return not (counts.waiting or counts.open or counts.uncounted)

    def log(self) -> str:
        """Return the ends of what the processes have said."""
        said = [path.read_text(errors="replace")[-600:] for path in self.folder.glob("*.log")]
        return "\n".join(said)


# --- faults ---------------------------------------------------------------------------------------

Fault = Callable[[Fleet, random.Random], contextlib.AbstractContextManager[None]]


def _one_of(fleet: Fleet, role: str, rng: random.Random) -> str:
    if role == "estimator":
        return fleet.leader()
    return rng.choice(WORKERS) if role == "worker" else APPLICATION


def killed(role: str) -> Fault:
    """Kill one with -9; it is started again when the round is over."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, rng: random.Random) -> Iterator[None]:
        name = _one_of(fleet, role, rng)
        fleet.kill(name)
        yield
        fleet.start(name)

    return fault


@contextlib.contextmanager
def redis_killed(fleet: Fleet, rng: random.Random) -> Iterator[None]:
    """Kill the server, which comes back after a moment."""
    fleet.kill_redis()
    time.sleep(rng.random())
    fleet.start_redis()
    yield


@contextlib.contextmanager
def redis_paused(fleet: Fleet, rng: random.Random) -> Iterator[None]:
    """Have the server answer nobody."""
    fleet.server.pause()
    try:
        yield
    finally:
        fleet.server.resume()


def paused(role: str) -> Fault:
    """Stop one for longer than its lease, and have it go on."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, rng: random.Random) -> Iterator[None]:
        process = fleet.processes[_one_of(fleet, role, rng)]
        process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(2.0)
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    return fault


def refusing(option: str, bad: str, good: str) -> Fault:
    """Have the server refuse writes."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, rng: random.Random) -> Iterator[None]:
        fleet.server.client().config_set(option, bad)
        yield
        fleet.server.client().config_set(option, good)

    return fault


def parted(role: str, how: Sequence[str]) -> Fault:
    """Have the network between one and the server fail."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, rng: random.Random) -> Iterator[None]:
        gate = fleet.gates[_one_of(fleet, role, rng)]
        gate.fault = rng.choice(how)  # type: ignore[assignment]
        yield
        gate.fault = None

    return fault


def clock_moved(role: str) -> Fault:
    """Move the wall clock of one by a day, ahead or back."""

    @contextlib.contextmanager
    def fault(fleet: Fleet, rng: random.Random) -> Iterator[None]:
        name = _one_of(fleet, role, rng)
        fleet.clock(name, rng.choice((-DAY_S, DAY_S)))
        yield
        fleet.clock(name, 0)

    return fault


DROPS: Final = ("refused", "reset", "garbage")
STALLS: Final = ("hang", "deaf")
SINGLE: Final[dict[str, Fault]] = {
    "kill the application": killed("application"),
    "kill a worker": killed("worker"),
    "kill the estimator": killed("estimator"),
    "kill Redis": redis_killed,
    "pause Redis": redis_paused,
    "pause a worker": paused("worker"),
    "pause the estimator": paused("estimator"),
    "Redis is full": refusing("maxmemory", "1", "0"),
    "Redis is read-only": refusing("min-replicas-to-write", "1", "0"),
    "cut off the application": parted("application", (*DROPS, *STALLS)),
    "drop a worker's connections": parted("worker", DROPS),
    "stall a worker's connections": parted("worker", STALLS),
    "drop the estimator's connections": parted("estimator", DROPS),
    "stall the estimator's connections": parted("estimator", STALLS),
    "move a worker's clock": clock_moved("worker"),
    "move the estimator's clock": clock_moved("estimator"),
}


@contextlib.contextmanager
def two_at_once(fleet: Fleet, rng: random.Random) -> Iterator[None]:
    """Have two different parts fail at once."""
    roles = ("application", "worker", "estimator", "Redis")
    first, second = rng.sample(roles, 2)
    with contextlib.ExitStack() as stack:
        # Redis is asked who leads before it fails.
        for role in sorted((first, second), key=lambda role: role == "Redis"):
            names = [name for name in SINGLE if role in name]
            stack.enter_context(SINGLE[rng.choice(names)](fleet, rng))
        yield


@contextlib.contextmanager
def each_in_turn(fleet: Fleet, rng: random.Random) -> Iterator[None]:
    """Have the next of all faults."""
    with next(fleet.turns)(fleet, rng):
        yield


FAULTS: Final[dict[str, Fault]] = SINGLE | {
    "two at once": two_at_once,
    "each in turn": each_in_turn,
}


# --- what must be so ------------------------------------------------------------------------------


@dataclass(slots=True)
class Written:
    """What Redis has ever written, by its own log."""

    stored: dict[str, Interaction] = field(default_factory=dict)
    decisions: dict[str, list[bytes]] = field(default_factory=dict)
    draws: list[str] = field(default_factory=list)
    settled: list[SettledAnswer] = field(default_factory=list)
    checks: int = 0
    """Reference answers that were to be judged again."""
    checked: list[Report] = field(default_factory=list)
    """What came back of them."""


def commands(aof: bytes) -> Iterator[list[bytes]]:
    """Yield the commands of an append-only file (RESP arrays of bulk strings)."""
    at = 0
    while at < len(aof) and aof[at : at + 1] == b"*":
        end = aof.index(b"\r\n", at)
        count, at = int(aof[at + 1 : end]), end + 2
        words = []
        for _ in range(count):
            end = aof.index(b"\r\n", at)
            size = int(aof[at + 1 : end])
            words.append(aof[end + 2 : end + 2 + size])
            at = end + 4 + size
        yield words


def written(folder: Path) -> Written:
    """Return what an append-only file says of decisions and settled answers."""
    found = Written()
    for file in sorted((folder / "appendonlydir").glob("*.incr.aof")):
        for words in commands(file.read_bytes()):
            name = words[0].upper()
            key = words[1].rpartition(b":")[2] if len(words) > 1 else b""
            if name == b"HSET" and key == b"decisions":
                found.decisions.setdefault(words[2].decode(), []).append(words[3])
            elif name == b"XADD" and key == b"records" and is_kind(words[-1], b"r"):
                found.checks += 1
            elif name == b"XADD" and key == b"settled" and is_kind(words[-1], b"r"):
                found.checked.append(decode_report(words[-1]))
            elif name == b"XADD" and key == b"records":
                record = decode(words[-1])
                found.stored[record.id] = record
            elif name == b"XADD" and key == b"settled":
                if b"d" in words[3::2]:
                    found.draws.append(words[words.index(b"d", 3) + 1].decode())
                else:
                    found.settled.append(decode_settled(words[-1]))
    return found


def law(fleet: Fleet) -> Iterator[str]:
    """Say whether records are missing from where they may be."""
    counts = fleet.stream.counts()
    there = counts.waiting + counts.open + counts.settled + counts.buried + counts.duplicates
    if counts.stored != there:
        yield f"{counts.stored} stored, {there} there: {counts}"


def same_decisions(found: Written) -> Iterator[str]:
    """Say which answers were decided or settled twice, or by another decision than the first."""
    for what, ids in (
        ("drawn", found.draws),
        ("settled", [each.interaction.id for each in found.settled]),
    ):
        if twice := [id_ for id_, n in Counter(ids).items() if n > 1]:
            yield f"{len(twice)} {what} twice, as {twice[0]}"
    if twice := [id_ for id_, all_ in found.decisions.items() if len(all_) > 1]:
        yield f"{len(twice)} decided twice, as {twice[0]}"
    for each in found.settled:
        kept = found.decisions.get(each.interaction.id)
        if kept is None or each.decision is None:
            continue
        first = decode_decided(kept[0])
        same = replace(first.decision, reserved=each.decision.reserved, cause=each.decision.cause)
        if (same, first.prediction, first.epoch) != (each.decision, each.prediction, each.epoch):
            yield f"{each.interaction.id} was settled by another decision than the first"
            return
    ids = {each.interaction.id for each in found.settled}
    if ids != set(found.stored):
        yield f"{len(found.stored)} stored, {len(ids)} settled"


def checks_came_back(fleet: Fleet, found: Written) -> Iterator[str]:
    """Say whether a reference answer that was to be judged again came back never, or twice."""
    counts = fleet.stream.counts()
    there = len(found.checked) + counts.waiting + counts.open
    if found.checks != there:
        yield f"{found.checks} reference answers were asked for, {there} are there"


def nothing_lost(fleet: Fleet, found: Written) -> Iterator[str]:
    """Say whether answers are missing that no killed application had."""
    missing = fleet.handed() - len(found.stored) - fleet.refused()
    if missing and not (fleet.kills["application"] and missing > 0):
        yield f"{missing} of {fleet.handed()} are neither stored nor refused"


def counted_once(term: Term, found: Written) -> Iterator[str]:
    """Say whether the estimator's sums differ from what was settled."""
    counted, settled = sum(term.state.interactions.values()), len(found.settled)
    if counted != settled:
        yield f"{settled} settled, {counted} counted"
    expected: Counter[str] = Counter()
    for each in found.settled:
        for report in each.reports:
            expected.update(f"{e.evaluator} {e.judge.name}" for e in report.evaluations)
    outcomes: Counter[str] = Counter()
    for key, n in term.state.outcomes.items():
        evaluator, judge, *_ = json.loads(key)
        outcomes[f"{evaluator} {judge}"] += n
    for key, each in term.estimates.snapshot().totals:
        if abs(each.awaited - each.drawn) > 1e-6:  # all that was drawn has come back
            yield f"{each.awaited} awaited, {each.drawn} came back: {key}"
    if outcomes != expected:
        yield f"outcomes {dict(outcomes - expected)} too many, {dict(expected - outcomes)} too few"


def _numbers(snapshot: Any) -> dict[str, Any]:
    totals = {
        f"{name} of {key}": value
        for key, each in snapshot.totals
        for name, value in (("answers", each.answers), ("judged", each.judged))
    }
    # Not the whole estimates: predictions differ, as calibrations come later to workers.
    means = {f"mean of {key}": each.judged_value for key, _, each in snapshot.moments}
    return totals | means


def as_one_process(fleet: Fleet, term: Term, found: Written) -> Iterator[str]:
    """Say where the numbers differ from those of a single process that is given the same."""
    buried = [each.interaction.id for each in found.settled if each.reports[-1].assessment is None]
    events = Announced()
    options = {"judge": SlowJudge(), "sample": 1.0, "objectives": {"hallucination": 0.05}}
    with Monitor(SERVICE, server=False, worker="thread", exporters=[events], **options) as alone:
        for id_ in found.draws:
            if id_ not in buried:
                alone.observe(found.stored[id_])
        if not alone.flush(120.0):
            yield "the single process did not finish"
        expected = _numbers(alone._back.worker.latest)
    numbers = _numbers(term.estimates.snapshot())
    if buried:  # what the built-in judge did not read either
        numbers = {key: value for key, value in numbers.items() if "judge='scripted'" in key}
    for name, value in numbers.items():
        other = expected.get(name)
        if other is None or abs(value - other) > 1e-9 * max(1.0, abs(other)):
            yield f"{name} is {value}, of one process {other}"
            return
    told = Counter((signal, raised) for signal, raised, _ in fleet.announced())
    once = Counter(events.told)
    if set(told) != set(once):
        yield f"announced {sorted(told)}, one process {sorted(once)}"
    if again := {key: n for key, n in (told - once).items() if n}:
        yield f"announced again: {again}"


class Announced(ListExporter):
    """Keeps the alarms alone."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, bool]] = []

    def export(self, report: Any) -> None:
        """Keep nothing."""

    def alarm(self, event: Any) -> None:
        """Keep it."""
        self.told.append((event.signal, event.raised))


def within_budget(fleet: Fleet) -> Iterator[str]:
    """Say whether judges were called more often than the budget allows."""
    calls = (fleet.folder / "calls").read_bytes().count(b"\n")
    elapsed_s = time.monotonic() - fleet.began_s
    full = CALLS_PER_HOUR / 4
    # Half full at first; what it fills with is the rest of the hour's.
    most = full / 2 + (CALLS_PER_HOUR - full) / 3_600 * elapsed_s
    if calls > most + 1:
        yield f"{calls} calls, of {most:.0f} that were allowed"


def spans_once(otlp: OtlpReceiver) -> Iterator[str]:
    """Say whether an interaction has two root spans, or one in two traces."""
    spans: dict[str, set[tuple[bytes, bytes]]] = {}
    for request in otlp.trace_requests:
        for span in spans_of(request):
            id_ = plain(span.attributes).get(INTERACTION_ID)
            if id_ is not None:
                spans.setdefault(id_, set()).add((span.trace_id, span.span_id))
    double = sum(len(each) > 1 for each in spans.values())
    if double:
        yield f"{double} of {len(spans)} interactions are twice in the trace backend"


# --- rounds ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """What one fault did."""

    fault: str
    rounds: int = 0
    answers: int = 0
    lost: int = 0
    """With a killed application."""
    alarms: int = 0
    """Announced."""
    again: int = 0
    """Calls of the judge for answers that had been judged before."""
    findings: Counter[str] = field(default_factory=Counter)


def batch(row: Row, rounds: int, rng: random.Random, *, scarce: bool, keep: bool) -> None:
    """Have a new fleet suffer a fault in so many rounds, and note what is wrong then."""
    mode = "scarce" if scarce else "all judged"
    findings: list[str] = []
    folder = Path(tempfile.mkdtemp(prefix="chaos-fleet-"))
    with otlp_receiver() as otlp:
        fleet = Fleet(folder, otlp.url, scarce=scarce)
        try:
            with fleet:
                until("the processes work", fleet.stream.leader, within_s=STARTED_S)
                fleet.until_it_goes_on(STARTED_S)
                for _ in range(rounds):
                    suffer(fleet, row.fault, rng)
                    row.rounds += 1
                    findings += law(fleet)
                findings += audit(fleet, otlp, row)
        except AssertionError as error:
            findings.append(str(error))
        row.findings.update(f"{mode}: {each}" for each in findings)
    if findings and keep:
        print("\n".join([str(folder), *findings, fleet.log()]), file=sys.stderr, flush=True)
    else:
        shutil.rmtree(folder)


def suffer(fleet: Fleet, fault: str, rng: random.Random) -> None:
    """Have a fault come and go, and wait until work goes on. Raises `AssertionError`."""
    time.sleep(rng.random())
    with FAULTS[fault](fleet, rng):
        time.sleep(0.5 + 3.5 * rng.random())
    fleet.until_it_goes_on()


def audit(fleet: Fleet, otlp: OtlpReceiver, row: Row) -> list[str]:
    """Return what is not as it must be, once all is counted."""
    fleet.drain()
    fleet.end([*fleet.processes])
    findings = [*law(fleet)]
    found = written(fleet.folder / "redis")
    row.answers += len(found.stored)
    row.alarms += len(fleet.announced())
    row.lost += fleet.handed() - len(found.stored) - fleet.refused()
    calls = (fleet.folder / "calls").read_text().split()
    row.again += len(calls) - len(set(calls))
    row.again -= sum(each.usage is not None for each in found.checked)
    findings += checks_came_back(fleet, found)
    findings += [*same_decisions(found), *nothing_lost(fleet, found), *spans_once(otlp)]
    findings += within_budget(fleet) if fleet.scarce else ()
    until("no estimator has the lease", lambda: not fleet.stream.leader())
    settings = settings_of(fleet.server.url, scarce=fleet.scarce, folder=None)
    term = Term(settings, fleet.stream, fleet.stream.lead("audit", "", 600.0))
    try:
        term.begin()
        findings += counted_once(term, found)
        findings += () if fleet.scarce else as_one_process(fleet, term, found)
    finally:
        term.close()
    return findings


def shown(rows: Mapping[str, Row]) -> str:
    """Return the table."""
    head = "| fault | rounds | answers | alarms | judged again | lost | findings |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for row in rows.values():
        findings = "; ".join(f"{n} x {what}" for what, n in row.findings.items()) or "none"
        cells = (row.fault, row.rounds, row.answers, row.alarms, row.again, row.lost, findings)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def options() -> argparse.ArgumentParser:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="over all faults")
    parser.add_argument("--fault", choices=[*FAULTS], action="append", help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder of what was found")
    for name in ("role", "url", "folder"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--scarce", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if there is a finding."""
    chosen = options().parse_args(given)
    if chosen.role:
        part(chosen)
        return 0
    hurry()
    began = time.monotonic()
    faults = chosen.fault or [*FAULTS]
    rows = {fault: Row(fault) for fault in faults}
    rng = random.Random(chosen.seed)
    for at, fault in enumerate(faults):
        share = chosen.rounds // len(faults) + (at < chosen.rounds % len(faults))
        for scarce in (False, True):
            rounds = (share + (not scarce)) // 2
            if rounds:
                batch(rows[fault], rounds, rng, scarce=scarce, keep=chosen.keep)
        print(shown({fault: rows[fault]}).splitlines()[-1], file=sys.stderr, flush=True)
    print(shown(rows))
    findings = sum(sum(row.findings.values()) for row in rows.values())
    summary = {
        "rounds": sum(row.rounds for row in rows.values()),
        "answers": sum(row.answers for row in rows.values()),
        "findings": findings,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "seed": chosen.seed,
    }
    print(json.dumps(summary))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
