"""A small application of real LlamaIndex parts, for `ragmonitor demo`.

Nothing here reads or changes LlamaIndex's global
`Settings`, loads its tokenizer files, or reaches for the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.prompt_helper import ChatPromptHelper, PromptHelper
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index_instrumentation.dispatcher import instrument_tags

from ragmonitor import Chunk
from ragmonitor_llama_index.handler import instrument, uninstrument

_WINDOW = 1_000_000_000
"""Tokens; so large that no context is ever cut or spread over several model calls."""


class _ScriptedLLM(CustomLLM):
    """A model that is a function from prompt to reply."""

    respond: Callable[[str], str]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=_WINDOW, num_output=256, model_name="scripted")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:  # noqa: ARG002
        return CompletionResponse(text=self.respond(prompt))

    @llm_completion_callback()
    def stream_complete(
        self,
        prompt: str,
        formatted: bool = False,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> CompletionResponseGen:
        def pieces() -> CompletionResponseGen:
            text = ""
            for piece in re.findall(r"\s*\S+\s*|\s+", self.respond(prompt)):
                text += piece
                yield CompletionResponse(text=text, delta=piece)

        return pieces()


class _FunctionRetriever(BaseRetriever):
    """A retriever that is a function from question to chunks."""

    def __init__(self, search: Callable[[str], Sequence[Chunk]]) -> None:
        super().__init__(callback_manager=CallbackManager([]))
        self._search = search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=each.id, text=each.text, metadata=dict(each.metadata)),
                score=each.score,
            )
            for each in self._search(query_bundle.query_str)
        ]


def _engine(
    retriever: BaseRetriever,
    llm: _ScriptedLLM,
    *,
    template: PromptTemplate | None = None,
    streaming: bool = False,
) -> RetrieverQueryEngine:
    callbacks = CallbackManager([])
    synthesizer = CompactAndRefine(
        llm=llm,
        callback_manager=callbacks,
        text_qa_template=template,
        prompt_helper=PromptHelper(context_window=_WINDOW, tokenizer=str.split),
        chat_prompt_helper=ChatPromptHelper(context_window=_WINDOW, tokenizer=str.split),
        streaming=streaming,
    )
    return RetrieverQueryEngine(
        retriever=retriever, response_synthesizer=synthesizer, callback_manager=callbacks
    )


def _text(response: object) -> str:
    return (response.response or "") if isinstance(response, Response) else str(response)


class LlamaIndexApplication:
    """A RAG application of LlamaIndex's own parts: retriever, synthesizer, query engine."""

    def __init__(
        self, retriever: BaseRetriever, llm: _ScriptedLLM, template: PromptTemplate
    ) -> None:
        self.attributes: Mapping[str, str] = {}
        self._engine = _engine(retriever, llm, template=template)
        self._streaming = _engine(retriever, llm, template=template, streaming=True)

    def ask(self, query: str) -> str:
        """Return the answer."""
        with instrument_tags(dict(self.attributes)):
            return _text(self._engine.query(query))

    def stream(self, query: str) -> Iterator[str]:
        """Yield the answer piece by piece."""
        with instrument_tags(dict(self.attributes)):
            response = self._streaming.query(query)
            if isinstance(response, StreamingResponse):
                yield from response.response_gen

    async def aask(self, query: str) -> str:
        """Return the answer, asynchronously."""
        with instrument_tags(dict(self.attributes)):
            return _text(await self._engine.aquery(query))


class LlamaIndexDriver:
    """Drives LlamaIndex for `ragmonitor demo`."""

    framework = "llama_index"
    instrument = staticmethod(instrument)
    uninstrument = staticmethod(uninstrument)

    def application(
        self,
        search: Callable[[str], Sequence[Chunk]],
        prompt: str,
        respond: Callable[[str], str],
    ) -> LlamaIndexApplication:
        """Return an application of a retriever, a prompt and a model.

        Args:
            search: From a question to chunks, best first.
            prompt: Contains {context} and {question}.
            respond: The model: from the whole prompt to its reply.
        """
        template = PromptTemplate(
            prompt, template_var_mappings={"context_str": "context", "query_str": "question"}
        )
        llm = _ScriptedLLM(respond=respond, callback_manager=CallbackManager([]))
        return LlamaIndexApplication(_FunctionRetriever(search), llm, template)
