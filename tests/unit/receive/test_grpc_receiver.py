"""OTLP over gRPC, with the real exporter and with raw calls."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra `receive`")

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor import SettingsError
from ragmonitor.receive import grpc_receiver
from ragmonitor.receive.grpc_receiver import MAX_CALLS, SERVICE
from ragmonitor.receive.otlp_bodies import MAX_MESSAGES
from tests.support.certificates import make_certificates
from tests.support.receiving import (
    ANSWER,
    QUESTION,
    TEXT,
    Receiving,
    answer,
    receiving,
    request_of,
    root,
    span,
)
from tests.support.waiting import until

TOKEN = "correct-horse-battery"


def place(here: Receiving) -> str:
    return here.receiver.listeners[1].url.removeprefix("http://")


@contextmanager
def calling(here: Receiving, **options: Any) -> Iterator[Any]:
    with grpc.insecure_channel(place(here), **options) as channel:
        yield channel.unary_unary(f"/{SERVICE}/Export")


def test_a_real_exporter_sends_an_answer() -> None:
    """Compressed by gzip, with a token in its metadata."""
    with receiving(receive={"token": TOKEN}) as here:
        provider = TracerProvider()
        exporter = OTLPSpanExporter(
            here.receiver.listeners[1].url,
            headers={"authorization": f"Bearer {TOKEN}"},
            compression=grpc.Compression.Gzip,
        )
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("shop")
        with tracer.start_as_current_span("answer", attributes=root()["attributes"]):
            for each in answer()[:2]:
                tracer.start_span(each["name"], attributes=each["attributes"]).end()
        provider.shutdown()
        (found,) = here.after(7)
    assert (found.query, found.answer, found.chunks[0].text) == (QUESTION, ANSWER, TEXT)


def test_a_full_receiver_has_senders_try_again() -> None:
    """RESOURCE_EXHAUSTED with the RetryInfo without which no sender may try again."""
    with receiving(receive={"max_traces": 10}) as here, calling(here) as export:
        for trace in range(2, 12):
            here.take(root(trace=trace))
        with pytest.raises(grpc.RpcError) as failure:
            export(request_of(*answer()).SerializeToString(), timeout=10)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert retry_delay_s(failure.value) == 6


def test_spans_without_ids_are_rejected() -> None:
    """The reply says how many."""
    with receiving() as here, calling(here) as export:
        broken = span(9) | {"span_id": b""}
        reply = export(request_of(*answer(), broken).SerializeToString(), timeout=10)
        assert ExportTraceServiceResponse.FromString(reply).partial_success.rejected_spans == 1


def test_what_is_no_request_is_refused() -> None:
    """As an error of the sender's, without a trace in our log."""
    with receiving() as here, calling(here) as export:
        with pytest.raises(grpc.RpcError) as failure:
            export(b"\xff\xff", timeout=10)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert export(request_of(*answer()).SerializeToString(), timeout=10) == b""


def test_a_request_is_bounded_as_sent_and_unpacked() -> None:
    """Neither a large message nor one that unpacks to one is read."""
    with receiving(receive={"max_request_bytes": 2**16}) as here:
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with calling(here, compression=compression) as export:
                with pytest.raises(grpc.RpcError) as failure:
                    export(b"\0" * 2**22, timeout=10)
                assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(gzip.compress(b"\0" * 2**22)) < 2**16
        assert len(here.receiver.traces) == 0


def test_a_request_of_too_many_messages_is_refused_for_good() -> None:
    """Without RetryInfo: sent again it would be no smaller."""
    with receiving() as here, calling(here) as export:
        with pytest.raises(grpc.RpcError) as failure:
            export(b"\x0a\x00" * (MAX_MESSAGES + 1), timeout=10)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-status-details-bin" not in dict(failure.value.trailing_metadata())
        sample = "ragmonitor_received_requests_total"
        until("it is counted", lambda: here.counted(sample, outcome="too_large") == 1)


@pytest.mark.parametrize("shown", ["", f"Bearer {TOKEN}x", TOKEN])
def test_without_its_token_nothing_is_taken(shown: str) -> None:
    """The call ends before its message is looked at."""
    with receiving(receive={"token": TOKEN}) as here, calling(here) as export:
        with pytest.raises(grpc.RpcError) as failure:
            export(b"\xff", metadata=(("authorization", shown),), timeout=10)
        assert failure.value.code() is grpc.StatusCode.UNAUTHENTICATED
        here.receiver.close()
        sample = "ragmonitor_received_requests_total"
        assert here.counted(sample, outcome="unauthorized") == 1


