"""What the helper processes of two workers score in a second: one each, and one for all.

    PYTHONPATH=. python tests/bench/helpers_throughput.py [--answers 3000] [--rounds 4]

Each worker is a process that hands over answers with four chunks of 800 characters, every one from
another place of docs/, as fast as its helper takes them. Rates are of the time from the common
start until all workers' answers are scored; CPU is that of the helpers, and that of the workers.
Both places take turns, and the fastest round of each stands. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragmonitor import Interaction, Monitor
from ragmonitor.back_half.process import ProcessBackHalf
from tests.bench.wire import DOCS, record

PLACES = "process", "shared"
MAX_WAITING = 200
"""Answers that may wait in a worker, so that none is dropped."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What one round of a place measured."""

    per_second: float
    helpers_ms: float
    workers_ms: float
    """CPU of an answer, of all helpers and of all workers."""
    dropped: float


def answers(number: int, seed: int) -> Sequence[Interaction]:
    """Return answers from another place of the documentation each."""
    source = (DOCS / "statistics.md").read_text("utf-8")
    size = len(source) - 4_000
    return [
        replace(record(source[(n * 97 + seed * 31_337) % size :], 800), id=f"{seed:08x}{n:024x}")
        for n in range(number)
    ]


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work(number: int, seed: int) -> None:
    """Be one worker: say that the helper is there, wait for a line, hand over, say what it took."""
    texts = answers(number, seed)
    with Monitor(service="bench") as monitor:
        monitor.observe(texts[0])
        if not monitor.flush(120):
            raise SystemExit("the helper did not start within two minutes")
        back = monitor._back
        assert isinstance(back, ProcessBackHalf)
        assert back._helper is not None
        helper = back._helper.pid
        print(json.dumps({"helper": helper}), flush=True)
        sys.stdin.readline()
        own_s = time.process_time()
        for text in texts:
            while len(back._queue) > MAX_WAITING:
                time.sleep(0.002)
            monitor.observe(text)
        is_done = monitor.flush(300)
        own_s = time.process_time() - own_s
        dropped = sum(
            sample.value
            for family in monitor.registry.collect()
            for sample in family.samples
            if sample.name == "ragmonitor_dropped_total"
        )
        print(json.dumps({"own_s": own_s, "done": is_done, "dropped": dropped}), flush=True)
        sys.stdin.readline()


def measured(place: str, number: int, workers: int) -> Turn:
    """Return what the workers' helpers did of so many answers of each worker."""
    environ = {**os.environ, "RAGMONITOR_WORKER": place, "RAGMONITOR_SERVER__ENABLED": "false"}
    # One seed for each worker, so that no helper has read what another worker brings.
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--answers", str(number), "--work", str(seed)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(workers)
    ]
    try:
        helpers = {json.loads(each.stdout.readline())["helper"] for each in running}
        if len(helpers) != (workers if place == "process" else 1):
            raise SystemExit(f"{place}: {len(helpers)} helpers for {workers} workers")
        before_s = sum(map(cpu_s, helpers))
        start = time.monotonic()
        for each in running:
            each.stdin.write("go\n")
            each.stdin.flush()
        ends = [json.loads(each.stdout.readline()) for each in running]
        wall_s = time.monotonic() - start
        helpers_s = sum(map(cpu_s, helpers)) - before_s
        if not all(end["done"] for end in ends):
            raise SystemExit(f"{place}: not everything was scored within five minutes")
    finally:
        for each in running:
            each.communicate()
    total = number * workers
    return Turn(
        per_second=total / wall_s,
        helpers_ms=helpers_s * 1_000 / total,
        workers_ms=sum(end["own_s"] for end in ends) * 1_000 / total,
        dropped=sum(end["dropped"] for end in ends),
    )


def main() -> None:
    """Measure both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=3_000, help="of each worker")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        work(options.answers, options.work)
        return
    turns: dict[str, list[Turn]] = {place: [] for place in PLACES}
    for _ in range(options.rounds):
        for place in PLACES:
            turns[place].append(measured(place, options.answers, options.workers))
    best = {place: max(turns[place], key=lambda turn: turn.per_second) for place in PLACES}
    print("| place | answers/s | ratio | CPU ms of an answer, helpers | workers | dropped |")
    print("|---|---|---|---|---|---|")
    for place, turn in best.items():
        ratio = turn.per_second / best["process"].per_second
        print(
            f"| {place} | {turn.per_second:,.0f} | {ratio:.2f} | {turn.helpers_ms:.2f} "
            f"| {turn.workers_ms:.2f} | {turn.dropped:.0f} |"
        )


if __name__ == "__main__":
    main()
