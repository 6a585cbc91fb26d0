"""OpenLLMetry (Traceloop): `traceloop.*`, and GenAI's attributes on models.

https://github.com/traceloop/openllmetry, `opentelemetry-instrumentation-langchain` and
`-llamaindex` from 0.62. Inputs and outputs are JSON dumps of the framework's own objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmonitor.capture.coercion import usage_of
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.span_readers import genai, texts
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Dialect, Role, Step
from ragmonitor.records import Message, Usage
from ragmonitor.semconv import conventions as names

_KIND = "traceloop.span.kind"
_REQUEST = "llm.request.type"
_NAME = "traceloop.entity.name"
_INPUT = "traceloop.entity.input"
_OUTPUT = "traceloop.entity.output"
_PROPERTY = "traceloop.association.properties."
_LANGCHAIN = "opentelemetry.instrumentation.langchain"
LLAMA_INDEX = "opentelemetry.instrumentation.llamaindex"
_EARLIER_TOKENS = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens")
_REQUESTS: Mapping[str, Role] = {
    "chat": "model",
    "completion": "model",
    "rerank": "reranker",
    "embedding": "other",
}
"""The roles of a provider's spans that do not name GenAI's operation."""


def _role(span: SpanRecord) -> Role:
    if span.text(_KIND) == "tool":
        return "tool"
    operation = genai.role(span)
    if operation != "other" or names.GENAI_OPERATION_NAME in span.attributes:
        return operation
    if (requested := _REQUESTS.get(span.text(_REQUEST))) is not None:
        return requested
    return _task(span) if span.scope == LLAMA_INDEX else "chain"


def _task(span: SpanRecord) -> Role:
    """Return the role of a LlamaIndex task by its shapes: it is named after the class alone."""
    inputs, outputs = _dumped(span, _INPUT), _dumped(span, _OUTPUT)
    if names.GENAI_OUTPUT_MESSAGES in span.attributes:
        return "model"
    if isinstance(outputs, Mapping) and "tool_name" in outputs and "raw_output" in outputs:
        return "tool"
    if isinstance(inputs, Mapping) and isinstance(outputs, list):
        if "nodes" in inputs:
            return "reranker"
        if "query_bundle" in inputs or "str_or_query_bundle" in inputs:
            return "retriever"
    if isinstance(inputs, Mapping) and isinstance(outputs, Mapping) and "raw" in outputs:
        asked = not {"args", "messages", "prompt"}.isdisjoint(inputs)
        if asked and ("text" in outputs or "message" in outputs):
            return "model"
    return "retriever" if "Retriever" in _name(span) and span.status == "error" else "chain"


def _name(span: SpanRecord) -> str:
    full_name = span.text(_NAME) or span.name
    head, _, kind = full_name.rpartition(".")
    return head if head and kind in ("workflow", "task") else full_name


def _fill(step: Step) -> None:
    genai.fill(step)
    span, role = step.span, step.role
    inputs, outputs = _dumped(span, _INPUT), _dumped(span, _OUTPUT)
    step.context = ""  # documents have their texts here
    if isinstance(inputs, Mapping):
        step.query = _question(inputs, outputs)
    of_tool = outputs.get("output", outputs) if isinstance(outputs, Mapping) else outputs
    if role == "tool":
        step.documents = texts.tool_documents(of_tool)
    elif role in ("retriever", "reranker") and outputs is not None:
        step.documents = texts.documents(outputs)
    if not (role == "model" and step.answer):
        if isinstance(outputs, Mapping) and "outputs" in outputs:
            step.answer = texts.answer(outputs["outputs"])
        else:
            step.answer = texts.tool_text(of_tool) if role == "tool" else texts.answer(outputs)
    if role == "model":
        _fill_model(step, inputs, outputs)
    step.labels = _labels(span, inputs)
    step.is_engine = (
        span.scope == LLAMA_INDEX
        and isinstance(inputs, Mapping)
        and ("str_or_query_bundle" in inputs or "message" in inputs)
    )


def _fill_model(step: Step, inputs: Any, outputs: Any) -> None:
    """Read LangChain's words, and the provider's reply in a LlamaIndex task's output."""
    span = step.span
    if not step.prompt and isinstance(inputs, Mapping):
        args = inputs.get("args")
        if isinstance(args, list) and args and isinstance(args[0], str):
            step.prompt = (Message(role="user", text=args[0]),)
        else:
            step.prompt = texts.messages(inputs.get("messages"))
    step.provider = span.text(f"{_PROPERTY}ls_provider") or step.provider
    guessed = "" if step.model == "unknown" else step.model
    step.model = span.text(f"{_PROPERTY}ls_model_name") or guessed
    if step.usage == Usage():
        input_tokens, output_tokens = map(span.count, _EARLIER_TOKENS)
        step.usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
    raw = outputs.get("raw") if isinstance(outputs, Mapping) else None
    if step.usage == Usage() and isinstance(raw, Mapping):
        step.usage = usage_of(raw.get("usage", raw))


def begins_anew(span: SpanRecord) -> bool:
    """Return whether LlamaIndex called this with nothing of its own around it.

    A span above it that is LlamaIndex's too has failed, or streamed: version 0.62 neither ends such
    a span nor detaches its context, so whatever the application asks next seems to be inside it.
    """
    return span.scope == LLAMA_INDEX and span.text(_KIND) == "workflow" and _role(span) == "chain"


DIALECT = Dialect(
    framework="openllmetry",
    marks=frozenset({_KIND, "traceloop.workflow.name", _NAME, _REQUEST}),
    scopes=frozenset({_LANGCHAIN, LLAMA_INDEX}),
    role=_role,
    name=_name,
    fill=_fill,
)


def _question(inputs: Mapping[str, Any], outputs: Any) -> str:
    text = texts.question(inputs.get("inputs", inputs.get("query", inputs)))
    if text or "inputs" not in inputs or not isinstance(outputs, Mapping):
        return text
    # Of a LangChain stream, what it was given is known, and dumped, only at its end.
    late = outputs.get("kwargs")
    text = texts.question(late.get("inputs")) if isinstance(late, Mapping) else ""
    return text or texts.question(outputs.get("outputs"))


def _labels(span: SpanRecord, inputs: Any) -> dict[str, Any]:
    """Return the association properties, which are LangChain's metadata, and the tags."""
    properties = {
        key[len(_PROPERTY) :]: value
        for key, value in span.attributes.items()
        if key.startswith(_PROPERTY)
    }
    labels = labels_of(properties, inputs.get("tags") if isinstance(inputs, Mapping) else ())
    labels["session_id"] = labels["session_id"] or span.text(names.GENAI_CONVERSATION_ID)
    return labels


def _dumped(span: SpanRecord, attribute: str) -> Any:
    return span.parsed(attribute) if span.text(attribute) else None
