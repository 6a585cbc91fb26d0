"""What a request pays for being watched: CPU added per interaction, beside what it is compared to.

    python tests/bench/request_path.py [--rounds 60] [--framework langchain] [--no-peers]

Compared are a handler that does nothing, bare OpenTelemetry spans of the same number that
ragmonitor emits (three, with the query, the answer and the chunks on them), ragmonitor, and the
peers that are installed (`pip install --group peers`): OpenInference and OpenLLMetry. All send
their spans to a batch processor with an exporter that drops them.

Each watcher lives in a process of its own with the same application (see `variants.py` for why),
and is on and off by turns there, twenty requests at a time. The processes take turns too, in an
order shuffled anew each round, so that a busy machine is busy for all of them alike. Counted is
CPU:

- request: of the threads that requests run on, which is what their user waits for. While requests
  are measured ragmonitor's worker is held, as it would be on a core of its own;
- total: of all threads, and of a worker, until everything is processed: with ragmonitor,
  scored, estimated and exported as a trace; with a peer, exported. To be at most OpenLLMetry's.

Printed are what is added to no watcher at all, in microseconds per request, with its 90 % interval
by bootstrap over rounds; the ratio ragmonitor / (do-nothing handler + bare spans), which is to be
at most 1; and, as a table of facts, what each one recorded of one request: who records little
is cheap.

The statistic is the lower decile over rounds and not the median: neighbours on a shared machine
only ever add time, in bursts longer than a round, and half of the rounds may have met one. So the
figures are those of a machine that is left alone; the median stands beside it. A table whose
intervals are wider than half the figure was taken on a machine that was not.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from importlib.metadata import version

from applications import AT_ONCE, FRAMEWORKS, is_many
from variants import APART, NOTHING, OURS, SPANS, Block, Station, stations

PEERS_EVERY = 4
"""Peers cost so much more that a quarter of the rounds tells as much."""
REQUESTS = 20
"""In one turn. Everything is flushed after it, gauges and alarms included, which an application has
done every two seconds: so `total` is as at ten answers a second."""
RESAMPLED = 400

Blocks = Sequence[Block]


def low(values: Sequence[float]) -> float:
    """Return the lower decile."""
    return sorted(values)[len(values) // 10]


def middle(values: Sequence[float]) -> float:
    """Return the upper median."""
    return sorted(values)[len(values) // 2]


Statistic = Callable[[Sequence[float]], float]


def added(blocks: Blocks, statistic: Statistic = low) -> float:
    """Return what the watcher adds to a request."""
    return statistic([b.on for b in blocks]) - statistic([b.off for b in blocks])


def added_in_total(blocks: Blocks, statistic: Statistic = low) -> float:
    """Return what the watcher adds on all threads together."""
    return statistic([b.total for b in blocks]) - statistic([b.off for b in blocks])


def spans(blocks: Blocks, statistic: Statistic = low) -> float:
    """Return what three bare spans cost."""
    return statistic([b.spans for b in blocks])


def ratio(found: dict[str, Blocks], statistic: Statistic = low) -> float:
    """Return ragmonitor / (do-nothing handler + bare spans)."""
    nothing = found[NOTHING]
    limit = added(nothing, statistic) + spans(nothing, statistic)
    return added(found[OURS], statistic) / max(1.0, limit)


def interval(figure: Callable[[], float]) -> tuple[float, float]:
    """Return the 5th and 95th percentile of a figure that is resampled at every call."""
    values = sorted(figure() for _ in range(RESAMPLED))
    return values[RESAMPLED // 20], values[-RESAMPLED // 20]


def measure(
    watched: Sequence[Station], mode: str, rounds: int, rng: random.Random
) -> dict[str, Blocks]:
    """Return every station's blocks of one mode."""
    requests = AT_ONCE if is_many(mode) else REQUESTS
    found: dict[str, list[Block]] = {station.variant: [] for station in watched}
    for number in range(-3, rounds):
        for station in rng.sample(watched, len(watched)):
            if (
                station.variant not in {NOTHING, OURS, APART}
                and number > 0
                and number % PEERS_EVERY
            ):
                continue
            block = station.call("block", mode, requests, off_first=rng.random() < 0.5)
            if number >= 0:  # the first ones warm up
                found[station.variant].append(block)
    return {variant: tuple(blocks) for variant, blocks in found.items()}


