"""LangChain applications around any search and any model, for `ragmonitor demo`."""

# ruff: noqa: ARG002 - LangChain's signatures

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from ragmonitor import Chunk
from ragmonitor_langchain.handler import instrument, uninstrument

_PIECE = re.compile(r"\S+\s*|\s+")


class AnsweringModel(BaseChatModel):
    """A chat model whose replies are a function of the prompt's text; it streams word by word.

    Tokens are counted as words, so that usage is there and nobody takes it for a provider's bill.
    """

    respond: Callable[[str], str]
    model: str = "answering"

    @property
    def _llm_type(self) -> str:
        return "ragmonitor-answering"

    def _generate(self, messages: list[BaseMessage], *_: Any, **options: Any) -> ChatResult:
        return generate_from_stream(AnsweringModel._stream(self, messages))

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        prompt = "\n\n".join(str(message.text) for message in messages)
        reply = self.respond(prompt)
        for piece in _PIECE.findall(reply):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        n, m = len(prompt.split()), len(reply.split())
        usage = UsageMetadata(input_tokens=n, output_tokens=m, total_tokens=n + m)
        yield ChatGenerationChunk(message=AIMessageChunk(content="", usage_metadata=usage))


class FunctionRetriever(BaseRetriever):
    """Retrieves with a function."""

    search: Callable[[str], Sequence[Chunk]]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [
            Document(page_content=each.text, id=each.id, metadata=dict(each.metadata))
            for each in self.search(query)
        ]


def _joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


class LangChainDriver:
    """Builds LangChain applications for the demo."""

    instrument = staticmethod(instrument)
    uninstrument = staticmethod(uninstrument)

    def application(
        self,
        search: Callable[[str], Sequence[Chunk]],
        prompt: str,
        respond: Callable[[str], str],
    ) -> Callable[[str, Mapping[str, str]], Iterator[str]]:
        """Return an application of LangChain's own parts: retriever, prompt, model, parser.

        It gives the answer to a question in pieces, and hands attributes on as metadata.

        Args:
            search: From a question to chunks, best first.
            prompt: Template with `{context}` and `{question}`.
            respond: From the prompt's text to the model's reply.
        """
        chain: Runnable[str, str] = (
            {
                "context": FunctionRetriever(search=search) | _joined,
                "question": RunnablePassthrough(),
            }
            | ChatPromptTemplate.from_template(prompt)
            | AnsweringModel(respond=respond, model="demo")
            | StrOutputParser()
        )
        return lambda query, attributes: chain.stream(query, config={"metadata": dict(attributes)})
