"""An application is the same with and without a monitor: results, errors, context and output."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import SimpleChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from opentelemetry import context

import ragmonitor_langchain
import ragmonitor_llama_index
from ragmonitor import Monitor
from tests.contract.kit import outcomes, parametrize, samples, settings, total, until

QUESTION = "How often is the pump serviced?"
TEXT = "The pump is serviced every six months."
PIECES = ("The pump ", "is serviced ", "every six months.")
ANSWER = "".join(PIECES)


class Application:
    """What the user wrote: a search and a model, which note what is current while they run."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.contexts: list[Any] = []

    def search(self) -> str:
        self.contexts.append(context.get_current())
        return TEXT

    def ask(self) -> str:
        self.contexts.append(context.get_current())
        if self.failure is not None:
            raise self.failure
        return ANSWER

    def pieces(self) -> Iterator[str]:
        self.ask()
        for piece in PIECES:
            self.contexts.append(context.get_current())
            yield piece


Ways = dict[str, Callable[[], Any]]


def plain(app: Application, monitor: Monitor | None) -> Ways:
    """Return ways to run it as plain code: blocks and decorated functions."""
    unwatched: Any = lambda function: function  # noqa: E731
    answers = monitor.answers if monitor is not None else unwatched
    retrieves = monitor.retrieves if monitor is not None else unwatched
    search = retrieves(lambda _question: [app.search()])

    def block() -> str:
        if monitor is None:
            return app.search() and app.ask()
        with monitor.interaction(query=QUESTION) as i:
            i.retrieved([app.search()])
            i.answered(answer := app.ask())
            return answer

    async def ablock() -> str:
        if monitor is None:
            return app.search() and app.ask()
        async with monitor.interaction(query=QUESTION) as i:
            i.retrieved([app.search()])
            await asyncio.sleep(0)
            i.answered(answer := app.ask())
            return answer

    @answers
    def decorated(question: str) -> str:
        search(question)
        return app.ask()

    @answers
    async def adecorated(question: str) -> str:
        search(question)
        await asyncio.sleep(0)
        return app.ask()

    @answers
    def stream(question: str) -> Iterator[str]:
        search(question)
        yield from app.pieces()

    @answers
    async def astream(question: str) -> AsyncIterator[str]:
        search(question)
        for piece in app.pieces():
            yield piece

    return {
        "block": block,
        "async block": lambda: asyncio.run(ablock()),
        "decorated": lambda: decorated(QUESTION),
        "decorated coroutine": lambda: asyncio.run(adecorated(QUESTION)),
        "generator": lambda: list(stream(QUESTION)),
        "async generator": lambda: asyncio.run(_gathered(astream(QUESTION))),
    }


def langchain(app: Application) -> Ways:
    """Return ways to run it under LangChain."""

    class Retriever(LangChainRetriever):
        def _get_relevant_documents(
            self, query: str, *, run_manager: CallbackManagerForRetrieverRun
        ) -> list[Document]:
            return [Document(app.search())]

    class Model(SimpleChatModel):
        _llm_type = "contract"

        def _call(self, *_: Any, **_options: Any) -> str:
            return app.ask()

    chain: Any = (
        {"context": Retriever(), "question": RunnablePassthrough()}
        | ChatPromptTemplate.from_template("{context}\n{question}")
        | Model()
        | RunnableLambda(lambda message: message.content)
    )
    return {
        "langchain invoke": lambda: chain.invoke(QUESTION),
        "langchain ainvoke": lambda: asyncio.run(chain.ainvoke(QUESTION)),
        "langchain stream": lambda: list(chain.stream(QUESTION)),
        "langchain astream": lambda: asyncio.run(_gathered(chain.astream(QUESTION))),
    }