def bench(framework: str, rounds: int, *, peers: bool) -> None:
    """Print the tables of one framework."""
    rng = random.Random(1)
    watched, notes = stations(framework, peers=peers)
    package = {"langchain": "langchain-core", "llama_index": "llama-index-core"}[framework]
    print(f"\n### {framework} ({package} {version(package)}): CPU µs added per request\n")
    for note in notes:
        print(f"- {note}")
    print("\n| mode | watched by | request | 90 % interval | median | total | 90 % interval |")
    print("|---|---|---|---|---|---|---|")
    modes = watched[0].call("modes")
    ratios, facts = [], []
    for mode in modes:
        # Fifty at once are as long as several of the others, and so are fewer rounds as good.
        most = max(12, rounds // 4) if is_many(mode) else rounds
        for station in watched:
            if station.variant != NOTHING:
                facts.append((mode, station.variant, station.call("facts", mode)))
        found = measure(watched, mode, most, rng)

        def resampled(variant: str, found: dict[str, Blocks] = found) -> Blocks:
            return rng.choices(found[variant], k=len(found[variant]))

        nothing = found[NOTHING]
        whole = [b.off for b in nothing]
        print(f"| {mode} | *nobody: all of it* | {low(whole):.0f} | | {middle(whole):.0f} | | |")
        print(f"| {mode} | {SPANS} | {_figures(NOTHING, found, resampled, spans)} | | |")
        for variant in found:
            shown = _figures(variant, found, resampled, added)
            total = added_in_total(found[variant])
            low_end, high_end = interval(lambda v=variant: added_in_total(resampled(v)))
            print(
                f"| {mode} | {variant} | {shown} | {total:.0f} | {low_end:.0f} to {high_end:.0f} |",
                flush=True,
            )
        low_end, high_end = interval(lambda: ratio({v: resampled(v) for v in (NOTHING, OURS)}))
        ratios.append(
            f"| {mode} | **{ratio(found):.2f}** | {low_end:.2f} to {high_end:.2f} "
            f"| {ratio(found, middle):.2f} |"
        )
    print(f"\n### {framework}: ragmonitor / (do-nothing handler + bare spans)\n")
    print("| mode | ratio | 90 % interval | of medians |\n|---|---|---|---|")
    print("\n".join(ratios))
    ours = next(station for station in watched if station.variant == OURS)
    woken = ours.call("idle_wake")
    print(
        f"\nA request that finds ragmonitor's worker asleep pays {woken:.0f} µs more to wake it.\n"
    )
    print(f"### {framework}: what was recorded of one request\n")
    print(
        "| mode | watched by | spans begun | ended | one tree | documents | answer "
        "| on the root | complete |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for mode, variant, fact in facts:
        print(
            f"| {mode} | {variant} | {fact.started} | {fact.ended} | {_said(fact.is_one_tree)} "
            f"| {fact.documents} of 5 | {_said(fact.has_answer)} "
            f"| {_said(fact.has_answer_on_root)} | **{_said(fact.is_complete)}** |"
        )
    for station in watched:
        station.close()


def _figures(
    variant: str,
    found: dict[str, Blocks],
    resampled: Callable[[str], Blocks],
    figure: Callable[..., float],
) -> str:
    low_end, high_end = interval(lambda: figure(resampled(variant)))
    blocks = found[variant]
    return (
        f"**{figure(blocks):.0f}** | {low_end:.0f} to {high_end:.0f} | {figure(blocks, middle):.0f}"
    )


def _said(fact: bool) -> str:
    return "yes" if fact else "no"


def main() -> None:
    """Measure both frameworks, or one."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--framework", choices=FRAMEWORKS)
    options.add_argument("--no-peers", action="store_true")
    chosen = options.parse_args()
    for framework in [chosen.framework] if chosen.framework else FRAMEWORKS:
        bench(framework, chosen.rounds, peers=not chosen.no_peers)


if __name__ == "__main__":
    main()
