"""How late an event loop is while its answers are captured, and while they are scored.

    python tests/bench/event_loop.py [--rounds 8] [--seconds 2] [--rate 50]

A server in one process: a LangChain chain is awaited at a steady rate, its model takes 20 ms, and
its answers have ten sentences over 4,000 characters of context. Beside it a ticker asks to be woken
every millisecond and notes how much later that happens. Four variants take turns, in an order
shuffled anew each round:

- no monitor: what the framework's own work does to the loop;
- captured: answers are noted, the worker is held;
- scored on a thread: the worker reads every answer on its thread, in slices;
- scored in a process: `worker="process"` (the default where a model judges).

Prints the ticker's lateness in milliseconds, and what each variant adds to "no monitor" at the 99th
percentile, with the 90 % interval over rounds by bootstrap; the target is below 1 ms. Others' work
on the same cores delays any loop: on a machine that is not idle, run it with `nice -n -19`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import threading
from collections.abc import Sequence
from typing import Any

from applications import QUERY, langchain_chain

from ragmonitor import ExportSettings, Monitor
from ragmonitor_langchain import instrument, uninstrument

TICK_S = 0.001
MODEL_S = 0.02
ANSWER = " ".join(
    f"The tower number {n} is tall and old, and it was built in {1800 + n}." for n in range(10)
)
VARIANTS = ("no monitor", "captured", "scored on a thread", "scored in a process")


class Gate:
    """An exporter that holds the worker while it is shut."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()

    def export(self, _report: Any) -> None:
        self.open.wait()

    def flush(self, _timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


async def lateness(chain: Any, seconds: float, rate: float) -> list[float]:
    """Return the ticker's, in milliseconds, beside so many requests a second."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    late: list[float] = []

    async def tick() -> None:
        while (asked := loop.time()) < began + seconds:
            await asyncio.sleep(TICK_S)
            late.append((loop.time() - asked - TICK_S) * 1e3)

    async def ask() -> None:
        requests = []
        while (now := loop.time()) < began + seconds:
            requests.append(asyncio.create_task(chain.ainvoke(QUERY)))
            await asyncio.sleep(max(0.0, began + len(requests) / rate - now))
        await asyncio.gather(*requests)

    await asyncio.gather(tick(), ask())
    return late


def at(values: Sequence[float], share: float) -> float:
    """Return a quantile."""
    return sorted(values)[int(share * (len(values) - 1))]


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=8)
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--rate", type=float, default=50.0)
    chosen = options.parse_args()
    rng = random.Random(1)
    chain = langchain_chain(answer=ANSWER, model_s=MODEL_S)
    gate = Gate()
    monitors = {
        apart: Monitor(
            service="loop",
            server=False,
            export=ExportSettings(traces=False),
            exporters=[gate],
            worker="process" if apart else "thread",
        )
        for apart in (False, True)
    }
    found: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for number in range(-1, chosen.rounds):
        for name in rng.sample(VARIANTS, len(VARIANTS)):
            monitor = monitors[name == "scored in a process"]
            if name != "no monitor":
                instrument(monitor)
            if name == "captured":
                gate.open.clear()
            gc.collect()
            late = asyncio.run(lateness(chain, chosen.seconds, chosen.rate))
            gate.open.set()
            uninstrument()
            if not monitor.flush(60):
                raise SystemExit("the worker did not finish")
            if number >= 0:  # the first round warms up
                found[name].append(late)
    print("\n### Event loop: lateness in ms\n")
    print("| variant | ticks | p50 | p90 | p99 | p99.9 | most | added at p99 | 90 % interval |")
    print("|---|---|---|---|---|---|---|---|---|")
    rounds = range(chosen.rounds)
    samples = [rng.choices(rounds, k=chosen.rounds) for _ in range(200)]
    for name in VARIANTS:
        pooled = [each for late in found[name] for each in late]
        added = [
            at([x for n in sample for x in found[name][n]], 0.99)
            - at([x for n in sample for x in found[VARIANTS[0]][n]], 0.99)
            for sample in samples
        ]
        shown = " | ".join(f"{at(pooled, q):.2f}" for q in (0.5, 0.9, 0.99, 0.999, 1.0))
        change = at(pooled, 0.99) - at([x for late in found[VARIANTS[0]] for x in late], 0.99)
        print(
            f"| {name} | {len(pooled):,} | {shown} | "
            + (
                "| |"
                if name == VARIANTS[0]
                else f"**{change:+.2f}** | {at(added, 0.05):+.2f} to {at(added, 0.95):+.2f} |"
            )
        )
    for monitor in monitors.values():
        monitor.close()


if __name__ == "__main__":
    main()
