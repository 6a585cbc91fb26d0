"""A LlamaIndex application, as `ragmonitor gate --callable llama_index_shop:ask` asks it."""

from __future__ import annotations

from typing import Any

from llama_index.core import Document, PromptTemplate, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, MockLLM
from shop_documents import documents, quoted, vector


class WordVectors(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        # LlamaIndex puts a document's metadata before its text.
        return vector(text.rpartition("\n\n")[2])

    def _get_query_embedding(self, query: str) -> list[float]:
        return vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vector(query)


class Quoting(MockLLM):
    """Yours: `OpenAI(model=...)`, `Ollama(...)`."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        context, _, question = prompt.rpartition("\n\nQuestion: ")
        return CompletionResponse(text=quoted(question, context))


PROMPT = PromptTemplate("{context_str}\n\nQuestion: {query_str}")


def ask(question: str) -> dict[str, Any]:
    """Answer a question, and say from what."""
    pages = [
        Document(text=text, metadata={"file_name": name}) for name, text in documents().items()
    ]
    index = VectorStoreIndex.from_documents(pages, embed_model=WordVectors())
    engine = index.as_query_engine(llm=Quoting(), similarity_top_k=2, text_qa_template=PROMPT)
    response = engine.query(question)
    return {"answer": str(response), "chunks": response.source_nodes}
