"""Applications that send spans by OTLP, and what `ragmonitor receive` makes of them.

The law: interactions that came = scored and unscored by cause.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
)

from tests.contract.kit_outputs import attributes
from tests.pipeline.test_otel_spans import quiet_instrumentations
from tests.support.otlp_receiver import otlp_receiver
from tests.support.receiving import (
    Receiving,
    answer,
    model,
    receiving,
    request_of,
    retrieval,
    root,
    span,
)
from tests.support.scrape import outcomes
from tests.support.waiting import until

__all__ = ["quiet_instrumentations"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def http_exporter(receiver: Receiving) -> SpanExporter:
    return OTLPSpanExporter(f"{receiver.url}/v1/traces", compression=Compression.Gzip)


def test_spans_without_ids_are_rejected_and_the_rest_is_taken() -> None:
    """A partial success, as the protocol has it."""
    broken = span(9) | {"span_id": b""}
    zero = span(9) | {"trace_id": bytes(16)}
    with receiving() as receiver:
        status, reply, _ = receiver.post(request_of(*answer(), broken, zero).SerializeToString())
        assert status == 200
        assert ExportTraceServiceResponse.FromString(reply).partial_success.rejected_spans == 2
        assert len(receiver.after(7)) == 1
        receiver.receiver.close()
        assert receiver.counted("ragmonitor_received_total", what="spans", outcome="rejected") == 2
        assert (
            receiver.counted("ragmonitor_received_total", what="requests", outcome="partial") == 1
        )


@pytest.mark.slow
def test_a_full_receiver_has_senders_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After; a real exporter that got it sends again, and nothing is lost."""
    monkeypatch.setattr("ragmonitor.receive.open_traces.MAX_TRACES", 10)
    monkeypatch.setattr("ragmonitor.receive.http_receiver.QUIET_S", 1.0)
    with receiving() as receiver:
        for trace in range(2, 12):
            receiver.take(root(trace=trace))
        status, _, headers = receiver.post(request_of(*answer(trace=99)).SerializeToString())
        assert (status, headers["Retry-After"]) == (429, "1")
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(http_exporter(receiver)))
        provider.get_tracer("shop").start_span("step", attributes=root()["attributes"]).end()
        with ThreadPoolExecutor(1) as pool:
            flushed = pool.submit(provider.force_flush)
            sample = "ragmonitor_received_total"
            until(
                "it was refused",
                lambda: receiver.counted(sample, what="requests", outcome="full") >= 2,
            )
            receiver.after(200)  # makes room, into which the exporter's may have come already
            assert flushed.result(30)
        provider.shutdown()
        assert len(receiver.receiver.traces) == 1


def test_every_interaction_that_came_is_scored_or_unscored() -> None:
    """Whole, without a root, without a model, twice, and what is open at the end."""
    receiver = Receiving()
    for trace in range(1, 41):
        receiver.take(*answer(trace=trace))
    for trace in range(41, 51):
        receiver.take(retrieval(trace=trace), model(trace=trace))  # no root
    for trace in range(51, 56):
        receiver.take(root(trace=trace), retrieval(trace=trace))  # no model
    for trace in range(1, 11):
        receiver.take(*answer(trace=trace))  # twice
    receiver.after(7)
    receiver.take(*answer(trace=1), *answer(trace=99))
    receiver.receiver.close()
    registry = receiver.receiver.back.registry
    assert receiver.counted("ragmonitor_interactions_total") == 51
    assert receiver.counted("ragmonitor_received_total", what="traces", outcome="interaction") == 51
    assert receiver.counted("ragmonitor_received_total", what="traces", outcome="none") == 5
    assert receiver.counted("ragmonitor_received_total", what="spans", outcome="duplicate") == 33
    evaluations = outcomes(registry)
    entries = {each.evaluator for each in receiver.reports.reports[0].evaluations}
    assert sum(evaluations.values()) == 51 * len(entries)
    assert len(receiver.receiver.traces) == 0


def test_scores_are_linked_to_the_spans_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation spans are in the sender's trace, with a link to the interaction's own span."""
    with otlp_receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with receiving(listens=False, export={"traces": True}) as receiver:
            receiver.take(*answer(trace=77))
            assert len(receiver.after(7)) == 1
        spans = collector.spans()
    (carrier,) = (each for name, each in spans.items() if name.startswith("evaluation"))
    assert carrier.trace_id == (77).to_bytes(16, "big")
    assert carrier.parent_span_id == (1).to_bytes(8, "big")
    assert [link.span_id for link in carrier.links] == [(1).to_bytes(8, "big")]
    assert "evaluations.0.evaluation.score" in attributes(carrier.attributes)
    assert len(spans) == 1
