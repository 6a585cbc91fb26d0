"""A receiver of spans on free ports, and spans to send to it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from ragmonitor.receive import Receiver
from ragmonitor.records import Interaction
from ragmonitor.settings import Settings
from ragmonitor.testing import ListExporter, ManualClock
from tests.support.scrape import total

SECOND_NS = 1_000_000_000
BEGAN_NS = 1_790_000_000 * SECOND_NS
QUESTION = "When was the Eiffel Tower built?"
TEXT = "The Eiffel Tower was built from 1887 to 1889."
ANSWER = "It was built from 1887 to 1889."
SCOPE = "@arizeai/openinference-instrumentation-langchain"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Receiving:
    """A receiver whose time is the test's, and what it had scored."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.reports = ListExporter()
        host = options.pop("host", "127.0.0.1")
        settings = Settings.load(
            **{
                "service": "shop",
                "server": False,
                "exporters": [self.reports],
                "export": {"traces": False},
            }
            | options
        )
        self.receiver = Receiver(settings, host=host, http_port=0, clock=self.clock)

    @property
    def url(self) -> str:
        return self.receiver.listeners[0].url

    def post(
        self, body: bytes, headers: Mapping[str, str] = PROTOBUF, path: str = "/v1/traces"
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Return (status, body, headers) of the reply."""
        request = urllib.request.Request(self.url + path, body, dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.read(), reply.headers
        except HTTPError as error:
            with error:
                return error.code, error.read(), error.headers

    def take(self, *spans: Mapping[str, Any], **process: str) -> None:
        """Hand spans over, as a server does."""
        self.receiver.traces.take(request_of(*spans, **process))

    def after(self, seconds: float) -> list[Interaction]:
        """Return all interactions so far, when so much more time has passed."""
        self.clock.advance(seconds)
        self.receiver.sweep()
        assert self.receiver.back.flush(10)
        return [*self.reports.interactions()]

    def counted(self, sample: str, **labels: str) -> float:
        return total(self.receiver.back.registry, sample, **labels)


@contextmanager
def receiving(*, listens: bool = True, **options: Any) -> Iterator[Receiving]:
    """Run one, until the block is left."""
    made = Receiving(**options)
    if listens:
        made.receiver.listen()
    made.receiver.back.wake()
    try:
        yield made
    finally:
        made.receiver.close()


def span(
    number: int, parent: int = 0, kind: str = "CHAIN", *, trace: int = 1, **more: Any
) -> dict[str, Any]:
    """Return a span of OpenInference's; its times are seconds since `BEGAN_NS`."""
    attributes = {"openinference.span.kind": kind} if kind else {}
    return {
        "trace_id": trace.to_bytes(16, "big"),
        "span_id": number.to_bytes(8, "big"),
        "parent_span_id": parent.to_bytes(8, "big") if parent else b"",
        "name": kind.lower() or "handle",
        "scope": SCOPE,
        "times": (number, number + 1),
        "attributes": {**attributes, **more.pop("attributes", {})},
        **more,
    }


def root(number: int = 1, parent: int = 0, **more: Any) -> dict[str, Any]:
    """Return the root of an answer."""
    texts = {"input.value": QUESTION, "output.value": ANSWER, "session.id": "s1"}
    return span(number, parent, "CHAIN", attributes=texts, times=(number, number + 9), **more)


def retrieval(number: int = 2, parent: int = 1, **more: Any) -> dict[str, Any]:
    """Return a retrieval of one document."""
    texts = {"input.value": QUESTION, "retrieval.documents.0.document.content": TEXT}
    return span(number, parent, "RETRIEVER", attributes=texts, **more)


def model(number: int = 3, parent: int = 1, **more: Any) -> dict[str, Any]:
    """Return a model's call."""
    texts = {
        "llm.model_name": "scripted-1",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"{TEXT}\n{QUESTION}",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
    }
    return span(number, parent, "LLM", attributes=texts, **more)


def answer(trace: int = 1) -> list[dict[str, Any]]:
    """Return the three spans of an answer, as they end."""
    return [retrieval(trace=trace), model(trace=trace), root(trace=trace)]


def request_of(*spans: Mapping[str, Any], **process: str) -> ExportTraceServiceRequest:
    """Return a request with spans of one process."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    _set(resource.resource.attributes, {"service.name": "shop-js", **process})
    for each in spans:
        scope = resource.scope_spans.add()
        scope.scope.name = each["scope"]
        made = scope.spans.add(
            trace_id=each["trace_id"],
            span_id=each["span_id"],
            parent_span_id=each["parent_span_id"],
            name=each["name"],
            trace_state=each.get("trace_state", ""),
        )
        began, ended = each["times"]
        made.start_time_unix_nano = BEGAN_NS + int(began * SECOND_NS)
        made.end_time_unix_nano = BEGAN_NS + int(ended * SECOND_NS)
        _set(made.attributes, each["attributes"])
    return request


def _set(pairs: Any, attributes: Mapping[str, str]) -> None:
    for key, text in attributes.items():
        pair: KeyValue = pairs.add()
        pair.key, pair.value.string_value = key, text


def json_of(request: ExportTraceServiceRequest) -> bytes:
    """Return a request as OTLP writes it in JSON: ids in hex, enumerations as numbers."""
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [*map(_pair, resource.resource.attributes)]},
                    "scopeSpans": [
                        {
                            "scope": {"name": scope.scope.name},
                            "spans": [
                                {
                                    "traceId": each.trace_id.hex(),
                                    "spanId": each.span_id.hex(),
                                    "parentSpanId": each.parent_span_id.hex(),
                                    "name": each.name,
                                    "kind": 1,
                                    "startTimeUnixNano": str(each.start_time_unix_nano),
                                    "endTimeUnixNano": str(each.end_time_unix_nano),
                                    "attributes": [*map(_pair, each.attributes)],
                                    "status": {"code": 1},
                                    "comesLater": True,
                                }
                                for each in scope.spans
                            ],
                        }
                        for scope in resource.scope_spans
                    ],
                }
                for resource in request.resource_spans
            ]
        }
    ).encode()


def _pair(pair: KeyValue) -> dict[str, Any]:
    return {"key": pair.key, "value": {"stringValue": pair.value.string_value}}
