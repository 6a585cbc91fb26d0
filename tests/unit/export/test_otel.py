"""The trace from the record, and the scores that come late."""

from __future__ import annotations

import json
import logging
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor.export import OtelExporter
from ragmonitor.export.otel_environment import otlp_protocol
from ragmonitor.export.otlp import OtlpSender
from ragmonitor.export.span_attributes import MAX_TEXT_BYTES
from ragmonitor.export.spans import OutgoingSpan
from ragmonitor.records import (
    Chunk,
    Message,
    Report,
    SamplingDecision,
    Scored,
)
from ragmonitor.settings import Settings
from tests.support.certificates import make_certificates
from tests.support.otlp_receiver import otlp_receiver, plain
from tests.support.scoring_server import FakePhoenix, Fault
from tests.support.scripts import run_python
from tests.unit.export.examples import (
    ANSWER,
    CALLER,
    MODEL,
    QUERY,
    interaction,
    late_report,
    report,
)


def settings(content: str | None = "all", **options: Any) -> Settings:
    return Settings.load(**{"service": "shop", "content": content, **options})


class Emitted:
    """An exporter and what came out of it."""

    def __init__(self, patch: pytest.MonkeyPatch, content: str | None = "all") -> None:
        self._spans = InMemorySpanExporter()
        self._logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        patch.setattr(trace, "get_tracer_provider", lambda: tracers)
        patch.setattr(_logs, "get_logger_provider", lambda: loggers)
        self.exporter = OtelExporter(settings(content))

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._spans.get_finished_spans()}

    @property
    def events(self) -> list[Any]:
        return [log.log_record for log in self._logs.get_finished_logs()]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    return Emitted(monkeypatch)


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def test_two_readers_are_both_on_the_root(emitted: Emitted) -> None:
    """With a judge that was waited for, its words lead and the built-in judge's score stay."""
    judged = report(
        MODEL, score=0.25, decision=SamplingDecision(inclusion_probability=0.1, drawn=True)
    )
    emitted.exporter.emit(interaction(), [report(), judged])
    root = attributes(emitted.spans["invoke_workflow support"])
    assert root["ragmonitor.judge"] == "openai/gpt-4o-mini@p7"
    assert root["ragmonitor.judge.p"] == 0.1
    assert root["ragmonitor.score.faithfulness"] == 0.25
    assert root["evaluations.0.evaluation.annotator_kind"] == "LLM"
    assert root["evaluations.1.evaluation.annotator_kind"] == "CODE"


def test_an_error_is_an_exception_event_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK records one, so that backends list it; without content its type is left."""
    for content, message in (("all", "超时"), ("none", None)):
        each = Emitted(monkeypatch, content)
        failed = interaction(status="error", error="TimeoutError: 超时")
        each.exporter.emit(failed, [])
        [event] = each.spans["invoke_workflow support"].events
        assert (event.name, event.timestamp) == ("exception", failed.ended_ns)
        assert event.attributes["exception.type"] == "TimeoutError"
        assert event.attributes.get("exception.message") == message


@pytest.mark.parametrize("retrieved", [True, False])
def test_many_documents_never_push_out_the_answer(emitted: Emitted, retrieved: bool) -> None:
    """With 60 chunks, 40 attributes and 30 scores, question, answer and scores are there."""
    chunks = tuple(Chunk(text=f"t{n}", id=f"d{n}", score=0.1, metadata={"n": n}) for n in range(60))
    full = interaction(
        chunks=chunks,
        attributes={f"a{n}": "x" for n in range(40)},
        retrievals=(replace(interaction().retrievals[0], chunks=chunks),) if retrieved else (),
    )
    scores = tuple(
        Scored(evaluator=f"e{n}@1", judge=MODEL, score=0.5, explanation="why") for n in range(30)
    )
    emitted.exporter.emit(full, [report(), report(MODEL, evaluations=scores)])
    root = attributes(emitted.spans["invoke_workflow support"])
    assert root["input.value"] == QUERY
    assert root["output.value"] == ANSWER
    assert root["ragmonitor.score.e0"] == 0.5
    if retrieved:
        span = emitted.spans["retrieval Milvus"]
        assert span.dropped_attributes == 0
        assert attributes(span)["ragmonitor.documents.left_out"] == 35
        assert attributes(span)["input.value"] == QUERY
    else:
        assert root["ragmonitor.documents.left_out"] > 0


def test_a_long_text_is_cut_and_says_so(emitted: Emitted) -> None:
    """A cut text ends with how many bytes are missing, and with the mark keeps to the limit."""
    emitted.exporter.emit(interaction(query="退" * 11_000), [])
    shown = attributes(emitted.spans["invoke_workflow support"])["input.value"]
    kept = shown.count("退")
    assert shown == "退" * kept + f"… [cut: {3 * (11_000 - kept)} more bytes]"
    assert MAX_TEXT_BYTES - 8 < len(shown.encode()) <= MAX_TEXT_BYTES


def test_documents_and_prompts_share_a_fixed_room(emitted: Emitted) -> None:
    """The best documents and the newest messages stay; what is left out is counted."""
    chunks = tuple(Chunk(text=f"{n}" * 30_000) for n in range(5))
    prompt = tuple(Message(role="user", text=f"{n}" * 30_000) for n in range(5))
    step = replace(interaction().generations[0], input=prompt)
    found = replace(interaction().retrievals[0], chunks=chunks)
    emitted.exporter.emit(interaction(retrievals=(found,), generations=(step,)), [])
    retrieval = attributes(emitted.spans["retrieval Milvus"])
    assert retrieval["retrieval.documents.0.document.content"] == "0" * 30_000
    assert retrieval["retrieval.documents.2.document.content"].endswith("more bytes]")
    assert retrieval["ragmonitor.documents.left_out"] == 2
    call = attributes(emitted.spans["chat qwen-max"])
    assert call["llm.input_messages.2.message.content"] == "4" * 30_000
    assert call["ragmonitor.messages.left_out"] == 2
    told = json.loads(call["gen_ai.input.messages"])
    assert [message["parts"][0]["content"][0] for message in told] == ["2", "3", "4"]


def test_a_late_report_without_a_trace_is_still_an_event(emitted: Emitted) -> None:
    """Where no trace was emitted, the event stands in the caller's context."""
    late: Report = late_report(target=None, interaction=interaction(caller=CALLER))
    emitted.exporter.export(late)
    assert emitted.spans == {}
    assert {trace.format_span_id(e.span_id) for e in emitted.events} == {CALLER.span_id}


