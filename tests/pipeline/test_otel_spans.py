"""Real LangChain and LlamaIndex applications under three families of real instrumentations.

Each is run twice: with our own integration, and with the other instrumentation and the span
processor. What the dialect carries must be the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import wrapt

from ragmonitor import ExportSettings, ServerSettings

pytest.importorskip("openinference.instrumentation.langchain", reason="the group `peers`")
pytest.importorskip("opentelemetry.instrumentation.genai.langchain", reason="the group `peers`")

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnablePassthrough
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
)
from llama_index.core.chat_engine import CondensePlusContextChatEngine
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool
from openai.resources.chat.completions import AsyncCompletions, Completions
from opentelemetry import context
from opentelemetry.sdk.trace import TracerProvider

import ragmonitor_langchain
import ragmonitor_llama_index
from ragmonitor import Chunk, Interaction, Monitor, Scored
from ragmonitor.integration import Usage
from ragmonitor.runtime.guard import errors
from ragmonitor.testing import ListExporter
from ragmonitor_langchain.driver import AnsweringModel
from tests.support.openai_server import OpenAiServer
from tests.support.scrape import scrape
from tests.support.waiting import until

# The instrumentations read deprecated attributes of the frameworks.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

QUESTION = "How often is the pump serviced?"
ANSWER = "The pump is serviced every six months."
FOUND = (
    ("manual-7", "The pump is serviced every six months.", 0.9),
    ("manual-2", "The pump is blue.", 0.5),
)


# --- the applications ---------------------------------------------------------------------------


class Notes(BaseRetriever):
    """Finds the same documents; or fails, or takes its time."""

    failure: Exception | None = None
    takes_s: float = 0.0

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.failure is not None:
            raise self.failure
        return [Document(text, id=i, metadata={"score": score}) for i, text, score in FOUND]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(self.takes_s)
        return self._get_relevant_documents(query, run_manager=run_manager)


def chain(retriever: Any = None, model: Any = None) -> Runnable[Any, str]:
    return (
        {
            "context": (retriever or Notes())
            | (lambda ds: "\n\n".join(d.page_content for d in ds)),
            "question": RunnablePassthrough(),
        }
        | ChatPromptTemplate.from_messages([("system", "Use: {context}"), ("user", "{question}")])
        | (model or AnsweringModel(respond=lambda _: ANSWER, model="scripted-1"))
        | StrOutputParser()
    )


CONFIG: Any = {"metadata": {"session_id": "s1", "tenant": "acme"}}


def invoke() -> str:
    return chain().invoke(QUESTION, CONFIG)


def ainvoke() -> str:
    return asyncio.run(chain().ainvoke(QUESTION, CONFIG))


def stream() -> str:
    return "".join(chain().stream(QUESTION, CONFIG))


def astream() -> str:
    async def read() -> str:
        return "".join([piece async for piece in chain().astream(QUESTION, CONFIG)])

    return asyncio.run(read())


def batch() -> str:
    return chain().batch([QUESTION], CONFIG)[0]


def retrieval_fails() -> str:
    with pytest.raises(ValueError, match="gone"):
        chain(Notes(failure=ValueError("the index is gone"))).invoke(QUESTION, CONFIG)
    return ""


def model_fails() -> str:
    def refuse(_: str) -> str:
        raise RuntimeError("the model is gone")

    with pytest.raises(RuntimeError, match="gone"):
        chain(model=AnsweringModel(respond=refuse, model="scripted-1")).invoke(QUESTION, CONFIG)
    return ""


class Model(GenericFakeChatModel):
    """Says what it is told to, with a name, and lets tools be bound."""

    model: str = "scripted-1"

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self


def agent(first: str = "", last: str = ANSWER) -> str:
    call = {"name": "find", "args": {"query": "pump"}, "id": "c1"}
    model = Model(messages=iter([AIMessage(first, tool_calls=[call]), AIMessage(last)]))
    made = create_agent(model, [create_retriever_tool(Notes(), "find", "finds notes")])
    said = made.invoke({"messages": [("user", QUESTION)]}, {"configurable": {"thread_id": "s1"}})
    return said["messages"][-1].text


LANGCHAIN: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        invoke,
        ainvoke,
        stream,
        astream,
        batch,
        agent,
        retrieval_fails,
        model_fails,
    )
}


class Nodes(LlamaRetriever):
    """Finds the same nodes, and one that the postprocessor takes away; or nothing."""

    def __init__(self, *, empty: bool = False) -> None:
        super().__init__()
        self.empty = empty

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = [] if self.empty else [*FOUND, ("manual-9", "Pumps were invented in Egypt.", 0.1)]
        return [NodeWithScore(node=TextNode(id_=i, text=text), score=s) for i, text, s in found]


class BestTwo(BaseNodePostprocessor):
    """Keeps two."""

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return nodes[:2]


class Scripted(CustomLLM):
    """Says the answer, piece by piece."""

    raw: Any = {"usage": {"prompt_tokens": 30, "completion_tokens": 7}}  # noqa: RUF012 - copied

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted-1", context_window=100_000)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=ANSWER, raw=self.raw)

    def _pieces(self) -> Iterator[CompletionResponse]:
        text = ""
        for word in ANSWER.split():
            piece = f" {word}" if text else word
            text += piece
            yield CompletionResponse(text=text, delta=piece, raw=self.raw)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        def said() -> CompletionResponseGen:
            yield from self._pieces()

        return said()

    @llm_completion_callback()
    async def astream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseAsyncGen:
        async def said() -> CompletionResponseAsyncGen:
            for piece in self._pieces():
                yield piece

        return said()


def engine(*, streaming: bool = False, empty: bool = False) -> RetrieverQueryEngine:
    return RetrieverQueryEngine.from_args(
        Nodes(empty=empty),
        llm=Scripted(),
        streaming=streaming,
        node_postprocessors=[BestTwo()],
    )


def chat_engine() -> Any:
    # LlamaIndex's default memory opens a database that it never closes.
    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000, tokenizer_fn=str.split)
    return CondensePlusContextChatEngine.from_defaults(
        retriever=Nodes(), llm=Scripted(), memory=memory, node_postprocessors=[BestTwo()]
    )


class ToolUser(FunctionCallingLLM):
    """Asks its tool first, and then answers."""

    turn: int = 0

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(
            model_name="tool-user", is_chat_model=True, is_function_calling_model=True
        )

    @llm_chat_callback()
    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        self.turn += 1
        text = ANSWER if self.turn > 1 else ""

        async def said() -> Any:
            yield ChatResponse(
                message=ChatMessage(role="assistant", content=text),
                delta=text,
                raw={"usage": {"prompt_tokens": 2, "completion_tokens": 1}},
            )

        return said()

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **kwargs: Any) -> Any:
        return {"messages": chat_history or []}

    def get_tool_calls_from_response(self, response: Any, **kwargs: Any) -> list[ToolSelection]:
        if response.message.content:
            return []
        return [ToolSelection(tool_id="1", tool_name="docs", tool_kwargs={"input": "pump"})]

    def _refused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    chat = complete = stream_chat = stream_complete = _refused
    acomplete = astream_complete = achat = _refused


def function_agent() -> str:
    tool = QueryEngineTool.from_defaults(engine(), name="docs", description="Notes on pumps.")
    made = FunctionAgent(tools=[tool], llm=ToolUser(), name="clerk", description="Answers.")
    memory = ChatMemoryBuffer.from_defaults(token_limit=100_000, tokenizer_fn=str.split)

    async def run() -> str:
        return str(await made.run(user_msg=QUESTION, memory=memory))

    return asyncio.run(run())


def query() -> str:
    return str(engine().query(QUESTION))


def aquery() -> str:
    return str(asyncio.run(engine().aquery(QUESTION)))


def nothing_found() -> str:
    return str(engine(empty=True).query(QUESTION))


def query_streaming() -> str:
    response: Any = engine(streaming=True).query(QUESTION)
    return "".join(response.response_gen)


def aquery_streaming() -> str:
    async def read() -> str:
        response: Any = await engine(streaming=True).aquery(QUESTION)
        return "".join([piece async for piece in response.async_response_gen()])

    return asyncio.run(read())


def chat() -> str:
    return str(chat_engine().chat(QUESTION))


def stream_chat() -> str:
    return "".join(chat_engine().stream_chat(QUESTION).response_gen)


def astream_chat() -> str:
    async def read() -> str:
        response = await chat_engine().astream_chat(QUESTION)
        return "".join([piece async for piece in response.async_response_gen()])

    return asyncio.run(read())


LLAMA_INDEX: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (
        query,
        aquery,
        nothing_found,
        query_streaming,
        aquery_streaming,
        chat,
        stream_chat,
        astream_chat,
        function_agent,
    )
}
STREAMS = ("query_streaming", "aquery_streaming", "stream_chat", "astream_chat")

INSTRUMENTORS = {
    ("openinference", "langchain"): "openinference.instrumentation.langchain:LangChainInstrumentor",
    (
        "openinference",
        "llama_index",
    ): "openinference.instrumentation.llama_index:LlamaIndexInstrumentor",
    ("openllmetry", "langchain"): "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
    (
        "openllmetry",
        "llama_index",
    ): "opentelemetry.instrumentation.llamaindex:LlamaIndexInstrumentor",
    ("genai", "langchain"): "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor",
    ("openinference", "openai"): "openinference.instrumentation.openai:OpenAIInstrumentor",
    ("openllmetry", "openai"): "opentelemetry.instrumentation.openai:OpenAIInstrumentor",
    ("genai", "openai"): "opentelemetry.instrumentation.genai.openai:OpenAIInstrumentor",
}


@contextlib.contextmanager
def instrumented(provider: TracerProvider, convention: str, what: str) -> Iterator[None]:
    """Attach another project's instrumentation, and leave nothing of it behind."""
    module_name, _, name = INSTRUMENTORS[convention, what].partition(":")
    module = importlib.import_module(module_name)
    dispatcher = get_dispatcher()
    handlers = [*dispatcher.span_handlers], [*dispatcher.event_handlers]
    wrapped: list[tuple[Any, str, Any]] = []

    def wrap(target: Any, path: str, wrapper: Any) -> Any:
        wrapped.append(wrapt.resolve_path(target, path))
        return wrapt.wrap_function_wrapper(target, path, wrapper)

    instrumentor = getattr(module, name)()
    clients = [(client, dict(vars(client))) for client in (Completions, AsyncCompletions)]
    with pytest.MonkeyPatch.context() as patch:
        if convention == "openllmetry" and what == "langchain":
            patch.setattr(module, "wrap_function_wrapper", wrap)
        instrumentor.instrument(tracer_provider=provider)
        try:
            yield
        finally:
            instrumentor.uninstrument()
            # OpenLLMetry's way back from LangChain is incomplete, that from LlamaIndex empty, and
            # that from the OpenAI client misses it.
            for parent, attribute, original in reversed(wrapped):
                setattr(parent, attribute, original)
            for client, methods in clients:
                for attribute in ("create", "parse"):
                    setattr(client, attribute, methods[attribute])
            dispatcher.span_handlers, dispatcher.event_handlers = handlers


