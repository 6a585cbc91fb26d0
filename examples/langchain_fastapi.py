"""A LangChain application behind FastAPI, with the page: `uvicorn langchain_fastapi:app`.

http://127.0.0.1:8000/docs asks it a question; http://127.0.0.1:7247/ is the monitor's page.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import BaseModel

from ragmonitor import Monitor, ServerSettings
from ragmonitor_langchain import instrument, uninstrument

DOCUMENTS = [
    Document("Returns are free within 30 days of delivery.", metadata={"source": "returns.md"}),
    Document("Parcels arrive within three working days.", metadata={"source": "delivery.md"}),
]
PROMPT = ChatPromptTemplate.from_template("Answer from the context.\n\n{context}\n\n{question}")


def chat_model() -> BaseChatModel:
    """Return the model that MODEL names (`openai:gpt-4o-mini`), else one with a scripted answer."""
    if name := os.environ.get("MODEL"):
        return init_chat_model(name)
    return FakeListChatModel(
        responses=["Returns are free within 30 days. We also refund customs duty."]
    )


monitor = Monitor(service="shop", service_version="1.4.0", server=ServerSettings(ui=True))
store = InMemoryVectorStore(DeterministicFakeEmbedding(size=64))  # yours: Chroma, pgvector, ...
retriever = store.as_retriever(search_kwargs={"k": 2})
chain = (
    {"context": retriever, "question": RunnablePassthrough()}
    | PROMPT
    | chat_model()
    | StrOutputParser()
)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Attach the monitor; at the end, score and send what still waits."""
    await store.aadd_documents(DOCUMENTS)
    instrument(monitor)
    with monitor:
        yield
    uninstrument()


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    """What a user asks."""

    question: str
    session: str = ""


def config(asked: Question, route: str) -> dict[str, object]:
    """Return what the monitor is to know of the call: numbers are then shown by route, too."""
    return {"metadata": {"session_id": asked.session, "route": route}}


@app.post("/ask")
async def ask(asked: Question) -> dict[str, str]:
    """Answer at once."""
    return {"answer": await chain.ainvoke(asked.question, config(asked, "/ask"))}


@app.post("/stream")
async def stream(asked: Question) -> StreamingResponse:
    """Answer piece by piece; if the client goes away, the status is `partial`."""
    pieces = chain.astream(asked.question, config(asked, "/stream"))
    return StreamingResponse(pieces, media_type="text/plain")