class TestEnvironment:
    """What `OTEL_*` asks for."""

    @pytest.fixture(autouse=True)
    def _clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("SDK_DISABLED", "TRACES_EXPORTER", "EXPORTER_OTLP_PROTOCOL"):
            monkeypatch.delenv(f"OTEL_{name}", raising=False)
        for name in ("", "TRACES_", "LOGS_"):
            monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}ENDPOINT", raising=False)

    def test_no_endpoint_means_no_export_and_no_noise(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Without provider and endpoint nothing is emitted, and nothing said about it."""
        with caplog.at_level(logging.DEBUG):
            exporter = OtelExporter(settings())
            assert exporter.emit(interaction(), [report()]) is None
            exporter.export(late_report())
            assert exporter.flush(0.1)
            exporter.close()
        assert caplog.records == []

    @pytest.mark.parametrize(
        ("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")]
    )
    def test_a_switch_wins_over_the_endpoint(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str
    ) -> None:
        """Export that is switched off stays off."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
        monkeypatch.setenv(name, value)
        assert otlp_protocol("TRACES") is None

    @pytest.mark.parametrize("protocol", ["grpc", "http/json"])
    def test_a_protocol_that_we_do_not_speak_is_told_once(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, protocol: str
    ) -> None:
        """The log names the remedy, at the first emission only; the application goes on."""
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        exporter = OtelExporter(settings())
        assert exporter.emit(interaction(), []) is None
        assert exporter.emit(interaction(), []) is None
        assert ["http/protobuf" in record.message for record in caplog.records] == [True]


def test_a_provider_of_the_application_is_flushed_and_never_shut_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`close` ends only what is ours."""
    calls: list[str] = []

    class Watched(TracerProvider):
        def force_flush(self, timeout_millis: int = 30000) -> bool:
            calls.append("flush")
            return True

        def shutdown(self) -> None:
            calls.append("shutdown")

    watched = Watched(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: watched)
    exporter = OtelExporter(settings())
    exporter.emit(interaction(), [])
    assert exporter.flush(1.0)
    exporter.close()
    assert calls == ["flush"]


SPANS = 3
"""Of one interaction: its root, its retrieval and its model call."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OtelExporter, FakePhoenix, Any]]:
    """Give an exporter with a server that it posts to, and what it counts as lost."""
    monkeypatch.setattr("ragmonitor.runtime.guard._logged", set())
    with FakePhoenix() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        lost: Counter[str] = Counter()
        exporter = OtelExporter(settings(), lost=lambda reason, n: lost.update({reason: n}))
        yield exporter, server, lost
        exporter.close()


def test_spans_that_no_collector_takes_are_counted_and_named_once(
    counted: tuple[OtelExporter, FakePhoenix, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Each span is counted as lost once; the line says what the collector says."""
    exporter, server, lost = counted
    server.always(Fault(400))
    for _ in range(3):
        exporter.emit(interaction(), [])
        assert not exporter.flush(5)
    assert lost == {"otlp_refused": 3 * SPANS}
    (line,) = [record.getMessage() for record in caplog.records if record.levelno > 10]
    assert "/v1/traces answers 400" in line


def test_spans_that_a_collector_takes_in_part_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """OTLP's partial success: 200, and a number of spans that were not taken."""
    with otlp_receiver() as receiver:
        receiver.refuses = 2
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        lost: Counter[str] = Counter()
        exporter = OtelExporter(settings(), lost=lambda reason, n: lost.update({reason: n}))
        exporter.emit(interaction(), [])
        assert not exporter.flush(5)
        exporter.close()
    assert lost == {"otlp_refused": 2}


def test_every_kind_of_attribute_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an equal value of another kind or sign under the same name."""
    given = [-0.0, 0.0, 1, True, 1.0, (1, ["a"]), (True, ["a"]), [], "", "字" * 65, -(2**63), 300]
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        sender = OtlpSender("TRACES", {}, lambda *_: None)
        for n, value in enumerate(given):
            of = partial(dict[str, Any], x=value)
            sender.emit(OutgoingSpan(name=f"{n}", started_ns=1, ended_ns=2, attributes=of), None)
        assert sender.batches.flush(5)
        sender.close()
    arrived = [plain(receiver.spans()[f"{n}"].attributes)["x"] for n in range(len(given))]
    shown = [[*each] if isinstance(each, tuple) else each for each in given]
    assert repr(arrived) == repr(shown)


def test_what_a_closed_exporter_has_not_sent_is_counted(
    counted: tuple[OtelExporter, FakePhoenix, Any],
) -> None:
    """A collector that does not answer keeps nobody waiting."""
    exporter, server, lost = counted
    server.always(Fault(hangs=True))
    exporter.emit(interaction(), [])
    assert not exporter.flush(0.3)
    exporter.close()
    assert lost == {"otlp_closed": SPANS}


def test_a_collector_is_trusted_by_the_certificate_that_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spans go to a server whose authority is named, with the client's own certificate if asked."""
    made = make_certificates(tmp_path)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=made.authority)
    server_side.load_cert_chain(made.own, made.key)
    server_side.verify_mode = ssl.CERT_REQUIRED
    with FakePhoenix(tls=server_side) as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(made.own))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(made.key))
        for authority, paths in (("", []), (str(made.authority), ["/v1/traces"])):
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
            monkeypatch.setattr("ragmonitor.export.posting.RETRIES", 0)
            exporter = OtelExporter(settings())
            exporter.emit(interaction(), [])
            exporter.flush(5)
            exporter.close()
            assert [request.path for request in server.requests] == paths


