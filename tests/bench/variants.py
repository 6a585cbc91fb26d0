"""What a request can be watched by, each in a process of its own: ours, nothing at all, and peers.

A `Station` is a child process that holds one application and one watcher. In it requests are
measured by turns with the watcher on and off, so that what is added is a difference within one
process: two processes differ by some percent in anything, for the layout of their memory. And no
watcher disturbs another: peers patch classes for the whole process. That `off` is off is checked
every time, by counting the spans that begin.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from typing import Any

from applications import ANSWER, CHUNKS, Run, is_many, modes
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

PEERS = {
    "OpenInference": {
        "langchain": "openinference-instrumentation-langchain",
        "llama_index": "openinference-instrumentation-llama-index",
    },
    "OpenLLMetry": {
        "langchain": "opentelemetry-instrumentation-langchain",
        "llama_index": "opentelemetry-instrumentation-llamaindex",
    },
}
"""Distributions, by name and framework; group `peers` of pyproject.toml has them all."""
NOTHING, OURS = "do-nothing handler", "ragmonitor"
IN_FLIGHT_S = 300.0


def peer_version(peer: str, framework: str) -> str | None:
    """Return the installed version; None: it is not installed."""
    try:
        return version(PEERS[peer][framework])
    except PackageNotFoundError:
        return None


# --- spans ---------------------------------------------------------------------------------------


class Dropping(SpanExporter):
    """Sends nothing anywhere."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Counting(SpanProcessor):
    """Counts spans, and keeps them for as long as it is told to."""

    def __init__(self) -> None:
        self.started = 0
        self.kept: list[ReadableSpan] | None = None

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.started += 1

    def on_end(self, span: ReadableSpan) -> None:
        if self.kept is not None:
            self.kept.append(span)


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a watcher kept of one request: of a cheap one that keeps nothing, that is to be seen."""

    started: int
    ended: int
    documents: int
    """How many of the five chunks' texts stand in full on a span."""
    has_answer: bool
    """The whole answer stands on a span."""
    has_answer_on_root: bool
    is_one_tree: bool

    @property
    def is_complete(self) -> bool:
        """Every document, and the answer on the root of one tree, whose spans have all ended."""
        return (
            self.documents == len(CHUNKS)
            and self.has_answer_on_root
            and self.is_one_tree
            and self.started == self.ended
        )


def recorded(started: int, spans: list[ReadableSpan]) -> Recorded:
    """Read off its spans what was recorded of one request."""
    texts = {span.context.span_id: _text(span) for span in spans if span.context}
    everything = "\n".join(texts.values())
    roots = [span for span in spans if span.parent is None]
    return Recorded(
        started=started,
        ended=len(spans),
        documents=sum(_holds(everything, chunk) for chunk in CHUNKS),
        has_answer=_holds(everything, ANSWER),
        has_answer_on_root=any(
            _holds(texts[root.context.span_id], ANSWER) for root in roots if root.context
        ),
        is_one_tree=len(roots) == 1,
    )


def _text(span: ReadableSpan) -> str:
    values = [*(span.attributes or {}).values()]
    for event in span.events:
        values += (event.attributes or {}).values()
    return "\n".join(str(value) for value in values)


def _holds(text: str, part: str) -> bool:
    return part.strip() in text or json.dumps(part.strip())[1:-1] in text


# --- watchers ------------------------------------------------------------------------------------


