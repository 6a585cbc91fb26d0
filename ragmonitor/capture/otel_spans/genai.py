"""OpenTelemetry's GenAI conventions: `gen_ai.operation.name` and its attributes.

https://github.com/open-telemetry/semantic-conventions-genai. They are in development, and
`gen_ai.retrieval.documents` defines ids and scores, no text: the retrieved text is looked for in
what the model was shown. Texts are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmonitor import conventions as names
from ragmonitor.capture.coercion import finite, text_in
from ragmonitor.capture.otel_spans import texts
from ragmonitor.capture.otel_spans.convention import Convention, Role
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import UNKNOWN_DOCUMENTS, Documents
from ragmonitor.records import Chunk, Message

_VARIABLE = "gen_ai.prompt.variable."
"""The attribute of `opentelemetry-instrumentation-genai-langchain`; not in the conventions."""
_CONTEXT = ("context", "context_str", "documents", "docs", "chunks", "passages", "sources")
_QUESTION = ("question", "query", "input", "query_str", "user_input")


_NUMBERED = {
    names.GENAI_INPUT_MESSAGES: "gen_ai.prompt",
    names.GENAI_OUTPUT_MESSAGES: "gen_ai.completion",
}
"""The same as attributes `{prefix}.{n}.role` and `.content`, as OpenLLMetry wrote them before its
version 0.50, and its SDK for JavaScript still does (`withLLMCall`)."""
_SYSTEM = "gen_ai.system_instructions"
_TOOL_RESULT = "gen_ai.tool.call.result"


class GenAi(Convention):
    """OpenTelemetry's GenAI conventions."""

    framework = "genai"
    MARKS = frozenset({names.GENAI_OPERATION_NAME, names.GENAI_RETRIEVAL_DOCUMENTS})
    ROLES: Mapping[str, Role] = {
        "chat": "model",
        "text_completion": "model",
        "generate_content": "model",
        "retrieval": "retriever",
        "vector_db_retrieve": "retriever",
        "rerank": "reranker",
        "execute_tool": "tool",
        "invoke_agent": "chain",
        "invoke_workflow": "chain",
        "execute_task": "chain",
    }
    PROVIDER = (names.GENAI_PROVIDER_NAME, "gen_ai.system")
    MODEL = (names.GENAI_REQUEST_MODEL, "gen_ai.response.model")
    TOKENS = (names.GENAI_USAGE_INPUT_TOKENS, names.GENAI_USAGE_OUTPUT_TOKENS)

    def role(self, span: SpanRecord) -> Role:
        """Return the operation in our words; a vector store's client names none."""
        if self.is_store(span):
            return "retriever"
        return self.ROLES.get(span.text(names.GENAI_OPERATION_NAME), "other")

    def name(self, span: SpanRecord) -> str:
        """Return the workflow's, the agent's or the tool's name, else the span's."""
        for attribute in (names.GENAI_WORKFLOW_NAME, "gen_ai.agent.name", "gen_ai.tool.name"):
            if own_name := span.text(attribute):
                return own_name
        return span.name

    def query(self, span: SpanRecord) -> str:
        """Return the query's text, or the last thing that the user said."""
        if text := span.text(names.GENAI_RETRIEVAL_QUERY_TEXT):
            return text
        return self.question_variable(span) or _asked(span)

    def question_variable(self, span: SpanRecord) -> str:
        """Return the question, where a model's span names it as a variable of its prompt."""
        variables = _variables(span)
        return next((text for v in _QUESTION if (text := variables.get(v, ""))), "")

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents, their texts empty where the span has ids and scores alone.

        Of a tool, those that its result lists.
        """
        if self.role(span) == "tool":
            return texts.tool_documents(span.parsed(_TOOL_RESULT))
        listed = span.attributes.get(names.GENAI_RETRIEVAL_DOCUMENTS)
        if isinstance(listed, str):
            listed = span.parsed(names.GENAI_RETRIEVAL_DOCUMENTS)
        if not isinstance(listed, list | tuple):
            return UNKNOWN_DOCUMENTS
        chunks, complete = [], True
        for item in listed:
            chunk = texts.document(item)
            if chunk is None or span.is_cut(chunk.text):
                complete = False
                fields = item if isinstance(item, Mapping) else {}
                chunk = Chunk(
                    text="",
                    id=text_in(fields.get("id")) or "",
                    score=finite(fields.get("score")),
                )
            chunks.append(chunk)
        return Documents(tuple(chunks), complete=complete)

    def prompt(self, span: SpanRecord) -> tuple[Message, ...]:
        """Return the system's instructions and the messages; empty where some have been cut."""
        if any(span.is_cut(span.text(a)) for a in (names.GENAI_INPUT_MESSAGES, _SYSTEM)):
            return ()
        numbered = _numbered(span, names.GENAI_INPUT_MESSAGES)
        if numbered and (span.attributes_lost or any(span.is_cut(m.text) for m in numbered)):
            return ()
        system = texts.content_text(span.parsed(_SYSTEM))
        before = (Message(role="system", text=system),) if system else ()
        return (*before, *messages(span, names.GENAI_INPUT_MESSAGES))

    def context(self, span: SpanRecord) -> str:
        """Return the prompt's variable that holds what was retrieved.

        It is called `context` or the like; else the longest that is not the question.
        """
        variables = _variables(span)
        for variable in _CONTEXT:
            if text := variables.get(variable, ""):
                return text
        asked = self.query(span)
        rest = [
            text
            for variable, text in variables.items()
            if text != asked and variable not in _QUESTION and "history" not in variable
        ]
        return max(rest, key=len, default="")

    def answer(self, span: SpanRecord) -> str:
        """Return the last thing that the model said, or a tool's result."""
        if self.role(span) == "tool" and _TOOL_RESULT in span.attributes:
            return texts.tool_text(span.parsed(_TOOL_RESULT))
        if self.role(span) == "chain":
            said = span.parsed(names.GENAI_OUTPUT_MESSAGES)
            if isinstance(said, list) and said and texts.calls_tools(said[-1]):
                return ""  # a step's words: a last message without text is left out
        for message in reversed(messages(span, names.GENAI_OUTPUT_MESSAGES)):
            if message.role in ("assistant", "user"):
                value = texts.parsed(message.text) if self.role(span) == "chain" else message.text
                return message.text if isinstance(value, str) else texts.answer(value)
        return ""

    def labels(self, span: SpanRecord) -> dict[str, Any]:
        """Return the session, and the user where one is named."""
        return {
            "session_id": span.text(names.GENAI_CONVERSATION_ID) or span.text(names.OI_SESSION_ID),
            "user_id": span.text(names.OI_USER_ID),
        }

    def withholds(self, span: SpanRecord) -> bool:
        """Return whether a model's span that did not fail has no messages: they are opt-in."""
        return (
            self.role(span) == "model"
            and span.status != "error"
            and not any(each in span.attributes or _numbered(span, each) for each in _NUMBERED)
        )

    def is_store(self, span: SpanRecord) -> bool:
        """Return whether documents were found and no operation is named."""
        return (
            names.GENAI_RETRIEVAL_DOCUMENTS in span.attributes
            and names.GENAI_OPERATION_NAME not in span.attributes
        )

    def is_engine(self, span: SpanRecord) -> bool:
        """Return whether this is an agent, which asks a model whether or not a span shows it."""
        return span.text(names.GENAI_OPERATION_NAME) == "invoke_agent"


