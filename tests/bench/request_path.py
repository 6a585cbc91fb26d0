"""What a request pays for being watched: CPU added per interaction, beside what it is compared to.

Four variants of the same application run interleaved in one process, a few requests at a time, in
an order shuffled anew each round, so that a busy machine is busy for all of them alike: no handler,
a handler that does nothing, bare OpenTelemetry spans of the same number that
ragmonitor emits (three, with the query, the answer and the chunks on them, to a batch processor
with an exporter that drops them), and ragmonitor. Counted is the CPU time of the whole process
less that of background threads: what requests pay on whatever thread the framework runs them.
While requests are measured ragmonitor's worker is held, as it would be on a core of its own; then
it works off what waits, and its CPU stands in its own column.

    python tests/bench/request_path.py [--rounds 360]

Prints one markdown table per framework: what each variant adds to "no handler", in microseconds of
CPU per request; the ratio ragmonitor / (do-nothing handler + bare spans), which is to be at most 1;
and its 90 % interval by bootstrap over rounds.

The statistic is the lower decile over rounds and not the median: neighbours on a shared machine
only ever add time, in bursts longer than a round, and half of the rounds may have met one. So the
figures are those of a machine that is left alone. A table whose intervals are wider than half the
ratio was taken on a machine that was not.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough
from llama_index.core.base.base_retriever import BaseRetriever as LlamaRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from ragmonitor import Monitor

CHUNKS = [f"chunk {n} says " + "that the tower is tall and old. " * 25 for n in range(5)]
PIECES = [f"word{n} " for n in range(100)]
ANSWER = "".join(PIECES)
QUERY = "How tall is the tower, and how old?"
AT_ONCE = 50


# --- the two applications ------------------------------------------------------------------------


class FixedRetriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(id=str(n), page_content=c) for n, c in enumerate(CHUNKS)]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=None)


class Endless:
    def __iter__(self) -> Endless:
        return self

    def __next__(self) -> AIMessage:
        return AIMessage(ANSWER)


def langchain_application() -> Any:
    model = GenericFakeChatModel(messages=iter(Endless()))
    prompt = ChatPromptTemplate.from_template("{context}\n{question}")
    retrieve = FixedRetriever() | (lambda docs: "\n".join(d.page_content for d in docs))
    return (
        {"context": retrieve, "question": RunnablePassthrough()}
        | prompt
        | model
        | StrOutputParser()
    )


class FixedNodes(LlamaRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=TextNode(text=c, id_=str(n)), score=0.5)
            for n, c in enumerate(CHUNKS)
        ]

    async def _aretrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return self._retrieve(query_bundle)


class FixedModel(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=100_000, model_name="fixed")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        return CompletionResponse(text=ANSWER)

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        text = ""
        for piece in PIECES:
            text += piece
            yield CompletionResponse(text=text, delta=piece)


def llama_engine(*, streaming: bool) -> RetrieverQueryEngine:
    model = FixedModel(callback_manager=CallbackManager([]))
    return RetrieverQueryEngine(
        FixedNodes(), get_response_synthesizer(llm=model, streaming=streaming)
    )


LANGCHAIN = langchain_application()
ENGINE, STREAMING = llama_engine(streaming=False), llama_engine(streaming=True)


RUNNER = asyncio.Runner()


async def _gathered(call: Callable[[str], Any], n: int) -> None:
    await asyncio.gather(*(call(QUERY) for _ in range(n)))


def _each(call: Callable[[str], Any]) -> Callable[[int], None]:
    def run(n: int) -> None:
        for _ in range(n):
            call(QUERY)

    return run


def _langchain_stream(query: str) -> None:
    for _ in LANGCHAIN.stream(query):
        pass


def _llama_stream(query: str) -> None:
    for _ in STREAMING.query(query).response_gen:
        pass


MODES: dict[str, dict[str, Callable[[int], None]]] = {
    "langchain": {
        "invoke": _each(LANGCHAIN.invoke),
        f"ainvoke ({AT_ONCE} at once)": lambda n: RUNNER.run(_gathered(LANGCHAIN.ainvoke, n)),
        "stream of 100": _each(_langchain_stream),
    },
    "llama_index": {
        "query": _each(ENGINE.query),
        f"aquery ({AT_ONCE} at once)": lambda n: RUNNER.run(_gathered(ENGINE.aquery, n)),
        "streaming query": _each(_llama_stream),
    },
}


# --- what is compared ----------------------------------------------------------------------------


class Nothing(BaseCallbackHandler):
    run_inline = True


class NoSpans(BaseSpanHandler[Any]):
    def new_span(self, *_: Any, **__: Any) -> None:
        return None

    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None:
        return None

    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None:
        return None


class NoEvents(BaseEventHandler):
    def handle(self, event: Any, **_: Any) -> None:
        return None


class Dropping(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


PROVIDER = TracerProvider()
PROVIDER.add_span_processor(BatchSpanProcessor(Dropping()))
TRACER = PROVIDER.get_tracer("bare")


def bare_spans(_n: int) -> None:
    """Three spans as a careful hand would write them."""
    with TRACER.start_as_current_span("rag") as root:
        root.set_attribute("input.value", QUERY)
        with TRACER.start_as_current_span("retrieval") as retrieval:
            for n, chunk in enumerate(CHUNKS):
                retrieval.set_attribute(f"retrieval.documents.{n}.document.id", str(n))
                retrieval.set_attribute(f"retrieval.documents.{n}.document.content", chunk)
        with TRACER.start_as_current_span("chat") as chat:
            chat.set_attribute("gen_ai.request.model", "fixed")
            chat.set_attribute("output.value", ANSWER)
        root.set_attribute("output.value", ANSWER)


@contextmanager
def _nothing(framework: str) -> Iterator[None]:
    if framework == "langchain":
        from contextvars import ContextVar

        from langchain_core.tracers import context

        nothing = Nothing()
        handler: ContextVar[Any] = ContextVar("nothing", default=nothing)
        context.register_configure_hook(handler, inheritable=True)
        try:
            yield
        finally:
            context._configure_hooks.pop()
        return
    dispatcher = get_dispatcher()
    spans, events = NoSpans(), NoEvents()
    dispatcher.add_span_handler(spans)
    dispatcher.add_event_handler(events)
    try:
        yield
    finally:
        dispatcher.span_handlers.remove(spans)
        dispatcher.event_handlers.remove(events)


@contextmanager
def _watched(framework: str, monitor: Monitor) -> Iterator[None]:
    if framework == "langchain":
        from ragmonitor_langchain import instrument, uninstrument
    else:
        from ragmonitor_llama_index import instrument, uninstrument
    instrument(monitor)
    try:
        yield
    finally:
        uninstrument()


# --- measuring -----------------------------------------------------------------------------------


def background_s() -> float:
    """Return the CPU seconds of threads that no request runs on."""
    spent = 0.0
    for thread in threading.enumerate():
        if thread.ident and thread.name.startswith(("ragmonitor", "OtelBatch")):
            spent += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return spent


def measure(run: Callable[[int], None], requests: int) -> float:
    """Return the CPU of requests, in microseconds for each, after a few that are not counted.

    Those before it belonged to another variant: the interpreter has specialised the framework's
    dispatch for that one's handlers, and an application does not change its handlers.
    """
    run(requests if requests == AT_ONCE else 3)
    back_before, all_before = background_s(), time.process_time()
    run(requests)
    spent = time.process_time() - all_before  # first, so that asking for the rest is not in it
    return (spent - (background_s() - back_before)) / requests * 1e6


def low(values: Sequence[float]) -> float:
    """Return the lower decile."""
    return sorted(values)[len(values) // 10]


def added(found: dict[str, list[float]], rounds: Sequence[int]) -> dict[str, float]:
    """Return what each variant adds to a request, as lower deciles over these rounds."""
    least = {name: low([values[n] for n in rounds]) for name, values in found.items()}
    return {
        "nothing": least["nothing"] - least["none"],
        "spans": least["spans"],
        "ragmonitor": least["ragmonitor"] - least["none"],
    }


def ratio(costs: dict[str, float]) -> float:
    """Return ragmonitor / (do-nothing handler + bare spans)."""
    return costs["ragmonitor"] / max(1e-9, costs["nothing"] + costs["spans"])


def bench(framework: str, most: int) -> None:
    """Print the table of one framework."""
    rng = random.Random(1)
    free = threading.Event()

    def held(text: str) -> str:
        free.wait()
        return text

    monitor = Monitor(service="bench", prometheus_port=0, traces=False, redact=held)
    names = ["none", "nothing", "spans", "ragmonitor"]
    print(f"\n### {framework}: CPU µs added per request\n")
    print(
        "| mode | whole request | do-nothing handler | bare spans | ragmonitor | ratio "
        "| 90 % interval | worker, behind it |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for mode, run in MODES[framework].items():
        # Fifty at once are as long as several of the others, and so are fewer rounds as good.
        requests = AT_ONCE if "at once" in mode else 5
        watched = 2 * AT_ONCE if "at once" in mode else 3 + requests
        rounds = max(10, most // 4) if "at once" in mode else most
        found: dict[str, list[float]] = {name: [] for name in names}
        behind: list[float] = []
        for number in range(-5, rounds):
            if number % 20 == 0:
                gc.collect()
            gc.disable()
            taken = dict.fromkeys(names, 0.0)
            for name in rng.sample(names, len(names)):
                if name == "none":
                    taken[name] = measure(run, requests)
                elif name == "nothing":
                    with _nothing(framework):
                        taken[name] = measure(run, requests)
                elif name == "spans":
                    # Beside the request and not inside it: the same calls, no luck of nesting.
                    taken[name] = measure(_each(bare_spans), requests)
                else:
                    with _watched(framework, monitor):
                        free.clear()
                        taken[name] = measure(run, requests)
                        free.set()
                        before = background_s()
                        if not monitor.flush(60):
                            sys.exit("the worker did not finish")
                        behind.append((background_s() - before) / watched * 1e6)
            gc.enable()
            if number >= 0:  # the first ones warm up
                for name, value in taken.items():
                    found[name].append(value)
        everything = range(rounds)
        costs = added(found, everything)
        resampled = sorted(
            ratio(added(found, rng.choices(everything, k=rounds))) for _ in range(400)
        )
        print(
            f"| {mode} | {low(found['none']):.0f} | {costs['nothing']:.0f} "
            f"| {costs['spans']:.0f} | **{costs['ragmonitor']:.0f}** | **{ratio(costs):.2f}** "
            f"| {resampled[20]:.2f} to {resampled[380]:.2f} | {low(behind):.0f} |",
            flush=True,
        )
    monitor.close()


def main() -> None:
    """Measure both frameworks."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=360)
    chosen = options.parse_args()
    for framework in MODES:
        bench(framework, chosen.rounds)
    RUNNER.close()


if __name__ == "__main__":
    main()
