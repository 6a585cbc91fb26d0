"""Tells which of LlamaIndex's spans matter: of ten to twelve per query, three or four do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.llms.llm import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.prompts.prompt_type import PromptType
from llama_index.core.response_synthesizers.base import BaseSynthesizer
from llama_index.core.tools.types import BaseTool
from workflows import Workflow


class Role(IntEnum):
    """The role of a span in an interaction."""

    OTHER = 0
    """Needed for its children's parent only."""
    ENGINE = 1
    """A query or chat engine's public call: it answers a question."""
    WORKFLOW = 2
    """An agent's or a workflow's run."""
    RETRIEVER = 3
    MODEL = 4
    TOOL = 5
    SYNTHESIS = 6
    """A synthesizer's public call: it knows the nodes after postprocessing."""
    WRITER = 7
    """The function that drains a streaming chat's model into the chat history."""
    RERANKER = 8
    """A postprocessor: the models in it see nodes that the one that answers may not see."""
    ASKING = 9
    """A prompt on its way to a model: of an asynchronous reranker, whose own call is no span."""


_CHAT = ("chat", "achat", "stream_chat", "astream_chat")
_ROLES: tuple[tuple[type, tuple[str, ...], Role], ...] = (
    (BaseQueryEngine, ("query", "aquery"), Role.ENGINE),
    (BaseChatEngine, _CHAT, Role.ENGINE),
    (Workflow, ("run",), Role.WORKFLOW),
    (BaseRetriever, ("retrieve", "aretrieve"), Role.RETRIEVER),
    # Not `predict` and `stream`, which call these.
    (
        BaseLLM,
        (*_CHAT, "complete", "acomplete", "stream_complete", "astream_complete"),
        Role.MODEL,
    ),
    (BaseTool, ("call", "acall", "__call__"), Role.TOOL),
    (BaseSynthesizer, ("synthesize", "asynthesize"), Role.SYNTHESIS),
    (
        StreamingAgentChatResponse,
        ("write_response_to_history", "awrite_response_to_history"),
        Role.WRITER,
    ),
    (BaseNodePostprocessor, ("_postprocess_nodes", "_apostprocess_nodes"), Role.RERANKER),
    (LLM, ("apredict", "astructured_predict"), Role.ASKING),
)

UUID_LENGTH = 37
"""The length of the end of a span id: a dash and a UUID; before it stands `Class.method`."""


def role_of(id_: str, instance: Any) -> Role:
    """Return the role of a span, from its id (`Class.method-uuid`) and the object it was called on.

    By class and not by name alone: an application's own `Agent.run` need not be a workflow.
    """
    kind = type(instance)
    return _classified(kind, id_[:-UUID_LENGTH])  # type: ignore[arg-type]  # a class has a hash


@lru_cache(maxsize=4096)
def _classified(kind: type, called: str) -> Role:
    method = called.rpartition(".")[2]
    roles = (r for base, names, r in _ROLES if method in names and issubclass(kind, base))
    return next(roles, Role.OTHER)


def reranks(arguments: Mapping[str, Any]) -> bool:
    """Return whether this prompt asks for a choice among nodes, and not for an answer."""
    metadata = getattr(arguments.get("prompt"), "metadata", None)
    return isinstance(metadata, Mapping) and (
        metadata.get("prompt_type") == PromptType.CHOICE_SELECT
    )
