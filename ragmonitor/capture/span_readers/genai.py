"""OpenTelemetry's GenAI conventions: `gen_ai.operation.name` and its attributes.

https://github.com/open-telemetry/semantic-conventions-genai. They are in development, and
`gen_ai.retrieval.documents` defines ids and scores, no text: the retrieved text is looked for in
the prompt's variable and in the tool's result. Texts are opt-in:
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
"""

from __future__ import annotations

from collections.abc import Mapping

from ragmonitor.capture.coercion import parsed
from ragmonitor.capture.conversations import calls_tools, content_text
from ragmonitor.capture.span_readers import texts
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Dialect, Role, Step
from ragmonitor.capture.span_readers.texts import Documents
from ragmonitor.records import Message, Usage
from ragmonitor.semconv import conventions as names

_VARIABLE = "gen_ai.prompt.variable."
"""The attribute of `opentelemetry-instrumentation-genai-langchain`; not in the conventions."""
_QUESTION = ("question", "query", "input", "query_str", "user_input")
_NUMBERED = {
    names.GENAI_INPUT_MESSAGES: "gen_ai.prompt",
    names.GENAI_OUTPUT_MESSAGES: "gen_ai.completion",
}
"""The same as attributes `{prefix}.{n}.role` and `.content`, as OpenLLMetry wrote them before its
version 0.50, and its SDK for JavaScript still does (`withLLMCall`)."""
_SYSTEM = "gen_ai.system_instructions"
_TOOL_RESULT = "gen_ai.tool.call.result"
_ROLES: Mapping[str, Role] = {
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


def role(span: SpanRecord) -> Role:
    """Return the operation in our words; a vector store's client names none."""
    return "retriever" if _is_store(span) else _ROLES.get(_operation(span), "other")


def name(span: SpanRecord) -> str:
    """Return the workflow's, the agent's or the tool's name, else the span's."""
    own = (names.GENAI_WORKFLOW_NAME, "gen_ai.agent.name", "gen_ai.tool.name")
    return span.first_text(own) or span.name


def fill(step: Step) -> None:
    """Read the attributes of the conventions."""
    span, role = step.span, step.role
    asked, said = (messages(span, each) for each in _NUMBERED)
    variables = {
        key[len(_VARIABLE) :]: value
        for key, value in span.attributes.items()
        if key.startswith(_VARIABLE) and isinstance(value, str) and not span.is_cut(value)
    }
    step.variable = next((text for each in _QUESTION if (text := variables.get(each, ""))), "")
    step.query = span.text(names.GENAI_RETRIEVAL_QUERY_TEXT) or step.variable
    if not step.query:
        last = next((m.text for m in reversed(asked) if m.role == "user"), "")
        # Of a workflow, what it was given is dumped into one message.
        value = parsed(last)
        step.query = last if isinstance(value, str) else texts.question(value)
    step.labels = {
        "session_id": span.text(names.GENAI_CONVERSATION_ID) or span.text(names.OI_SESSION_ID),
        "user_id": span.text(names.OI_USER_ID),
    }
    step.is_store = _is_store(span)
    step.is_engine = _operation(span) == "invoke_agent"
    step.answer = _answer(step, said)
    if role == "tool":
        step.documents = texts.tool_documents(span.parsed(_TOOL_RESULT))
    elif role in ("retriever", "reranker"):
        step.documents = _documents(span)
    elif role == "model":
        system = content_text(span.parsed(_SYSTEM))
        before = (Message(role="system", text=system),) if system else ()
        written = (names.GENAI_INPUT_MESSAGES, _SYSTEM)
        is_told = span.is_whole or names.GENAI_INPUT_MESSAGES in span.attributes
        texts_asked = (*map(span.text, written), *(message.text for message in asked))
        if is_told and not any(map(span.is_cut, texts_asked)):
            step.prompt = (*before, *asked)
        rest = [text for text in variables.values() if text != step.query]
        step.context = variables.get("context") or max(rest, key=len, default="")
        step.provider = span.first_text((names.GENAI_PROVIDER_NAME, "gen_ai.system"))
        step.model = span.first_text((names.GENAI_REQUEST_MODEL, "gen_ai.response.model"))
        step.usage = Usage(
            input_tokens=span.count(names.GENAI_USAGE_INPUT_TOKENS),
            output_tokens=span.count(names.GENAI_USAGE_OUTPUT_TOKENS),
        )


DIALECT = Dialect(
    framework="genai",
    marks=frozenset({names.GENAI_OPERATION_NAME, names.GENAI_RETRIEVAL_DOCUMENTS}),
    role=role,
    name=name,
    fill=fill,
)


def _operation(span: SpanRecord) -> str:
    return span.text(names.GENAI_OPERATION_NAME)


def _is_store(span: SpanRecord) -> bool:
    return (
        names.GENAI_RETRIEVAL_DOCUMENTS in span.attributes
        and names.GENAI_OPERATION_NAME not in span.attributes
    )


def _answer(step: Step, said: tuple[Message, ...]) -> str:
    span, is_chain = step.span, step.role == "chain"
    if step.role == "tool" and _TOOL_RESULT in span.attributes:
        return texts.tool_text(span.parsed(_TOOL_RESULT))
    if is_chain:
        listed = span.parsed(names.GENAI_OUTPUT_MESSAGES)
        if isinstance(listed, list) and listed and calls_tools(listed[-1]):
            return ""  # a step's words: a last message without text is left out
    text = next((m.text for m in reversed(said) if m.role in ("assistant", "user")), "")
    value = parsed(text) if is_chain else text
    return text if isinstance(value, str) else texts.answer(value)


def _documents(span: SpanRecord) -> Documents:
    """Return the documents, their texts empty where the span has ids and scores alone."""
    listed = span.parsed(names.GENAI_RETRIEVAL_DOCUMENTS)
    if not isinstance(listed, list | tuple):
        return None
    items = [parsed(item) if isinstance(item, str) else item for item in listed]
    told = [{"content": "", **each} if isinstance(each, Mapping) else each for each in items]
    found = texts.documents(told)
    return None if any(span.is_cut(chunk.text) for chunk in found or ()) else found


def messages(span: SpanRecord, attribute: str) -> tuple[Message, ...]:
    """Return the messages of an attribute: a JSON text, an SDK's own list, or numbered ones."""
    if attribute not in span.attributes:
        return _numbered(span, f"{_NUMBERED[attribute]}.")
    return texts.messages(span.parsed(attribute))


def _numbered(span: SpanRecord, prefix: str) -> tuple[Message, ...]:
    """Return numbered messages, those without text left out. Parts of a content are their JSON."""
    return texts.messages(
        [
            {"role": of_it.get("role", "user"), "content": texts.parts_in(content)}
            for of_it in span.numbered(prefix)
            if isinstance(content := of_it.get("content"), str)
        ]
    )
