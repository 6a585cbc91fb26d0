"""What an answer costs in all, beside what peers take to trace it: CPU added per request.

    python tests/bench/request_path.py [--rounds 20] [--framework langchain] [--no-ratios]

Compared are a handler that does nothing, ragmonitor on a thread, and the peers that are installed
(`pip install --group peers`): OpenInference and OpenLLMetry. All send their spans to a batch
processor with an exporter that drops them.

Each watcher lives in a process of its own with the same application (see `variants.py` for why),
and is on and off by turns there, twenty requests at a time. The processes take turns too, in an
order shuffled anew each round, so that a busy machine is busy for all of them alike. Counted is
CPU:

- request: of the threads that requests run on, which is what their user waits for. While requests
  are measured ragmonitor's worker is held, as it would be on a core of its own;
- total: of all threads, until everything is processed: with ragmonitor, scored, estimated and
  exported as a trace; with a peer, exported.

Printed are what is added to no watcher at all, in microseconds per request, with its 90 % interval
by bootstrap over rounds; what each one recorded of one request (who records little is cheap); and
the ratio of the totals, ragmonitor / OpenLLMetry, for each kind of text of `applications.py`.

The statistic is the lower decile over rounds and not the median: neighbours on a shared machine
only ever add time, in bursts longer than a round, and half of the rounds may have met one. So the
figures are those of a machine that is left alone. A table whose intervals are wider than half the
figure was taken on a machine that was not.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from importlib.metadata import version

from applications import AT_ONCE, FRAMEWORKS, TEXTS, is_many
from variants import NOTHING, OURS, Block, Station, stations

REQUESTS = 20
"""In one turn. Everything is flushed after it, gauges and alarms included, which an application has
done every two seconds: so `total` is as at ten answers a second."""
RESAMPLED = 400
PEER = "OpenLLMetry"

Blocks = Sequence[Block]
Found = dict[str, Blocks]
"""The blocks of each watcher."""


def low(values: Sequence[float]) -> float:
    """Return the lower decile."""
    return sorted(values)[len(values) // 10]


def added(blocks: Blocks) -> float:
    """Return what the watcher adds to a request."""
    return low([b.on for b in blocks]) - low([b.off for b in blocks])


def added_in_total(blocks: Blocks) -> float:
    """Return what the watcher adds on all threads together."""
    return low([b.total for b in blocks]) - low([b.off for b in blocks])


def ratio(found: Found) -> float:
    """Return ragmonitor's total / OpenLLMetry's."""
    return added_in_total(found[OURS]) / added_in_total(found[PEER])


def interval(
    figure: Callable[[Found], float], found: Found, rng: random.Random
) -> tuple[float, float]:
    """Return the 5th and 95th percentile of a figure over resampled rounds."""
    values = sorted(
        figure({v: rng.choices(blocks, k=len(blocks)) for v, blocks in found.items()})
        for _ in range(RESAMPLED)
    )
    return values[RESAMPLED // 20], values[-RESAMPLED // 20]


def measure(watched: Sequence[Station], mode: str, rounds: int, rng: random.Random) -> Found:
    """Return every station's blocks of one mode."""
    requests = AT_ONCE if is_many(mode) else REQUESTS
    found: dict[str, list[Block]] = {station.variant: [] for station in watched}
    for number in range(-2, rounds):
        for station in rng.sample(watched, len(watched)):
            block = station.call("block", mode, requests, off_first=rng.random() < 0.5)
            if number >= 0:  # the first ones warm up
                found[station.variant].append(block)
    return dict(found)


def costs(framework: str, rounds: int) -> None:
    """Print what each watcher adds, and what it recorded."""
    rng = random.Random(1)
    watched, notes = stations(framework)
    package = {"langchain": "langchain-core", "llama_index": "llama-index-core"}[framework]
    print(f"\n### {framework} ({package} {version(package)}): CPU µs added per request\n")
    for note in notes:
        print(f"- {note}")
    print("\n| mode | watched by | request | 90 % interval | total | 90 % interval |")
    print("|---|---|---|---|---|---|")
    facts = []
    for mode in watched[0].call("modes"):
        for station in watched:
            if station.variant != NOTHING:
                facts.append((mode, station.variant, station.call("facts", mode)))
        # Fifty at once are as long as several of the others, and so are fewer rounds as good.
        found = measure(watched, mode, rounds // 2 if is_many(mode) else rounds, rng)
        whole = low([block.off for block in found[NOTHING]])
        print(f"| {mode} | *nobody: all of it* | {whole:.0f} | | | |")
        for variant, blocks in found.items():
            row = f"| {mode} | {variant} "
            for figure in (added, added_in_total):
                least, most = interval(lambda one, f=figure: f(one[""]), {"": blocks}, rng)
                row += f"| **{figure(blocks):.0f}** | {least:.0f} to {most:.0f} "
            print(f"{row}|", flush=True)
    print(f"\n### {framework}: what was recorded of one request\n")
    print("| mode | watched by | spans begun | ended | one tree | documents | answer | complete |")
    print("|---|---|---|---|---|---|---|---|")
    for mode, variant, fact in facts:
        print(
            f"| {mode} | {variant} | {fact.started} | {fact.ended} | {_said(fact.is_one_tree)} "
            f"| {fact.documents} of 5 | {_said(fact.has_answer)} | {_said(fact.is_complete)} |"
        )
    for station in watched:
        station.close()


def ratios(framework: str, rounds: int) -> None:
    """Print ragmonitor / OpenLLMetry, in all, for each kind of text."""
    rng = random.Random(2)
    rows: dict[str, list[str]] = {}
    for text in TEXTS:
        watched, notes = stations(framework, (OURS, PEER), text)
        if len(watched) < 2:
            print("\n".join(notes))
            return
        for mode in watched[0].call("modes"):
            found = measure(watched, mode, max(4, rounds // 2 if is_many(mode) else rounds), rng)
            least, most = interval(ratio, found, rng)
            rows.setdefault(mode, []).append(f"**{ratio(found):.2f}** {least:.2f} to {most:.2f}")
        for station in watched:
            station.close()
    print(f"\n### {framework}: total, ragmonitor / {PEER}, with 90 % intervals\n")
    print(f"| mode | {' | '.join(TEXTS)} |\n|{'---|' * (len(TEXTS) + 1)}")
    for mode, cells in rows.items():
        print(f"| {mode} | {' | '.join(cells)} |", flush=True)


def _said(fact: bool) -> str:
    return "yes" if fact else "no"


def main() -> None:
    """Measure both frameworks, or one."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--framework", choices=FRAMEWORKS)
    options.add_argument("--no-ratios", action="store_true")
    chosen = options.parse_args()
    for framework in [chosen.framework] if chosen.framework else FRAMEWORKS:
        costs(framework, chosen.rounds)
        if not chosen.no_ratios:
            ratios(framework, chosen.rounds // 3)


if __name__ == "__main__":
    main()
