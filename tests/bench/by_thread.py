"""Where an answer's CPU goes at a steady rate: by process and thread. Linux.

    python tests/bench/by_thread.py [--rate 20] [--seconds 8] [--rounds 3]

A LangChain chain answers so many times a second, watched by nobody, by ragmonitor on a thread and
in a helper process, and by OpenLLMetry; the application has a tracer provider, to which all emit.
Each watcher has a process of its own, by turns. Between two answers everything sleeps, so threads
are woken, and find the processor's caches cold: that is a part of what monitoring costs at such a
rate. Printed are medians over rounds, microseconds for each answer; what ticks take is among it.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import threading
import time
from collections import defaultdict
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from applications import QUERY, langchain_chain
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from variants import APART, OURS, Dropping, Ours, Peer, Watcher

from ragmonitor.back_half.helper_process import HELPER

ALONE, PEER = "alone", "OpenLLMetry"
Spent = dict[str, float]
"""Microseconds of CPU by thread; `all` has those of threads that have ended, too."""


def spent(pid: int | None, named: dict[int, str]) -> Spent:
    """Return what a process and its threads have used so far."""
    if pid is None:
        return {}
    found: Spent = defaultdict(float)
    for at, task in enumerate(
        sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda t: int(t.name))
    ):
        name = named.get(int(task.name), "" if named else f"thread {at} of the helper")
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            found[name] += int((task / "schedstat").read_text().split()[0]) / 1e3
    # The clock of another process's CPU time, as of `clock_getcpuclockid`.
    found["all of the helper" if not named else "all"] = time.clock_gettime((~pid << 3) | 2) * 1e6
    return found


def measure(pipe: Connection, variant: str, rate: float, seconds: float) -> None:
    """Send what each thread used for an answer."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    watcher = Watcher()
    if variant in {OURS, APART}:
        watcher = Ours("langchain", apart=variant == APART)
    elif variant == PEER:
        watcher = Peer(PEER, "langchain", provider)
    chain = langchain_chain()
    watcher.on()
    for _ in range(100):
        chain.invoke(QUERY)
    watcher.flush()
    gc.collect()
    gc.freeze()
    own = threading.main_thread().native_id or 0

    def so_far() -> Spent:
        named = {each.native_id or 0: each.name for each in threading.enumerate()}
        return {**spent(own, named), **spent(HELPER.pid, {})}

    before, began = so_far(), time.perf_counter()
    for n in range(int(rate * seconds)):
        time.sleep(max(0.0, began + n / rate - time.perf_counter()))
        chain.invoke(QUERY)
    watcher.flush()
    after = so_far()
    pipe.send({name: (us - before.get(name, 0.0)) / (n + 1) for name, us in after.items() if name})
    watcher.close()


def main() -> None:
    """Print a table for each watcher, and the ratios."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rate", type=float, default=20.0)
    options.add_argument("--seconds", type=float, default=8.0)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    found: dict[str, list[Spent]] = {each: [] for each in (ALONE, OURS, APART, PEER)}
    context = multiprocessing.get_context("spawn")
    for _ in range(given.rounds):
        for variant, rounds in found.items():
            ours, theirs = context.Pipe()
            process = context.Process(
                target=measure, args=(theirs, variant, given.rate, given.seconds)
            )
            process.start()
            theirs.close()
            rounds.append(ours.recv())
            process.join()
    print(f"| {given.rate:g} answers a second | us per answer |\n|---|---|")
    middle = {
        variant: {name: median(each.get(name, 0.0) for each in rounds) for name in rounds[0]}
        for variant, rounds in found.items()
    }
    added = {
        variant: us["all"] + us.get("all of the helper", 0.0) - middle[ALONE]["all"]
        for variant, us in middle.items()
    }
    for variant, threads in middle.items():
        for name, us in threads.items():
            if us >= 1:
                print(f"| {variant}: {name} | {us:.0f} |")
        if variant != ALONE:
            ratio = added[variant] / added[PEER]
            print(f"| **{variant}: added** | **{added[variant]:.0f}**, {ratio:.2f} x {PEER}'s |")


if __name__ == "__main__":
    main()
