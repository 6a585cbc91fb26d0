"""A million interactions of a process that never restarts, many of them never ended as they should.

    python tests/bench/million.py [--interactions 1000000] [--real 500]

Most are driven straight into the recorder, by the calls that an integration makes, and all that are
handed over are scored. Of each hundred

- 5 are streams that the application abandons: neither the model's run nor the root's ever ends;
- 2 are requests that are cancelled: the root fails, the model's run never ends;
- 1 is a chain that starts and is never heard of again;
- 1 is closed after a few pieces.

Beside them, per 100,000, so many go through the real LangChain and the real LlamaIndex: one in
twenty of their streams is dropped half-read, or unread, and as many awaited calls are cancelled.
What is never ended is given up after two seconds (`open_run_age_s`), and the bounds are a hundredth
of the default ones, so that they are reached early: memory that still grows afterwards is a leak.

Prints resident memory and the most runs that were open per 100,000; exits with 1 if anything is
open or waiting after the end, if an interaction is missing from the counts, or if memory grew by
more than a twentieth after the first fifth. Linux only: reads /proc/self/statm.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from applications import QUERY, langchain_chain, llama_engine

import ragmonitor_langchain
import ragmonitor_llama_index
from ragmonitor import (
    CaptureSettings,
    Chunk,
    ExportSettings,
    Message,
    Monitor,
    Recorder,
    Run,
    Usage,
)
from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor_llama_index import handler as llama_handler

ROWS = 10
FLUSH_EVERY = 2_000
OPEN_RUN_AGE_S = 2.0
MAX_GROWTH = 0.05


class Texts:
    """Translates runs whose inputs and outputs are texts already."""

    framework = "python"

    def query(self, run: Run) -> str:
        return run.inputs or ""

    def chunks(self, run: Run) -> Sequence[Chunk]:
        return () if run.outputs is None else (Chunk(text=run.outputs),)

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        return None

    def answer(self, run: Run) -> str:
        return run.outputs or ""

    def prompt(self, run: Run) -> Sequence[Message]:
        return ()

    def model(self, run: Run) -> tuple[str, str]:
        return "", "synthetic"

    def usage(self, run: Run) -> Usage:
        return Usage()

    def labels(self, root: Run) -> dict[str, Any]:
        return {"session_id": f"s{root.id}"}


def synthetic(recorder: Recorder, n: int) -> int:
    """Report one interaction as its place in the hundred asks for; return 1 if it is handed over.

    What is abandoned is handed over too, as partial, when it is given up.
    """
    of_hundred = n % 100
    root, retriever, model = f"{n}", f"{n}r", f"{n}m"
    recorder.started(root, None, "chain", "chain", f"When was tower {n} built?")
    if of_hundred == 0:
        return 0  # never heard of again, and nothing was retrieved
    recorder.started(retriever, root, "retriever", "store", f"tower {n}")
    recorder.ended(retriever, f"Tower {n} was built in {1800 + n % 200} by company {n % 977}.")
    recorder.started(model, root, "model", "model")
    for piece in ("It was ", "built in ", f"{1800 + n % 200}."):
        recorder.piece(model, piece)
    if of_hundred <= 5:
        return 1
    if of_hundred <= 7:
        recorder.failed(root, asyncio.CancelledError())
        return 1
    if of_hundred == 8:
        recorder.failed(model, GeneratorExit())
        recorder.failed(root, GeneratorExit())
        return 1
    answer = f"It was built in {1800 + n % 200}."
    recorder.ended(model, answer)
    recorder.ended(root, answer)
    return 1


def dropped_half_read(pieces: Iterator[Any]) -> None:
    """Read a few pieces of a stream and let go of it."""
    for _ in zip(range(3), pieces, strict=False):
        pass


async def cancelled(call: Callable[[str], Any]) -> None:
    """Await a call until its model has been asked, and no longer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            await call(QUERY)


