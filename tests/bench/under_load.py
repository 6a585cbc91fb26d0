"""What users of a loaded application feel: streams on one event loop, and a closed loop.

    python tests/bench/under_load.py [--rounds 3] [--seconds 6] [--rate 20] [--framework langchain]
    python tests/bench/under_load.py --causes      # what streams feel of each part of being watched

Streams: 20 answers a second begin on one event loop (`--rate`); each has 100 pieces, 10 ms apart.
Measured is how long a stream takes, and how late each piece comes after the one before it.

Closed loop: one thread asks again as soon as it has its answer. Measured is how many answers a
second the application gives, and of ragmonitor how many were scored and how many were dropped and
counted.

Each watcher lives in a process of its own: none; ragmonitor on a thread and in a worker,
whose spans go by OTLP to a server that throws them away; the peers that are installed, whose spans
go to an exporter that drops them in the process. The processes take turns in an order shuffled anew
each round; printed is what is added to the application alone, with the range over rounds. All
share the machine's cores, the server included.

`--causes` measures streams only, and beside what they feel of ragmonitor in a process: of a handler
that does nothing; of capture alone (nothing is read before the end); and of no watcher at all,
while a process that has nothing to do with the application works as long as a worker does.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from applications import CHUNKS, FRAMEWORKS, PIECES, QUERY, langchain_chain, llama_engine
from variants import Dropping, Gate, Nothing, Peer

RATE = 20.0
PIECE_S = 0.01
ALONE = "alone"
THREAD, PROCESS = "ragmonitor, thread", "ragmonitor, process"
VARIANTS = (ALONE, THREAD, PROCESS, "OpenInference", "OpenLLMetry")
IDLE, CAPTURED, BESIDE = "a handler that does nothing", "capture alone", "alone, beside other work"
CAUSES = (ALONE, BESIDE, IDLE, CAPTURED, PROCESS, "OpenLLMetry")
DRAIN_S = 120.0
WORK_S = 0.004
"""What a worker takes for an answer that it finds asleep."""

Ask = Callable[[], AsyncIterator[object]]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one process measured."""

    streams_ms: list[float]
    """How long each stream took."""
    gaps_ms: list[float]
    """How much later than due each piece came after the one before."""
    per_second: float
    """Answers of the closed loop."""
    scored_per_second: float
    dropped_per_second: float


def at(values: Sequence[float], share: float) -> float:
    """Return a quantile."""
    return sorted(values)[int(share * (len(values) - 1))]


# --- the applications ----------------------------------------------------------------------------


