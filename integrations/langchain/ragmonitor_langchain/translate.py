"""Translates LangChain's objects into our records.

`keep` and `kept_in` run in the application's request and only copy references; everything
else runs behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.prompt_values import PromptValue
from pydantic import BaseModel

from ragmonitor import Chunk
from ragmonitor.integration import (
    ANSWER_KEYS,
    KeptDocuments,
    Message,
    Root,
    Run,
    Usage,
    answer_in,
    calls_tools,
    content_text,
    documents_in,
    finish_reason_of,
    holds,
    is_most_of,
    json_of,
    labels_of,
    member_in,
    message_of,
    parsed_in,
    part_text,
    question_in,
    usage_of,
    values_in,
)

_STATE_KEYS = ("question", "query", "input", "user_input", "messages")
_SHOWN_KEYS = ("context", "source_documents", "documents", "docs")


def kept_in(value: Any, *, texts: bool = False) -> KeptDocuments | None:
    """Return a copy of the documents in any container of them; None: there are none."""
    if type(value) is list and all(type(item) is Document for item in value):
        return KeptDocuments([(d.id, d.page_content, dict(d.metadata), None) for d in value])
    found = documents_in(value, texts=texts)
    if found is None:
        return None
    return KeptDocuments([(c.id, c.text, dict(c.metadata), c.score) for c in found])


def keep(value: Any) -> Any:
    """Return a root's input or output with its dicts and lists copied, documents included."""
    if isinstance(value, dict):
        return {key: _keep_item(item) for key, item in value.items()}
    return _keep_item(value)


def _keep_item(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        found = kept_in(value) if value and not isinstance(value[0], (str, BaseMessage)) else None
        return found or (value.copy() if isinstance(value, list) else value)
    if isinstance(value, dict):
        return value.copy()
    return value


class LastPiece(NamedTuple):
    """The last piece of a stream whose pieces LangChain cannot add up, plain dicts for one.

    It reports that piece as the output. Of a stream of one piece it is the whole.
    """

    value: Any


def named_documents(kept: Any) -> KeptDocuments | None:
    """Return the documents that a root's output, as `keep` returned it, names as its context."""
    if type(kept) is LastPiece:
        kept = kept.value
    if type(kept) is dict:
        for key in _SHOWN_KEYS:
            if type(found := kept.get(key)) is KeptDocuments:
                return found
        for key in _SHOWN_KEYS:
            if key in kept and (found := kept_in(kept[key], texts=True)):
                return found
    return None


def tool_messages(output: Any) -> Sequence[Any]:
    """Return a tool's outputs: a message or a value, or the messages in a graph's command."""
    update = getattr(output, "update", None)
    if isinstance(output, BaseMessage) or not isinstance(update, Mapping):
        return (output,)
    messages = update.get("messages")
    if getattr(output, "goto", None) or not isinstance(messages, list):
        return ()  # it hands over to another agent
    return [each for each in messages if isinstance(each, ToolMessage)]


def tool_text(output: Any) -> str | None:
    """Return the text that a search tool gave; None: it gave none.

    An agent's tool gives a message. One that the application calls by itself gives what it returns:
    a text, or a list of texts, or what a model is shown as JSON.
    """
    if isinstance(output, (str, BaseMessage)):
        return content_text(getattr(output, "content", output)) or None
    is_listed = isinstance(output, (list, tuple, Mapping))
    if not (is_listed or isinstance(output, (int, float, Document, BaseModel))):
        return None  # what it prints as is no text of a search
    if is_listed and not output:
        return None
    texts = map(part_text, output) if isinstance(output, (list, tuple)) else ()
    return "\n".join(filter(None, texts)) or json_of(output)


class LangChainTranslator:
    """Reads the runs that `RagMonitorHandler` noted.

    On a run, `details` is `(tags, metadata, invocation_params)` or None; `inputs` and `outputs` of
    a root are what `keep` returned, the latter perhaps in a `LastPiece`; `outputs` of a retriever
    or tool run is `KeptDocuments`, a tool's text, or None, and `outputs` of a model run is
    LangChain's own `LLMResult`.
    """

    framework = "langchain"

    def query(self, run: Run) -> str:
        """Return the question that a root or a retriever run was given.

        Where it was given none, as a graph that goes on after a pause in another process, its
        state in the end may still hold it.
        """
        asked = run.inputs
        if isinstance(asked, PromptValue):
            asked = asked.to_messages()
        state = {name: member_in(run.outputs, name) for name in _STATE_KEYS}
        return question_in(asked) or question_in(state)

    def chunks(self, run: Run) -> Sequence[Chunk] | None:
        """Return what a retriever or tool run gave, in order; None: it was given that itself."""
        root = getattr(run, "root", None)  # of a run by itself, there is none
        if (
            root is not None
            and run is root.named
            and any(isinstance(member_in(root.inputs, key), KeptDocuments) for key in _SHOWN_KEYS)
        ):
            return None
        if isinstance(run.outputs, str):  # of a retrieval tool
            return [Chunk(text=run.outputs)]
        return run.outputs.chunks() if isinstance(run.outputs, KeptDocuments) else ()

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the documents that stand beside the answer in the root's output.

        `create_retrieval_chain` and most graphs put the model's context there. None: they do not.
        """
        outputs = root.outputs.value if isinstance(root.outputs, LastPiece) else root.outputs
        for key in _SHOWN_KEYS:
            documents = member_in(outputs, key)
            if isinstance(documents, KeptDocuments):
                return documents.chunks()
            if isinstance(documents, list) and not documents:
                return ()
        return None

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return the messages, or the one text, that a model run was asked."""
        asked = (
            message_of(message) if isinstance(message, BaseMessage) else ("user", str(message))
            for message in run.inputs or ()
        )
        return [Message(role=role, text=text) for role, text in asked if text]

    def answer(self, run: Run) -> str:
        """Return the text that a root or a model run gave; of a structured answer its JSON.

        Where no name in a root's output says which text is the answer, it is a model's text in it.
        """
        if isinstance(run.outputs, LLMResult):
            return _generated(run.outputs)
        if isinstance(run.outputs, LastPiece):
            value = run.outputs.value
            answer = answer_in(value)
            if answer and answer in _last_pieces(run):
                # It is a piece and not the whole, which only the models' own pieces tell.
                return ""
        else:
            value = run.outputs
            answer = answer_in(value) or _written(run, value)
        return answer or _structured(run, value) or _argument(value)

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model) of a model run."""
        _, metadata, invocation = run.details or (None, None, None)
        metadata, invocation = metadata or {}, invocation or {}
        replies = (message.response_metadata for message in _messages_of(run.outputs))
        replied = next(filter(None, replies), {})
        named = metadata.get("ls_model_name"), invocation.get("model"), invocation.get("model_name")
        model = _first_text(*named, replied.get("model_name"), replied.get("model"))
        provider = _first_text(metadata.get("ls_provider"), replied.get("model_provider"))
        return provider, model

    def usage(self, run: Run) -> Usage:
        """Return the tokens that a model run used, as its provider counted them."""
        messages = _messages_of(run.outputs)
        counts = [getattr(message, "usage_metadata", None) for message in messages]
        reports = [message.response_metadata for message in messages]
        if isinstance(run.outputs, LLMResult):
            reports.insert(0, run.outputs.llm_output or {})
        counts += [report.get(key) for report in reports for key in ("token_usage", "usage")]
        return next((usage_of(each) for each in counts if each), Usage())

    def finish_reason(self, run: Run) -> str:
        """Return why the model stopped, in its provider's words."""
        if not isinstance(run.outputs, LLMResult):
            return ""
        infos = [each.generation_info for batch in run.outputs.generations for each in batch]
        infos += [message.response_metadata for message in _messages_of(run.outputs)]
        return next((reason for each in infos if (reason := finish_reason_of(each))), "")

    def labels(self, root: Run) -> dict[str, Any]:
        """Return session, user, tags and the application's own metadata."""
        tags, metadata, _ = root.details or (None, None, None)
        return labels_of(metadata or {}, tags)


def _last_pieces(root: Run) -> list[str]:
    """Return the last piece of each of the root's models that gave more than one."""
    pieces = (
        [piece for piece in run.pieces if piece] for run in _members_of(root) if run.kind == "model"
    )
    return [each[-1] for each in pieces if len(each) > 1]


def _written(run: Run, value: Any) -> str:
    """Return the longest text in a root's output that a model wrote over what was retrieved.

    It may have got something around it, such as a list of sources. What a model said when it called
    a tool is left out.
    """
    if value is None or not isinstance(run, Root):
        return ""
    began = min((each.started_ns for each in run.members if each.has_retrieved), default=0)
    texts = [*_texts_in(value)]
    written = [
        _generated(each.outputs).strip()
        for each in run.members[-_MAX_MODELS:]
        if each.is_generation and each.started_ns >= began and not _is_call(each.outputs)
    ]
    written.sort(key=len, reverse=True)
    return next((each for each in written if any(is_most_of(each, text) for text in texts)), "")


def _is_call(reply: Any) -> bool:
    return not isinstance(reply, LLMResult) or any(map(calls_tools, _messages_of(reply)))


_MAX_MODELS = 100
"""Of one root; no more are looked for in its output."""


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a root's output, but for documents."""
    for each in values_in(value, leaves=_LEAVES):
        if isinstance(each, str) and each:
            yield str(each)
        elif isinstance(each, BaseMessage) and (text := content_text(each.content)):
            yield text


_LEAVES = (KeptDocuments, Document, BaseMessage)


def _structured(run: Run, value: Any) -> str:
    """Return the JSON of an answer that is no text: what a model called a function with.

    An object that holds documents is none: their texts are no answer.
    """
    given = [value, *(member_in(value, key) for key in ANSWER_KEYS)]
    if isinstance(value, Mapping):
        given += [each for each in value.values() if each is not None]  # by the models' calls
    given += [parsed for each in given if (parsed := parsed_in(each)) is not None]
    for each in given:
        if isinstance(each, BaseModel) and not isinstance(each, Serializable):
            return "" if holds(each, KeptDocuments, Document) else json_of(each)
    replies = (m for each in _members_of(run) for m in _messages_of(each.outputs))
    called = [call["args"] for reply in replies for call in getattr(reply, "tool_calls", ())]
    mappings = (each for each in given if isinstance(each, Mapping))
    if answer := next((json_of(each) for each in mappings if each in called), ""):
        return answer
    texts = {*_texts_in(value)}
    said = (v for args in called for v in args.values() if isinstance(v, str) and v in texts)
    return max(said, key=len, default="")


def _argument(value: Any) -> str:
    """Return the answer in the arguments of the tool that a model was made to call at last."""
    messages = [value, *(member_in(value, key) for key in ANSWER_KEYS)]
    calls = next((m.tool_calls for m in messages if isinstance(m, AIMessage) and m.tool_calls), ())
    args = calls[-1]["args"] if calls else {}
    return next((text for key in ANSWER_KEYS if isinstance(text := args.get(key), str)), "")


def _members_of(run: Run) -> Sequence[Run]:
    return run.members if isinstance(run, Root) else ()


def _generated(result: LLMResult) -> str:
    for generation in result.generations:
        for candidate in generation:
            message = getattr(candidate, "message", None)
            text = (
                content_text(message.content)
                if isinstance(message, BaseMessage)
                else candidate.text
            )
            if text:
                return text
    return ""


def _messages_of(result: Any) -> list[BaseMessage]:
    if not isinstance(result, LLMResult):
        return []
    messages = (
        getattr(c, "message", None) for generation in result.generations for c in generation
    )
    return [message for message in messages if isinstance(message, BaseMessage)]


def _first_text(*values: Any) -> str:
    # What an object of the application's own prints as may be as long as it likes.
    return next((str(v) for v in values if isinstance(v, (str, int, float, UUID)) and v != ""), "")
