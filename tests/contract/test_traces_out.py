"""The traces and events that we emit: `data/traces_out` says names, parents and attributes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from ragmonitor import (
    Assessment,
    Cause,
    Chunk,
    Interaction,
    JudgeError,
    JudgeIdentity,
    Monitor,
    SentenceVerdict,
)
from ragmonitor.integration import Generation, Message, Retrieval, SpanReference, Usage
from ragmonitor.records import Verdict
from tests.contract.kit_capture import DATA, WATCHING

HERE = DATA / "traces_out"
FILES = sorted((HERE / "records").glob("*.json"))
ANY = "*"
"""In the data: it is there, and its value is not told."""
BEGAN_NS = 1_790_000_000 * 10**9


@dataclass
class Collector:
    """What came by OTLP."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)

    def told(self) -> list[dict[str, Any]]:
        """Return the spans as the data tell them, in the order of their beginning."""
        ordered = sorted(self.spans, key=lambda span: span.start_time_unix_nano)
        names = {span.span_id: span.name for span in ordered}
        return [
            {
                "name": span.name,
                "kind": _KINDS[span.kind],
                "parent": names.get(span.parent_span_id, span.parent_span_id.hex()),
                "error": span.status.message if span.status.code == _ERROR else "",
                "links": [names.get(link.span_id, link.span_id.hex()) for link in span.links],
                "events": [
                    {"name": event.name, **values(event.attributes)} for event in span.events
                ],
                **_attributes(values(span.attributes)),
            }
            for span in ordered
        ]

    def told_events(self) -> list[dict[str, Any]]:
        """Return the log events as the data tell them, by name and evaluation."""
        names = {span.span_id: span.name for span in self.spans}
        found = [
            {
                "name": event.event_name,
                "span": names.get(event.span_id, event.span_id.hex()),
                "attributes": values(event.attributes),
            }
            for event in self.events
        ]
        return sorted(found, key=lambda each: each["attributes"]["gen_ai.evaluation.name"])


_KINDS = {1: "INTERNAL", 3: "CLIENT"}
_ERROR = 2


def _attributes(of: dict[str, Any]) -> dict[str, Any]:
    """Return attributes, and the evaluations of OpenInference's among them by name."""
    plain = {key: value for key, value in of.items() if not key.startswith("evaluations.")}
    evaluations: dict[str, Any] = {}
    for key in of.keys() - plain.keys():
        _, number, _, part = key.split(".")
        evaluations.setdefault(number, {})[part] = of[key]
    return {"attributes": plain, "evaluations": {e["name"]: e for e in evaluations.values()}}