def _asked(span: SpanRecord) -> str:
    for message in reversed(messages(span, names.GENAI_INPUT_MESSAGES)):
        if message.role == "user":
            # Of a workflow, what it was given is dumped into one message.
            value = texts.parsed(message.text)
            return message.text if isinstance(value, str) else texts.question(value)
    return ""


def messages(span: SpanRecord, attribute: str) -> tuple[Message, ...]:
    """Return the messages of an attribute: a JSON text, an SDK's own list, or numbered ones."""
    value = span.attributes.get(attribute)
    if value is None:
        return _numbered(span, attribute)
    if isinstance(value, tuple):
        value = [*value]
    return texts.messages(span.parsed(attribute) if isinstance(value, str) else value)


def _numbered(span: SpanRecord, attribute: str) -> tuple[Message, ...]:
    """Return what stands in the place of an attribute with messages, those without text left out.

    A content of several parts is their JSON.
    """
    prefix = f"{_NUMBERED[attribute]}."
    if prefix not in span.memo:
        fields: dict[int, dict[str, str]] = {}
        for key, value in span.attributes.items():
            number, _, field = key[len(prefix) :].partition(".")
            if key.startswith(prefix) and number.isdecimal() and isinstance(value, str):
                fields.setdefault(int(number), {})[field] = value
        span.memo[prefix] = texts.messages(
            [
                {"role": of_it.get("role", "user"), "content": texts.parts_in(of_it["content"])}
                for _, of_it in sorted(fields.items())
                if "content" in of_it
            ]
        )
    found: tuple[Message, ...] = span.memo[prefix]
    return found


def _variables(span: SpanRecord) -> dict[str, str]:
    return {
        key[len(_VARIABLE) :]: value
        for key, value in span.attributes.items()
        if key.startswith(_VARIABLE) and isinstance(value, str) and not span.is_cut(value)
    }
