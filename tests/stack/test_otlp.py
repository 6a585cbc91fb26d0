"""Traces and events by the standard exporters, received over HTTP as a collector would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver, plain
from tests.unit.export.examples import ANSWER, BEGAN, CALLER, QUERY, SECOND

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]

APPLICATION = """
from dataclasses import replace
from ragmonitor.export import OtelExporter
from tests.unit.export.examples import CALLER, interaction, late_report, report

exporter = OtelExporter("客服")
target = exporter.emit(interaction(caller=CALLER), [report()])
steps = {"retrievals": (), "generations": ()}
exporter.emit(interaction(name="broken", status="error", error="ValueError: 坏", **steps), [])
exporter.export(late_report(target=target))
assert exporter.flush(20)
exporter.close()
print(target.span_id)
"""


def run(receiver: OtlpReceiver, **variables: str) -> str:
    """Run the application in a process of its own; return the root span's id."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", APPLICATION],
        cwd=ROOT,
        env={
            **clean,
            "PYTHONPATH": str(ROOT),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_a_trace_arrives_as_it_was() -> None:
    """Spans, parents, times and Chinese texts reach the collector, gzipped."""
    with otlp_receiver() as receiver:
        root_id = run(receiver, OTEL_EXPORTER_OTLP_COMPRESSION="gzip")
    spans = receiver.spans()
    root = spans["invoke_workflow support"]
    assert receiver.headers[0]["content-encoding"] == "gzip"
    assert root.trace_id.hex() == CALLER.trace_id
    assert root.parent_span_id.hex() == CALLER.span_id
    assert root.span_id.hex() == root_id
    assert root.start_time_unix_nano == BEGAN
    assert root.end_time_unix_nano == BEGAN + 2 * SECOND
    for name in ("retrieval Milvus", "chat qwen-max"):
        assert spans[name].parent_span_id == root.span_id
        assert spans[name].kind == Span.SPAN_KIND_CLIENT
    attributes = plain(root.attributes)
    assert (attributes["input.value"], attributes["output.value"]) == (QUERY, ANSWER)
    assert attributes["ragmonitor.score.faithfulness"] == 0.5
    wrong = json.loads(attributes["ragmonitor.unsupported_sentences"])
    assert wrong[0]["words"] == ["99元"]
    documents = plain(spans["retrieval Milvus"].attributes)
    assert documents["retrieval.documents.0.document.content"] == "商品可在30天内退货。"
    broken = spans["invoke_workflow broken"]
    assert (broken.status.code, broken.status.message) == (
        Status.STATUS_CODE_ERROR,
        "ValueError: 坏",
    )


def test_a_late_score_arrives_as_span_and_event() -> None:
    """The carrier is linked to the root, and the event stands in the root's context."""
    with otlp_receiver() as receiver:
        root_id = run(receiver)
    carrier = receiver.spans()["evaluation openai/gpt-4o-mini"]
    assert [link.span_id.hex() for link in carrier.links] == [root_id]
    assert carrier.trace_id.hex() == CALLER.trace_id
    records = receiver.log_records()
    assert [record.event_name for record in records] == ["gen_ai.evaluation.result"] * 2
    assert {record.span_id.hex() for record in records} == {root_id}
    assert {record.trace_id.hex() for record in records} == {CALLER.trace_id}
    scored = plain(records[0].attributes)
    assert scored["gen_ai.evaluation.score.value"] == 0.5
    assert scored["gen_ai.evaluation.explanation"] == "无依据: 99元"


def test_the_resource_names_the_service() -> None:
    """`service.name` is the monitor's service, and so is Phoenix's project."""
    with otlp_receiver() as receiver:
        run(receiver)
    assert {resource["service.name"] for resource in receiver.resources()} == {"客服"}
    assert {r["openinference.project.name"] for r in receiver.resources()} == {"客服"}


def test_the_environment_may_name_the_service() -> None:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before."""
    with otlp_receiver() as receiver:
        run(receiver, OTEL_RESOURCE_ATTRIBUTES="service.name=desk,deployment.environment=prod")
    for resource in receiver.resources():
        assert resource["service.name"] == "desk"
        assert resource["deployment.environment"] == "prod"


def test_logs_can_be_left_out() -> None:
    """OTEL_LOGS_EXPORTER=none, for backends that take traces only."""
    with otlp_receiver() as receiver:
        run(receiver, OTEL_LOGS_EXPORTER="none")
    assert receiver.log_records() == []
    assert len(receiver.spans()) == 5


def test_a_collector_that_is_gone_costs_no_exception() -> None:
    """Nothing is raised, and a flush says that it failed in time."""
    script = (
        "import logging; logging.disable()\n"
        "from ragmonitor.export import OtelExporter\n"
        "from tests.unit.export.examples import interaction\n"
        "exporter = OtelExporter('s')\n"
        "assert exporter.emit(interaction(), []) is not None\n"
        "exporter.flush(0.2)\n"
        "exporter.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
