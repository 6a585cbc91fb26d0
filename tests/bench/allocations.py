"""What watching allocates: memory held during, after and long after a request, per request.

    python tests/bench/allocations.py [--requests 100] [--no-peers]

The same watchers and applications as in `request_path.py`, each in a process of its own. Figures
are of requests with the watcher on, less those with it off:

- peak: the most that is held at once while one request runs (tracemalloc);
- waiting: objects (`sys.getallocatedblocks`) and KB (tracemalloc) that are held when requests have
  ended and nothing has been processed yet: with ragmonitor the records that wait for its worker,
  with a peer the spans that wait for export (its batch processor drops them as it goes, so those
  of the last batches);
- kept: the same when everything has been processed and collected. What grows here is a leak; some
  objects per request of a run of a hundred are caches filling.
"""

from __future__ import annotations

import argparse

from applications import FRAMEWORKS, is_many
from variants import stations


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--requests", type=int, default=100)
    options.add_argument("--no-peers", action="store_true")
    chosen = options.parse_args()
    print("\n### Memory per request, added by being watched\n")
    print(
        "| framework | mode | watched by | peak KB | objects waiting | KB waiting | objects kept "
        "| KB kept |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for framework in FRAMEWORKS:
        watched, _ = stations(framework, peers=not chosen.no_peers)
        for mode in watched[0].call("modes"):
            if is_many(mode):
                continue  # at once, `one request` has no meaning
            for station in watched:
                kept = station.call("memory", mode, chosen.requests)
                print(
                    f"| {framework} | {mode} | {station.variant} | {kept.peak_bytes / 1024:.1f} "
                    f"| {kept.waiting_blocks:.0f} | {kept.waiting_bytes / 1024:.1f} "
                    f"| {kept.kept_blocks:.2f} | {kept.kept_bytes / 1024:.2f} |",
                    flush=True,
                )
        for station in watched:
            station.close()


if __name__ == "__main__":
    main()