@pytest.mark.parametrize("kept", [True, False])
def test_a_trace_is_sampled_as_its_callers_was(
    monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """A trace that is left out says so to who reads it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    exporter = OtelExporter(settings())
    target = exporter.emit(interaction(caller=replace(CALLER, sampled=kept)), [])
    exporter.close()
    assert target is not None
    assert target.sampled is kept


def test_the_environment_names_the_service_and_may_leave_logs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before; some backends take traces only."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=desk,zone=a%20b,broken")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        exporter = OtelExporter(settings(service="客服", service_version="7"))
        target = exporter.emit(interaction(caller=CALLER), [report()])
        exporter.export(late_report(target=target))
        assert exporter.flush(5)
        exporter.close()
    assert receiver.log_records() == []
    for resource in receiver.resources():
        assert (resource["service.name"], resource["zone"]) == ("desk", "a b")
        assert resource["service.version"] == "7"


def test_traces_leave_without_opentelemetrys_sdk(tmp_path: Path) -> None:
    """The core does not bring it: an application that sets a provider has it."""
    with otlp_receiver() as receiver:
        run_python(
            f"""
            import os, sys
            sys.modules["opentelemetry.sdk"] = None
            os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = "{receiver.url}"
            from ragmonitor import Monitor
            with Monitor(service="t", server=False) as monitor:
                with monitor.interaction(query="When was it built?") as i:
                    i.retrieved(["It was built in 1889."])
                    i.answered("It was built in 1889.")
            """,
            tmp_path,
        )
    assert "invoke_workflow" in receiver.spans()
