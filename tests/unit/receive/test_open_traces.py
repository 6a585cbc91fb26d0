"""What becomes of a request that is unpacked: what is held of it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ragmonitor.receive.open_traces import OpenTraces
from ragmonitor.testing import ManualClock
from tests.support.receiving import request_of, span

MIB = 2**20


def empty() -> OpenTraces:
    """Return a store without traces."""
    return OpenTraces(ManualClock())


def of_one_scope(name: str, spans: int) -> ExportTraceServiceRequest:
    """Return a request whose spans all stand under one scope."""
    request = request_of(*(span(number) for number in range(1, spans + 1)))
    (resource,) = request.resource_spans
    kept = [each for scope in resource.scope_spans for each in scope.spans]
    del resource.scope_spans[1:]
    resource.scope_spans[0].scope.name = name
    del resource.scope_spans[0].spans[:]
    resource.scope_spans[0].spans.extend(kept)
    return request


def of_version(version: str, number: int) -> ExportTraceServiceRequest:
    """Return a request with one span."""
    return request_of(span(number), **{"service.version": version})


@pytest.mark.parametrize(
    "request_with",
    [
        pytest.param(lambda n: of_one_scope("s" * MIB, 5 * n), id="a long scope"),
        pytest.param(lambda n: of_version("v" * 4 * MIB, n), id="a long resource"),
        pytest.param(lambda n: of_version("版" * 2_000, n), id="a resource of its own"),
    ],
)
def test_held_memory_is_what_is_counted(
    request_with: Callable[[int], ExportTraceServiceRequest],
) -> None:
    """What spans share is held once and cut, and is counted with them."""
    traces = empty()
    traces.take(request_of(span(999)))  # what is made once
    counted = traces.size_bytes
    tracemalloc.start()
    try:
        for number in range(1, 11):
            traces.take(request_with(number))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * (traces.size_bytes - counted)