@pytest.fixture(autouse=True)
def quiet_instrumentations(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write texts into spans, tell nobody of it, and fail where something of ours does."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    monkeypatch.setenv("TRACELOOP_TELEMETRY", "false")
    before = errors.copy()
    # OpenLLMetry attaches contexts that it does not always detach.
    outside = context.attach(context.Context())
    yield
    context.detach(outside)
    assert errors == before


class Watched:
    """A monitor with its span processor on a provider, and what it was told."""

    def __init__(self, **options: Any) -> None:
        self.reports = ListExporter()
        self.monitor = Monitor(
            service="test",
            server=False,
            export=ExportSettings(traces=False),
            exporters=[self.reports],
            **options,
        )
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.monitor.span_processor())

    @property
    def interactions(self) -> list[Interaction]:
        self.provider.force_flush()
        assert self.monitor.flush()
        return [*self.reports.interactions()]

    @property
    def only(self) -> Interaction:
        (interaction,) = self.interactions
        assert len(self.monitor.span_processor()) == 0
        return interaction


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.provider.shutdown()
    made.monitor.close()


def as_ours(framework: str, app: Callable[[], str]) -> Interaction:
    """Return what our own integration makes of it."""
    integration: Any = {"langchain": ragmonitor_langchain, "llama_index": ragmonitor_llama_index}
    reports = ListExporter()
    with Monitor(
        service="test", server=False, export=ExportSettings(traces=False), exporters=[reports]
    ) as monitor:
        integration[framework].instrument(monitor)
        try:
            app()
        finally:
            integration[framework].uninstrument()
        assert monitor.flush()
        (interaction,) = reports.interactions()
    return interaction


