"""An application that is never restarted, and whose endpoints fail in turns.

    python -m tests.reliability.soak [--hours 1 | --interactions 1000000] [--rate 50]
        [--worker thread --worker process --worker shared]

Questions go through the real LangChain and the real LlamaIndex, whose models alone are scripted:
asked, awaited, streamed; one in twenty of the streams is dropped half-read, one is never read, and
as many awaited calls are cancelled. An LLM judge (litellm, of a scripted server) reads a sample,
reports go to Phoenix, Langfuse and a file, traces to a collector, all behind gates of which one at
a time fails in one of seven ways (`faulty_endpoints.py`). Somebody has the page open and somebody
scrapes.

Each back half has an application of its own; they run side by side. Every so often is noted: the
resident memory of the application and of its helper process, threads, descriptors, runs open,
interactions waiting. From the second fifth on none of them may grow: the slope is that of Theil and
Sen, over the time noted, against the level at its beginning.

At the end every interaction must have been captured, each with one outcome for each evaluator and
judge, and nothing may be open. Prints a table, and one line of JSON for each; exits with 1 if
something grew or is missing. Linux only: reads /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http.client import HTTPException
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from tests.reliability.faulty_endpoints import NETWORK_FAULTS, Endpoints
from tests.support.waiting import until

ROOT: Final = Path(__file__).parents[2]
WORKERS: Final = ("thread", "process", "shared")
TOLERANCE: Final = {"memory": 0.05, "threads": 0.10, "descriptors": 0.10}
"""What each may grow by from the second fifth to the end, as a share of what it was."""
SLACK: Final = {"memory": 8.0, "threads": 2.0, "descriptors": 4.0}
"""What it may grow by in any case: MB, threads, descriptors."""
FAULT_S: Final = 20.0
"""How long one endpoint fails; then all work for as long."""
NOTES: Final = 200
"""Of one run; the slope takes every pair of them."""
OPEN_RUN_AGE_S: Final = 20.0
MAX_WAITING: Final = 200
"""Interactions that may wait before more are asked: what piles up is no leak."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """What an application is like at one moment."""

    minutes: float
    interactions: int
    memory: float
    """Resident, of the application, MB."""
    helper_memory: float
    """Of its helper process, MB; 0: there is none."""
    threads: int
    """Of both."""
    descriptors: int
    """Of both."""
    open_runs: int
    waiting: int


# --- the application, in a process of its own


def proc(pid: int | str) -> tuple[float, int, int]:
    """Return a process' resident MB, threads and descriptors."""
    folder = Path(f"/proc/{pid}")
    pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
    return (
        pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        sum(1 for _ in (folder / "task").iterdir()),
        sum(1 for _ in (folder / "fd").iterdir()),
    )


def children(monitor: Any) -> set[int]:
    """Return the processes that this one has started, and its helper, which may be nobody's."""
    helper = getattr(monitor._back, "_helper", None)
    found = set() if helper is None else {helper.pid}
    for task in Path("/proc/self/task").iterdir():
        found.update(map(int, (task / "children").read_text().split()))
    return found


def noted(monitor: Any, began: float, interactions: int) -> Note:
    """Return what the application is like now."""
    memory, threads, descriptors = proc("self")
    helper_memory = 0.0
    for child in children(monitor):
        try:
            more = proc(child)
        except OSError:  # it has just ended
            continue
        helper_memory += more[0]
        threads += more[1]
        descriptors += more[2]
    return Note(
        minutes=(time.monotonic() - began) / 60,
        interactions=interactions,
        memory=memory,
        helper_memory=helper_memory,
        threads=threads,
        descriptors=descriptors,
        open_runs=sum(len(each) for each in monitor._recorders.values()),
        waiting=waiting(monitor),
    )


def waiting(monitor: Any) -> int:
    """Return how many interactions wait, in this process and in the helper."""
    back = monitor._back
    if not hasattr(back, "_queue"):
        return len(back.queue)
    helper = back._helper
    return len(back._queue) + (0 if helper is None else helper.sent - helper.taken)