def langchain_stream() -> Ask:
    """Return what streams an answer of a chain."""
    from langchain_core.documents import Document
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessageChunk
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.outputs import ChatGenerationChunk
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class FixedRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(id=str(n), page_content=c) for n, c in enumerate(CHUNKS)]

        async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return self._get_relevant_documents(query, run_manager=None)

    class Streaming(GenericFakeChatModel):
        async def _astream(self, *given: Any, **named: Any) -> Any:
            for piece in PIECES:
                await asyncio.sleep(PIECE_S)
                yield ChatGenerationChunk(message=AIMessageChunk(content=piece))

    retrieve = FixedRetriever() | (lambda docs: "\n".join(d.page_content for d in docs))
    chain = (
        {"context": retrieve, "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | Streaming(messages=iter(()))
        | StrOutputParser()
    )
    return lambda: chain.astream(QUERY)


def llama_stream() -> Ask:
    """Return what streams an answer of a query engine."""
    from llama_index.core.base.llms.types import CompletionResponse

    engine = llama_engine(streaming=True)
    model = type(engine._response_synthesizer._llm)

    async def astream_complete(self: Any, prompt: str, formatted: bool = False, **_: Any) -> Any:
        async def pieces() -> AsyncIterator[CompletionResponse]:
            text = ""
            for piece in PIECES:
                await asyncio.sleep(PIECE_S)
                text += piece
                yield CompletionResponse(text=text, delta=piece)

        return pieces()

    from llama_index.core.llms.callbacks import llm_completion_callback

    model.astream_complete = llm_completion_callback()(astream_complete)

    async def ask() -> AsyncIterator[object]:
        response = await engine.aquery(QUERY)
        async for piece in response.async_response_gen():
            yield piece

    return ask


async def streamed(ask: Ask, seconds: float, rate: float) -> tuple[list[float], list[float]]:
    """Return how long each stream took, and how late pieces came, in milliseconds."""
    loop = asyncio.get_running_loop()
    took: list[float] = []
    late: list[float] = []

    async def one() -> None:
        began = before = loop.time()
        n = 0
        async for _ in ask():
            now = loop.time()
            if n:
                late.append((now - before - PIECE_S) * 1e3)
            before, n = now, n + 1
        took.append((loop.time() - began) * 1e3)
        if n < len(PIECES):
            sys.exit(f"a stream ended after {n} pieces")

    began = loop.time()
    asked = []
    while loop.time() < began + seconds:
        asked.append(asyncio.create_task(one()))
        await asyncio.sleep(max(0.0, began + len(asked) / rate - loop.time()))
    await asyncio.gather(*asked)
    return took, late


# --- watchers ------------------------------------------------------------------------------------


def watched(variant: str, framework: str, gate: Gate) -> Any:
    """Have the application watched; return ragmonitor's monitor, if it is that."""
    if variant in (ALONE, BESIDE):
        return None
    if variant == IDLE:
        Nothing(framework).on()
        return None
    if variant in (THREAD, PROCESS, CAPTURED):
        from ragmonitor import Monitor

        monitor = Monitor(
            "bench",
            server=False,
            worker="process" if variant == PROCESS else "thread",
            exporters=[gate] if variant == CAPTURED else [],
        )
        if framework == "langchain":
            from ragmonitor_langchain import instrument
        else:
            from ragmonitor_llama_index import instrument  # type: ignore[assignment]
        instrument(monitor)
        return monitor
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Dropping()))
    trace.set_tracer_provider(provider)
    Peer(variant, framework, provider).on()
    return None


def counts(monitor: Any) -> tuple[float, float]:
    """Return how many answers were scored, and how many were dropped."""
    scored = dropped = 0.0
    for family in () if monitor is None else monitor.registry.collect():
        for sample in family.samples:
            labels = sample.labels
            if (
                sample.name == "ragmonitor_evaluations_total"
                and labels["evaluator"] == "faithfulness"
                and labels["outcome"] == "scored"
            ):
                scored += sample.value
            elif sample.name == "ragmonitor_dropped_total" and labels["reason"] == "queue_full":
                dropped += sample.value
    return scored, dropped


def work(every_s: float) -> None:
    """Work and sleep by turns, as a worker does; in a process of its own, until it is ended."""
    os.nice(5)
    due = time.perf_counter()
    while True:
        end = time.thread_time() + WORK_S
        while time.thread_time() < end:
            sum(range(1000))
        due += every_s
        time.sleep(max(0.0, due - time.perf_counter()))


def measure(
    variant: str, framework: str, *, seconds: float, rate: float, closed_loop: bool
) -> Measured:
    """Measure one watcher; in a process of its own."""
    ask = langchain_stream() if framework == "langchain" else llama_stream()
    invoke = (
        langchain_chain().invoke
        if framework == "langchain"
        else llama_engine(streaming=False).query
    )
    gate = Gate()
    monitor = watched(variant, framework, gate)
    beside = multiprocessing.get_context("spawn").Process(
        target=work, args=(1 / rate,), daemon=True
    )
    if variant == BESIDE:
        beside.start()
    asyncio.run(streamed(ask, 1.0, rate))  # warms up
    gc.collect()
    gc.freeze()
    if variant == CAPTURED:
        gate.shut()
        invoke(QUERY)
        gate.wait_until_held()
    streams, gaps = asyncio.run(streamed(ask, seconds, rate))
    gate.let_go()
    if beside.is_alive():
        beside.terminate()
    if monitor is not None:
        monitor.flush(DRAIN_S)
    if not closed_loop:
        if monitor is not None:
            monitor.close(DRAIN_S)
        return Measured(
            streams_ms=streams,
            gaps_ms=gaps,
            per_second=0.0,
            scored_per_second=0.0,
            dropped_per_second=0.0,
        )
    before = counts(monitor)
    began = time.perf_counter()
    n = 0
    while time.perf_counter() - began < seconds:
        invoke(QUERY)
        n += 1
    took = time.perf_counter() - began
    # What waits is scored later: it has had its place in the queue.
    after = counts(monitor)
    if monitor is not None:
        monitor.close(DRAIN_S)
    return Measured(
        streams_ms=streams,
        gaps_ms=gaps,
        per_second=n / took,
        scored_per_second=(after[0] - before[0]) / took,
        dropped_per_second=(after[1] - before[1]) / took,
    )


