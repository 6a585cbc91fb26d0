"""A LangChain application, as `ragmonitor gate --callable langchain_shop:ask` asks it."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models.chat_models import SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from shop_documents import documents, quoted, vector


class WordVectors(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return vector(text)


class Quoting(SimpleChatModel):
    """Yours: `init_chat_model("openai:gpt-4o-mini")`."""

    @property
    def _llm_type(self) -> str:
        return "quoting"

    def _call(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> str:
        context, _, question = str(messages[-1].content).rpartition("\n\nQuestion: ")
        return quoted(question, context)


PROMPT = ChatPromptTemplate.from_template("{context}\n\nQuestion: {question}")


def joined(found: list[Document]) -> str:
    return "\n".join(each.page_content for each in found)


def ask(question: str) -> dict[str, Any]:
    """Answer a question, and say from what."""
    store = InMemoryVectorStore(WordVectors())
    store.add_documents(
        [Document(text, metadata={"source": name}) for name, text in documents().items()]
    )
    found = store.as_retriever(search_kwargs={"k": 2}).invoke(question)
    chain = (
        {"context": RunnableLambda(lambda _: joined(found)), "question": RunnablePassthrough()}
        | PROMPT
        | Quoting()
        | StrOutputParser()
    )
    return {"answer": chain.invoke(question), "chunks": found}
