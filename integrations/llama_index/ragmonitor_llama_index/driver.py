"""A small application of real LlamaIndex parts, for `ragmonitor demo`.

Nothing here reads or changes LlamaIndex's global
`Settings`, loads its tokenizer files, or reaches for the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from llama_index.core.base.llms.types import CompletionResponse, CompletionResponseGen, LLMMetadata
from llama_index.core.base.response.schema import StreamingResponse
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
    def complete(self, prompt: str, *_: Any, **options: Any) -> CompletionResponse:  # noqa: ARG002
        return CompletionResponse(text=self.respond(prompt))

    @llm_completion_callback()
    def stream_complete(
        self,
        prompt: str,
        *_: Any,
        **options: Any,  # noqa: ARG002
    ) -> CompletionResponseGen:
        pieces = re.findall(r"\s*\S+\s*|\s+", self.respond(prompt))
        texts = zip(accumulate(pieces), pieces, strict=True)
        return (CompletionResponse(text=text, delta=piece) for text, piece in texts)


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


class LlamaIndexDriver:
    """Drives LlamaIndex for `ragmonitor demo`."""

    instrument = staticmethod(instrument)
    uninstrument = staticmethod(uninstrument)

    def application(
        self,
        search: Callable[[str], Sequence[Chunk]],
        prompt: str,
        respond: Callable[[str], str],
    ) -> Callable[[str, Mapping[str, str]], Iterator[str]]:
        """Return an application of LlamaIndex's own parts: retriever, synthesizer, query engine.

        It gives the answer to a question in pieces, and hands attributes on as tags.

        Args:
            search: From a question to chunks, best first.
            prompt: Contains {context} and {question}.
            respond: The model: from the whole prompt to its reply.
        """
        callbacks = CallbackManager([])
        template = PromptTemplate(
            prompt, template_var_mappings={"context_str": "context", "query_str": "question"}
        )
        synthesizer = CompactAndRefine(
            llm=_ScriptedLLM(respond=respond, callback_manager=callbacks),
            callback_manager=callbacks,
            text_qa_template=template,
            prompt_helper=PromptHelper(context_window=_WINDOW, tokenizer=str.split),
            chat_prompt_helper=ChatPromptHelper(context_window=_WINDOW, tokenizer=str.split),
            streaming=True,
        )
        engine = RetrieverQueryEngine(
            retriever=_FunctionRetriever(search),
            response_synthesizer=synthesizer,
            callback_manager=callbacks,
        )

        def ask(query: str, attributes: Mapping[str, str]) -> Iterator[str]:
            with instrument_tags(dict(attributes)):
                response = engine.query(query)
                if isinstance(response, StreamingResponse):
                    yield from response.response_gen

        return ask