def llama_index(app: Application) -> Ways:
    """Return ways to run it under LlamaIndex."""

    class Retriever(LlamaIndexRetriever):
        def _retrieve(self, _query: Any) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(text=app.search()), score=0.5)]

    class Model(CustomLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(model_name="contract")

        @llm_completion_callback()
        def complete(self, *_: Any, **_options: Any) -> CompletionResponse:
            return CompletionResponse(text=app.ask())

        @llm_completion_callback()
        def stream_complete(self, *_: Any, **_options: Any) -> Iterator[CompletionResponse]:
            text = ""
            for piece in app.pieces():
                text += piece
                yield CompletionResponse(text=text, delta=piece)

    def engine(*, streaming: bool = False) -> Any:
        return RetrieverQueryEngine.from_args(Retriever(), llm=Model(), streaming=streaming)

    async def aquery() -> str:
        return str(await engine().aquery(QUESTION))

    return {
        "llama_index query": lambda: str(engine().query(QUESTION)),
        "llama_index aquery": lambda: asyncio.run(aquery()),
        "llama_index stream": lambda: list(engine(streaming=True).query(QUESTION).response_gen),
    }


async def _gathered(stream: AsyncIterator[str]) -> list[str]:
    return [piece async for piece in stream]


@contextmanager
def watched(monitor: Monitor | None) -> Iterator[None]:
    """Attach a monitor to both frameworks."""
    if monitor is None:
        yield
        return
    ragmonitor_langchain.instrument(monitor)
    ragmonitor_llama_index.instrument(monitor)
    try:
        yield
    finally:
        ragmonitor_langchain.uninstrument()
        ragmonitor_llama_index.uninstrument()


def results(monitor: Monitor | None, failure: Exception | None = None) -> dict[str, Any]:
    """Return by way what an application gets, or the error that it sees.

    What is current in OpenTelemetry is the caller's, while it runs and afterwards.
    """
    app = Application(failure)
    found: dict[str, Any] = {}
    token = context.attach(context.set_value("of", "the caller"))
    outer = context.get_current()
    try:
        with watched(monitor):
            for way, call in (plain(app, monitor) | langchain(app) | llama_index(app)).items():
                try:
                    found[way] = call()
                except Exception as error:  # noqa: BLE001 - what the application sees
                    found[way] = error
                assert context.get_current() is outer, way
                assert app.contexts, way
                assert all(each is outer for each in app.contexts), way
                app.contexts.clear()
    finally:
        context.detach(token)
    return found


@pytest.fixture(scope="module")
def unwatched() -> dict[str, Any]:
    """Return what the application gets without a monitor."""
    return results(None)


class FailingHandler(logging.Handler):
    """A log's handler that raises, whoever logs."""

    def emit(self, _record: logging.LogRecord) -> None:
        raise OSError("no space left on device")


class FailingExporter:
    """An exporter that raises wherever it is called."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def export(self, _report: Any) -> None:
        raise OSError("no route to host")

    flush = close = export


def _failed_redaction(_text: str) -> str:
    raise ValueError("no")  # which is logged


@contextmanager
def a_monitor(case: str, folder: Path) -> Iterator[Monitor]:
    """Make a monitor around or within which this is wrong."""
    options: dict[str, Any] = {}
    with ExitStack() as stack:
        if case == "its log cannot be written":
            log, handler = logging.getLogger("ragmonitor"), FailingHandler()
            log.addHandler(handler)
            stack.callback(log.removeHandler, handler)
            options["content"] = {"redaction": (_failed_redaction,)}
        elif case == "its file cannot be written":
            (folder / "file").write_text("no folder", "utf-8")
            options["exporters"] = f"jsonl:{folder / 'file' / 'reports.jsonl'}"
        elif case == "its metrics port is taken":
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            options["server"] = {"port": taken.getsockname()[1]}
        elif case == "its exporter fails":
            options["exporters"] = [FailingExporter()]
        monitor = Monitor(**settings(**options))
        if case == "it is closed":
            monitor.close(5)
        yield monitor
        monitor.close(5)


@parametrize("hosts.jsonl")
def test_an_application_gets_what_it_gets_without_a_monitor(
    case: dict[str, Any],
    unwatched: dict[str, Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whatever is wrong with the monitor; nothing is printed, and each answer is accounted for."""
    with a_monitor(case["case"], tmp_path) as monitor:
        assert results(monitor) == unwatched
        monitor.flush(10)
        assert monitor.open_runs == 0
    assert capfd.readouterr() == ("", "")
    found = samples(monitor.registry)
    assert total(found, "ragmonitor_interactions_total") == len(unwatched)
    counts = outcomes(found, judge="builtin", evaluator="faithfulness")
    assert counts == {case["outcome"]: len(unwatched)}


def test_the_application_sees_its_own_error(capfd: pytest.CaptureFixture[str]) -> None:
    """The very object that its model raised, from every way; the answer is counted as its error."""
    failure = LookupError("the index is gone")
    monitor = Monitor(**settings())
    found = results(monitor, failure)
    assert {way: error is failure for way, error in found.items()} == dict.fromkeys(found, True)
    monitor.flush(10)
    monitor.close(5)
    assert monitor.open_runs == 0
    assert capfd.readouterr() == ("", "")
    counts = outcomes(samples(monitor.registry), evaluator="faithfulness")
    assert counts == {"application_error": len(found)}


class Unreadable:
    """An object of an application of which nothing can be had."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, name)
        raise RuntimeError(f"{name} is out of order")

    def __str__(self) -> str:
        raise RuntimeError("no text either")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no parts either")

    __repr__ = __str__


def _odd_block(monitor: Monitor, odd: Any) -> Any:
    with monitor.interaction(
        query=odd, name=odd, session_id=odd, user_id=odd, tags=odd, attributes=odd
    ) as i:
        i.retrieved(odd)
        i.retrieved([odd])
        i.tag(odd, route=odd)
        i.answered(odd)
    return odd


def _odd_functions(monitor: Monitor, odd: Any) -> Any:
    @monitor.retrieves(chunks=lambda found: found.chunks)
    def search(_question: Any) -> Any:
        return odd

    @monitor.answers(answer=lambda found: found.answer)
    def ask(question: Any) -> Any:
        return search(question)

    return ask(odd)


def _odd_stream(monitor: Monitor, odd: Any) -> Any:
    @monitor.answers
    def stream(_question: Any) -> Iterator[Any]:
        yield odd

    return next(stream(odd))


ODD: dict[str, Callable[[Monitor, Any], Any]] = {
    "observe": lambda monitor, odd: monitor.observe(odd) or odd,
    "event": lambda monitor, odd: monitor.event(odd, version=odd) or odd,
    "block": _odd_block,
    "functions": _odd_functions,
    "stream": _odd_stream,
}


@pytest.mark.parametrize("call", ODD)
def test_what_cannot_be_read_does_no_harm(call: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever an application hands over, it gets back unchanged; the next answer is scored."""
    odd = Unreadable()
    with Monitor(**settings()) as monitor:
        assert ODD[call](monitor, odd) is odd
        assert plain(Application(), monitor)["block"]() == ANSWER
        assert monitor.flush(10)
    assert capfd.readouterr() == ("", "")
    found = samples(monitor.registry)
    counts = outcomes(found, evaluator="faithfulness")
    assert counts.get("scored") == 1
    assert sum(counts.values()) == total(found, "ragmonitor_interactions_total")


def test_a_system_without_threads_costs_the_application_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """None can be started for a while: the application goes on, and its answers wait."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monitor = Monitor(**settings())
    block = plain(Application(), monitor)["block"]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert block() == ANSWER

    def scored() -> int:
        assert block() == ANSWER  # each of which asks for a thread again
        return outcomes(samples(monitor.registry), evaluator="faithfulness").get("scored", 0)

    until("answers are scored", scored)
    assert monitor.flush(10)
    monitor.close(5)
    assert capfd.readouterr() == ("", "")
    found = samples(monitor.registry)
    captured = total(found, "ragmonitor_interactions_total")
    assert outcomes(found, evaluator="faithfulness") == {"scored": captured}


def test_a_stream_that_nobody_reads_to_its_end_leaves_nothing_behind() -> None:
    """The context is the caller's after a stream was closed early, and what was read is partial."""
    monitor = Monitor(**settings())
    outer = context.get_current()

    @monitor.answers
    def stream(_question: str) -> Iterator[str]:
        yield from PIECES

    reading = stream(QUESTION)
    assert next(reading) == PIECES[0]
    assert context.get_current() is outer
    reading.close()
    assert context.get_current() is outer
    monitor.flush(10)
    monitor.close(5)
    assert monitor.open_runs == 0
    assert outcomes(samples(monitor.registry), evaluator="faithfulness") == {"partial": 1}
