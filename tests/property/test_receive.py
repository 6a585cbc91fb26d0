"""Whatever is sent as spans: nothing is raised, and every interaction is accounted for."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmonitor.receive.open_traces import FullError, OpenTraces
from ragmonitor.receive.otlp_bodies import (
    JSON,
    PROTOBUF,
    request_of,
)
from ragmonitor.receive.trace_assembly import assembled
from ragmonitor.records import Interaction
from ragmonitor.runtime.guard import errors
from ragmonitor.testing import ManualClock
from tests.support.receiving import json_of, model, retrieval, root, span
from tests.support.receiving import request_of as request_with

TEXTS = st.text(max_size=8)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from(
    [
        "openinference.span.kind",
        "input.value",
        "output.value",
        "output.mime_type",
        "retrieval.documents.0.document.content",
        "retrieval.documents.x.document.content",
        "gen_ai.operation.name",
        "gen_ai.retrieval.documents",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "traceloop.span.kind",
        "traceloop.entity.output",
        "session.id",
        "metadata",
        "llm.token_count.prompt",
    ]
)
WORDS = st.sampled_from(
    ["CHAIN", "RETRIEVER", "LLM", "TOOL", "retrieval", "chat", "invoke_agent", "workflow", "task"]
)
NUMBERS = st.integers(0, 2**64 - 1)


@st.composite
def any_values(draw: st.DrawFn, depth: int = 0) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(["stringValue", "intValue", "doubleValue", "arrayValue", "kvlistValue"])
    )
    if kind == "stringValue":
        return {kind: draw(WORDS | TEXTS | JSON_VALUES.map(json.dumps))}
    if kind == "intValue":
        return {kind: str(draw(st.integers(-(2**63), 2**63 - 1)))}
    if kind == "doubleValue":
        return {kind: draw(st.floats(allow_nan=False, allow_infinity=False))}
    if depth > 2:
        return {}
    inner = draw(st.lists(any_values(depth=depth + 1), max_size=2))
    if kind == "arrayValue":
        return {kind: {"values": inner}}
    return {kind: {"values": [{"key": draw(TEXTS), "value": each} for each in inner]}}


IDS = st.integers(0, 5).map(lambda n: f"{n:016x}")
SPANS = st.fixed_dictionaries(
    {
        "traceId": st.integers(0, 2).map(lambda n: f"{n:032x}"),
        "spanId": IDS,
        "parentSpanId": IDS | st.just(""),
        "name": TEXTS,
        "startTimeUnixNano": NUMBERS.map(str),
        "endTimeUnixNano": NUMBERS.map(str),
        "attributes": st.lists(
            st.fixed_dictionaries({"key": KEYS | TEXTS, "value": any_values()}), max_size=6
        ),
        "status": st.fixed_dictionaries({"code": st.integers(0, 2), "message": TEXTS}),
        "events": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.just("exception"),
                    "attributes": st.lists(
                        st.fixed_dictionaries(
                            {
                                "key": st.sampled_from(["exception.type", "exception.message"]),
                                "value": any_values(),
                            }
                        ),
                        max_size=2,
                    ),
                }
            ),
            max_size=1,
        ),
        "traceState": TEXTS,
    }
)


def open_traces(clock: ManualClock) -> OpenTraces:
    return OpenTraces(clock)


def read(traces: OpenTraces) -> list[Interaction | None]:
    """Return what the traces that are due hold, as the receiver does it."""
    found = []
    for trace_id in traces.due(at_end=True):
        trace = traces.pop(trace_id)
        assert trace is not None
        finished = assembled(trace.spans.values(), is_retrieval_tool=lambda _: True)
        found += [each.interaction() for each in finished if each.framework]
    return found


@settings(deadline=1_000)
@given(requests=st.lists(st.lists(SPANS, max_size=8), max_size=3))
def test_any_spans_are_read_in_bounded_time(
    requests: list[list[dict[str, Any]]],
) -> None:
    """Rings of parents, times at both ends of the range, values of every type, anywhere."""
    traces = open_traces(ManualClock())
    before = errors.copy()
    for spans in requests:
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
        request = request_of(body, content_type=JSON, encoding="")
        traces.take(request)
        read(traces)
    assert (len(traces), traces.size_bytes) == (0, 0)
    assert errors == before


@settings(deadline=1_000)
@given(
    order=st.permutations(range(4 * 3)),
    batches=st.lists(st.integers(1, 5), max_size=8),
    twice=st.lists(st.integers(0, 11), max_size=5),
    as_json=st.booleans(),
)
def test_order_batches_and_repeats_change_nothing(
    order: list[int], batches: list[int], twice: list[int], as_json: bool
) -> None:
    """Four answers in any order, cut anywhere, partly sent twice: four interactions."""
    spans = [
        each
        for trace in range(1, 5)
        for each in (retrieval(trace=trace), model(trace=trace), root(trace=trace))
    ]
    sent = [spans[n] for n in [*order, *twice]]
    traces = open_traces(ManualClock())
    while sent:
        size = batches.pop() if batches else len(sent)
        traces.take(_over_the_wire(request_with(*sent[:size]), as_json))
        sent = sent[size:]
    found = read(traces)
    assert len(found) == 4
    assert {each.answer for each in found if each is not None} == {
        "It was built from 1887 to 1889."
    }


def _over_the_wire(request: ExportTraceServiceRequest, as_json: bool) -> ExportTraceServiceRequest:
    body = json_of(request) if as_json else request.SerializeToString()
    kind = JSON if as_json else PROTOBUF
    return request_of(body, content_type=kind, encoding="")


@settings(deadline=1_000)
@given(count=st.integers(1, 40), size=st.integers(1, 200_000))
def test_the_store_is_bounded(count: int, size: int) -> None:
    """Beyond its bounds a request is refused whole."""
    traces = open_traces(ManualClock())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragmonitor.receive.open_traces.MAX_TRACES", 10)
        patch.setattr("ragmonitor.receive.open_traces.MAX_HELD_BYTES", 2**20)
        for number in range(1, count + 1):
            big = span(1, trace=number, attributes={"input.value": "x" * size})
            is_full = len(traces) == 10 or traces.size_bytes + size + 1_000 > 2**20
            with contextlib.nullcontext() if not is_full else contextlib.suppress(FullError):
                traces.take(request_with(big))
    assert len(traces) <= 10
    assert traces.size_bytes <= 2**20 + 1_000
