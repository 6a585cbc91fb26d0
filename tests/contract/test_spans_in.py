"""Spans of other instrumentations, read as interactions.

Each file of `data/spans_in` has an application's spans, most of them recorded from the real
instrumentation, and the record that is made of them.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragmonitor_langchain
from tests.contract.kit_capture import DATA, check, until, watching

FILES = sorted((DATA / "spans_in").glob("*.json"))
OVER_HTTP = {
    "openinference-langchain-js": "protobuf, gzip",
    "openllmetry-node-js": "protobuf",
    "genai-node-js": "json",
}
"""Applications of Node.js, and how their exporters send."""
STATUS_OF_ERROR = trace.StatusCode.ERROR


def attribute(value: Any) -> Any:
    """Return a value as an instrumentation sets it; `{"json": ...}` is a text of JSON."""
    if isinstance(value, dict):
        return json.dumps(value["json"], ensure_ascii=False)
    return value


def attributes(of: dict[str, Any]) -> dict[str, Any]:
    """Return what a span or an event carries."""
    return {name: attribute(value) for name, value in of.get("attributes", {}).items()}


def emit(provider: TracerProvider, spans: list[dict[str, Any]], parent: Any = None) -> None:
    """Let an application make these spans, one after the other, each around its children."""
    for each in spans:
        made = provider.get_tracer(each["scope"]).start_span(
            each["name"],
            context=trace.set_span_in_context(parent or trace.INVALID_SPAN, context.Context()),
            attributes=attributes(each),
        )
        emit(provider, each.get("children", []), made)
        for event in each.get("events", []):
            made.add_event(event["name"], attributes(event))
        if "status" in each:
            made.set_status(STATUS_OF_ERROR, each["status"])
        made.end()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_spans_of_another_instrumentation_are_one_record(file: Path) -> None:
    """Question, chunks, answer, status and tokens, through `monitor.span_processor()`."""
    story = json.loads(file.read_text("utf-8"))
    with watching() as watched:
        provider = TracerProvider()
        provider.add_span_processor(watched.monitor.span_processor())
        emit(provider, story["spans"])
        provider.force_flush()
        check(watched.told(), story["record"])
        provider.shutdown()


def test_spans_of_no_convention_are_no_interaction() -> None:
    """An application's own spans, and a model call without a search, are not recorded."""
    model = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.content": "Hello."}
    handler = {"http.route": "/ask"}
    ask = {"name": "ask", "scope": "openinference.instrumentation.openai", "attributes": model}
    with watching() as watched:
        provider = TracerProvider()
        provider.add_span_processor(watched.monitor.span_processor())
        request = {"name": "GET /ask", "scope": "web", "attributes": handler, "children": [ask]}
        emit(provider, [request])
        provider.force_flush()
        assert watched.told() == []
        provider.shutdown()


def test_spans_of_a_framework_that_our_integration_records_are_left_to_it() -> None:
    """Both on one monitor: an answer of LangChain's is counted once, one of LlamaIndex's too."""
    stories = {file.stem: json.loads(file.read_text("utf-8")) for file in FILES}
    with watching() as watched:
        provider = TracerProvider()
        provider.add_span_processor(watched.monitor.span_processor())
        ragmonitor_langchain.instrument(watched.monitor)
        emit(provider, stories["openinference-langchain-invoke"]["spans"])
        emit(provider, stories["openinference-llama-index-query"]["spans"])
        ragmonitor_langchain.uninstrument()
        provider.force_flush()
        check(watched.told(), stories["openinference-llama-index-query"]["record"])
        provider.shutdown()


# --- over the network ----------------------------------------------------------------------------


@contextmanager
def receiver(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run `ragmonitor receive`; give its address, and the file of JSON lines that it writes."""
    lines = folder / "answers.jsonl"
    variables = {
        "RAGMONITOR_SERVICE": "shop",
        "RAGMONITOR_EXPORTERS": f"jsonl:{lines}",
        "RAGMONITOR_SERVER": "false",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "ragmonitor.cli.app", "receive", "--http-port", "0"]
    running = subprocess.Popen(
        command,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    assert running.stdout is not None
    said: list[str] = []
    reading = threading.Thread(target=lambda: said.extend(running.stdout or ()))
    reading.start()

    def address() -> str:
        assert running.poll() is None, said
        found = re.search(r"OTLP over HTTP at (http://\S+)", "".join(said))
        return found[1] if found else ""

    try:
        yield until("it listens", address), lines
    finally:
        running.send_signal(signal.SIGTERM)
        reading.join(30)
        assert running.wait(30) == 0, said
        running.stdout.close()


def spans_of(story: dict[str, Any]) -> tuple[ReadableSpan, ...]:
    """Return a story's spans as an application's exporter gets them."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop-js"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    emit(provider, story["spans"])
    provider.shutdown()
    return exporter.get_finished_spans()


def request_of(url: str, story: dict[str, Any], encoding: str) -> urllib.request.Request:
    """Return a story's spans as a request of OTLP over HTTP."""
    message = encode_spans(spans_of(story))
    headers = {"Content-Type": "application/x-protobuf"}
    body = message.SerializeToString()
    if encoding == "json":
        headers = {"Content-Type": "application/json"}
        in_base64 = json_format.MessageToJson(message)
        body = re.sub(
            r'("(?:trace|span|parentSpan)Id": )"([^"]+)"',
            lambda m: f'{m[1]}"{base64.b64decode(m[2]).hex()}"',
            in_base64,
        ).encode()
    if encoding.endswith("gzip"):
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body)
    return urllib.request.Request(f"{url}/v1/traces", body, headers)


def test_spans_over_the_network_are_records(tmp_path: Path) -> None:
    """OTLP over HTTP into `ragmonitor receive`, of an application in any language."""
    files = {file.stem: json.loads(file.read_text("utf-8")) for file in FILES}
    stories = [files[name] for name in OVER_HTTP]
    with receiver(tmp_path) as (url, path):
        for story, encoding in zip(stories, OVER_HTTP.values(), strict=True):
            request = request_of(url, story, encoding)
            with urllib.request.urlopen(request, timeout=10) as reply:
                assert reply.status == 200
        # It is told to end, and reads what it has: a trace is else read 6 s after its last span.
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    wanted = {
        story["record"]["framework"]: {
            "question": story["record"]["question"],
            "contexts": [text for text, *_ in story["record"]["chunks"]],
            "answer": story["record"]["answer"],
            "status": "ok",
            "service": "shop",
        }
        for story in stories
    }
    assert {
        line["framework"]: {key: line[key] for key in wanted[line["framework"]]} for line in found
    } == wanted