def values(pairs: Any) -> dict[str, Any]:
    """Return attributes with their values; a text of JSON as `{"json": ...}`."""
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    if value.WhichOneof("value") == "array_value":
        return [_value(each) for each in value.array_value.values]
    plain = getattr(value, value.WhichOneof("value"))
    is_json = isinstance(plain, str) and plain.startswith(("[", "{"))
    return {"json": json.loads(plain)} if is_json else plain


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Give a collector of traces and logs, to which the environment points."""
    come = Collector()

    class Intake(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in group.scope_spans:
                        come.spans.extend(scope.spans)
            elif self.path == "/v1/logs":
                for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                    come.events.extend(
                        log for scope in logs.scope_logs for log in scope.log_records
                    )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Intake) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        come.url = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", come.url)
        yield come
        server.shutdown()


def interaction(of: Mapping[str, Any]) -> Interaction:
    """Return the record that a file describes."""
    chunks = tuple(Chunk(**each) for each in of["chunks"])
    not_shown = tuple(Chunk(**each) for each in of.get("not_shown", ()))
    usage = Usage(input_tokens=40, output_tokens=12)
    first_token_ns = BEGAN_NS + 500_000_000 if of.get("streamed") else 0
    error = of.get("error", "")
    retrieval = Retrieval(
        query=of["question"],
        chunks=(*chunks, *not_shown),
        name="notes",
        started_ns=BEGAN_NS + 1,
        ended_ns=BEGAN_NS + 2,
    )
    generation = Generation(
        output=of["answer"],
        input=tuple(Message(role=role, text=text) for role, text in of.get("prompt", ())),
        model="gpt-4o-mini",
        provider="openai",
        usage=usage,
        error=error,
        finish_reason="" if error else "stop",
        started_ns=BEGAN_NS + 3,
        first_token_ns=first_token_ns,
        ended_ns=BEGAN_NS + 2 * 10**9,
    )
    return Interaction(
        id="answer-1",
        query=of["question"],
        chunks=chunks,
        not_shown=not_shown,
        answer=of["answer"],
        framework="langchain",
        name="support-bot",
        status="error" if error else "ok",
        error=error,
        retrievals=(retrieval,),
        generations=(generation,),
        usage=usage,
        caller=SpanReference(**of["caller"]) if "caller" in of else None,
        session_id=of.get("session", ""),
        user_id=of.get("user", ""),
        tags=tuple(of.get("tags", ())),
        started_ns=BEGAN_NS,
        first_token_ns=first_token_ns,
        ended_ns=BEGAN_NS + 2 * 10**9,
    )


class ScriptedJudge:
    """A judge that finds the whole answer supported, or fails."""

    identity = JudgeIdentity(name="contract", version="1", kind="LLM")

    def __init__(self, says: str) -> None:
        self.says = says

    async def assess(self, answer: Interaction) -> Assessment:
        if self.says == "fails":
            raise JudgeError(
                "contract", "the judge is gone", cause=Cause.JUDGE_ERROR, retryable=False
            )
        text = answer.answer
        whole = SentenceVerdict(text=text, start=0, end=len(text), verdict=Verdict.SUPPORTED)
        return Assessment(
            judge=self.identity,
            language="en",
            sentences=(whole,),
            answer_relevancy=1.0,
            evasive=False,
            chunk_relevance=(1.0,) * len(answer.chunks),
        )


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Return where what was found lacks what is expected; more may be there."""
    if expected == ANY:
        return []
    if isinstance(expected, dict) and isinstance(found, dict):
        missing = [f"{where}.{key}: missing" for key in expected.keys() - found.keys()]
        common = expected.keys() & found.keys()
        deeper = [differences(found[key], expected[key], f"{where}.{key}") for key in common]
        return missing + [each for one in deeper for each in one]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(found, expected, strict=True))
        return [d for n, (one, other) in pairs for d in differences(one, other, f"{where}[{n}]")]
    return [] if found == expected else [f"{where}: {found!r} instead of {expected!r}"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_answer_is_a_trace(collector: Collector, file: Path) -> None:
    """Its spans and events speak both conventions, and carry the scores."""
    case = json.loads(file.read_text("utf-8"))
    options = {"content": "all"} | case.get("options", {})
    if "judge" in options:
        options |= {"judge": ScriptedJudge(options["judge"]), "sample": 1.0}
    with Monitor(service_version="7", **WATCHING, **options) as monitor:
        monitor.observe(interaction(case["record"]))
    spans, events = collector.told(), collector.told_events()
    assert [span["name"] for span in spans] == [span["name"] for span in case["spans"]]
    assert not differences(spans, case["spans"])
    assert not differences(events, case.get("events", []))
    for name in case.get("nowhere", []):
        assert name not in json.dumps([spans, events], ensure_ascii=False)
    caller = case["record"].get("caller", {})
    traces = {span.trace_id.hex() for span in (*collector.spans, *collector.events)}
    assert len(traces) <= 1
    assert "caller" not in case["record"] or traces <= {caller["trace_id"]}


def test_another_instrumentations_span_gets_the_scores(collector: Collector) -> None:
    """No second tree: one EVALUATOR span in that trace, linked to the span of the answer."""
    case = json.loads((HERE / "anothers_span.json").read_text("utf-8"))
    provider = TracerProvider()
    with Monitor(**WATCHING) as monitor:
        provider.add_span_processor(monitor.span_processor())
        roots: list[Any] = []
        for each in case["given"]:
            under = trace.set_span_in_context(roots[0] if roots else trace.INVALID_SPAN, Context())
            tracer = provider.get_tracer("shop")
            roots.append(tracer.start_span(each["name"], under, attributes=each["attributes"]))
        for span in reversed(roots):
            span.end()
        provider.force_flush()
    (found,) = collector.told()
    root = roots[0].get_span_context()
    root_id = f"{root.span_id:016x}"
    assert (found["parent"], found["links"]) == (root_id, [root_id])
    assert collector.spans[0].trace_id.hex() == f"{root.trace_id:032x}"
    assert not differences([found], case["spans"])
    provider.shutdown()


OWN_PROVIDER = """
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from ragmonitor import Monitor

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
monitor = Monitor(service="shop", server=False)


@monitor.retrieves
def search(question):
    return ["The pump is serviced every six months."]


@monitor.answers
def ask(question):
    search(question)
    return "The pump is serviced every six months."


with trace.get_tracer("shop").start_as_current_span("GET /ask"):
    ask("How often is the pump serviced?")
monitor.close()
found = spans.get_finished_spans()
names = {span.context.span_id: span.name for span in found}
told = [[span.name, names[span.parent.span_id] if span.parent else ""] for span in found]
print(json.dumps(sorted(told)))
"""


def test_traces_go_through_the_applications_own_provider(tmp_path: Path) -> None:
    """Below the span that was current when the question was asked."""
    case = json.loads((HERE / "own_provider.json").read_text("utf-8"))
    done = subprocess.run(
        [sys.executable, "-c", OWN_PROVIDER],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == case["spans"]
