"""One small form for what a span says, whatever its dialect: the steps that handlers report too.

- OpenInference: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
- OpenLLMetry: https://github.com/traceloop/openllmetry. What its spans of frameworks were given and
  gave are JSON dumps of the framework's own objects; it has had messages in three forms.
- OpenTelemetry's GenAI conventions, which are in development:
  https://github.com/open-telemetry/semantic-conventions-genai. `gen_ai.retrieval.documents` defines
  ids and scores, no text: the retrieved text is looked for in the prompt's variable and in the
  tool's result.

No name means two things in two of them, and a provider's span may have those of several: one reader
looks under the names of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ragmonitor.capture.coercion import parsed, usage_of
from ragmonitor.capture.conversations import calls_tools, content_text
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.span_readers import texts
from ragmonitor.capture.span_readers.dialects import LLAMA_INDEX, dialect_of
from ragmonitor.capture.span_readers.spans import REDACTED, SpanRecord, numbered, under
from ragmonitor.capture.span_readers.texts import Documents
from ragmonitor.records import Message, Usage
from ragmonitor.runtime.guard import record_error
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.semconv import conventions as names

Role = Literal["chain", "retriever", "reranker", "model", "tool", "other"]
Side = Literal["input", "output"]

_ROLES: Final[Mapping[str, Role]] = {
    # OpenInference's kinds of spans.
    "CHAIN": "chain",
    "AGENT": "chain",
    "RETRIEVER": "retriever",
    "RERANKER": "reranker",
    "LLM": "model",
    "TOOL": "tool",
    # GenAI's operations.
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
_REQUESTS: Final[Mapping[str, Role]] = {**_ROLES, "completion": "model", "embedding": "other"}
"""Those of a provider's spans of OpenLLMetry's that do not name GenAI's operation."""

_KIND: Final = "traceloop.span.kind"
_ENTITY: Final = "traceloop.entity."
_PROPERTY: Final = "traceloop.association.properties."
_TOOL_RESULT: Final = "gen_ai.tool.call.result"
_SYSTEM: Final = "gen_ai.system_instructions"
_VARIABLE: Final = "gen_ai.prompt.variable."
"""The attribute of `opentelemetry-instrumentation-genai-langchain`; not in the conventions."""
_QUESTION: Final = ("question", "query", "input", "query_str", "user_input")
_OI_LLAMA_INDEX: Final = ".llama_index"
"""The end of OpenInference's scope for LlamaIndex."""
_ENGINE: Final = lazy_pattern(r"\.(a?query|a?chat|a?stream_chat)$")
_NO_CALL: Final = lazy_pattern(r"\.(write_response_to_history|_\w+)$")
"""Called LLM in LlamaIndex's traces: a stream's way into the memory, preparations of a call."""

_NAMES: Final = (
    f"{_ENTITY}name",
    names.GENAI_WORKFLOW_NAME,
    "gen_ai.agent.name",
    "gen_ai.tool.name",
)
_PROVIDERS: Final = (
    f"{_PROPERTY}ls_provider",
    names.GENAI_PROVIDER_NAME,
    "gen_ai.system",
    names.OI_LLM_PROVIDER,
    "llm.system",
)
_MODELS: Final = (
    f"{_PROPERTY}ls_model_name",
    names.GENAI_REQUEST_MODEL,
    "gen_ai.response.model",
    names.OI_LLM_MODEL_NAME,
)
_INPUT_TOKENS: Final = (
    names.GENAI_USAGE_INPUT_TOKENS,
    "gen_ai.usage.prompt_tokens",
    names.OI_TOKENS_PROMPT,
)
_OUTPUT_TOKENS: Final = (
    names.GENAI_USAGE_OUTPUT_TOKENS,
    "gen_ai.usage.completion_tokens",
    names.OI_TOKENS_COMPLETION,
)
_MESSAGES: Final[Mapping[Side, tuple[str, str, str]]] = {
    "input": (names.GENAI_INPUT_MESSAGES, "gen_ai.prompt.", "llm.input_messages."),
    "output": (names.GENAI_OUTPUT_MESSAGES, "gen_ai.completion.", "llm.output_messages."),
}
"""Messages in one attribute; in attributes `{prefix}.{n}.role` and `.content`, as OpenLLMetry wrote
them before its version 0.50, and its SDK for JavaScript still does (`withLLMCall`); and
OpenInference's, `{prefix}.{n}.message.*`."""


