"""The dialects that are read, and which of them a span follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.semconv import conventions as names

LANGCHAIN: Final = "opentelemetry.instrumentation.langchain"
LLAMA_INDEX: Final = "opentelemetry.instrumentation.llamaindex"
"""OpenLLMetry's scopes: all of their spans are of its dialect, with a mark or without."""

_MARKS: Final = (
    ("openinference", {names.OI_SPAN_KIND}),
    (
        "openllmetry",
        {
            "traceloop.span.kind",
            "traceloop.workflow.name",
            "traceloop.entity.name",
            "llm.request.type",
        },
    ),
    ("genai", {names.GENAI_OPERATION_NAME, names.GENAI_RETRIEVAL_DOCUMENTS}),
)
"""By dialect: the attributes that only its spans have. The first that matches is taken: OpenLLMetry
writes GenAI's attributes too."""

FRAMEWORKS: Final = {
    "openinference.instrumentation.langchain": "langchain",
    "@arizeai/openinference-instrumentation-langchain": "langchain",
    "openinference.instrumentation.llama_index": "llama_index",
    LANGCHAIN: "langchain",
    LLAMA_INDEX: "llama_index",
    "opentelemetry.instrumentation.genai.langchain": "langchain",
}
"""The frameworks that have an integration of ours as well, by scope."""

_SCOPES: Final = (
    "openinference.",
    "opentelemetry.instrumentation.genai",
    LANGCHAIN,
    LLAMA_INDEX,
    "opentelemetry.util.genai",
)
"""Beginnings of scopes that are known to follow a dialect before their first span has ended."""


def dialect_of(scope: str, attributes: Mapping[str, Any]) -> str:
    """Return a span's dialect, as the label has it; empty: of no generative application."""
    for dialect, marks in _MARKS:
        # Asked of every span of the process: looking up what is not there would cost more.
        if not marks.isdisjoint(attributes):
            return dialect
        if dialect == "openllmetry" and scope in (LANGCHAIN, LLAMA_INDEX):
            return dialect
    return ""


def follows(scope: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether a span is, or will be, of a dialect."""
    return scope.startswith(_SCOPES) or dialect_of(scope, attributes) != ""