def child(pipe: Any, variant: str, framework: str, how: dict[str, Any]) -> None:
    """Measure, and send what was found."""
    warnings.simplefilter("ignore")  # what a peer has to say at each request
    pipe.send(measure(variant, framework, **how))


class _Sink(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--rate", type=float, default=RATE)
    options.add_argument("--framework", choices=FRAMEWORKS, action="append")
    options.add_argument("--causes", action="store_true")
    chosen = options.parse_args()
    names = CAUSES if chosen.causes else VARIANTS
    how = {"seconds": chosen.seconds, "rate": chosen.rate, "closed_loop": not chosen.causes}
    sink = ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{sink.server_port}"
    rng = random.Random(1)
    for framework in chosen.framework or FRAMEWORKS:
        found: dict[str, list[Measured]] = {name: [] for name in names}
        for _ in range(chosen.rounds):
            for name in rng.sample(names, len(names)):
                ours, theirs = multiprocessing.Pipe()
                context = multiprocessing.get_context("spawn")
                process = context.Process(target=child, args=(theirs, name, framework, how))
                process.start()
                theirs.close()
                found[name].append(ours.recv())
                process.join()
        _print(framework, found, chosen.rate)


def _print(framework: str, found: dict[str, list[Measured]], rate: float) -> None:
    def shown(of: Callable[[Measured], float], name: str) -> str:
        base = sorted(map(of, found[ALONE]))[len(found[ALONE]) // 2]
        values = sorted(of(each) - (0.0 if name == ALONE else base) for each in found[name])
        sign = "" if name == ALONE else "+"
        middle = values[len(values) // 2]
        return f"{middle:{sign}.1f} ({values[0]:{sign}.1f} to {values[-1]:{sign}.1f})"

    print(
        f"\n### {framework}: {rate:g} streams a second on one event loop, ms (added to 'alone')\n"
    )
    print("| watcher | stream p50 | stream p99 | piece p50 | piece p90 | piece p99 |")
    print("|---|---|---|---|---|---|")
    for name in found:
        cells = [
            *(shown(lambda m, q=q: at(m.streams_ms, q), name) for q in (0.5, 0.99)),
            *(shown(lambda m, q=q: at(m.gaps_ms, q), name) for q in (0.5, 0.9, 0.99)),
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    if CAPTURED in found:
        return
    print(f"\n### {framework}: a closed loop, answers a second\n")
    print("| watcher | answers | of alone | scored meanwhile | dropped and counted |")
    print("|---|---|---|---|---|")
    alone = sorted(m.per_second for m in found[ALONE])[len(found[ALONE]) // 2]
    for name, each in found.items():
        middle = sorted(each, key=lambda m: m.per_second)[len(each) // 2]
        ours = name in (THREAD, PROCESS)
        scored = f"{middle.scored_per_second:,.0f}" if ours else "–"
        dropped = f"{middle.dropped_per_second:,.0f}" if ours else "–"
        print(
            f"| {name} | {middle.per_second:,.0f} | {middle.per_second / alone:.0%} | {scored} | "
            f"{dropped} |"
        )


if __name__ == "__main__":
    main()