@dataclass(slots=True, kw_only=True)
class Step:
    """What one span says. Its role is read at once, its texts by `filled`."""

    span: SpanRecord
    dialect: str
    role: Role
    name: str = ""
    query: str = ""
    """The question that a root or a retriever was given."""
    variable: str = ""
    """The question, where a model's prompt names it apart."""
    documents: Documents = None
    """What a retriever, reranker or tool gave; texts that are not said are empty."""
    prompt: tuple[Message, ...] = ()
    """What a model was asked; empty if not said, or not all of it."""
    context: str = ""
    """The retrieved text in a model's prompt, where the span names it apart."""
    answer: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    labels: dict[str, Any] = field(default_factory=dict)
    """As `Translator.labels`."""
    is_store: bool = False
    """It is of a vector store's client, whose caller may say the same."""
    is_engine: bool = False
    """As a root it answers questions, even where no span shows a model."""
    is_read: bool = False
    is_whole: bool = True
    """Nothing in the span was found unreadable."""

    def filled(self) -> Step:
        """Return the step with its texts, as far as these can be read."""
        if not self.is_read:
            self.is_read = True
            try:
                fill(self)
            except Exception as error:  # noqa: BLE001 - anybody's attributes
                record_error("capture", error)
                self.is_whole = False
        return self


def step_of(span: SpanRecord) -> Step | None:
    """Return the step that a span stands for, the same one each time; None: it is of no dialect."""
    if "step" not in span.memo:
        dialect = dialect_of(span.scope, span.attributes)
        step = Step(span=span, dialect=dialect, role=_role(span)) if dialect else None
        span.memo["step"] = step
    found: Step | None = span.memo["step"]
    return found


def begins_anew(span: SpanRecord) -> bool:
    """Return whether LlamaIndex called this with nothing of its own around it, by OpenLLMetry.

    A span above it that is LlamaIndex's too has failed, or streamed: version 0.62 neither ends such
    a span nor detaches its context, so whatever the application asks next seems to be inside it.
    """
    step = step_of(span) if span.scope == LLAMA_INDEX else None
    return step is not None and step.role == "chain" and span.text(_KIND) == "workflow"


def _role(span: SpanRecord) -> Role:
    if names.OI_SPAN_KIND in span.attributes:
        kind = span.text(names.OI_SPAN_KIND).upper()
        is_none = span.scope.endswith(_OI_LLAMA_INDEX) and _NO_CALL.search(span.name)
        return "other" if kind == "LLM" and is_none else _ROLES.get(kind, "other")
    if span.text(_KIND) == "tool":
        return "tool"
    if names.GENAI_OPERATION_NAME in span.attributes:
        return _ROLES.get(span.text(names.GENAI_OPERATION_NAME), "other")
    if names.GENAI_RETRIEVAL_DOCUMENTS in span.attributes:
        return "retriever"  # a vector store's client names no operation
    requested = _REQUESTS.get(span.text("llm.request.type"))
    return requested or (_task(span) if span.scope == LLAMA_INDEX else "chain")


def _task(span: SpanRecord) -> Role:
    """Return the role of a LlamaIndex task by its shapes: it is named after the class alone."""
    if names.GENAI_OUTPUT_MESSAGES in span.attributes:
        return "model"
    given, gave = _dumped(span, "input"), _dumped(span, "output")
    asked = given.keys() if isinstance(given, Mapping) else set()
    told = gave.keys() if isinstance(gave, Mapping) else set()
    if {"tool_name", "raw_output"} <= told:
        return "tool"
    if isinstance(gave, list) and "nodes" in asked:
        return "reranker"
    if isinstance(gave, list) and asked & {"query_bundle", "str_or_query_bundle"}:
        return "retriever"
    if "raw" in told and told & {"text", "message"} and asked & {"args", "messages", "prompt"}:
        return "model"
    return "retriever" if "Retriever" in _name(span) and span.has_failed else "chain"


