"""Resident memory of a process with a monitor, batch after batch of different interactions.

    python tests/bench/memory.py [--batches 6] [--size 5000]

Linux only: reads /proc/self/statm.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
from pathlib import Path

from ragmonitor import Monitor


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Print one row per batch."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--batches", type=int, default=6)
    options.add_argument("--size", type=int, default=5_000)
    chosen = options.parse_args()
    monitor = Monitor(service="memory", prometheus_port=0, traces=False)
    print("\n| interactions | resident MB |\n|---|---|")
    for batch in range(chosen.batches):
        for n in range(batch * chosen.size, (batch + 1) * chosen.size):
            with monitor.interaction(query=f"When was {n} built?", session_id=f"s{n}") as i:
                i.retrieved([f"Tower {n} was built in {1800 + n % 200} by company {n}."])
                i.answered(f"It was built in {1800 + n % 200} by company {n}.")
            if n % 1_000 == 999 and not monitor.flush(60):
                sys.exit("the worker did not finish")
        gc.collect()
        print(f"| {(batch + 1) * chosen.size:,} | {resident_mb():.1f} |", flush=True)
    monitor.close()


if __name__ == "__main__":
    main()
