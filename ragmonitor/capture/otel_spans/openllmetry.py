"""OpenLLMetry (Traceloop): `traceloop.*`, and GenAI's attributes on models.

https://github.com/traceloop/openllmetry, `opentelemetry-instrumentation-langchain` and
`-llamaindex` from 0.62. Inputs and outputs are JSON dumps of the framework's own objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmonitor import conventions as names
from ragmonitor.capture.coercion import usage_of
from ragmonitor.capture.labels import labels_of
from ragmonitor.capture.otel_spans import texts
from ragmonitor.capture.otel_spans.convention import Role
from ragmonitor.capture.otel_spans.genai import GenAi
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import UNKNOWN_DOCUMENTS, Documents
from ragmonitor.records import Message, Usage

_KIND = "traceloop.span.kind"
_NAME = "traceloop.entity.name"
_INPUT = "traceloop.entity.input"
_OUTPUT = "traceloop.entity.output"
_PROPERTY = "traceloop.association.properties."
_LANGCHAIN = "opentelemetry.instrumentation.langchain"
_LLAMA_INDEX = "opentelemetry.instrumentation.llamaindex"
_UNKNOWN = "unknown"


class OpenLLMetry(GenAi):
    """OpenLLMetry's attributes, with those of GenAI on models."""

    framework = "openllmetry"
    MARKS = frozenset({_KIND, "traceloop.workflow.name", _NAME})
    SCOPES = frozenset({_LANGCHAIN, _LLAMA_INDEX})

    def role(self, span: SpanRecord) -> Role:
        """Return the span's role; of a LlamaIndex task, by the shape of its input and output.

        LlamaIndex's tasks are named after the application's own classes and say no more.
        """
        if span.text(_KIND) == "tool":
            return "tool"
        operation = super().role(span)
        if operation != "other" or names.GENAI_OPERATION_NAME in span.attributes:
            return operation
        if span.scope != _LLAMA_INDEX:
            return "chain"
        given, gave = _dumped(span, _INPUT), _dumped(span, _OUTPUT)
        if names.GENAI_OUTPUT_MESSAGES in span.attributes:
            return "model"
        if isinstance(gave, Mapping) and "tool_name" in gave and "raw_output" in gave:
            return "tool"
        if isinstance(given, Mapping):
            if isinstance(gave, list) and "nodes" in given:
                return "reranker"
            if isinstance(gave, list) and (
                "query_bundle" in given or "str_or_query_bundle" in given
            ):
                return "retriever"
            if (
                isinstance(gave, Mapping)
                and "raw" in gave
                and ("text" in gave or "message" in gave)
                and ("args" in given or "messages" in given or "prompt" in given)
            ):
                return "model"
        return "retriever" if "Retriever" in self.name(span) and span.status == "error" else "chain"

    def name(self, span: SpanRecord) -> str:
        """Return the entity's name, without its kind."""
        found = span.text(_NAME) or span.name
        head, _, kind = found.rpartition(".")
        return head if head and kind in ("workflow", "task") else found

    def query(self, span: SpanRecord) -> str:
        """Return the question in what the entity was given."""
        given = _dumped(span, _INPUT)
        if isinstance(given, Mapping):
            text = texts.question(given.get("inputs", given.get("query", given)))
            if text or "inputs" not in given:
                return text
            # Of a LangChain stream, what it was given is known, and dumped, only at its end.
            gave = _dumped(span, _OUTPUT)
            late = gave.get("kwargs") if isinstance(gave, Mapping) else None
            if isinstance(late, Mapping) and (text := texts.question(late.get("inputs"))):
                return text
            return texts.question(gave.get("outputs")) if isinstance(gave, Mapping) else ""
        return super().query(span)

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents that a retriever or reranker gave, or a tool's artifact."""
        gave = _dumped(span, _OUTPUT)
        if self.role(span) == "tool":
            return texts.tool_documents(_of_tool(gave))
        return texts.documents(gave)

    def reranked(self, span: SpanRecord) -> Documents:
        """Return the documents that a reranker was given."""
        given = _dumped(span, _INPUT)
        return (
            texts.documents(given.get("nodes")) if isinstance(given, Mapping) else UNKNOWN_DOCUMENTS
        )

    def prompt(self, span: SpanRecord) -> tuple[Message, ...]:
        """Return the messages; of a LlamaIndex task, what it was given."""
        if found := super().prompt(span):
            return found
        given = _dumped(span, _INPUT)
        if not isinstance(given, Mapping):
            return ()
        args = given.get("args")
        if isinstance(args, list) and args and isinstance(args[0], str):
            return (Message(role="user", text=args[0]),)
        return texts.messages(given.get("messages"))

    def context(self, span: SpanRecord) -> str:  # noqa: ARG002
        """Return nothing: documents have their texts here."""
        return ""

    def answer(self, span: SpanRecord) -> str:
        """Return the text in the output messages, or in what the entity gave."""
        if text := super().answer(span) if self.role(span) == "model" else "":
            return text
        gave = _dumped(span, _OUTPUT)
        if isinstance(gave, Mapping) and "outputs" in gave:
            return texts.answer(gave["outputs"])
        return texts.tool_text(_of_tool(gave)) if self.role(span) == "tool" else texts.answer(gave)

    def model(self, span: SpanRecord) -> tuple[str, str]:
        """Return (provider, model): LangChain's own words before the instrumentation's guesses."""
        provider, found = super().model(span)
        return (
            span.text(f"{_PROPERTY}ls_provider") or provider,
            span.text(f"{_PROPERTY}ls_model_name") or (found if found != _UNKNOWN else ""),
        )

    def usage(self, span: SpanRecord) -> Usage:
        """Return the token counts; of a LlamaIndex task, those in the provider's own reply."""
        counted = super().usage(span)
        if counted != Usage():
            return counted
        gave = _dumped(span, _OUTPUT)
        raw = gave.get("raw") if isinstance(gave, Mapping) else None
        place = raw.get("usage", raw) if isinstance(raw, Mapping) else None
        return usage_of(place)

    def labels(self, span: SpanRecord) -> dict[str, Any]:
        """Return the association properties, which are LangChain's metadata, and the tags."""
        given = _dumped(span, _INPUT)
        said = labels_of(
            {
                key[len(_PROPERTY) :]: value
                for key, value in span.attributes.items()
                if key.startswith(_PROPERTY)
            },
            given.get("tags") if isinstance(given, Mapping) else (),
        )
        said["session_id"] = said["session_id"] or span.text(names.GENAI_CONVERSATION_ID)
        return said

    def withholds(self, span: SpanRecord) -> bool:
        """Return whether the span has no input or output: TRACELOOP_TRACE_CONTENT is false."""
        if self.role(span) == "model":
            return super().withholds(span) and _INPUT not in span.attributes
        return (
            span.status != "error"
            and span.text(_KIND) in ("workflow", "task", "tool")
            and _INPUT not in span.attributes
            and _OUTPUT not in span.attributes
        )

    def is_engine(self, span: SpanRecord) -> bool:
        """Return whether this is a query or chat engine of LlamaIndex's."""
        given = _dumped(span, _INPUT)
        return (
            span.scope == _LLAMA_INDEX
            and isinstance(given, Mapping)
            and ("str_or_query_bundle" in given or "message" in given)
        )


def _of_tool(gave: Any) -> Any:
    """Return a tool's output: LangChain's is wrapped, LlamaIndex's is not."""
    return gave.get("output", gave) if isinstance(gave, Mapping) else gave


def _dumped(span: SpanRecord, attribute: str) -> Any:
    return span.parsed(attribute) if span.text(attribute) else None