def _name(span: SpanRecord) -> str:
    full_name = span.text(*_NAMES) or span.name
    head, _, kind = full_name.rpartition(".")
    return head if head and kind in ("workflow", "task") else full_name


def fill(step: Step) -> None:
    """Read a span's texts into its step."""
    span, role = step.span, step.role
    given, gave = _dumped(span, "input"), _dumped(span, "output")
    if role == "tool" and isinstance(gave, Mapping):
        gave = gave.get("output", gave)
    asked, said = _messages(span, "input"), _messages(span, "output")
    variables = {
        name: value
        for name, value in under(span.attributes, _VARIABLE).items()
        if isinstance(value, str) and not span.is_cut(value)
    }
    step.name = _name(span)
    step.variable = next((text for each in _QUESTION if (text := variables.get(each, ""))), "")
    step.query = _query(span, given, gave) or step.variable
    if not step.query:
        text = next((m.text for m in reversed(asked) if m.role == "user"), "")
        # Of a workflow of GenAI's, what it was given is dumped into one message.
        value = parsed(text)
        step.query = text if isinstance(value, str) else texts.question(value)
    step.labels = _labels(span, given)
    is_named = names.GENAI_OPERATION_NAME in span.attributes
    step.is_store = names.GENAI_RETRIEVAL_DOCUMENTS in span.attributes and not is_named
    step.is_engine = _is_engine(step, given)
    step.answer = _answer(step, gave, said)
    if role == "tool":
        step.documents = texts.tool_documents(gave)
    elif role in ("retriever", "reranker"):
        found = _documents(step, gave)
        is_cut = any(span.is_cut(chunk.text) for chunk in found or ())
        step.documents = None if is_cut else found
    elif role == "model":
        prompt = _prompt(span, asked, given)
        step.prompt = () if any(span.is_cut(message.text) for message in prompt) else prompt
        rest = [text for text in variables.values() if text != step.query]
        step.context = variables.get("context") or max(rest, key=len, default="")
        step.provider = span.text(*_PROVIDERS)
        model = span.text(*_MODELS)
        step.model = "" if model == "unknown" else model
        counts = span.count(*_INPUT_TOKENS), span.count(*_OUTPUT_TOKENS)
        step.usage = Usage(input_tokens=counts[0], output_tokens=counts[1])
        raw = gave.get("raw") if isinstance(gave, Mapping) else None
        if step.usage == Usage() and isinstance(raw, Mapping):  # the provider's own reply
            step.usage = usage_of(raw.get("usage", raw))


def _dumped(span: SpanRecord, side: Side) -> Any:
    """Return what a span was given, or gave: a text, or the value of a text of JSON."""
    if value := span.text(f"{side}.value"):
        # What OpenInference does not call JSON is a text, even if it reads like JSON.
        return parsed(value) if span.text(f"{side}.mime_type").endswith("json") else value
    if side == "output":
        return span.parsed(f"{_ENTITY}output", _TOOL_RESULT)
    dumped = span.parsed(f"{_ENTITY}input")
    return None if isinstance(dumped, str) else dumped  # JSON that was cut


def _query(span: SpanRecord, given: Any, gave: Any) -> str:
    text = (
        texts.question(given)
        or span.text(names.GENAI_RETRIEVAL_QUERY_TEXT)
        or span.text("reranker.query")
    )
    if text or not (isinstance(given, Mapping) and "inputs" in given and isinstance(gave, Mapping)):
        return text
    # What a LangChain stream was given is known, and dumped by OpenLLMetry, only at its end.
    return texts.question(gave.get("kwargs")) or texts.question(gave.get("outputs"))


def _answer(step: Step, gave: Any, said: tuple[Message, ...]) -> str:
    span, role = step.span, step.role
    text = next((m.text for m in reversed(said) if m.role not in ("tool", "system")), "")
    if role == "tool":
        return texts.tool_text(gave) or text
    if role != "chain":
        text = text or texts.answer(gave)
        # LlamaIndex's messages begin so where they are written as texts.
        return text.removeprefix("assistant: ") if span.scope.endswith(_OI_LLAMA_INDEX) else text
    if dumped := texts.answer(gave):
        return dumped
    listed = span.parsed(names.GENAI_OUTPUT_MESSAGES)
    if isinstance(listed, list) and listed and calls_tools(listed[-1]):
        return ""  # a step's words: a last message without text is left out
    value = parsed(text)
    return text if isinstance(value, str) else texts.answer(value)


