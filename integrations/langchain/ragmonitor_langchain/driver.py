"""LangChain applications around any text source, for `ragmonitor demo`."""

# ruff: noqa: ARG002 - LangChain's signatures

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from ragmonitor.integration import MissingExtraError
from ragmonitor_langchain.handler import instrument, uninstrument

if TYPE_CHECKING:
    from ragmonitor import Monitor

_CHUNK_SIZE = 600
_CHUNK_OVERLAP = 80
_CHUNKS_SHOWN = 4
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

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        prompt, reply = self._reply(messages)
        message = AIMessage(content=reply, usage_metadata=_usage(prompt, reply))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        prompt, reply = self._reply(messages)
        for piece in _PIECE.findall(reply):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        last = AIMessageChunk(content="", usage_metadata=_usage(prompt, reply))
        yield ChatGenerationChunk(message=last)

    def _reply(self, messages: list[BaseMessage]) -> tuple[str, str]:
        prompt = "\n\n".join(str(message.text) for message in messages)
        return prompt, self.respond(prompt)


def _usage(prompt: str, reply: str) -> UsageMetadata:
    inputs, outputs = len(prompt.split()), len(reply.split())
    return UsageMetadata(input_tokens=inputs, output_tokens=outputs, total_tokens=inputs + outputs)


class FunctionEmbeddings(Embeddings):
    """Embeds with a function."""

    def __init__(self, embed: Callable[[str], list[float]]) -> None:
        self._embed = embed

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self._embed(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the text's vector."""
        return self._embed(text)


class LangChainApplication:
    """A RAG application of LangChain's own parts: retriever, prompt, model, parser."""

    def __init__(self, retriever: BaseRetriever, prompt: str, model: BaseChatModel) -> None:
        self._chain: Runnable[str, str] = (
            {"context": retriever | _joined, "question": RunnablePassthrough()}
            | ChatPromptTemplate.from_template(prompt)
            | model
            | StrOutputParser()
        )
        self.attributes: Mapping[str, str] = {}

    def ask(self, query: str) -> str:
        """Return the answer."""
        return self._chain.invoke(query, config={"metadata": dict(self.attributes)})

    def stream(self, query: str) -> Iterator[str]:
        """Return the answer in pieces."""
        return self._chain.stream(query, config={"metadata": dict(self.attributes)})

    async def aask(self, query: str) -> str:
        """Return the answer."""
        return await self._chain.ainvoke(query, config={"metadata": dict(self.attributes)})


def _joined(documents: list[Document]) -> str:
    return "\n\n".join(document.page_content for document in documents)


class LangChainDriver:
    """Builds LangChain applications for the demo."""

    framework = "langchain"

    def instrument(self, monitor: Monitor) -> None:
        """Observe every LangChain call of this process."""
        instrument(monitor)

    def uninstrument(self) -> None:
        """Stop observing."""
        uninstrument()

    def application(
        self,
        documents: Mapping[str, str],
        prompt: str,
        respond: Callable[[str], str],
        embed: Callable[[str], list[float]],
    ) -> LangChainApplication:
        """Return an application over these documents.

        Args:
            documents: Text by name; split, embedded and kept in memory.
            prompt: Template with `{context}` and `{question}`.
            respond: From the prompt's text to the model's reply.
            embed: From a text to its vector, of one length for all texts.

        Raises:
            MissingExtraError: `langchain-text-splitters` or `numpy` is not installed.
        """
        try:
            import numpy  # noqa: F401, ICN001 - else the store says so at the first question
            from langchain_core.vectorstores import InMemoryVectorStore
            from langchain_text_splitters import RecursiveCharacterTextSplitter
        except ImportError as error:
            raise MissingExtraError(error.name or str(error), "demo") from error

        splitter = RecursiveCharacterTextSplitter(
            chunk_size=_CHUNK_SIZE, chunk_overlap=_CHUNK_OVERLAP
        )
        pieces = [
            Document(page_content=text, id=f"{name}#{position}", metadata={"source": name})
            for name, whole in documents.items()
            for position, text in enumerate(splitter.split_text(whole))
        ]
        store = InMemoryVectorStore(FunctionEmbeddings(embed))
        store.add_documents(pieces)
        return LangChainApplication(
            store.as_retriever(search_kwargs={"k": _CHUNKS_SHOWN}),
            prompt,
            AnsweringModel(respond=respond, model="demo"),
        )
