"""What a monitor adds to an application, what a worker costs, and what either leaves behind.

    python tests/bench/worker.py [--starts 50]

Printed are the CPU time of the first `Monitor()` with its imports, where LangChain and
OpenTelemetry are imported already; the memory that this and 300 answers scored on a thread add; the
memory of a worker that has scored answers; how long a monitor takes to close that
has 200 answers waiting, and what is there after so many starts, every other one of them killed:
processes and open descriptors. `under_load.py` has the closed loop and the stalls of streams.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from applications import ANSWER, CHUNKS, QUERY

EXIT_S = 5.0


def added() -> str:
    """Return what a monitor on a thread adds to an application; for a process of its own."""
    import_module("langchain_core.runnables")
    import_module("opentelemetry.sdk.trace")
    before, began_s = megabytes(os.getpid()), time.process_time()
    monitor = import_module("ragmonitor").Monitor("bench", worker="thread")
    spent_ms, alone = (time.process_time() - began_s) * 1e3, megabytes(os.getpid())
    for _ in range(300):
        answer(monitor)
    monitor.flush(60)
    scored = megabytes(os.getpid())
    monitor.close(EXIT_S)
    return (
        f"Monitor(): {spent_ms:.0f} ms of CPU, {alone - before:.0f} MB; "
        f"with 300 answers {scored - before:.0f} MB"
    )


def opened() -> Any:
    """Return a monitor whose worker has scored an answer."""
    monitor = import_module("ragmonitor").Monitor("bench", server=False, worker="process")
    answer(monitor)
    monitor.flush(60)
    return monitor


def answer(monitor: Any) -> None:
    """Hand over one answer."""
    with monitor.interaction(query=QUERY) as interaction:
        interaction.retrieved(CHUNKS)
        interaction.answered(ANSWER)


def process_of(monitor: Any) -> int:
    """Return the process id of its worker."""
    back: Any = monitor._back
    return int(back._line.child.pid)


def megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def descriptors() -> int:
    """Return how many are open here."""
    return len([*Path("/proc/self/fd").iterdir()])


def main() -> None:
    """Print what is measured."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--starts", type=int, default=50)
    starts = options.parse_args().starts
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(added))
    monitor = opened()
    print(f"memory of a worker: {megabytes(process_of(monitor)):.0f} MB")
    for _ in range(200):
        answer(monitor)
    began_s = time.monotonic()
    monitor.close(EXIT_S)
    print(f"end with 200 answers waiting: {time.monotonic() - began_s:.1f} s, at most {EXIT_S:g}")
    before, pids = descriptors(), []
    for number in range(starts):
        monitor = opened()
        pids.append(process_of(monitor))
        if number % 2:
            os.kill(pids[-1], signal.SIGKILL)
        monitor.close(EXIT_S)
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    print(f"after {starts} starts: {len(left)} processes and {descriptors() - before} descriptors")


if __name__ == "__main__":
    main()
