"""The conventions that are read, and which of them a span follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragmonitor.capture.otel_spans.convention import Convention
from ragmonitor.capture.otel_spans.genai import GenAi
from ragmonitor.capture.otel_spans.openinference import OpenInference
from ragmonitor.capture.otel_spans.openllmetry import OpenLLMetry
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.readers import SafeReader

CONVENTIONS: tuple[Convention, ...] = tuple(
    cast("Convention", SafeReader(each, Convention, note_loss=SpanRecord.note_unread))
    for each in (OpenInference(), OpenLLMetry(), GenAi())
)
"""The first that matches is taken: OpenLLMetry writes GenAI's attributes too."""

_MARKS = tuple((each.SCOPES, each.MARKS, each) for each in CONVENTIONS)


def convention_of(scope: str, attributes: Mapping[str, Any]) -> Convention | None:
    """Return the convention of a span; None: it is no span of a generative application."""
    for scopes, marks, convention in _MARKS:
        # Asked of every span of the process: looking up what is not there would cost more.
        if scope in scopes or not marks.isdisjoint(attributes):
            return convention
    return None


FRAMEWORKS = {
    "openinference.instrumentation.langchain": "langchain",
    "@arizeai/openinference-instrumentation-langchain": "langchain",
    "openinference.instrumentation.llama_index": "llama_index",
    "opentelemetry.instrumentation.langchain": "langchain",
    "opentelemetry.instrumentation.llamaindex": "llama_index",
    "opentelemetry.instrumentation.genai.langchain": "langchain",
}
"""The frameworks that have an integration of ours as well, by scope."""

SCOPES = (
    "openinference.",
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.langchain",
    "opentelemetry.instrumentation.llamaindex",
    "opentelemetry.util.genai",
)
"""Beginnings of scopes that are known to follow a convention before their first span has ended."""
