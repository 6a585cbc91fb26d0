"""What the tests of the outputs share: answers, a judge, a server that records, and scrapes.

Nothing here knows the inside of the package.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar
from uuid import uuid4

import pytest
import yaml
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ragmonitor import (
    Assessment,
    Chunk,
    Interaction,
    JudgeIdentity,
    JudgeUsage,
    Monitor,
    SentenceVerdict,
    ServerSettings,
)
from ragmonitor.records import Verdict

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DATA = HERE / "data" / "outputs"
PROGRAMS = HERE / "programs"

CHUNK = "Goods may be returned within 30 days of delivery, free of charge."
GOOD = "Goods may be returned within 30 days of delivery."
BAD = "Goods may be returned within 90 days by paying a fee of 12 euros in Helsinki."
REFUSED = "hallucination"
"""Scores of this evaluator are refused at `/partial/`, one by one; at `/refusing/` all are."""
SECRET = "sk-proj-" + "Zq7" * 16
"""A key that no text may take anywhere."""

Found = TypeVar("Found")


def table(name: str) -> Any:
    """Return what stands in a file of expectations."""
    return yaml.safe_load((DATA / name).read_text("utf-8"))


def until(what: str, look: Callable[[], Found | None], *, within_s: float = 30.0) -> Found:
    """Return the first true answer of `look`, which may raise until then."""
    deadline = time.monotonic() + within_s
    while True:
        failure: Exception | None = None
        try:
            if found := look():
                return found
        except Exception as error:  # noqa: BLE001 - the server is not up yet, or not that far
            failure = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}") from failure
        time.sleep(0.05)


def free_port() -> int:
    """Return a port of this machine at which nobody listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def binary(name: str) -> str:
    """Return the path of a server's program; skip the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("TESTS_REQUIRE_SERVERS") == "1":
            pytest.fail(f"{name} is not installed, and TESTS_REQUIRE_SERVERS is 1")
        pytest.skip(f"{name} is not installed (Debian: apt-get install prometheus)")
    return found


# --- answers, a judge, a monitor


def tell(monitor: Monitor, question: str, answer: str, **fields: Any) -> None:
    """Have an application answer a question from the one chunk, in a tenth of a second."""
    now = time.time_ns()
    monitor.observe(
        Interaction(
            id=uuid4().hex,
            query=question,
            chunks=(Chunk(text=CHUNK, id="policy", metadata={"source": "policy.md"}),),
            answer=answer,
            framework="python",
            started_ns=now - 100_000_000,
            ended_ns=now,
            **fields,
        )
    )


class Judge:
    """A judge that contradicts the bad answer and supports others, in two calls for 0.1 cents.

    What begins with "I'm sorry" is a refusal.
    """

    identity = JudgeIdentity(name="contract", version="1", kind="LLM")
    budget_unit = "usd"

    def expected_cost(self, _answer: Interaction) -> float:
        """Return dollars."""
        return 0.001

    async def assess(self, answer: Interaction) -> Assessment:
        """Return one verdict on the whole answer."""
        text = answer.answer
        verdict = Verdict.CONTRADICTED if text == BAD else Verdict.SUPPORTED
        return Assessment(
            judge=self.identity,
            language="en",
            sentences=(
                SentenceVerdict(text=text, start=0, end=len(text), verdict=verdict, chunks=(0,)),
            ),
            answer_relevancy=1.0,
            evasive=text.startswith("I'm sorry"),
            chunk_relevance=(1.0,) * len(answer.chunks),
            usage=JudgeUsage(calls=2, input_tokens=400, output_tokens=20, cost_usd=0.001),
        )


@contextmanager
def monitoring(*, page: bool = False, **options: Any) -> Iterator[Monitor]:
    """Run a monitor that serves its series, and its page if asked, at a free port."""
    server = ServerSettings(port=0, ui=page)
    with Monitor(**{"service": "shop", "server": server, **options}) as monitor:
        yield monitor


def environment(**variables: str) -> dict[str, str]:
    """Return the variables of a program that can import this tree."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "LANGFUSE_"))}
    return {**kept, "PYTHONPATH": path, **variables}