def told(interaction: Interaction, *, ids: bool, labels: bool, metadata: bool) -> dict[str, Any]:
    """Return what two records of the same story must agree in."""

    def chunks(each: tuple[Chunk, ...]) -> list[Any]:
        return [(c.id if ids else "", c.text, c.score) for c in each]

    return {
        "query": interaction.query,
        "chunks": chunks(interaction.chunks),
        "not_shown": chunks(interaction.not_shown),
        "answer": interaction.answer,
        "status": interaction.status,
        "error": interaction.error,
        "usage": interaction.usage,
        "incomplete": interaction.capture_incomplete,
        "retrievals": [(r.query, len(r.chunks), r.error) for r in interaction.retrievals],
        "generations": [
            # An assistant's turn in it is a tool call, which our integration writes out as text.
            (g.output, [m.text for m in g.input if m.role != "assistant"], g.usage, g.error)
            for g in interaction.generations
        ],
        "session": interaction.session_id if labels else "",
        "metadata": dict(interaction.attributes) if metadata else {},
        "chunk metadata": [dict(c.metadata) for c in interaction.chunks] if metadata else [],
    }


CARRIES = {
    "openinference": {"ids": True, "labels": True, "metadata": True},
    "openllmetry": {"ids": False, "labels": True, "metadata": True},
    "genai": {"ids": True, "labels": True, "metadata": False},
}
"""OpenLLMetry drops LangChain's document ids; GenAI has no metadata."""