class Gate:
    """An exporter that holds ragmonitor's worker while it is shut."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._held = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._held.clear()
        self._open.clear()

    def wait_until_held(self) -> None:
        """Wait until the worker stands before it: from now on it takes no CPU and no lock."""
        if not self._held.wait(IN_FLIGHT_S):
            sys.exit("nothing was captured")
        time.sleep(0.001)

    def let_go(self) -> None:
        self._open.set()

    def export(self, _report: Any) -> None:
        if not self._open.is_set():
            self._held.set()
            self._open.wait()

    def flush(self, _timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        pass


class Watcher:
    """Something to be watched by. `on` and `off` are called by turns."""

    gate: Gate | None = None

    def on(self) -> None: ...

    def off(self) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Nothing(Watcher):
    """A handler that does nothing: the price of having one at all."""

    def __init__(self, framework: str) -> None:
        self._hold = _nothing_langchain if framework == "langchain" else _nothing_llama
        self._held: Any = None

    def on(self) -> None:
        self._held = self._hold()
        self._held.__enter__()

    def off(self) -> None:
        self._held.__exit__(None, None, None)


@contextmanager
def _nothing_langchain() -> Iterator[None]:
    from contextvars import ContextVar

    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers import context

    class Idle(BaseCallbackHandler):
        run_inline = True

    idle = Idle()
    handler: ContextVar[Any] = ContextVar("nothing", default=idle)
    context.register_configure_hook(handler, inheritable=True)
    try:
        yield
    finally:
        context._configure_hooks.pop()


@contextmanager
def _nothing_llama() -> Iterator[None]:
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
    from llama_index_instrumentation import get_dispatcher

    class IdleSpans(BaseSpanHandler[Any]):
        def new_span(self, *_: Any, **__: Any) -> None:
            return None

        def prepare_to_exit_span(self, *_: Any, **__: Any) -> None:
            return None

        def prepare_to_drop_span(self, *_: Any, **__: Any) -> None:
            return None

    class IdleEvents(BaseEventHandler):
        def handle(self, event: Any, **_: Any) -> None:
            return None

    dispatcher = get_dispatcher()
    spans, events = IdleSpans(), IdleEvents()
    dispatcher.add_span_handler(spans)
    dispatcher.add_event_handler(events)
    try:
        yield
    finally:
        dispatcher.span_handlers.remove(spans)
        dispatcher.event_handlers.remove(events)


class Ours(Watcher):
    """Ragmonitor on a thread that can be held, with traces to the same provider."""

    def __init__(self, framework: str) -> None:
        from ragmonitor import Monitor

        self.gate = Gate()
        self.monitor = Monitor(
            service="bench", server=False, content="all", worker="thread", exporters=[self.gate]
        )
        if framework == "langchain":
            import ragmonitor_langchain as integration
        else:
            import ragmonitor_llama_index as integration  # type: ignore[no-redef]
        self._integration = integration

    def on(self) -> None:
        self._integration.instrument(self.monitor)

    def off(self) -> None:
        self._integration.uninstrument()

    def flush(self) -> None:
        if not self.monitor.flush(IN_FLIGHT_S):
            sys.exit("the worker did not finish")

    def close(self) -> None:
        self.monitor.close()


class Peer(Watcher):
    """Another instrumentation, through its public `instrument` and `uninstrument`.

    What `uninstrument` leaves behind is put back too, so that `off` is off: OpenLLMetry 0.62 leaves
    the constructor of LangChain's callback managers wrapped, and its handlers on LlamaIndex's
    dispatcher.
    """

    def __init__(self, peer: str, framework: str, provider: TracerProvider) -> None:
        self._provider = provider
        self._instrumentor = _instrumentor(peer, framework)
        if framework == "langchain":
            from langchain_core.callbacks import BaseCallbackManager

            self._patched: list[tuple[Any, str]] = [(BaseCallbackManager, "__init__")]
        else:
            from llama_index_instrumentation import get_dispatcher

            root = get_dispatcher()
            self._patched = [(root, "span_handlers"), (root, "event_handlers")]
        self._before: list[Any] = []

    def on(self) -> None:
        self._before = [copy(getattr(owner, name)) for owner, name in self._patched]
        self._instrumentor.instrument(tracer_provider=self._provider, skip_dep_check=True)

    def off(self) -> None:
        self._instrumentor.uninstrument()
        for (owner, name), value in zip(self._patched, self._before, strict=True):
            setattr(owner, name, value)


def _instrumentor(peer: str, framework: str) -> Any:
    if peer == "OpenInference" and framework == "langchain":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        return LangChainInstrumentor()
    if peer == "OpenInference":
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        return LlamaIndexInstrumentor()
    if framework == "langchain":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        return LangchainInstrumentor()
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor as Traceloop

    return Traceloop()


# --- the child process ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Block:
    """One turn's CPU, in microseconds per request."""

    off: float
    """Without the watcher."""
    on: float
    """With it, on the threads that requests run on."""
    total: float
    """With it, on all threads, until everything that was seen has been processed."""