class Traffic:
    """Requests through both frameworks."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "tests" / "bench"))
        from million import Real

        self._real = Real()
        self.asked = self.cancelled = 0

    def ask(self) -> None:
        """Make twenty questions to each framework, and two more that are cancelled or dropped."""
        self._real.ask(20)
        self.asked += 40
        self.cancelled += 1  # which may have been before anything was retrieved


def application(seconds: float, interactions: int, rate: float) -> int:
    """Ask and be watched until the time is over; print notes, then what is missing."""
    import ragmonitor_langchain
    import ragmonitor_llama_index
    from ragmonitor import CaptureSettings, Monitor

    monitor = Monitor("soak", capture=CaptureSettings(open_run_age_s=OPEN_RUN_AGE_S))
    ragmonitor_langchain.instrument(monitor)
    ragmonitor_llama_index.instrument(monitor)
    traffic = Traffic()
    traffic.ask()
    until("the page is served", lambda: monitor.metrics_url and monitor.ui_url, within_s=120)
    print(json.dumps({"url": monitor.metrics_url, "page": monitor.ui_url}), flush=True)
    began, next_note = time.monotonic(), 0.0
    every_s = seconds / NOTES
    while (passed := time.monotonic() - began) < seconds and traffic.asked < interactions:
        if passed >= next_note:
            next_note += every_s
            print(json.dumps({"note": asdict(noted(monitor, began, traffic.asked))}), flush=True)
        traffic.ask()
        time.sleep(max(0.0, began + (traffic.asked - 40) / rate - time.monotonic()))
        while waiting(monitor) > MAX_WAITING:  # a queue that fills is memory that grows
            time.sleep(0.1)
    ragmonitor_langchain.uninstrument()
    ragmonitor_llama_index.uninstrument()
    print(json.dumps({"end": ended(monitor, traffic)}), flush=True)
    return 0


def ended(monitor: Any, traffic: Traffic) -> dict[str, Any]:
    """Return what is left open and what is missing, after the end of all requests."""
    import gc

    deadline = time.monotonic() + 2 * OPEN_RUN_AGE_S
    while time.monotonic() < deadline:
        gc.collect()
        monitor.flush(10)
        if not any(len(each) for each in monitor._recorders.values()):
            break
        time.sleep(1)
    left = sum(len(each) for each in monitor._recorders.values())
    monitor.close(30)
    captured, outcomes, dropped = 0, {}, {}
    for family in monitor.registry.collect():
        for sample in family.samples:
            labels = sample.labels
            if sample.name == "ragmonitor_interactions_total":
                captured += int(sample.value)
            elif sample.name == "ragmonitor_evaluations_total":
                key = f"{labels['judge']} {labels['evaluator']}"
                outcomes.setdefault(key, {})[labels["outcome"]] = int(sample.value)
            elif sample.name == "ragmonitor_dropped_total":
                dropped[labels["reason"]] = int(sample.value)
    return {
        "asked": traffic.asked,
        "cancelled": traffic.cancelled,
        "captured": captured,
        "open": left,
        "dropped": dropped,
        "outcomes": {key: value for key, value in outcomes.items() if "faithfulness" in key},
        "unaccounted": {
            key: captured - sum(value.values())
            for key, value in outcomes.items()
            if sum(value.values()) != captured
        },
    }


# --- who watches it


class Watched:
    """One application, its endpoints, and what it said of itself."""

    def __init__(self, worker: str, chosen: argparse.Namespace, folder: Path) -> None:
        self.worker = worker
        self.notes: list[Note] = []
        self.end: dict[str, Any] = {}
        self.faults = self.scrapes = self.views = self.unanswered = 0
        self._chosen = chosen
        self._folder = folder
        self._over = threading.Event()

    def run(self) -> None:
        """Run it to its end."""
        with Endpoints() as servers, (self._folder / f"{self.worker}.log").open("wb") as log:
            names = ("otlp", "judge", "phoenix", "langfuse")
            variables = servers.variables(*names)
            variables["RAGMONITOR_EXPORTERS"] += f",jsonl:{self._folder / self.worker}.jsonl"
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "RAGMON"))}
            chosen = self._chosen
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.reliability.soak", "--application"),
                    *("--hours", str(chosen.hours), "--rate", str(chosen.rate)),
                    *("--interactions", str(chosen.interactions)),
                ],
                cwd=ROOT,
                env={
                    **kept,
                    **variables,
                    "RAGMONITOR_WORKER": self.worker,
                    "RAGMONITOR_SERVER__PORT": "0",
                    "RAGMONITOR_SERVER__UI": "true",
                    "RAGMONITOR_SAMPLE": "0.05",
                    "RAGMONITOR_BUDGET__CALLS_PER_DAY": "10000000",
                    "RAGMONITOR_JUDGE__TIMEOUT_S": "5",
                    "RAGMONITOR_STATE": str(self._folder / f"state-{self.worker}"),
                },
                stdout=subprocess.PIPE,
                stderr=log,
            )
            threads = []
            if chosen.faults:
                threads.append(threading.Thread(target=self._fail, args=(servers,)))
            assert process.stdout is not None
            for line in process.stdout:
                said = json.loads(line)
                if "note" in said:
                    self.notes.append(Note(**said["note"]))
                elif "end" in said:
                    self.end = said["end"]
                    self._over.set()
                else:
                    threads.append(threading.Thread(target=self._look, args=(said,)))
                    for each in threads:
                        each.start()
            process.wait()
            self._over.set()
            for each in threads:
                each.join()

    def _fail(self, servers: Endpoints) -> None:
        turns = [(name, fault) for fault in NETWORK_FAULTS for name in servers.gates]
        random.Random(1).shuffle(turns)
        while not self._over.wait(FAULT_S):
            name, fault = turns[self.faults % len(turns)]
            self.faults += 1
            servers.gates[name].fault = fault
            self._over.wait(FAULT_S)
            servers.gates[name].fault = None
            servers.forget()

    def _look(self, urls: dict[str, str]) -> None:
        base = urls["url"].removesuffix("/metrics")
        paths = [urls["url"], urls["page"], *(f"{base}{path}" for path in VIEWS)]
        while not self._over.wait(2.0):
            for path in paths:
                try:
                    with urlopen(path, timeout=15) as response:
                        response.read()
                except (OSError, HTTPException):
                    self.unanswered += not self._over.is_set()
                else:
                    self.scrapes += path == urls["url"]
                    self.views += path != urls["url"]

    # --- what was found

    def growth(self, of: Callable[[Note], float]) -> tuple[float, float]:
        """Return the level at the second fifth, and the growth from there to the end.

        Source:
            Sen, "Estimates of the regression coefficient based on Kendall's tau", Journal of the
            American Statistical Association 63 (1968), section 2: the median of all pairs' slopes.
        """
        kept = self.notes[len(self.notes) // 5 :]
        slopes = [
            (of(b) - of(a)) / (b.minutes - a.minutes)
            for a, b in combinations(kept, 2)
            if b.minutes > a.minutes
        ]
        if not slopes:
            return 0.0, 0.0
        level = statistics.median(of(each) for each in kept[: max(1, len(kept) // 4)])
        return level, statistics.median(slopes) * (kept[-1].minutes - kept[0].minutes)

    def problems(self) -> list[str]:
        """Return what grew and what is missing; empty: nothing."""
        found = []
        for name, of in MEASURES.items():
            level, growth = self.growth(of)
            kind = name.rpartition(" ")[2]
            if growth > max(SLACK[kind], TOLERANCE[kind] * level):
                found.append(f"{name} grew from {level:.0f} by {growth:.1f}")
        end = self.end
        if not end:
            return [*found, "the application did not end as it should"]
        if end["open"]:
            found.append(f"{end['open']} runs are open")
        if end["unaccounted"]:
            found.append(f"outcomes are missing: {end['unaccounted']}")
        if not end["asked"] - end["cancelled"] <= end["captured"] <= end["asked"]:
            found.append(f"{end['asked']} asked, {end['captured']} captured")
        if not self.scrapes or self.unanswered > self.scrapes / 20:
            found.append(f"{self.unanswered} requests to page and /metrics were not answered")
        return found

    def show(self) -> None:
        """Print its table."""
        print(f"\n### worker = {self.worker}\n")
        print(
            "| minutes | interactions | memory, MB | of the helper, MB | threads | descriptors | "
            "open runs | waiting |\n|---|---|---|---|---|---|---|---|"
        )
        step = max(1, len(self.notes) // 10)
        for each in [*self.notes[::step][:-1], *self.notes[-1:]]:
            print(
                f"| {each.minutes:.1f} | {each.interactions:,} | {each.memory:.1f} | "
                f"{each.helper_memory:.1f} | {each.threads} | {each.descriptors} | "
                f"{each.open_runs} | {each.waiting} |"
            )
        summary = {
            "worker": self.worker,
            "minutes": round(self.notes[-1].minutes, 1) if self.notes else 0,
            "growth": {
                name: [round(number, 2) for number in self.growth(of)]
                for name, of in MEASURES.items()
            },
            "faults": self.faults,
            "scrapes": self.scrapes,
            "views": self.views,
            "unanswered": self.unanswered,
            **self.end,
            "problems": self.problems(),
        }
        print(f"\n{json.dumps(summary)}", flush=True)


VIEWS: Final = ("/metrics.json", "/ragmonitor/state.json")
MEASURES: Final[dict[str, Callable[[Note], float]]] = {
    "memory": lambda note: note.memory,
    "helper memory": lambda note: note.helper_memory,
    "threads": lambda note: note.threads,
    "descriptors": lambda note: note.descriptors,
}


def main(given: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if something grew or is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0, help="how long to ask; default: 1")
    parser.add_argument(
        "--interactions", type=int, default=10**9, help="after how many to stop; default: none"
    )
    parser.add_argument("--rate", type=float, default=50.0, help="at most, a second; default: 50")
    parser.add_argument("--worker", choices=WORKERS, action="append", help="default: all")
    parser.add_argument(
        "--no-faults",
        dest="faults",
        action="store_false",
        help="let no endpoint fail: what grows then is no queue for one that fails",
    )
    parser.add_argument("--application", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    if chosen.application:
        return application(chosen.hours * 3_600, chosen.interactions, chosen.rate)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        watched = [Watched(each, chosen, Path(folder)) for each in chosen.worker or WORKERS]
        threads = [threading.Thread(target=each.run) for each in watched]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for each in watched:
        each.show()
    return 1 if any(each.problems() for each in watched) else 0


if __name__ == "__main__":
    sys.exit(main())
