"""A small application of real LlamaIndex parts, for `ragmonitor demo`.

Nothing here reads or changes LlamaIndex's global
`Settings`, loads its tokenizer files, or reaches for the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.base.response.schema import Response, StreamingResponse
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.prompt_helper import ChatPromptHelper, PromptHelper
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.prompts import PromptTemplate
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import CompactAndRefine
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document
from llama_index_instrumentation.dispatcher import instrument_tags

from ragmonitor_llama_index.handler import instrument, uninstrument

if TYPE_CHECKING:
    from ragmonitor import Monitor

_WINDOW = 1_000_000_000
"""Tokens; so large that no context is ever cut or spread over several model calls."""

_tokens = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]").findall
_sentences = re.compile(r"(?s).+?(?:[.!?]+\s+|[。！？]+|\Z)").findall


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


class _FunctionEmbedding(BaseEmbedding):
    """An embedding model that is a function from text to vector."""

    embed: Callable[[str], list[float]]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.embed(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self.embed(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.embed(text)


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
    """A RAG application of LlamaIndex's own parts: splitter, vector index, query engine."""

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

    def instrument(self, monitor: Monitor) -> None:
        """Record what runs from now on."""
        instrument(monitor)

    def uninstrument(self) -> None:
        """Record nothing new."""
        uninstrument()

    def application(
        self,
        documents: Mapping[str, str],
        prompt: str,
        respond: Callable[[str], str],
        embed: Callable[[str], list[float]],
    ) -> LlamaIndexApplication:
        """Return an application over these documents.

        Args:
            documents: Text by id.
            prompt: Contains {context} and {question}.
            respond: The model: from the whole prompt to its reply.
            embed: The embedding model: from a text to its vector.
        """
        callbacks = CallbackManager([])
        splitter = SentenceSplitter(
            chunk_size=256,
            chunk_overlap=32,
            tokenizer=_tokens,
            chunking_tokenizer_fn=_sentences,
            callback_manager=callbacks,
        )
        index = VectorStoreIndex.from_documents(
            [
                Document(id_=id_, text=text, metadata={"source": id_})
                for id_, text in documents.items()
            ],
            transformations=[splitter],
            embed_model=_FunctionEmbedding(embed=embed, callback_manager=callbacks),
            callback_manager=callbacks,
        )
        template = PromptTemplate(
            prompt, template_var_mappings={"context_str": "context", "query_str": "question"}
        )
        llm = _ScriptedLLM(respond=respond, callback_manager=callbacks)
        return LlamaIndexApplication(index.as_retriever(similarity_top_k=4), llm, template)
