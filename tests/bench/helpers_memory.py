"""Memory of the helper processes of eight gunicorn workers: one each, and one for all.

    python tests/bench/helpers_memory.py [--workers 8]

Prints, for each place of work, how many helper processes there are and what they hold, resident
and not shared with other processes (`/proc/PID/smaps_rollup`), after each worker has answered.
Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from tests.support.prometheus_server import free_port
from tests.support.waiting import until

APPLICATION = """
import os
from ragmonitor import Monitor

monitor = Monitor(service="bench")

def wsgi(environ, start_response):
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 40 kg.")
    monitor.flush(60)  # its helper has read it
    body = f"{os.getpid()} {getattr(monitor._back._helper, 'pid', 0)}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


def memory_mb(pid: int) -> tuple[float, float]:
    """Return what a process holds: resident, and shared with no other."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {name: int(n) for name, n in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}
    return kib["Rss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


def measured(place: str, workers: int) -> tuple[int, float, float]:
    """Return the number of helpers, and what all of them hold, in MB."""
    web = free_port()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "application.py").write_text(APPLICATION)
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--workers", str(workers), "--log-level"),
                *("error", "--bind", f"127.0.0.1:{web}", "application:wsgi"),
            ],
            cwd=folder,
            env={
                **os.environ,
                "RAGMONITOR_WORKER": place,
                "RAGMONITOR_SERVER__ENABLED": "false",
            },
        )
        helpers: dict[int, int] = {}

        def all_have() -> bool:
            with urlopen(f"http://127.0.0.1:{web}/", timeout=30) as reply:
                worker, helper = map(int, reply.read().split())
            if helper:
                helpers[worker] = helper
            return len(helpers) == workers

        try:
            until("each worker has a helper", all_have, within_s=180)
            found = [memory_mb(pid) for pid in set(helpers.values())]
        finally:
            server.terminate()
            server.wait(60)
    return len(found), sum(rss for rss, _ in found), sum(own for _, own in found)


def main() -> None:
    """Measure both, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=8)
    workers = parser.parse_args().workers
    print("| place | helpers | resident, MB | not shared, MB |\n|---|---|---|---|")
    for place in ("process", "shared"):
        n, resident, own = measured(place, workers)
        print(f"| {place} | {n} | {resident:.0f} | {own:.0f} |", flush=True)


if __name__ == "__main__":
    main()