def test_calls_that_send_nothing_keep_nobody_away() -> None:
    """Without a token they end at once, and with one they leave threads to others."""
    shown = (("authorization", f"Bearer {TOKEN}"),)
    silent = threading.Event()
    with (
        receiving(receive={"token": TOKEN}) as here,
        calling(here) as export,
        grpc.insecure_channel(place(here)) as channel,
    ):
        stream = channel.stream_unary(f"/{SERVICE}/Export")
        calls = [
            stream.future(says_nothing(silent), metadata=metadata, timeout=60)
            for metadata in (None, shown)
            for _ in range(3)
        ]
        try:
            spans = request_of(*answer()).SerializeToString()
            assert export(spans, metadata=shown, timeout=9) == b""
            assert {call.code() for call in calls[:3]} == {grpc.StatusCode.UNAUTHENTICATED}
            assert not any(call.done() for call in calls[3:])
        finally:
            silent.set()


def says_nothing(ended: threading.Event) -> Iterator[bytes]:
    ended.wait()
    yield from ()


def test_beyond_as_many_calls_as_may_be_senders_try_again() -> None:
    """RESOURCE_EXHAUSTED with RetryInfo, counted; a real exporter sends again and loses nothing."""
    silent = threading.Event()
    alone = [("grpc.use_local_subchannel_pool", 1)]  # a connection has room for no more calls
    with receiving() as here, grpc.insecure_channel(place(here), alone) as channel:
        stream = channel.stream_unary(f"/{SERVICE}/Export")
        calls = [stream.future(says_nothing(silent), timeout=60) for _ in range(MAX_CALLS)]
        with calling(here) as export:

            def refused() -> grpc.RpcError | None:
                try:
                    export(b"", timeout=10)
                except grpc.RpcError as error:
                    return error
                return None

            error = until("all calls have come", refused)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert retry_delay_s(error) == 1
        with ThreadPoolExecutor(1) as pool:
            exporter = OTLPSpanExporter(here.receiver.listeners[1].url)
            sample = "ragmonitor_received_requests_total"
            before = here.counted(sample, outcome="too_many")
            sent = pool.submit(exporter.export, [finished_span()])
            until("it was refused", lambda: here.counted(sample, outcome="too_many") > before)
            silent.set()
            assert sent.result(30) is SpanExportResult.SUCCESS
            exporter.shutdown()
        for call in calls:
            call.exception(timeout=10)
        assert len(here.receiver.traces) == 1


def finished_span() -> ReadableSpan:
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    provider.get_tracer("shop").start_span("answer").end()
    provider.shutdown()
    (span,) = exported.get_finished_spans()
    return span


def retry_delay_s(failure: grpc.RpcError) -> int:
    status = Status.FromString(dict(failure.trailing_metadata())["grpc-status-details-bin"])
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    return retry.retry_delay.seconds


def test_a_call_that_sends_nothing_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a connection over HTTP has, and it is counted."""
    monkeypatch.setattr(grpc_receiver, "REQUEST_TIMEOUT_S", 0.2)
    silent = threading.Event()
    with receiving() as here, grpc.insecure_channel(place(here)) as channel:
        stream = channel.stream_unary(f"/{SERVICE}/Export")
        call = stream.future(says_nothing(silent), timeout=60)
        assert call.code() is grpc.StatusCode.CANCELLED
        silent.set()
        sample = "ragmonitor_received_requests_total"
        until("it is counted", lambda: here.counted(sample, outcome="too_slow") == 1)


def test_a_call_without_a_message_is_refused() -> None:
    """As an error of the sender's."""
    with receiving() as here, grpc.insecure_channel(place(here)) as channel:
        with pytest.raises(grpc.RpcError) as failure:
            channel.stream_unary(f"/{SERVICE}/Export")(iter(()), timeout=10)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        sample = "ragmonitor_received_requests_total"
        until("it is counted", lambda: here.counted(sample, outcome="malformed") == 1)


def test_senders_are_known_by_their_certificates(tmp_path: Path) -> None:
    """TLS on both sides stands for a token: who has none is not heard."""
    files = make_certificates(tmp_path)
    authority, own, key = (each.read_bytes() for each in (files.authority, files.own, files.key))
    options = {
        "tls_certificate": files.own,
        "tls_key": files.key,
        "tls_client_ca": files.authority,
    }
    spans = request_of(*answer()).SerializeToString()
    with receiving(receive=options) as here:
        target = here.receiver.listeners[1].url.removeprefix("https://")
        for credentials, is_heard in (
            (grpc.ssl_channel_credentials(authority), False),
            (grpc.ssl_channel_credentials(authority, key, own), True),
        ):
            with grpc.secure_channel(target, credentials) as channel:
                export = channel.unary_unary(f"/{SERVICE}/Export")
                if is_heard:
                    assert export(spans, timeout=10) == b""
                else:
                    with pytest.raises(grpc.RpcError) as failure:
                        export(spans, timeout=10)
                    assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
        assert len(here.after(7)) == 1


def test_an_address_that_is_taken_is_said() -> None:
    """And the server that listened already stops."""
    with receiving() as here:
        port = int(place(here).rpartition(":")[2])
        second = Receiving(receive={"grpc_port": port})
        with pytest.raises(SettingsError, match=f"{port} cannot be listened on"):
            second.receiver.listen()
        second.receiver.close()
