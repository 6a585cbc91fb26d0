"""OpenLLMetry (Traceloop): `traceloop.*`, and GenAI's attributes on models.

https://github.com/traceloop/openllmetry, `opentelemetry-instrumentation-langchain` and
`-llamaindex` from 0.62. Inputs and outputs are JSON dumps of the framework's own objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmonitor import conventions as names
from ragmonitor.capture.coercion import usage_of
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.otel_spans import texts
from ragmonitor.capture.otel_spans.convention import Role
from ragmonitor.capture.otel_spans.genai import GenAi
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import UNKNOWN_DOCUMENTS, Documents
from ragmonitor.records import Message, Usage

_KIND = "traceloop.span.kind"
_REQUEST = "llm.request.type"
_NAME = "traceloop.entity.name"
_INPUT = "traceloop.entity.input"
_OUTPUT = "traceloop.entity.output"
_PROPERTY = "traceloop.association.properties."
_LANGCHAIN = "opentelemetry.instrumentation.langchain"
_LLAMA_INDEX = "opentelemetry.instrumentation.llamaindex"
_UNKNOWN = "unknown"
_EARLIER_TOKENS = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens")


class OpenLLMetry(GenAi):
    """OpenLLMetry's attributes, with those of GenAI on models."""

    framework = "openllmetry"
    MARKS = frozenset({_KIND, "traceloop.workflow.name", _NAME, _REQUEST})
    SCOPES = frozenset({_LANGCHAIN, _LLAMA_INDEX})
    REQUESTS: Mapping[str, Role] = {
        "chat": "model",
        "completion": "model",
        "rerank": "reranker",
        "embedding": "other",
    }
    """The roles of a provider's spans that do not name GenAI's operation."""

    def role(self, span: SpanRecord) -> Role:
        """Return the span's role; of a LlamaIndex task, by the shape of its input and output.

        LlamaIndex's tasks are named after the application's own classes and say no more.
        """
        if span.text(_KIND) == "tool":
            return "tool"
        operation = super().role(span)
        if operation != "other" or names.GENAI_OPERATION_NAME in span.attributes:
            return operation
        if (requested := self.REQUESTS.get(span.text(_REQUEST))) is not None:
            return requested
        if span.scope != _LLAMA_INDEX:
            return "chain"
        inputs, outputs = _dumped(span, _INPUT), _dumped(span, _OUTPUT)
        if names.GENAI_OUTPUT_MESSAGES in span.attributes:
            return "model"
        if isinstance(outputs, Mapping) and "tool_name" in outputs and "raw_output" in outputs:
            return "tool"
        if isinstance(inputs, Mapping):
            if isinstance(outputs, list) and "nodes" in inputs:
                return "reranker"
            if isinstance(outputs, list) and (
                "query_bundle" in inputs or "str_or_query_bundle" in inputs
            ):
                return "retriever"
            if (
                isinstance(outputs, Mapping)
                and "raw" in outputs
                and ("text" in outputs or "message" in outputs)
                and ("args" in inputs or "messages" in inputs or "prompt" in inputs)
            ):
                return "model"
        return "retriever" if "Retriever" in self.name(span) and span.status == "error" else "chain"

    def name(self, span: SpanRecord) -> str:
        """Return the entity's name, without its kind."""
        full_name = span.text(_NAME) or span.name
        head, _, kind = full_name.rpartition(".")
        return head if head and kind in ("workflow", "task") else full_name

    def query(self, span: SpanRecord) -> str:
        """Return the question in what the entity was given."""
        inputs = _dumped(span, _INPUT)
        if isinstance(inputs, Mapping):
            text = texts.question(inputs.get("inputs", inputs.get("query", inputs)))
            if text or "inputs" not in inputs:
                return text
            # Of a LangChain stream, what it was given is known, and dumped, only at its end.
            outputs = _dumped(span, _OUTPUT)
            late = outputs.get("kwargs") if isinstance(outputs, Mapping) else None
            if isinstance(late, Mapping) and (text := texts.question(late.get("inputs"))):
                return text
            return texts.question(outputs.get("outputs")) if isinstance(outputs, Mapping) else ""
        return super().query(span)

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents that a retriever or reranker gave, or a tool's artifact."""
        outputs = _dumped(span, _OUTPUT)
        if self.role(span) == "tool":
            return texts.tool_documents(_of_tool(outputs))
        if outputs is None:
            return super().documents(span)
        return texts.documents(outputs)

    def reranked(self, span: SpanRecord) -> Documents:
        """Return the documents that a reranker was given."""
        inputs = _dumped(span, _INPUT)
        return (
            texts.documents(inputs.get("nodes"))
            if isinstance(inputs, Mapping)
            else UNKNOWN_DOCUMENTS
        )

    def prompt(self, span: SpanRecord) -> tuple[Message, ...]:
        """Return the messages; of a LlamaIndex task, what it was given."""
        if messages := super().prompt(span):
            return messages
        inputs = _dumped(span, _INPUT)
        if not isinstance(inputs, Mapping):
            return ()
        args = inputs.get("args")
        if isinstance(args, list) and args and isinstance(args[0], str):
            return (Message(role="user", text=args[0]),)
        return texts.messages(inputs.get("messages"))

    def context(self, span: SpanRecord) -> str:  # noqa: ARG002
        """Return nothing: documents have their texts here."""
        return ""

    def answer(self, span: SpanRecord) -> str:
        """Return the text in the output messages, or in what the entity gave."""
        if text := super().answer(span) if self.role(span) == "model" else "":
            return text
        outputs = _dumped(span, _OUTPUT)
        if isinstance(outputs, Mapping) and "outputs" in outputs:
            return texts.answer(outputs["outputs"])
        return (
            texts.tool_text(_of_tool(outputs))
            if self.role(span) == "tool"
            else texts.answer(outputs)
        )

    def model(self, span: SpanRecord) -> tuple[str, str]:
        """Return (provider, model): LangChain's own words before the instrumentation's guesses."""
        provider, model = super().model(span)
        return (
            span.text(f"{_PROPERTY}ls_provider") or provider,
            span.text(f"{_PROPERTY}ls_model_name") or (model if model != _UNKNOWN else ""),
        )

    def usage(self, span: SpanRecord) -> Usage:
        """Return the token counts; of a LlamaIndex task, those in the provider's own reply."""
        input_tokens, output_tokens = map(span.count, _EARLIER_TOKENS)
        for counted in (
            super().usage(span),
            Usage(input_tokens=input_tokens, output_tokens=output_tokens),
        ):
            if counted != Usage():
                return counted
        outputs = _dumped(span, _OUTPUT)
        raw = outputs.get("raw") if isinstance(outputs, Mapping) else None
        place = raw.get("usage", raw) if isinstance(raw, Mapping) else None
        return usage_of(place)

    def labels(self, span: SpanRecord) -> dict[str, Any]:
        """Return the association properties, which are LangChain's metadata, and the tags."""
        inputs = _dumped(span, _INPUT)
        labels = labels_of(
            {
                key[len(_PROPERTY) :]: value
                for key, value in span.attributes.items()
                if key.startswith(_PROPERTY)
            },
            inputs.get("tags") if isinstance(inputs, Mapping) else (),
        )
        labels["session_id"] = labels["session_id"] or span.text(names.GENAI_CONVERSATION_ID)
        return labels

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
        inputs = _dumped(span, _INPUT)
        return (
            span.scope == _LLAMA_INDEX
            and isinstance(inputs, Mapping)
            and ("str_or_query_bundle" in inputs or "message" in inputs)
        )


def _of_tool(outputs: Any) -> Any:
    """Return a tool's output: LangChain's is wrapped, LlamaIndex's is not."""
    return outputs.get("output", outputs) if isinstance(outputs, Mapping) else outputs


def _dumped(span: SpanRecord, attribute: str) -> Any:
    return span.parsed(attribute) if span.text(attribute) else None
