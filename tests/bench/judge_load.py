"""Many judgements in flight and more behind them: throughput, memory, the application's loop.

    python tests/bench/judge_load.py [--in-flight 200] [--queued 5000] [--latency 4] [--freeze]

The scripted provider answers after a fixed latency, in a process of its own. Reported: how long
the judgements took and how long the latency alone would have made them take; how much the
process grew while all of them waited; CPU per judgement; delays of an event loop in the same
process that wakes every 5 ms, with and without judging, and the longest garbage collection, which
stops every thread: litellm's modules alone are 300,000 objects. `--freeze` takes what exists
after the first judgement out of its reach, as an application may.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

from ragmonitor import Budget, CaptureSettings, ExportSettings, JudgeSettings

sys.path.insert(0, str(Path(__file__).parents[2]))

from ragmonitor import Monitor
from tests.support.openai_server import OpenAiServer, Reply, Request, truthful
from tests.support.scrape import outcomes, total
from tests.support.stories import interaction


def provide(pipe: Connection, latency_s: float) -> None:
    """Serve until the other end says otherwise."""

    def late(request: Request) -> Reply:
        time.sleep(latency_s)
        return truthful(request)

    with OpenAiServer(late) as server:
        pipe.send(server.api_base)
        pipe.recv()


async def delays(stop: asyncio.Event) -> list[float]:
    """Return by how many seconds each wake-up was late."""
    late = []
    while not stop.is_set():
        began = time.perf_counter()
        await asyncio.sleep(0.005)
        late.append(time.perf_counter() - began - 0.005)
    return late


class Collections:
    """Notes how long garbage collection takes."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began = 0.0

    def __call__(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.longest_s = max(self.longest_s, time.perf_counter() - self._began)


def resident_mb() -> float:
    """Return the process's resident memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def told(number: int):
    """Return an interaction of its own, with 3 kB of chunks."""
    texts = [f"Tower {number} was built in {1500 + number % 400}. " + "It is old. " * 90] * 3
    return interaction(
        id=f"{number:032x}",
        query=f"When was tower {number} built?",
        texts=texts,
        answer=f"Tower {number} was built in {1500 + number % 400}.",
    )


def summary(late: list[float]) -> dict[str, float]:
    """Return delays in milliseconds."""
    return {
        "p50": round(statistics.median(late) * 1e3, 2),
        "p99": round(statistics.quantiles(late, n=100)[98] * 1e3, 2),
        "max": round(max(late) * 1e3, 2),
    }


async def measure(api_base: str, arguments: argparse.Namespace) -> dict[str, object]:
    """Return the figures of one run."""
    stop = asyncio.Event()
    watching = asyncio.create_task(delays(stop))
    await asyncio.sleep(3)
    stop.set()
    idle = await watching
    amount = arguments.in_flight + arguments.queued
    monitor = Monitor(
        service="load",
        judge=JudgeSettings(
            model="openai/judge",
            api_base=api_base,
            concurrency=arguments.in_flight,
            max_pending=amount,
            timeout_s=60.0,
        ),
        sample=1.0,
        budget=Budget(tokens_per_day=10**12),
        worker="thread",
        capture=CaptureSettings(queue_size=amount),
        server=False,
        export=ExportSettings(traces=False),
    )
    # litellm is imported and connections are made before anything is measured.
    monitor.observe(told(10**6))
    await asyncio.to_thread(monitor.flush, 60)
    if arguments.freeze:
        gc.collect()
        gc.freeze()
    collections = Collections()
    gc.callbacks.append(collections)
    before_mb, before_cpu_s = resident_mb(), time.process_time()
    stop = asyncio.Event()
    watching = asyncio.create_task(delays(stop))
    began = time.perf_counter()
    for number in range(amount):
        monitor.observe(told(number))
        if number % 50 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(arguments.latency)
    full_mb = resident_mb()
    flushed = await asyncio.to_thread(monitor.flush, 1_800)
    took_s = time.perf_counter() - began
    stop.set()
    busy = await watching
    cpu_s = time.process_time() - before_cpu_s
    gc.callbacks.remove(collections)
    found = outcomes(monitor.registry, judge="openai/judge", evaluator="faithfulness")
    figures = {
        "flushed": flushed,
        "outcomes": dict(found),
        "calls": total(monitor.registry, "ragmonitor_judge_calls_total") - 1,
        "seconds": round(took_s, 1),
        "seconds_of_latency_alone": round(-(-amount // arguments.in_flight) * arguments.latency, 1),
        "calls_per_second": round(amount / took_s, 1),
        "cpu_ms_per_call": round(cpu_s * 1e3 / amount, 2),
        "grew_mb": round(full_mb - before_mb, 1),
        "grew_kb_per_answer": round((full_mb - before_mb) * 1024 / amount, 1),
        "grew_mb_after": round(resident_mb() - before_mb, 1),
        "loop_delay_ms_idle": summary(idle),
        "loop_delay_ms": summary(busy),
        "longest_collection_ms": round(collections.longest_s * 1e3, 2),
    }
    await asyncio.to_thread(monitor.close)
    return figures


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-flight", type=int, default=200)
    parser.add_argument("--queued", type=int, default=5_000)
    parser.add_argument("--latency", type=float, default=4.0, help="of the provider, in seconds")
    parser.add_argument("--freeze", action="store_true", help="call gc.freeze() first")
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    provider = multiprocessing.get_context("spawn").Process(
        target=provide, args=(theirs, arguments.latency)
    )
    provider.start()
    try:
        figures = asyncio.run(measure(ours.recv(), arguments))
    finally:
        ours.send("end")
        provider.join()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
