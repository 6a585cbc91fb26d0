"""OpenInference: `openinference.span.kind` and its attributes.

https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragmonitor import conventions as names
from ragmonitor.capture.coercion import finite, json_in, score_of, text_in
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.otel_spans import texts
from ragmonitor.capture.otel_spans.convention import Convention, Role
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import NO_DOCUMENTS, UNKNOWN_DOCUMENTS, Documents
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import Chunk, Message

REDACTED = "__REDACTED__"
"""The mark that stands where OPENINFERENCE_HIDE_* hides a text."""

_LLAMA_INDEX = ".llama_index"
_ENGINE = lazy_pattern(r"\.(a?query|a?chat|a?stream_chat)$")
_NO_CALL = lazy_pattern(r"\.(write_response_to_history|_\w+)$")
"""Called LLM in LlamaIndex's traces: a stream's way into the memory, preparations of a call."""
_CONTENT = lazy_pattern(r"contents\.(\d{1,9})\.message_content\.(text|type)")
_ROLE_PREFIX = "assistant: "
"""LlamaIndex's messages begin with it where they are written as texts."""


class OpenInference(Convention):
    """OpenInference's semantic conventions."""

    framework = "openinference"
    MARKS = frozenset({names.OI_SPAN_KIND})
    ROLES: Mapping[str, Role] = {
        "CHAIN": "chain",
        "AGENT": "chain",
        "RETRIEVER": "retriever",
        "RERANKER": "reranker",
        "LLM": "model",
        "TOOL": "tool",
    }
    PROVIDER = (names.OI_LLM_PROVIDER, "llm.system")
    MODEL = (names.OI_LLM_MODEL_NAME,)
    TOKENS = (names.OI_TOKENS_PROMPT, names.OI_TOKENS_COMPLETION)

    def role(self, span: SpanRecord) -> Role:
        """Return the span's kind in our words."""
        kind = span.text(names.OI_SPAN_KIND).upper()
        if kind == "LLM" and span.scope.endswith(_LLAMA_INDEX) and _NO_CALL.search(span.name):
            return "other"
        return self.ROLES.get(kind, "other")

    def query(self, span: SpanRecord) -> str:
        """Return the question in `input.value`, as text or in the JSON of what was given."""
        value = _value(span, names.OI_INPUT_VALUE, names.OI_INPUT_MIME_TYPE)
        return texts.question(value) or _last_user(span) or _shown(span, "reranker.query")

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents of a retriever, a reranker's output, or a tool's artifact."""
        if self.role(span) == "reranker":
            return _documents(span, "reranker.output_documents")
        output = _value(span, names.OI_OUTPUT_VALUE, names.OI_OUTPUT_MIME_TYPE)
        if self.role(span) == "tool":
            return texts.tool_documents(output)
        listed = _documents(span, "retrieval.documents")
        dumped = texts.documents(output)
        if not listed.complete:
            return dumped if dumped.complete and dumped.chunks else listed
        if not listed.chunks:
            # An empty list says that nothing was found; where nothing is said, nothing is known.
            return NO_DOCUMENTS if dumped == NO_DOCUMENTS else UNKNOWN_DOCUMENTS
        if len(dumped.chunks) == len(listed.chunks):
            # LangChain's documents have their ids in the dump alone.
            return Documents(
                tuple(
                    Chunk(
                        text=one.text, id=one.id or two.id, score=one.score, metadata=one.metadata
                    )
                    for one, two in zip(listed.chunks, dumped.chunks, strict=True)
                ),
                complete=True,
            )
        return listed

    def reranked(self, span: SpanRecord) -> Documents:
        """Return the documents that a reranker was given."""
        return _documents(span, "reranker.input_documents")

    def prompt(self, span: SpanRecord) -> tuple[Message, ...]:
        """Return the messages or prompts of a model's span.

        Empty where some have been dropped or cut: what stands in the rest tells too little.
        """
        if span.attributes_lost:
            return ()
        messages = _messages(span, "input")
        if not messages:
            prompts = span.attributes.get("llm.prompts")
            if isinstance(prompts, list | tuple):
                messages = tuple(
                    Message(role="user", text=str(p)) for p in prompts if p != REDACTED
                )
        return () if any(span.is_cut(m.text) for m in messages) else messages

    def answer(self, span: SpanRecord) -> str:
        """Return the text in a model's output messages, or in `output.value`."""
        for message in reversed(_messages(span, "output")):
            if message.text:
                return message.text
        output = _value(span, names.OI_OUTPUT_VALUE, names.OI_OUTPUT_MIME_TYPE)
        if self.role(span) == "tool":
            return texts.tool_text(output)
        text = texts.answer(output)
        if self.role(span) == "model" and span.scope.endswith(_LLAMA_INDEX):
            return text.removeprefix(_ROLE_PREFIX)
        return text

    def labels(self, span: SpanRecord) -> dict[str, Any]:
        """Return session, user, tags and metadata."""
        metadata = texts.parsed(span.text(names.OI_METADATA))
        labels = labels_of(
            metadata if isinstance(metadata, Mapping) else {}, span.attributes.get(names.OI_TAGS)
        )
        labels["session_id"] = span.text(names.OI_SESSION_ID) or labels["session_id"]
        labels["user_id"] = span.text(names.OI_USER_ID) or labels["user_id"]
        if version := span.text("llm.prompt_template.version"):
            labels["attributes"]["prompt_version"] = version
        return labels

    def withholds(self, span: SpanRecord) -> bool:
        """Return whether a text of this span is hidden."""
        return REDACTED in (span.text(names.OI_INPUT_VALUE), span.text(names.OI_OUTPUT_VALUE)) or (
            self.role(span) == "model"
            and any(
                value == REDACTED for value in span.attributes.values() if isinstance(value, str)
            )
        )

    def is_engine(self, span: SpanRecord) -> bool:
        """Return whether this is a query or chat engine of LlamaIndex's."""
        return span.scope.endswith(_LLAMA_INDEX) and _ENGINE.search(span.name) is not None


