"""Memory of a fleet's processes while a million records wait on the stream.

    PYTHONPATH=. python tests/bench/million_queued.py [--records 1000000] [--seconds 300]

Puts short answers on a redis-server of its own, starts `ragmonitor worker --fleet` and `ragmonitor
estimator` as processes and has them work for so long. Prints the resident memory of each at each
tenth of the time, with what waits; exits with 1 if one grew by more than a twentieth after the
first fifth, or if what is stored is not waiting, open, settled or buried. Linux only: reads /proc.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.wire import encode
from tests.bench.million_scored import resident
from tests.support.redis_server import running_redis
from tests.support.stories import interaction

SERVICE = "bench"
BATCH = 1_000
PARTS = 10
MAX_GROWTH = 0.05
PARTS_COMMANDS = {"worker": ("worker", "--fleet"), "estimator": ("estimator",)}


def fill(url: str, records: int) -> float:
    """Put so many answers on the stream, and return this process's growth in MB."""
    before = resident(os.getpid())
    with closing(FleetStream(url, SERVICE, max_records=2 * records)) as stream:
        for begin in range(0, records, BATCH):
            batch = range(begin, min(records, begin + BATCH))
            stream.put([encode(interaction(id=f"{n:032x}"), compressed=True) for n in batch])
    return resident(os.getpid()) - before


@contextmanager
def running(url: str, arguments: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of ragmonitor until the end of the block."""
    environment = os.environ | {
        "RAGMONITOR_STREAM": url,
        "RAGMONITOR_SERVICE": SERVICE,
        "RAGMONITOR_SERVER__PORT": "0",
        "RAGMONITOR_EXPORT__TRACES": "false",
    }
    command = (sys.executable, "-m", "ragmonitor.cli.app", *arguments)
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(running_redis(Path(folder), fsync="everysec"))
        grew = fill(server.url, asked.records)
        print(
            f"{asked.records:,} records were put; the process that put them grew by {grew:.1f} MB"
        )
        processes = {
            name: stack.enter_context(running(server.url, arguments))
            for name, arguments in PARTS_COMMANDS.items()
        }
        print(
            "| s | settled | counted | the worker, MB | the estimator, MB |\n|---|---|---|---|---|"
        )
        found, began_s = [], time.monotonic()
        stream = stack.enter_context(closing(FleetStream(server.url, SERVICE)))
        for part in range(1, PARTS + 1):
            time.sleep(max(0.0, began_s + asked.seconds * part / PARTS - time.monotonic()))
            counts, memory = stream.counts(), [resident(each.pid) for each in processes.values()]
            found.append(memory)
            at_s = f"{asked.seconds * part / PARTS:.0f}"
            counted = counts.settled - counts.uncounted
            shown = " | ".join(f"{each:.1f}" for each in memory)
            print(f"| {at_s} | {counts.settled:,} | {counted:,} | {shown} |", flush=True)
        placed = counts.waiting + counts.open + counts.settled + counts.buried + counts.duplicates
    wrong = [
        f"the {name} grew"
        for name, first, last in zip(processes, found[1], found[-1], strict=True)
        if not first or last > (1 + MAX_GROWTH) * first
    ]
    if counts.stored != placed:
        wrong.append(f"{counts.stored} stored, {placed} found")
    sys.exit("; ".join(wrong) or 0)


if __name__ == "__main__":
    main()