class Real:
    """Requests through the two frameworks."""

    def __init__(self) -> None:
        self._chain = langchain_chain()
        self._slow = langchain_chain(model_s=10)
        self._engine = llama_engine(streaming=False)
        self._streaming = llama_engine(streaming=True)
        self._runner = asyncio.Runner()

    def ask(self, requests: int) -> None:
        """Make so many requests of each."""
        for n in range(requests):
            # Each in a context of its own, as a server has it: in one that many share, a stream
            # that nobody reads leaves LlamaIndex's trace open, and its ids are kept for ever.
            contextvars.Context().run(self._one_of_each, n)

    def _one_of_each(self, n: int) -> None:
        if n % 20 == 0:
            dropped_half_read(self._chain.stream(QUERY))
            dropped_half_read(self._streaming.query(QUERY).response_gen)
        elif n % 20 == 1:
            self._streaming.query(QUERY)  # never read at all
            self._runner.run(cancelled(self._slow.ainvoke))
        elif n % 4 == 0:
            for _ in self._chain.stream(QUERY):
                pass
            for _ in self._streaming.query(QUERY).response_gen:
                pass
        else:
            self._chain.invoke(QUERY)
            self._engine.query(QUERY)


def resident_mb() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def counted(monitor: Monitor) -> Counter[str]:
    """Return the captured interactions by status, and the given up ones by reason."""
    found: Counter[str] = Counter()
    for family in monitor.registry.collect():
        for sample in family.samples:
            if sample.name == "ragmonitor_interactions_total":
                found[sample.labels["framework"]] += int(sample.value)
            elif sample.name == "ragmonitor_dropped_total":
                found[sample.labels["reason"]] += int(sample.value)
    return found


def flush(monitor: Monitor) -> None:
    """Wait until everything has been scored."""
    if not monitor.flush(300):
        sys.exit("the worker did not finish")


def main() -> None:
    """Print one row per tenth, then what is left."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--interactions", type=int, default=1_000_000)
    options.add_argument("--real", type=int, default=500)
    chosen = options.parse_args()
    began = time.monotonic()
    monitor = Monitor(
        service="million",
        server=False,
        worker="thread",
        export=ExportSettings(traces=False),
        capture=CaptureSettings(open_run_age_s=OPEN_RUN_AGE_S, max_open_runs=500),
    )
    recorder = monitor.recorder(Texts())
    real = Real()
    ragmonitor_langchain.instrument(monitor)
    ragmonitor_llama_index.instrument(monitor)
    expected, memory = 0, []

    def open_runs() -> int:
        return sum(len(each) for each in monitor._recorders.values())

    print("\n### A million interactions\n")
    print("| interactions | resident MB | open runs, most | minutes |\n|---|---|---|---|")
    batch = chosen.interactions // ROWS
    for row in range(ROWS):
        most = 0
        for n in range(row * batch, (row + 1) * batch):
            expected += synthetic(recorder, n)
            if (n + 1) % FLUSH_EVERY == 0:
                most = max(most, open_runs())
                flush(monitor)
        real.ask(chosen.real)
        flush(monitor)
        gc.collect()
        memory.append(resident_mb())
        minutes = (time.monotonic() - began) / 60
        print(
            f"| {(row + 1) * batch:,} | {memory[-1]:.1f} | {most:,} | {minutes:.1f} |",
            flush=True,
        )
    ragmonitor_langchain.uninstrument()
    ragmonitor_llama_index.uninstrument()
    time.sleep(OPEN_RUN_AGE_S)
    flush(monitor)
    gc.collect()
    flush(monitor)
    assert isinstance(monitor._back, LocalBackHalf)
    waiting = len(monitor._back.queue)
    left = open_runs() + len(llama_handler._places)
    counts = counted(monitor)
    print(f"\nAfter ageing: {left} runs open, {waiting} interactions waiting.")
    print(f"Counted: {dict(counts)}.")
    growth = memory[-1] / memory[1] - 1
    print(f"Memory from the second to the last row: {growth:+.1%}.")
    monitor.close()
    if left or waiting:
        sys.exit("something was never given up")
    if counts["python"] != expected:
        sys.exit(f"{expected - counts['python']} interactions are missing from the counts")
    if growth > MAX_GROWTH:
        sys.exit("memory grew")


if __name__ == "__main__":
    main()
