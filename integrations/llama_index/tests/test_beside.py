"""Other projects' instrumentation in the same process: neither changes what the other sees."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("openinference.instrumentation.llama_index", reason="the group `peers`")

from llama_index_instrumentation import get_dispatcher
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.instrumentation.llamaindex.dispatcher_wrapper import instrument_with_dispatcher
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from integrations.llama_index.tests.scripted import (
    ANSWER,
    FakeMonitor,
    chat_engine,
    query_engine,
)
from ragmonitor import Interaction
from ragmonitor_llama_index import instrument, uninstrument

Told = list[Any]
"""What an instrumentation tells its backend, less ids and times, in a fixed order."""

_FLEETING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?"
    r"|0x[0-9a-f]+"
)

Peer = Callable[[], AbstractContextManager[InMemorySpanExporter]]


@contextmanager
def _traced(start: Callable[[TracerProvider], None]) -> Iterator[InMemorySpanExporter]:
    dispatcher = get_dispatcher()
    before = [*dispatcher.span_handlers], [*dispatcher.event_handlers]
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    start(provider)
    added = [
        h
        for h in (*dispatcher.span_handlers, *dispatcher.event_handlers)
        if not any(h is known for known in (*before[0], *before[1]))
    ]
    assert added
    try:
        yield kept
    finally:
        if LlamaIndexInstrumentor().is_instrumented_by_opentelemetry:
            LlamaIndexInstrumentor().uninstrument()
        # OpenLLMetry (0.62) has no way back.
        for handlers in (dispatcher.span_handlers, dispatcher.event_handlers):
            handlers[:] = [h for h in handlers if not any(h is a for a in added)]
        provider.shutdown()


def openinference() -> AbstractContextManager[InMemorySpanExporter]:
    return _traced(lambda provider: LlamaIndexInstrumentor().instrument(tracer_provider=provider))


def openllmetry() -> AbstractContextManager[InMemorySpanExporter]:
    return _traced(lambda provider: instrument_with_dispatcher(provider.get_tracer("openllmetry")))


def told(kept: InMemorySpanExporter) -> Told:
    spans = kept.get_finished_spans()
    by_id = {span.context.span_id: span for span in spans}

    def path(span: ReadableSpan) -> list[str]:
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return [*([] if parent is None else path(parent)), span.name]

    return sorted(
        (
            _steady(
                [
                    path(span),
                    span.kind.name,
                    span.status.status_code.name,
                    dict(span.attributes or {}),
                    [(event.name, dict(event.attributes or {})) for event in span.events],
                ]
            )
            for span in spans
        ),
        key=str,
    )


def _steady(value: Any) -> Any:
    """Return the value without ids, times, addresses, and the state of a chat's threads."""
    if isinstance(value, dict) and "awrite_response_to_history_task" in value:
        return "a chat while its writer is at work"
    if isinstance(value, dict):
        return {str(key): _steady(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [_steady(item) for item in value]
    if not isinstance(value, str):
        return value
    if value.startswith(("{", "[")):
        with suppress(ValueError):
            return _steady(json.loads(value))
    return _FLEETING.sub("*", value)


async def _query() -> str:
    return str(query_engine().query("How heavy?"))


async def _aquery() -> str:
    return str(await query_engine().aquery("How heavy?"))


async def _stream() -> str:
    return "".join(query_engine(streaming=True).query("How heavy?").response_gen)


async def _astream() -> str:
    response: Any = await query_engine(streaming=True).aquery("How heavy?")
    return "".join([piece async for piece in response.async_response_gen()])


async def _chat() -> str:
    return str(chat_engine("context").chat("How heavy?"))


async def _achat() -> str:
    return str(await chat_engine("condense_plus_context").achat("How heavy?"))


async def _stream_chat() -> str:
    response = chat_engine("context").stream_chat("How heavy?")
    writer = response.write_response_to_history_thread
    said = "".join(response.response_gen)
    writer.join()
    return said


async def _astream_chat() -> str:
    response = await chat_engine("context").astream_chat("How heavy?")
    writer = response.awrite_response_to_history_task
    said = "".join([piece async for piece in response.async_response_gen()])
    await writer
    return said


WAYS: dict[str, Callable[[], Awaitable[str]]] = {
    "query": _query,
    "aquery": _aquery,
    "stream": _stream,
    "astream": _astream,
    "chat": _chat,
    "achat": _achat,
    "stream_chat": _stream_chat,
    "astream_chat": _astream_chat,
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request: pytest.FixtureRequest) -> Callable[[], Awaitable[str]]:
    """One way to ask a question."""
    return request.param


@pytest.fixture(params=[openinference, openllmetry], ids=["openinference", "openllmetry"])
def peer(request: pytest.FixtureRequest) -> Peer:
    """One of the others, to be turned on."""
    return request.param


def alike(interaction: Interaction) -> Interaction:
    """Return the record without what differs from run to run, and without its place in a trace."""
    return replace(
        interaction,
        id="",
        started_ns=0,
        first_token_ns=0,
        ended_ns=0,
        caller=None,
        retrievals=tuple(replace(r, started_ns=0, ended_ns=0) for r in interaction.retrievals),
        generations=tuple(
            replace(g, started_ns=0, ended_ns=0, first_token_ns=0) for g in interaction.generations
        ),
    )


def _names(spans: Told) -> Told:
    return sorted(path[-1].partition(".")[0] for path, *_ in spans)


@pytest.mark.parametrize("we_come", ["first", "last"])
async def test_neither_changes_what_the_other_tells(
    quiet_monitor: FakeMonitor,
    way: Callable[[], Awaitable[str]],
    peer: Peer,
    we_come: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each tells of the same call what it tells alone; tokens are counted once; nobody warns."""
    instrument(quiet_monitor)
    assert await way() == ANSWER
    uninstrument()
    ours_alone = alike(quiet_monitor.only())
    quiet_monitor.interactions.clear()
    with peer() as kept:
        assert await way() == ANSWER
    theirs_alone = told(kept)
    caplog.clear()

    if we_come == "first":
        instrument(quiet_monitor)
    with peer() as kept:
        if we_come == "last":
            instrument(quiet_monitor)
        assert await way() == ANSWER

    theirs = told(kept)
    if way is _stream_chat:
        # Its thread may begin before the chat's own span ends or after, which changes parents.
        theirs, theirs_alone = _names(theirs), _names(theirs_alone)
    assert theirs_alone
    assert theirs == theirs_alone
    ours = alike(quiet_monitor.only())
    assert ours == ours_alone
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == []
