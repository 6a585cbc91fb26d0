"""Translates LlamaIndex's objects into records.

The functions that `note_` something run inside the application's request: they keep references to
texts, which nobody can change, and copies of the small rest. `LlamaIndexTranslator` runs behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    TextBlock,
)
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeWithScore,
    TextNode,
)
from pydantic import BaseModel
from workflows.events import Event, StopEvent

from ragmonitor import Chunk
from ragmonitor.integration import (
    ANSWER_KEYS,
    KeptDocuments,
    Message,
    Run,
    Usage,
    answer_in,
    finish_reason_of,
    holds,
    labels_of,
    member_in,
    question_in,
    record_error,
    usage_of,
)
from ragmonitor_llama_index.roles import Role


class NotedReply(NamedTuple):
    """A model run's reply, copied at its end."""

    text: str
    raw: Any
    """The provider's own response, for its token counts."""
    extra: Any
    """`additional_kwargs`, in which other providers count tokens."""


@dataclass(slots=True, eq=False)
class Note:
    """Notes on a run, over its whole life: its `details`."""

    role: Role
    instance: Any = None
    """The model, by which a stream is told from its own inner calls."""
    inner: NotedReply | None = None
    """The reply within a structured model's call, which drops it."""
    answered: bool = False
    """Whether an engine in this tool is an interaction of its own, whose answer is no retrieval."""
    tags: Mapping[str, Any] | None = None
    """A root's."""
    shown: KeptDocuments | None = None
    """The nodes that a root's model was shown; None if the result does not name them."""


def note_nodes(nodes: Iterable[Any]) -> KeptDocuments:
    """Return a copy of nodes: the application may rerank, cut or annotate them later."""
    noted = KeptDocuments()
    for item in nodes:
        if type(item) is NodeWithScore:
            # Pydantic's attributes cost several times a dict's items, and there are many of them.
            fields = item.__dict__
            node, score = fields["node"], fields["score"]
            if type(node) is TextNode:
                fields = node.__dict__
                noted.append((fields["id_"], fields["text"], dict(fields["metadata"]), score))
                continue
        else:
            node, score = (
                (item.node, item.score) if isinstance(item, NodeWithScore) else (item, None)
            )
        # Nodes may be of the application's own classes: one that cannot be read costs no other.
        try:
            noted.append((node.id_, _text_of(node), dict(node.metadata), score))
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)
            noted.append(("", None, {}, score))
    return noted


_MEDIA = (
    *("image_resource", "audio_resource", "video_resource"),
    *("image", "image_path", "image_url"),
)


def _text_of(node: Any) -> str | None:
    text: str | None = (
        node.text
        if type(node).get_content is TextNode.get_content
        else node.get_content(metadata_mode=MetadataMode.NONE)
    )
    is_media = not text and any(getattr(node, name, None) is not None for name in _MEDIA)
    return None if is_media else text


def note_prompt(arguments: Mapping[str, Any]) -> Any:
    """Return what a model was asked: a text, or a copy of the list of messages."""
    name, asked = next(iter(arguments.items()), ("", None))
    # LlamaIndex's decorators hide a completion model's own parameters behind these two.
    if name == "args" and isinstance(asked, tuple):
        asked = asked[0] if asked else None
    elif name == "kwargs" and isinstance(asked, dict):
        asked = asked.get("messages", asked.get("prompt"))
    if isinstance(asked, (list, tuple)):
        return (*asked,)
    return asked if isinstance(asked, str) else None


def note_stop_event(event: Any) -> Any:
    """Return the result in a workflow's stop event: its own, or the field that reads like one."""
    if not isinstance(event, StopEvent):
        return event
    if type(event) is StopEvent:
        return event.result
    fields = (event.get(field, None) for field in ("response", "answer", "result", "output"))
    return next((value for value in fields if value is not None), event)


def note_reply(response: Any) -> NotedReply | None:
    """Return a copy of a `ChatResponse` or `CompletionResponse`."""
    if response is None:
        return None
    # By type first: `isinstance` of another pydantic class is Python code, and slow.
    if type(response) is not CompletionResponse and isinstance(response, ChatResponse):
        blocks = response.message.blocks
        text = (
            blocks[0].text
            if len(blocks) == 1 and isinstance(blocks[0], TextBlock)
            else response.message.content or ""
        )
    else:
        text = getattr(response, "text", "")
    return NotedReply(text, getattr(response, "raw", None), response.additional_kwargs)


_SAID = (ChatMessage, ChatResponse, CompletionResponse, Event)


def _structured(value: Any) -> str:
    """Return the JSON of an answer that is an object of fields; empty: there is none.

    Nor is what holds nodes: their texts are no answer.
    """
    given = (value, *(member_in(value, key) for key in ANSWER_KEYS))
    found = (each for each in given if isinstance(each, BaseModel) and not isinstance(each, _SAID))
    answer = next(found, None)
    if answer is None or holds(answer, NodeWithScore, BaseNode):
        return ""
    return answer.model_dump_json()


