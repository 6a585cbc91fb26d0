"""The dialects that are read, and which of them a span follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmonitor.capture.span_readers import genai, openinference, openllmetry
from ragmonitor.capture.span_readers.steps import Dialect

DIALECTS = (openinference.DIALECT, openllmetry.DIALECT, genai.DIALECT)
"""The first that matches is taken: OpenLLMetry writes GenAI's attributes too."""


def dialect_of(scope: str, attributes: Mapping[str, Any]) -> Dialect | None:
    """Return the dialect of a span; None: it is no span of a generative application."""
    for dialect in DIALECTS:
        # Asked of every span of the process: looking up what is not there would cost more.
        if scope in dialect.scopes or not dialect.marks.isdisjoint(attributes):
            return dialect
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
"""Beginnings of scopes that are known to follow a dialect before their first span has ended."""
