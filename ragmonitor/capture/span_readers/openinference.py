"""OpenInference: `openinference.span.kind` and its attributes.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragmonitor.capture.coercion import chunk_in, parsed
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.span_readers import texts
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Dialect, Role, Step
from ragmonitor.capture.span_readers.texts import Documents
from ragmonitor.records import Message, Usage
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.semconv import conventions as names

REDACTED = "__REDACTED__"
"""The mark that stands where OPENINFERENCE_HIDE_* hides a text."""

_LLAMA_INDEX = ".llama_index"
_ENGINE = lazy_pattern(r"\.(a?query|a?chat|a?stream_chat)$")
_NO_CALL = lazy_pattern(r"\.(write_response_to_history|_\w+)$")
"""Called LLM in LlamaIndex's traces: a stream's way into the memory, preparations of a call."""
_CONTENT = lazy_pattern(r"contents\.(\d{1,9})\.message_content\.(text|type)")
_ROLE_PREFIX = "assistant: "
"""LlamaIndex's messages begin with it where they are written as texts."""
_ROLES: Mapping[str, Role] = {
    "CHAIN": "chain",
    "AGENT": "chain",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "LLM": "model",
    "TOOL": "tool",
}


def _role(span: SpanRecord) -> Role:
    kind = span.text(names.OI_SPAN_KIND).upper()
    if kind == "LLM" and span.scope.endswith(_LLAMA_INDEX) and _NO_CALL.search(span.name):
        return "other"
    return _ROLES.get(kind, "other")


def _fill(step: Step) -> None:
    span, role = step.span, step.role
    output = _value(span, names.OI_OUTPUT_VALUE, names.OI_OUTPUT_MIME_TYPE)
    asked = _messages(span, "input")
    step.query = (
        texts.question(_value(span, names.OI_INPUT_VALUE, names.OI_INPUT_MIME_TYPE))
        or next((m.text for m in reversed(asked) if m.role == "user"), "")
        or _shown(span, "reranker.query")
    )
    step.answer = next((m.text for m in reversed(_messages(span, "output")) if m.text), "") or (
        texts.tool_text(output) if role == "tool" else texts.answer(output)
    )
    step.labels = _labels(span)
    step.is_engine = span.scope.endswith(_LLAMA_INDEX) and _ENGINE.search(span.name) is not None
    if role == "retriever":
        step.documents = _retrieved(span, output)
    elif role == "reranker":
        step.documents = _documents(span, "reranker.output_documents")
    elif role == "tool":
        step.documents = texts.tool_documents(output)
    elif role == "model":
        if span.scope.endswith(_LLAMA_INDEX):
            step.answer = step.answer.removeprefix(_ROLE_PREFIX)
        prompts = span.attributes.get("llm.prompts")
        if not asked and isinstance(prompts, list | tuple):
            asked = tuple(Message(role="user", text=str(p)) for p in prompts if p != REDACTED)
        # Where some have been dropped or cut, what stands in the rest tells too little.
        is_told = span.is_whole and not any(span.is_cut(message.text) for message in asked)
        step.prompt = asked if is_told else ()
        step.provider = span.first_text((names.OI_LLM_PROVIDER, "llm.system"))
        step.model = span.text(names.OI_LLM_MODEL_NAME)
        step.usage = Usage(
            input_tokens=span.count(names.OI_TOKENS_PROMPT),
            output_tokens=span.count(names.OI_TOKENS_COMPLETION),
        )


DIALECT = Dialect(
    framework="openinference",
    marks=frozenset({names.OI_SPAN_KIND}),
    role=_role,
    name=lambda span: span.name,
    fill=_fill,
)


def _retrieved(span: SpanRecord, output: Any) -> Documents:
    dumped = texts.documents(output)  # LangChain's documents have their ids in the dump alone
    # An empty list says that nothing was found; where nothing is said, nothing is known.
    return _documents(span, "retrieval.documents") or None if dumped is None else dumped


def _labels(span: SpanRecord) -> dict[str, Any]:
    metadata = parsed(span.text(names.OI_METADATA))
    labels = labels_of(
        metadata if isinstance(metadata, Mapping) else {}, span.attributes.get(names.OI_TAGS)
    )
    labels["session_id"] = span.text(names.OI_SESSION_ID) or labels["session_id"]
    labels["user_id"] = span.text(names.OI_USER_ID) or labels["user_id"]
    if version := span.text("llm.prompt_template.version"):
        labels["attributes"]["prompt_version"] = version
    return labels


def _shown(span: SpanRecord, attribute: str) -> str:
    text = span.text(attribute)
    return "" if text == REDACTED else text


def _value(span: SpanRecord, attribute: str, mime_type: str) -> Any:
    text = _shown(span, attribute)
    # What is not said to be JSON is a text, even if it reads like JSON.
    return span.parsed(attribute) if text and span.text(mime_type).endswith("json") else text


def _documents(span: SpanRecord, prefix: str) -> Documents:
    """Return the documents in attributes `{prefix}.{n}.document.{field}`."""
    listed = span.numbered(f"{prefix}.", ".document.")
    chunks = [
        chunk_in({**fields, "metadata": parsed(str(fields.get("metadata", "")))})
        for fields in listed
        if fields.get("content") != REDACTED
    ]
    found = tuple(chunk for chunk in chunks if chunk is not None)
    is_cut = any(span.is_cut(chunk.text) for chunk in found)
    return found if len(found) == len(listed) and span.is_whole and not is_cut else None


def _messages(span: SpanRecord, side: Literal["input", "output"]) -> tuple[Message, ...]:
    """Return `llm.{side}_messages.{n}.message.*`, those without text left out.

    A message has one `content`, or `contents.{m}.message_content.*`, in any order: of a model that
    reasons, one part is its reasoning.
    """
    found = []
    for fields in span.numbered(f"llm.{side}_messages.", ".message."):
        pieces = {-1: fields.get("content")}
        for name, value in fields.items():
            part = _CONTENT.fullmatch(name)
            if part is not None and part[2] == "text":
                kind = fields.get(f"contents.{part[1]}.message_content.type")
                pieces[int(part[1])] = "" if kind == "reasoning" else value
        told = [p for _, p in sorted(pieces.items()) if isinstance(p, str) and p != REDACTED]
        if text := "".join(told):
            role = fields.get("role")
            found.append(Message(role=role if isinstance(role, str) else "user", text=text))
    return tuple(found)