def note_sources(result: Any) -> list[Any]:
    """Return the source nodes that a result names; empty if it names none."""
    nodes = getattr(result, "source_nodes", None)
    return nodes if isinstance(nodes, list) else []


def note_tool_nodes(output: Any) -> Sequence[Any]:
    """Return the nodes that a tool retrieved, with a retriever of LlamaIndex's or without."""
    raw = getattr(output, "raw_output", None)
    if isinstance(raw, (NodeWithScore, BaseNode)):
        return (raw,)
    if isinstance(raw, list):
        return raw if raw and isinstance(raw[0], (NodeWithScore, BaseNode)) else ()
    return note_sources(raw)


def tags_in(tags: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the list of tags among what `instrument_tags` says; None: there is none."""
    listed = tags.get("tags") or tags.get("tag.tags")
    return (*listed,) if isinstance(listed, (list, tuple, set, frozenset)) else None


class LlamaIndexTranslator:
    """Turns the notes on LlamaIndex's spans into records."""

    framework = "llama_index"

    def query(self, run: Run) -> str:
        """Return the question; empty if unknown."""
        return question_in(run.inputs)

    def chunks(self, run: Run) -> Sequence[Chunk]:
        """Return what a retriever or a tool gave, in order."""
        if isinstance(run.outputs, str):  # of a retrieval tool
            return (Chunk(text=run.outputs),) if run.kind == "tool" and run.outputs else ()
        return run.outputs.chunks() if isinstance(run.outputs, KeptDocuments) else ()

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return the chunks that the model saw: after reranking, as the result names them."""
        note = root.details
        if note is None or note.shown is None:
            return None
        # Each once: engines that ask others name what several of them found several times.
        named: dict[Any, Any] = {}
        for node in note.shown:
            if not _is_of_the_model(*node):
                named.setdefault(node[:2], node)
        return KeptDocuments(named.values()).chunks()

    def prompt(self, run: Run) -> Sequence[Message]:
        """Return the messages, or the one text, that a model run was asked."""
        asked = run.inputs
        if isinstance(asked, str):
            return [Message(role="user", text=asked)]
        return [
            Message(role=str(getattr(m.role, "value", m.role)), text=m.content or "")
            for m in asked or ()
            if isinstance(m, ChatMessage)
        ]

    def answer(self, run: Run) -> str:
        """Return the text that a root or a model run gave; empty if unknown."""
        outputs = run.outputs
        if isinstance(outputs, NotedReply):
            return outputs.text or ""
        if run.kind in ("retriever", "tool"):
            return ""
        return answer_in(outputs) or _structured(outputs) or "".join(run.pieces)

    def model(self, run: Run) -> tuple[str, str]:
        """Return (provider, model): from the model's package and its metadata."""
        llm = None if run.details is None else run.details.instance
        if llm is None:
            return "", ""
        modules = (kind.__module__.partition("llama_index.llms.") for kind in type(llm).__mro__)
        package = next((tail for head, _, tail in modules if not head and tail), "")
        try:
            name = llm.metadata.model_name
        except Exception:  # noqa: BLE001 - a model of the application's own may not say
            name = ""
        return package.partition(".")[0], name if name != "unknown" else ""

    def usage(self, run: Run) -> Usage:
        """Return the tokens that the provider counted, wherever it wrote them."""
        reply = run.outputs
        if not isinstance(reply, NotedReply):
            return Usage()
        places = (
            member_in(reply.raw, "usage"),
            member_in(reply.raw, "usage_metadata"),
            member_in(member_in(reply.raw, "meta"), "tokens"),  # Cohere
            reply.extra,
            member_in(reply.extra, "usage"),
            reply.raw,
        )
        return next((each for each in map(usage_of, places) if each != Usage()), Usage())

    def finish_reason(self, run: Run) -> str:
        """Return why the model stopped, wherever the provider wrote it."""
        reply = run.outputs
        if not isinstance(reply, NotedReply):
            return ""
        return finish_reason_of(reply.raw) or finish_reason_of(reply.extra)

    def labels(self, root: Run) -> dict[str, Any]:
        """Return session, user and tags of `instrument_tags`, and the rest as attributes."""
        note = root.details
        if note is None:
            return {}
        tags = note.tags or {}
        labels = labels_of(tags, tags_in(tags))
        noted = [note.shown] + [run.outputs for run in root.root.members if run.has_retrieved]
        labels["capture_incomplete"] = any(
            text is None
            for each in noted
            if isinstance(each, KeptDocuments)
            for _, text, *_ in each
        )
        return labels


def _is_of_the_model(_id: Any, text: str | None, metadata: Any, score: Any) -> bool:
    """Return whether an engine made this node of a question that it asked another, and its answer.

    `SubQuestionQueryEngine` and `MultiStepQueryEngine` put these before the nodes that were found:
    models' words, and nothing that was retrieved.
    """
    if text is None or score is not None or metadata:
        return False
    return (text.startswith("Sub question: ") and "\nResponse: " in text) or (
        text.startswith("\nQuestion: ") and "\nAnswer: " in text
    )