def _is_engine(step: Step, given: Any) -> bool:
    span = step.span
    if span.scope == LLAMA_INDEX:
        asked = {"str_or_query_bundle", "message"}
        return isinstance(given, Mapping) and not asked.isdisjoint(given)
    if step.dialect == "genai":
        return span.text(names.GENAI_OPERATION_NAME) == "invoke_agent"
    return span.scope.endswith(_OI_LLAMA_INDEX) and _ENGINE.search(span.name) is not None


def _documents(step: Step, gave: Any) -> Documents:
    """Return the documents, their texts empty where the span has ids and scores alone."""
    span = step.span
    # First what was dumped: LangChain's documents have their ids there alone.
    found = texts.documents(gave)
    if found is None:
        found = texts.documents(span.parsed(names.GENAI_RETRIEVAL_DOCUMENTS), are_stubs=True)
    if found is not None or names.OI_SPAN_KIND not in span.attributes:
        return found
    prefix = "retrieval.documents." if step.role == "retriever" else "reranker.output_documents."
    listed = [
        {**fields, "metadata": parsed(str(fields.get("metadata", "")))}
        for fields in numbered(span.attributes, prefix, ".document.")
    ]
    if not listed:
        # A list of documents that is not said tells nothing; a reranker then has left none.
        return None if step.role == "retriever" else ()
    return texts.documents(listed) if span.is_whole else None


def _prompt(span: SpanRecord, asked: tuple[Message, ...], given: Any) -> tuple[Message, ...]:
    prompts = span.attributes.get("llm.prompts")
    if not asked and isinstance(prompts, list | tuple):  # of completions, by OpenInference
        asked = texts.messages([("user", str(each)) for each in prompts if each != REDACTED])
    if not asked and isinstance(given, Mapping):  # of LlamaIndex's calls, by OpenLLMetry
        args = given.get("args")
        if isinstance(args, list) and args and isinstance(args[0], str):
            asked = texts.messages([("user", args[0])])
        else:
            asked = texts.messages(given.get("messages"))
    # Where some have been dropped, what stands in the rest tells too little.
    if not (asked and (span.is_whole or names.GENAI_INPUT_MESSAGES in span.attributes)):
        return ()
    system = content_text(span.parsed(_SYSTEM))
    return (Message(role="system", text=system), *asked) if system else asked


def _labels(span: SpanRecord, given: Any) -> dict[str, Any]:
    """Return metadata and tags, by OpenLLMetry association properties and what it dumps."""
    metadata = span.parsed(names.OI_METADATA)
    metadata = metadata if isinstance(metadata, Mapping) else {}
    tags = span.attributes.get(names.OI_TAGS)
    if tags is None and isinstance(given, Mapping) and "inputs" in given:
        tags = given.get("tags")
    labels = labels_of({**metadata, **under(span.attributes, _PROPERTY)}, tags)
    own, talk = span.text(names.OI_SESSION_ID), span.text(names.GENAI_CONVERSATION_ID)
    labels["session_id"] = own or labels["session_id"] or talk
    labels["user_id"] = span.text(names.OI_USER_ID) or labels["user_id"]
    if version := span.text("llm.prompt_template.version"):
        labels["attributes"]["prompt_version"] = version
    return labels


def _messages(span: SpanRecord, side: Side) -> tuple[Message, ...]:
    """Return the messages that a model was sent, or said, those without text left out."""
    attribute, *prefixes = _MESSAGES[side]
    if attribute in span.attributes:
        return texts.messages(span.parsed(attribute))
    listed = [
        {"role": fields.get("role", "user"), "content": texts.parts_in(content)}
        for fields in numbered(span.attributes, prefixes[0])
        if isinstance(content := fields.get("content"), str)
    ]
    for fields in numbered(span.attributes, prefixes[1], ".message."):
        # One content, or parts, of which one is its reasoning where a model reasons.
        parts = numbered(fields, "contents.", ".message_content.")
        content = [fields.get("content"), *parts]
        listed.append({"role": fields.get("role", "user"), "content": content})
    return texts.messages(listed)