@pytest.mark.parametrize("app", LANGCHAIN.values(), ids=LANGCHAIN.keys())
@pytest.mark.parametrize("convention", CARRIES)
def test_langchain_tells_the_same_story(
    watched: Watched, convention: str, app: Callable[[], str]
) -> None:
    """Query, chunks, answer, prompts, tokens, status and error as our own integration has them."""
    with instrumented(watched.provider, convention, "langchain"):
        answer = app()
    found = watched.only
    carries = CARRIES[convention]
    assert told(found, **carries) == told(as_ours("langchain", app), **carries)
    assert (found.framework, found.answer) == (convention, answer)
    assert found.target is not None


@pytest.mark.parametrize("app", LLAMA_INDEX.values(), ids=LLAMA_INDEX.keys())
@pytest.mark.parametrize("convention", ["openinference", "openllmetry"])
def test_llama_index_tells_the_same_story(
    watched: Watched, convention: str, app: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above; of OpenLLMetry's streams nothing is known, see the next test."""
    with instrumented(watched.provider, convention, "llama_index"):
        answer = app()
    if convention == "openllmetry" and app.__name__ in STREAMS:
        monkeypatch.setattr("ragmonitor.capture.span_readers.processor.SPAN_AGE_S", 0.001)
        # Its instrumentation writes no answer of a stream, and may never end its root.
        (found,) = until("aged out", lambda: watched.interactions)
        assert (found.query, found.answer) == (QUESTION, "")
        assert found.capture_incomplete or found.status == "partial"
        watched.monitor.close()
        return
    found = watched.only
    carries = {"ids": True, "labels": True, "metadata": True}
    assert told(found, **carries) == told(as_ours("llama_index", app), **carries)
    assert (found.framework, found.answer) == (convention, answer)


@pytest.mark.parametrize("convention", CARRIES)
def test_a_stream_that_is_closed_early_is_partial(watched: Watched, convention: str) -> None:
    """And never scored."""
    with instrumented(watched.provider, convention, "langchain"):
        pieces: Any = chain().stream(QUESTION)
        next(pieces)
        pieces.close()
    assert watched.only.status == "partial"
    assert not any(isinstance(e, Scored) for r in watched.reports.reports for e in r.evaluations)


@pytest.mark.parametrize("convention", CARRIES)
def test_a_cancelled_request_is_none(watched: Watched, convention: str) -> None:
    """A model was never asked: no interaction, as with our own integration."""

    async def cancel() -> None:
        task = asyncio.ensure_future(chain(Notes(takes_s=30)).ainvoke(QUESTION))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with instrumented(watched.provider, convention, "langchain"):
        asyncio.run(cancel())
    assert watched.interactions == []


@pytest.mark.parametrize("inner", ["openinference", "openllmetry", "genai"])
@pytest.mark.parametrize("outer", ["openinference", "openllmetry", "genai"])
@pytest.mark.parametrize("streaming", [False, True], ids=["invoke", "stream"])
def test_framework_and_provider_report_one_call(
    watched: Watched, outer: str, inner: str, streaming: bool
) -> None:
    """LangChain's instrumentation and the OpenAI client's, both on: tokens are counted once."""
    with OpenAiServer(answer=ANSWER) as server:
        model = ChatOpenAI(
            model="scripted-1", base_url=server.api_base, api_key="none", stream_usage=True
        )
        app = chain(model=model)
        ours = as_ours("langchain", lambda: app.invoke(QUESTION))
        with (
            instrumented(watched.provider, outer, "langchain"),
            instrumented(watched.provider, inner, "openai"),
            watched.provider.get_tracer("app").start_as_current_span("request"),
        ):
            answer = "".join(app.stream(QUESTION)) if streaming else app.invoke(QUESTION)
    found = watched.only
    assert (found.framework, found.answer, answer) == (outer, ANSWER, ANSWER)
    (generation,) = found.generations
    assert (generation.provider, generation.model) == ("openai", "scripted-1")
    assert found.usage == ours.usage != Usage()


def test_an_application_without_a_framework(watched: Watched) -> None:
    """Its own span around a retriever and a client of the provider's stands for the interaction."""
    tracer = watched.provider.get_tracer("app")
    with OpenAiServer(answer=ANSWER) as server:
        from openai import OpenAI

        with (
            instrumented(watched.provider, "genai", "openai"),
            tracer.start_as_current_span("GET /ask"),
            OpenAI(base_url=server.api_base, api_key="none") as client,
            tracer.start_as_current_span("answer") as answer,
        ):
            with tracer.start_as_current_span("search") as search:
                search.set_attribute("gen_ai.operation.name", "retrieval")
                search.set_attribute("gen_ai.retrieval.query.text", QUESTION)
                found = [{"id": i, "score": s, "content": text} for i, text, s in FOUND]
                search.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
            context = "\n\n".join(text for _, text, _ in FOUND)
            client.chat.completions.create(
                model="scripted-1",
                messages=[
                    {"role": "system", "content": context},
                    {"role": "user", "content": QUESTION},
                ],
            )
    record = watched.only
    assert (record.query, record.answer, record.name) == (QUESTION, ANSWER, "answer")
    assert [(c.id, c.text) for c in record.chunks] == [(i, text) for i, text, _ in FOUND]
    assert record.target is not None
    assert record.target.span_id == f"{answer.get_span_context().span_id:016x}"


def test_scores_come_without_anybody_flushing() -> None:
    """The worker starts with the first span, and its sweep ends the quiet period."""
    reports = ListExporter()
    provider = TracerProvider()
    with Monitor(
        service="test",
        server=ServerSettings(port=0),
        export=ExportSettings(traces=False),
        exporters=[reports],
    ) as monitor:
        provider.add_span_processor(monitor.span_processor())
        with instrumented(provider, "openinference", "langchain"):
            invoke()
        (report,) = until("a report", lambda: reports.reports)
        scores = {e.evaluator: e.score for e in report.evaluations if isinstance(e, Scored)}
        assert scores["faithfulness@1"] == 1.0
        url = until("it is served", lambda: monitor.metrics_url)
        (count,) = scrape(url)["ragmonitor_interactions_total"]
        assert count.labels["framework"] == "openinference"
    provider.shutdown()


def test_the_last_answers_are_not_lost_at_the_end() -> None:
    """Closing the monitor hands over what still waits for its quiet period."""
    reports = ListExporter()
    provider = TracerProvider()
    monitor = Monitor(
        service="test", server=False, export=ExportSettings(traces=False), exporters=[reports]
    )
    provider.add_span_processor(monitor.span_processor())
    with instrumented(provider, "openinference", "langchain"):
        invoke()
    assert monitor.close()
    assert len(reports.reports) == 1
    provider.shutdown()