class Bench:
    """One application and one watcher; lives in a child process."""

    def __init__(self, framework: str, variant: str) -> None:
        self._provider = TracerProvider()
        self._counting = Counting()
        self._provider.add_span_processor(self._counting)
        self._provider.add_span_processor(BatchSpanProcessor(Dropping()))
        trace.set_tracer_provider(self._provider)
        self._modes = modes(framework)
        if variant == NOTHING:
            self._watcher: Watcher = Nothing(framework)
        elif variant == OURS:
            self._watcher = Ours(framework)
        else:
            self._watcher = Peer(variant, framework, self._provider)

    def modes(self) -> list[str]:
        return list(self._modes)

    def facts(self, mode: str) -> Recorded:
        """Watch one request, or as many as are made at once, and return what was kept of one."""
        counting = self._counting
        self._watcher.on()
        counting.started, counting.kept = 0, []
        self._modes[mode](1)
        gc.collect()  # spans that end when their objects do
        self._flush()
        spans, counting.kept = counting.kept, None
        self._watcher.off()
        return recorded(counting.started, spans)

    def block(self, mode: str, requests: int, *, off_first: bool) -> Block:
        """Measure one turn."""
        run = self._modes[mode]
        gc.collect()
        gc.disable()
        try:
            off = self._off(run, requests, mode) if off_first else 0.0
            on, total = self._on(run, requests, mode)
            if not off_first:
                off = self._off(run, requests, mode)
        finally:
            gc.enable()
        return Block(off=off, on=on, total=total)

    def _off(self, run: Run, requests: int, mode: str) -> float:
        before = self._counting.started
        run(_warm_up(mode, requests))
        spent, _ = measured(run, requests)
        if self._counting.started != before:
            sys.exit("spans were emitted although the watcher is off")
        return spent

    def _on(self, run: Run, requests: int, mode: str) -> tuple[float, float]:
        # The interpreter has specialised the framework's dispatch for the handlers of before, and
        # an application does not change its handlers: so the first requests are not counted.
        watcher, gate = self._watcher, self._watcher.gate
        warm_up = _warm_up(mode, requests)
        watcher.on()
        if gate is not None:
            # What is measured is the request; the worker stands still, as on a core of its own.
            gate.shut()
            run(1)
            gate.wait_until_held()
        run(warm_up)
        if gate is None:
            self._flush()
        on, everything = measured(run, requests)
        began = time.process_time()
        if gate is not None:
            gate.let_go()
        self._flush()
        behind = (time.process_time() - began) * 1e6
        # While the worker was held, the first ones waited as well, and are processed only now.
        processed = requests if gate is None else warm_up + requests
        watcher.off()
        return on, everything + behind / processed

    def _flush(self) -> None:
        self._watcher.flush()
        self._provider.force_flush(10_000)

    def close(self) -> None:
        self._watcher.close()
        self._provider.shutdown()


def _warm_up(mode: str, requests: int) -> int:
    return requests if is_many(mode) else 3


def background_s() -> float:
    """Return the CPU seconds of threads that no request runs on."""
    spent = 0.0
    for thread in threading.enumerate():
        if thread.ident and thread.name.startswith(("ragmonitor", "OtelBatch")):
            spent += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return spent


def measured(run: Run, requests: int) -> tuple[float, float]:
    """Return the CPU of requests, of their own threads and of all, in microseconds for each."""
    back_before, all_before = background_s(), time.process_time()
    run(requests)
    spent = time.process_time() - all_before  # first, so that asking for the rest is not in it
    behind = background_s() - back_before
    return (spent - behind) / requests * 1e6, spent / requests * 1e6


def _serve(pipe: Connection, framework: str, variant: str) -> None:
    try:
        bench = Bench(framework, variant)
    except ImportError as error:
        pipe.send(str(error))
        return
    # What a peer has to say at each request, and LangChain makes every process show.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    pipe.send("")
    while (asked := pipe.recv()) is not None:
        name, given, named = asked
        pipe.send(getattr(bench, name)(*given, **named))
    bench.close()


class Station:
    """A child process with one application and one watcher, seen from the parent."""

    def __init__(self, framework: str, variant: str, text: str) -> None:
        self.variant = variant
        os.environ["BENCH_TEXT"] = text
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, framework, variant), daemon=True
        )
        self._process.start()
        theirs.close()
        self.missing: str = self._pipe.recv()
        """What the child could not import; empty: it is ready."""

    def call(self, method: str, *given: Any, **named: Any) -> Any:
        """Return what a method of the child's `Bench` returns."""
        self._pipe.send((method, given, named))
        return self._pipe.recv()

    def close(self) -> None:
        """Let the child finish."""
        self._pipe.send(None)
        self._process.join(30)


def stations(
    framework: str, variants: Sequence[str] = (NOTHING, OURS, *PEERS), text: str = "english"
) -> tuple[list[Station], list[str]]:
    """Return a station for each variant that can be had, and notes on the peers."""
    found: list[Station] = []
    notes = []
    for variant in variants:
        package = PEERS[variant][framework] if variant in PEERS else "ragmonitor"
        known = peer_version(variant, framework) if variant in PEERS else version("ragmonitor")
        station = Station(framework, variant, text) if known else None
        if station is None or station.missing:
            why = station.missing if station else "not installed"
            notes.append(f"{variant} left out: {package} {known or ''}: {why}")
            continue
        found.append(station)
        if variant in PEERS:
            notes.append(f"{variant}: {package} {known}")
    return found, notes
