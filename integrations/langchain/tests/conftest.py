"""A real LangChain with a scripted model and retriever, and a monitor that only listens."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough

from integrations.langchain.tests.matrix import ListeningMonitor
from ragmonitor_langchain import uninstrument
from ragmonitor_langchain.driver import AnsweringModel
from tests.support.waiting import until

ANSWER = "The pump is serviced every six months."


class Notes(BaseRetriever):
    """Finds the same three documents; `found` holds the very objects that were given out."""

    found: list[Document] = []  # noqa: RUF012 - pydantic copies it
    failure: Exception | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.failure is not None:
            raise self.failure
        self.found = [
            Document("Serviced every six months.", id="manual-7", metadata={"score": 0.9}),
            Document("The pump is blue.", id="manual-2", metadata={"relevance_score": 0.5}),
            Document("See page " + query, metadata={"source": "index"}),
        ]
        return self.found


class App:
    """One shape of RAG application: the chain, its input for a question, its output's text."""

    def __init__(self, chain: Any, given: Callable[[str], Any], text: Callable[[Any], str]) -> None:
        self.chain = chain
        self.inputs = given
        self.text = text


def model(answer: str = ANSWER) -> AnsweringModel:
    return AnsweringModel(respond=lambda _: answer, model="scripted-1")


def lcel(retriever: Any = None, llm: Any = None, parser: Any = None) -> App:
    chain: Runnable[Any, Any] = (
        {
            "context": (retriever or Notes()) | (lambda ds: "\n".join(d.page_content for d in ds)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | (llm or model())
        | (parser or StrOutputParser())
    )
    return App(chain, lambda question: question, str)


def retrieval_chain(retriever: Any = None, llm: Any = None) -> App:
    prompt = ChatPromptTemplate.from_template("{context}\n{input}")
    chain = create_retrieval_chain(
        retriever or Notes(), create_stuff_documents_chain(llm or model(), prompt)
    )
    return App(chain, lambda question: {"input": question}, lambda output: output.get("answer", ""))


async def _invoke(app: App, questions: list[str], config: Any) -> list[str]:
    return [app.text(app.chain.invoke(app.inputs(q), config)) for q in questions]


async def _ainvoke(app: App, questions: list[str], config: Any) -> list[str]:
    return [app.text(await app.chain.ainvoke(app.inputs(q), config)) for q in questions]


async def _stream(app: App, questions: list[str], config: Any) -> list[str]:
    return ["".join(map(app.text, app.chain.stream(app.inputs(q), config))) for q in questions]


async def _astream(app: App, questions: list[str], config: Any) -> list[str]:
    return [
        "".join([app.text(piece) async for piece in app.chain.astream(app.inputs(q), config)])
        for q in questions
    ]


async def _batch(app: App, questions: list[str], config: Any) -> list[str]:
    return [app.text(o) for o in app.chain.batch([app.inputs(q) for q in questions], config)]


async def _abatch(app: App, questions: list[str], config: Any) -> list[str]:
    return [app.text(o) for o in await app.chain.abatch([app.inputs(q) for q in questions], config)]


async def _gather(app: App, questions: list[str], config: Any) -> list[str]:
    calls = (app.chain.ainvoke(app.inputs(q), config) for q in questions)
    return [app.text(output) for output in await asyncio.gather(*calls)]


async def _threads(app: App, questions: list[str], config: Any) -> list[str]:
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(app.chain.invoke, app.inputs(q), config) for q in questions]
        return [app.text(call.result()) for call in calls]


Way = Callable[[App, list[str], Any], Awaitable[list[str]]]

WAYS: dict[str, Way] = {
    "invoke": _invoke,
    "ainvoke": _ainvoke,
    "stream": _stream,
    "astream": _astream,
    "batch": _batch,
    "abatch": _abatch,
    "gather": _gather,
    "threads": _threads,
}
APPS: dict[str, Callable[..., App]] = {"lcel": lcel, "retrieval_chain": retrieval_chain}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request: pytest.FixtureRequest) -> Way:
    """One way to call a chain, with several questions."""
    return request.param


@pytest.fixture(params=APPS.values(), ids=APPS.keys())
def build(request: pytest.FixtureRequest) -> Callable[..., App]:
    """One shape of application."""
    return request.param


@pytest.fixture
def listening(caplog: pytest.LogCaptureFixture) -> Callable[..., Any]:
    """Give monitors; after each nothing may be open, and nobody may have been warned."""

    @contextmanager
    def monitors(**choice: Any) -> Iterator[ListeningMonitor]:
        monitor = ListeningMonitor(**choice)
        yield monitor
        uninstrument()
        if monitor.open_runs:
            # A generator that a traceback or a task holds ends its run when it is collected.
            until("no run is open", lambda: gc.collect() >= 0 and not monitor.open_runs, within_s=5)
        assert monitor.open_runs == 0
        watched = ("opentelemetry", "langchain", "langgraph", "ragmonitor")
        warned = [
            record.getMessage()
            for when in ("setup", "call")
            for record in caplog.get_records(when)
            if record.levelno >= logging.WARNING and record.name.startswith(watched)
        ]
        assert warned == []

    return monitors


@pytest.fixture
def monitor(listening: Callable[..., Any]) -> Iterator[ListeningMonitor]:
    """Give a monitor; after the test nothing may be open, and nobody may have been warned."""
    with listening() as monitor:
        yield monitor


@pytest.fixture
def apps() -> Any:
    """Give the parts to tests that put them together in their own way."""

    class Parts:
        pass

    parts: Any = Parts()
    parts.lcel, parts.retrieval_chain, parts.model = lcel, retrieval_chain, model
    parts.Notes, parts.ListeningMonitor, parts.ANSWER = Notes, ListeningMonitor, ANSWER
    parts.AnsweringModel = AnsweringModel
    return parts