def program(name: str, *arguments: str, folder: Path, **variables: str) -> tuple[str, str]:
    """Run a program of these tests to its end; return what it wrote to both streams."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / name, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


# --- what a monitor exports


def fetched(url: str, **headers: str) -> str:
    """Return what an address answers."""
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
        return str(reply.read().decode())


def openmetrics(url: str) -> str:
    """Return a scrape as OpenMetrics, as Prometheus asks for it."""
    return fetched(url, Accept="application/openmetrics-text; version=1.0.0")


@cache
def families(text: str) -> dict[str, Any]:
    """Return the families of an OpenMetrics page by name."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(text: str) -> list[Sample]:
    """Return every sample of an OpenMetrics page."""
    return [sample for family in families(text).values() for sample in family.samples]


def value(found: Sequence[Sample], name: str, **labels: str) -> float | None:
    """Return the one sample of this name that has these labels; None: there is none."""
    values = [s.value for s in found if s.name == name and labels.items() <= s.labels.items()]
    assert len(values) <= 1, (name, labels)
    return values[0] if values else None


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Recorder:
    """An HTTP server that takes everything: Phoenix, Langfuse, a collector and a webhook in one.

    Each has a first part of the path to itself, `recorder.url("phoenix")`.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): text for name, text in self.headers.items()}
                owner.requests.append(Request(self.path, headers, body))
                status, kind, reply = owner._reply(self.path, body)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, who: str) -> str:
        """Return the address of one of them."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/{who}"

    def of(self, who: str) -> list[Request]:
        """Return the requests to one of them."""
        return [each for each in self.requests if each.path.startswith(f"/{who}/")]

    def spans(self) -> list[Any]:
        """Return every span that a collector would have, as protobuf."""
        scopes = [scope for resource in self._traces() for scope in resource.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    def resources(self) -> list[dict[str, Any]]:
        """Return the attributes of every resource that spans came from."""
        return [attributes(each.resource.attributes) for each in self._traces()]

    def _traces(self) -> list[Any]:
        return [
            resource
            for request in self.of("otlp")
            if request.path == "/otlp/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans
        ]

    def events(self) -> list[Any]:
        """Return every log record that a collector would have, as protobuf."""
        return [
            record
            for request in self.of("otlp")
            if request.path == "/otlp/v1/logs"
            for resource in ExportLogsServiceRequest.FromString(request.body).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def _reply(self, path: str, body: bytes) -> tuple[int, str, bytes]:
        if path.startswith("/refusing/"):
            return 401, "application/json", b"{}"
        if path.startswith("/otlp/"):
            return 200, "application/x-protobuf", b""
        if path.startswith(("/langfuse/", "/partial/")):
            return 207, "application/json", json.dumps(self._taken(path, body)).encode()
        return 200, "application/json", b'{"data": []}'

    def _taken(self, path: str, body: bytes) -> dict[str, list[dict[str, Any]]]:
        reply: dict[str, list[dict[str, Any]]] = {"successes": [], "errors": []}
        for event in json.loads(body)["batch"]:
            is_refused = path.startswith("/partial/") and REFUSED in event["body"]["name"]
            status, place = (400, "errors") if is_refused else (201, "successes")
            reply[place].append({"id": event["id"], "status": status})
        return reply


def attributes(pairs: Any) -> dict[str, Any]:
    """Return protobuf attributes as a dictionary."""
    return {pair.key: _plain(pair.value) for pair in pairs}


def _plain(of: Any) -> Any:
    kind = of.WhichOneof("value")
    if kind == "array_value":
        return [_plain(inner) for inner in of.array_value.values]
    return getattr(of, kind) if kind else None


# --- one live application, watched with every exporter


@dataclass(frozen=True)
class Live:
    """What left one application: `programs/live_application.py` over `answers.yaml`."""

    recorder: Recorder
    scrape: str
    """As OpenMetrics."""
    lines: list[dict[str, Any]]
    """Of the file of JSON lines."""
    mode: int
    """Of that file: who may read it."""
    err: str
    """What it wrote to standard error."""


@cache
def live() -> Live:
    """Run the application once."""
    with Recorder() as recorder, TemporaryDirectory() as name:
        folder = Path(name)
        scrape, err = program(
            "live_application.py",
            str(DATA / "answers.yaml"),
            *(recorder.url(who) for who in ("phoenix", "langfuse", "refusing", "partial")),
            "reports.jsonl",
            folder=folder,
            OTEL_EXPORTER_OTLP_ENDPOINT=recorder.url("otlp"),
            OTEL_EXPORTER_OTLP_HEADERS="x-team=search",
        )
        path = folder / "reports.jsonl"
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        mode = path.stat().st_mode & 0o777
    return Live(recorder, scrape, lines, mode, err)
