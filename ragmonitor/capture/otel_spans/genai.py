"""OpenTelemetry's GenAI conventions: `gen_ai.operation.name` and its attributes.

https://github.com/open-telemetry/semantic-conventions-genai. They are in development, and
`gen_ai.retrieval.documents` defines ids and scores, no text: the retrieved text is looked for in
what the model was shown. Texts are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragmonitor import conventions as names
from ragmonitor.capture.coercion import text_in
from ragmonitor.capture.otel_spans import texts
from ragmonitor.capture.otel_spans.spans import ForeignSpan
from ragmonitor.capture.otel_spans.texts import NOT_SAID, Found
from ragmonitor.records import Chunk, Message, Usage

framework = "genai"
MARKS = frozenset({names.GENAI_OPERATION_NAME})
SCOPES = frozenset[str]()

_ROLES: dict[str, Literal["chain", "retriever", "reranker", "model", "tool"]] = {
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
_VARIABLE = "gen_ai.prompt.variable."
"""Of `opentelemetry-instrumentation-genai-langchain`; not in the conventions."""
_CONTEXT = ("context", "context_str", "documents", "docs", "chunks", "passages", "sources")
_QUESTION = ("question", "query", "input", "query_str", "user_input")


def role(
    span: ForeignSpan,
) -> Literal["chain", "retriever", "reranker", "model", "tool", "other"]:
    """Return the operation in our words."""
    return _ROLES.get(span.text(names.GENAI_OPERATION_NAME), "other")


def name(span: ForeignSpan) -> str:
    """Return the workflow's, the agent's or the tool's name, else the span's."""
    for attribute in (names.GENAI_WORKFLOW_NAME, "gen_ai.agent.name", "gen_ai.tool.name"):
        if found := span.text(attribute):
            return found
    return span.name


def query(span: ForeignSpan) -> str:
    """Return the query's text, or the last thing that the user said."""
    if text := span.text(names.GENAI_RETRIEVAL_QUERY_TEXT):
        return text
    return question_variable(span) or _asked(span)


def question_variable(span: ForeignSpan) -> str:
    """Return the question, where a model's span names it as a variable of its prompt."""
    variables = _variables(span)
    return next((text for v in _QUESTION if (text := variables.get(v, ""))), "")


def _asked(span: ForeignSpan) -> str:
    for message in reversed(messages(span, names.GENAI_INPUT_MESSAGES)):
        if message.role == "user":
            # Of a workflow, what it was given is dumped into one message.
            value = texts.parsed(message.text)
            return message.text if isinstance(value, str) else texts.question(value)
    return ""


def found(span: ForeignSpan) -> Found:
    """Return the documents, their texts empty where the span has ids and scores alone."""
    if role(span) == "tool":
        return NOT_SAID
    listed = span.attributes.get(names.GENAI_RETRIEVAL_DOCUMENTS)
    if isinstance(listed, str):
        listed = span.parsed(names.GENAI_RETRIEVAL_DOCUMENTS)
    if not isinstance(listed, list | tuple):
        return NOT_SAID
    chunks, complete = [], True
    for item in listed:
        chunk = texts.document(item)
        if chunk is None:
            complete = False
            fields = item if isinstance(item, Mapping) else {}
            chunk = Chunk(
                text="", id=text_in(fields.get("id")) or "", score=texts.number(fields.get("score"))
            )
        chunks.append(chunk)
    return Found(tuple(chunks), complete=complete)


def reranked(span: ForeignSpan) -> Found:  # noqa: ARG001 - of the protocol
    """Return nothing: the conventions have no reranking."""
    return NOT_SAID


def prompt(span: ForeignSpan) -> tuple[Message, ...]:
    """Return the system's instructions and the messages; empty where some have been cut."""
    if any(span.is_cut(span.text(a)) for a in (names.GENAI_INPUT_MESSAGES, _SYSTEM)):
        return ()
    system = texts.content(span.parsed(_SYSTEM))
    before = (Message(role="system", text=system),) if system else ()
    return (*before, *messages(span, names.GENAI_INPUT_MESSAGES))


_SYSTEM = "gen_ai.system_instructions"


def context(span: ForeignSpan) -> str:
    """Return the prompt's variable that holds what was retrieved.

    It is called `context` or the like; else the longest that is not the question.
    """
    variables = _variables(span)
    for variable in _CONTEXT:
        if text := variables.get(variable, ""):
            return text
    asked = query(span)
    rest = [
        text
        for variable, text in variables.items()
        if text != asked and variable not in _QUESTION and "history" not in variable
    ]
    return max(rest, key=len, default="")


def answer(span: ForeignSpan) -> str:
    """Return the last thing that the model said, or a tool's result."""
    if role(span) == "tool":
        value = span.parsed("gen_ai.tool.call.result")
        return value if isinstance(value, str) else texts.content(value)
    for message in reversed(messages(span, names.GENAI_OUTPUT_MESSAGES)):
        if message.role in ("assistant", "user"):
            value = texts.parsed(message.text) if role(span) == "chain" else message.text
            return message.text if isinstance(value, str) else texts.answer(value)
    return ""


def model(span: ForeignSpan) -> tuple[str, str]:
    """Return (provider, model)."""
    return (
        span.text(names.GENAI_PROVIDER_NAME) or span.text("gen_ai.system"),
        span.text(names.GENAI_REQUEST_MODEL) or span.text("gen_ai.response.model"),
    )


def usage(span: ForeignSpan) -> Usage:
    """Return the token counts."""
    return Usage(
        input_tokens=span.count(names.GENAI_USAGE_INPUT_TOKENS),
        output_tokens=span.count(names.GENAI_USAGE_OUTPUT_TOKENS),
    )


def labels(span: ForeignSpan) -> dict[str, Any]:
    """Return the session, and the user where one is named."""
    return {
        "session_id": span.text(names.GENAI_CONVERSATION_ID) or span.text(names.OI_SESSION_ID),
        "user_id": span.text(names.OI_USER_ID),
    }


def withholds(span: ForeignSpan) -> bool:
    """Return whether a model's span that did not fail has no messages: they are opt-in."""
    return (
        role(span) == "model"
        and span.status != "error"
        and names.GENAI_INPUT_MESSAGES not in span.attributes
        and names.GENAI_OUTPUT_MESSAGES not in span.attributes
    )


def is_engine(span: ForeignSpan) -> bool:
    """Return whether this is an agent, which asks a model whether or not a span shows it."""
    return span.text(names.GENAI_OPERATION_NAME) == "invoke_agent"


def messages(span: ForeignSpan, attribute: str) -> tuple[Message, ...]:
    """Return the messages of an attribute: a JSON text, or an SDK's own list."""
    value = span.attributes.get(attribute)
    if isinstance(value, tuple):
        value = [*value]
    return texts.messages(span.parsed(attribute) if isinstance(value, str) else value)


def _variables(span: ForeignSpan) -> dict[str, str]:
    return {
        key[len(_VARIABLE) :]: value
        for key, value in span.attributes.items()
        if key.startswith(_VARIABLE) and isinstance(value, str) and not span.is_cut(value)
    }