def _last_user(span: SpanRecord) -> str:
    return next((m.text for m in reversed(_messages(span, "input")) if m.role == "user"), "")


def _shown(span: SpanRecord, attribute: str) -> str:
    text = span.text(attribute)
    return "" if text == REDACTED else text


def _value(span: SpanRecord, attribute: str, mime_type: str) -> Any:
    text = _shown(span, attribute)
    # What is not said to be JSON is a text, even if it reads like JSON.
    return span.parsed(attribute) if text and span.text(mime_type).endswith("json") else text


def _documents(span: SpanRecord, prefix: str) -> Documents:
    """Return the documents in attributes `{prefix}.{n}.document.{field}`."""
    fields: dict[int, dict[str, Any]] = {}
    for key, value in span.attributes.items():
        if not key.startswith(prefix):
            continue
        position, _, field = key[len(prefix) + 1 :].partition(".document.")
        if position.isdecimal():
            fields.setdefault(int(position), {})[field] = value
    chunks, complete = [], [*sorted(fields)] == [*range(len(fields))]
    for _, field_values in sorted(fields.items()):
        text = field_values.get("content")
        if not isinstance(text, str) or text == REDACTED or span.is_cut(text):
            complete = False
            continue
        chunks.append(_chunk(text, field_values))
    return Documents(tuple(chunks), complete=complete and not (span.attributes_lost and not chunks))


def _chunk(text: str, fields: Mapping[str, Any]) -> Chunk:
    written = fields.get("metadata")
    metadata = json_in(written) if isinstance(written, str) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    score = finite(fields.get("score"))
    return Chunk(
        text=text,
        id=text_in(fields.get("id")) or "",
        score=score_of(metadata) if score is None else score,
        metadata=metadata,
    )


def _messages(span: SpanRecord, side: Literal["input", "output"]) -> tuple[Message, ...]:
    """Return `llm.{side}_messages.{n}.message.*`, those without text left out.

    A message has one `content`, or `contents.{m}.message_content.*`, in any order: of a model that
    reasons, one part is its reasoning.
    """
    prefix = f"llm.{side}_messages."
    roles: dict[int, str] = {}
    parts: dict[int, dict[int, str]] = {}
    reasoning: set[tuple[int, int]] = set()
    for key, value in span.attributes.items():
        if not key.startswith(prefix) or not isinstance(value, str) or value == REDACTED:
            continue
        number, _, field = key[len(prefix) :].partition(".message.")
        if not number.isdecimal():
            continue
        position = int(number)
        if field == "role":
            roles[position] = value
        elif field == "content":
            parts.setdefault(position, {})[-1] = value
        elif (part := _CONTENT.fullmatch(field)) is not None:
            if part[2] == "text":
                parts.setdefault(position, {})[int(part[1])] = value
            elif value == "reasoning":
                reasoning.add((position, int(part[1])))
    texts_of = {
        position: [text for m, text in sorted(of_it.items()) if (position, m) not in reasoning]
        for position, of_it in sorted(parts.items())
    }
    return tuple(
        Message(role=roles.get(position, "user"), text="".join(pieces))
        for position, pieces in texts_of.items()
        if pieces
    )
