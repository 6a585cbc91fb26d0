"""A LlamaIndex chat engine over an index: `python llama_index_chat.py`."""

from __future__ import annotations

from typing import Any

from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.core.llms import CompletionResponse, MockLLM
from llama_index_instrumentation.dispatcher import instrument_tags

from ragmonitor import Monitor
from ragmonitor_llama_index import instrument

ANSWERS = iter(
    [
        "The warranty lasts two years.",
        "It covers the battery. Water damage is covered as well.",
    ]
)


class Scripted(MockLLM):
    """Yours: `OpenAI(model=...)`, `Ollama(...)`."""

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Say the next answer."""
        return CompletionResponse(text=next(ANSWERS))


monitor = Monitor(service="warranty-chat")
instrument(monitor)
index = VectorStoreIndex.from_documents(
    [
        Document(text="The warranty lasts two years.", metadata={"file_name": "terms.pdf"}),
        Document(text="It covers the battery.", metadata={"file_name": "terms.pdf"}),
    ],
    embed_model=MockEmbedding(embed_dim=8),
)
chat = index.as_chat_engine(chat_mode="context", llm=Scripted(), similarity_top_k=2)
with instrument_tags({"session_id": "s-42", "route": "/chat"}):  # LlamaIndex's own tags
    for question in ("How long does the warranty last?", "Does it cover the battery?"):
        print(chat.chat(question))
        print(monitor.last())
monitor.close()
