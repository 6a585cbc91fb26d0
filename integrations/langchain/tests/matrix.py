"""LangChain's shapes of an application, and the ways to call one: rows and columns of the coverage.

Every shape is a real application around a scripted model and retriever, written as LangChain's and
LangGraph's own documentation writes it. `tests/test_matrix.py` runs each in every mode.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableGenerator,
    RunnableParallel,
    RunnablePassthrough,
    chain,
)
from langchain_core.tools import create_retriever_tool, tool
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from opentelemetry.trace import SpanContext, Tracer

from ragmonitor import Interaction
from ragmonitor.integration import InteractionRecorder, Recorder, Translator
from ragmonitor_langchain.driver import AnsweringModel, FunctionEmbeddings

CORE = "langchain-core 1.6.13"
CLASSIC = "langchain-classic 1.0.8"
AGENTS = "langchain 1.4.7"
GRAPHS = "langgraph 1.2.22"

# --- what listens --------------------------------------------------------------------------------


class ListeningMonitor:
    """Keeps what is handed over, and reads it when asked, as the worker would."""

    def __init__(self, **choice: Any) -> None:
        self.finished: list[Any] = []
        self.known: Recorder | None = None
        self.forgotten: list[str] = []
        self._choice = choice

    def recorder(self, translator: Translator) -> Recorder:
        if self.known is None:
            choice = {"retrieval_tools": ("search_*",), **self._choice}
            self.known = Recorder(
                translator, self.finished.append, on_forgotten=self.forgotten.append, **choice
            )
        return self.known

    def interaction(self, *, query: str) -> InteractionRecorder:
        return InteractionRecorder(self.finished.append, query=query)

    @property
    def interactions(self) -> list[Interaction]:
        return [i for f in self.finished if (i := f.interaction()) is not None]

    @property
    def only(self) -> Interaction:
        (interaction,) = self.interactions
        return interaction

    @property
    def open_runs(self) -> int:
        return 0 if self.known is None else len(self.known)


# --- what applications are made of ---------------------------------------------------------------


def question(number: int) -> str:
    return f"How often is pump {number:02} serviced?"


def reply(pump: str) -> str:
    return f"Pump {pump} is serviced every six months, says the manual."


def pump_in(text: str) -> str:
    """Return the last pump's number that stands in a text."""
    return re.findall(r"[Pp]ump (\d\d)", text)[-1]


def notes(pump: str) -> list[Document]:
    return [
        Document(
            f"Pump {pump} wants service twice a year.", id=f"m-{pump}", metadata={"score": 0.9}
        ),
        Document(f"Pump {pump} is blue.", id=f"c-{pump}", metadata={"relevance_score": 0.5}),
        Document(f"See page 12 for pump {pump}.", metadata={"source": "index"}),
    ]


def more_notes(pump: str) -> list[Document]:
    return [notes(pump)[1], Document(f"Pump {pump} stands in hall 3.", id=f"h-{pump}")]


class Notes(BaseRetriever):
    """Finds the same documents for whatever is asked of a pump."""

    find: Any = notes

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.find(pump_in(query))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return self.find(pump_in(query))


class Rerank(BaseDocumentCompressor):
    """Puts the last document first, drops the second, and gives scores, as rerankers do."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        first, _, third = documents
        return [
            each.model_copy(update={"metadata": {**each.metadata, "relevance_score": score}})
            for each, score in ((third, 0.8), (first, 0.7))
        ]


class BusyError(Exception):
    """The application's own: a model that is out of order."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One call of a model, as the model saw it."""

    messages: list[BaseMessage]
    reply: str
    failed: bool = False

    @property
    def prompt(self) -> str:
        return "\n\n".join(str(message.text) for message in self.messages)


class ScriptedModel(AnsweringModel):
    """Answers of the pump in its prompt, word by word if streamed; notes every call.

    With a tool it asks for that first, as an agent's model does.
    """

    respond: Callable[[str], str] = lambda prompt: reply(pump_in(prompt))
    model: str = "scripted-1"
    log: Any = None
    fails: int = 0
    """So many calls about each pump, before the first that is answered."""
    tool: str = ""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _reply(self, messages: list[BaseMessage]) -> tuple[str, str]:
        asked = Asked(messages=[*messages], reply="", failed=True)
        before = sum(pump_in(a.prompt) == pump_in(asked.prompt) for a in self.log or ())
        if before < self.fails:
            self.log.append(asked)
            raise BusyError(str(before))
        text = "" if self._calls_tool(messages) else self.respond(asked.prompt)
        if self.log is not None:
            self.log.append(Asked(messages=[*messages], reply=text))
        return asked.prompt, text

    def _calls_tool(self, messages: list[BaseMessage]) -> bool:
        return bool(self.tool) and messages[-1].type == "human"

    def _call(self, messages: list[BaseMessage]) -> ToolCall:
        return ToolCall(
            name=self.tool, args={"query": f"pump {pump_in(messages[-1].text)}"}, id="1"
        )

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        result = super()._generate(messages)
        if self._calls_tool(messages):
            message = AIMessage(
                "",
                tool_calls=[self._call(messages)],
                usage_metadata=result.generations[0].message.usage_metadata,
            )
            return ChatResult(generations=[ChatGeneration(message=message)])
        return result

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        if self._calls_tool(messages):
            message = self._generate(messages).generations[0].message
            yield ChatGenerationChunk(
                message=AIMessageChunk(
                    content="", tool_calls=message.tool_calls, usage_metadata=message.usage_metadata
                )
            )
            return
        yield from super()._stream(messages)


# --- how an application is asked -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call that an application makes of LangChain."""

    runnable: Any
    inputs: Any
    config: Any = None
    streams: Mapping[str, Any] = field(default_factory=dict)
    """Of a graph: how to stream it."""
    waiting: Any = None
    """The runnable for asynchronous calls, where the framework wants another one."""

    @property
    def awaited(self) -> Any:
        return self.waiting or self.runnable


Asking = Generator[Call, list[Any], str]
"""From one question to what its user sees: the calls, each of which gives pieces."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """A real application: how it answers a question, and what its models were asked."""

    ask: Callable[[str], Asking]
    log: list[Asked]


def whole(pieces: Sequence[Any]) -> str:
    """Return the text of an output, streamed or not."""
    return "".join(piece if isinstance(piece, str) else str(piece.text) for piece in pieces)


def under(key: str) -> Callable[[Sequence[Any]], str]:
    """Return how to read the text of dicts, streamed or not."""
    return lambda pieces: "".join(piece.get(key, "") for piece in pieces)


def in_state(key: str) -> Callable[[Sequence[Any]], str]:
    """Return how to read the text of a graph's last state."""

    def text(pieces: Sequence[Any]) -> str:
        found = pieces[-1][key]
        return str(found if isinstance(found, str) else found[-1].text)

    return text


def one_call(
    runnable: Any,
    log: list[Asked],
    text: Callable[[Sequence[Any]], str] = whole,
    inputs: Callable[[str], Any] = str,
    **call: Any,
) -> Application:
    def ask(query: str) -> Asking:
        return text((yield Call(runnable=runnable, inputs=inputs(query), **call)))

    return Application(ask=ask, log=log)


PROMPT = ChatPromptTemplate.from_template("{context}\n{question}")
STUFFED = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{input}")])


def joined(documents: Sequence[Document]) -> str:
    return "\n".join(document.page_content for document in documents)


def lcel(
    log: list[Asked] | None = None,
    *,
    retriever: Any = None,
    model: Any = None,
    parser: Any = None,
    shows: int | None = None,
) -> Runnable[Any, Any]:
    return (
        {
            "context": (retriever or Notes()) | (lambda found: joined(found[:shows])),
            "question": RunnablePassthrough(),
        }
        | PROMPT
        | (model or ScriptedModel(log=log))
        | (parser or StrOutputParser())
    )


# --- the shapes ----------------------------------------------------------------------------------

Told = tuple[str, str, float | None]
"""Text, id and score of a chunk."""


def told(documents: Sequence[Document]) -> list[Told]:
    return [
        (
            each.page_content,
            each.id or "",
            each.metadata.get("relevance_score", each.metadata.get("score")),
        )
        for each in documents
    ]


def all_notes(pump: str) -> list[Told]:
    return told(notes(pump))


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One row: an application in the framework's own words, and what is to be captured of it."""

    name: str
    since: str
    """Oldest version it was run on."""
    how: str
    """Where query, chunks and answer come from."""
    build: Callable[[Any], Application]
    """From a monitor (for those that use it themselves) to the application."""
    chunks: Callable[[str], list[Told]] = all_notes
    """From a pump's number to what its question's chunks are."""
    not_shown: Callable[[str], list[str]] = lambda pump: []
    """From a pump's number to the texts that were retrieved and kept from the model."""
    retrievals: int = 1
    """Of each question."""
    framework: str = "langchain"
    at_once: bool = True
    """Several questions can be given to it in one call."""


def _lcel(_: Any) -> Application:
    log: list[Asked] = []
    return one_call(lcel(log), log)


def _lcel_cut(_: Any) -> Application:
    log: list[Asked] = []
    return one_call(lcel(log, shows=2), log)


def _chain_decorator(_: Any) -> Application:
    log: list[Asked] = []
    retriever, model = Notes(), ScriptedModel(log=log)

    @chain
    def ask(query: str) -> str:
        found = retriever.invoke(query)
        return str(model.invoke(f"{joined(found)}\n{query}").text)

    return one_call(ask, log)


def retrieval_chain(
    log: list[Asked] | None = None, *, retriever: Any = None, model: Any = None
) -> Runnable[Any, Any]:
    answer = create_stuff_documents_chain(model or ScriptedModel(log=log), STUFFED)
    return create_retrieval_chain(retriever or Notes(), answer)


def _retrieval_chain(_: Any) -> Application:
    log: list[Asked] = []
    return one_call(retrieval_chain(log), log, under("answer"), lambda query: {"input": query})


def _parallel(_: Any) -> Application:
    log: list[Asked] = []
    answer = (
        RunnablePassthrough.assign(context=lambda given: joined(given["context"]))
        | PROMPT
        | ScriptedModel(log=log)
        | StrOutputParser()
    )
    sources = RunnableParallel({"context": Notes(), "question": RunnablePassthrough()})
    return one_call(sources.assign(answer=answer), log, under("answer"))


def _generator(_: Any) -> Application:
    log: list[Asked] = []

    def pieces(texts: Iterator[str]) -> Iterator[dict[str, str]]:
        for text in texts:
            yield {"answer": text}

    async def apieces(texts: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
        async for text in texts:
            yield {"answer": text}

    return one_call(lcel(log) | RunnableGenerator(pieces, apieces), log, under("answer"))


def _fallbacks(_: Any) -> Application:
    log: list[Asked] = []
    rag = lcel(model=ScriptedModel(log=log, fails=1)).with_fallbacks([lcel(log)])
    return one_call(rag, log)


def _retry(_: Any) -> Application:
    log: list[Asked] = []
    rag = lcel(model=ScriptedModel(log=log, fails=1))
    return one_call(rag.with_retry(stop_after_attempt=2, wait_exponential_jitter=False), log)


def _history(_: Any) -> Application:
    log: list[Asked] = []

    def respond(prompt: str) -> str:
        pump = pump_in(prompt)
        return f"service of pump {pump}" if prompt.startswith("Rewrite") else reply(pump)

    model = ScriptedModel(log=log, respond=respond)
    rewrite = ChatPromptTemplate.from_messages(
        [("system", "Rewrite."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    rag = create_retrieval_chain(
        create_history_aware_retriever(model, Notes(), rewrite),
        create_stuff_documents_chain(model, STUFFED),
    )
    history = [("human", "Is there a manual?"), ("ai", "There is.")]
    return one_call(
        rag, log, under("answer"), lambda query: {"input": query, "chat_history": history}
    )


def _multi_query(_: Any) -> Application:
    log: list[Asked] = []
    rewriting = ScriptedModel(
        respond=lambda prompt: "\n".join(f"{n} pump {pump_in(prompt)}" for n in ("when", "who"))
    )
    retriever = MultiQueryRetriever.from_llm(Notes(), llm=rewriting)
    return one_call(lcel(log, retriever=retriever), log)


def _ensemble(_: Any) -> Application:
    log: list[Asked] = []
    retriever = EnsembleRetriever(retrievers=[Notes(), Notes(find=more_notes)], weights=[0.5, 0.5])
    return one_call(lcel(log, retriever=retriever), log)


def _compression(_: Any) -> Application:
    log: list[Asked] = []
    retriever = ContextualCompressionRetriever(base_compressor=Rerank(), base_retriever=Notes())
    return one_call(lcel(log, retriever=retriever), log)


def _reranked(pump: str) -> list[Told]:
    first, _, third = notes(pump)
    return [(third.page_content, "", 0.8), (first.page_content, f"m-{pump}", 0.7)]


def agent(log: list[Asked], of: Any, **model: Any) -> Any:
    return create_agent(ScriptedModel(log=log, tool=of.name, **model), [of])


def messages(query: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": query}]}


def _agent(of: Callable[[], Any]) -> Callable[[Any], Application]:
    def build(_: Any) -> Application:
        log: list[Asked] = []
        return one_call(
            agent(log, of()), log, in_state("messages"), messages, streams={"stream_mode": "values"}
        )

    return build


def ask_notes() -> Any:
    return create_retriever_tool(Notes(), "ask_notes", "Finds notes.")


@tool(response_format="content_and_artifact")
def _look_up(query: str) -> tuple[str, list[Document]]:
    """Look something up."""
    found = notes(pump_in(query))
    return joined(found), found


def _store_tool() -> Any:
    def builtin(text: str) -> list[float]:
        return [float(place == int(pump_in(text))) for place in range(100)]

    store = InMemoryVectorStore(FunctionEmbeddings(builtin))
    store.add_documents([each for n in range(60) for each in more_notes(f"{n:02}")])

    @tool
    def search_store(query: str) -> str:
        """Search the store."""
        return joined(sorted(store.similarity_search(query, k=2), key=lambda each: each.id))

    return search_store


class State(TypedDict, total=False):
    """A graph's state, in the usual names."""

    question: str
    context: list[Document]
    answer: str


def retrieving(retriever: Any = None) -> Callable[[State], State]:
    """Return a node that keeps two of the documents."""
    return lambda given: {"context": (retriever or Notes()).invoke(given["question"])[:2]}


def generating(model: Any, *, waits: bool = False) -> Callable[[State], State]:
    """Return a node that answers, perhaps after a person has said yes."""

    def generate(given: State) -> State:
        if waits:
            interrupt("may I?")
        prompt = f"{joined(given['context'])}\n{given['question']}"
        return {"answer": str(model.invoke(prompt).text)}

    return generate


def line(*nodes: tuple[str, Any], **compiled: Any) -> Any:
    """Return a graph whose nodes run one after the other."""
    graph = StateGraph(State)
    for name, node in nodes:
        graph.add_node(name, node)
    names = [START, *(name for name, _ in nodes), END]
    for before, after in pairwise(names):
        graph.add_edge(before, after)
    return graph.compile(**compiled)


def state(query: str) -> dict[str, Any]:
    return {"question": query}


def _of_graph(graph: Any, log: list[Asked]) -> Application:
    return one_call(graph, log, in_state("answer"), state, streams={"stream_mode": "values"})


def _graph(_: Any) -> Application:
    log: list[Asked] = []
    model = ScriptedModel(log=log)
    return _of_graph(line(("retrieve", retrieving()), ("generate", generating(model))), log)


def _subgraphs(_: Any) -> Application:
    log: list[Asked] = []
    model = ScriptedModel(log=log)
    research = line(("retrieve", retrieving()))
    writing = line(("generate", generating(model)))
    return _of_graph(line(("research", research), ("writing", writing)), log)


def _interrupted(_: Any) -> Application:
    log: list[Asked] = []
    model = ScriptedModel(log=log)
    graph = line(
        ("retrieve", retrieving()),
        ("generate", generating(model, waits=True)),
        checkpointer=InMemorySaver(),
    )

    def ask(query: str) -> Asking:
        config = {"configurable": {"thread_id": query}}
        streams = {"stream_mode": "values"}
        yield Call(runnable=graph, inputs=state(query), config=config, streams=streams)
        go_on = Command(resume="you may")
        pieces = yield Call(runnable=graph, inputs=go_on, config=config, streams=streams)
        return in_state("answer")(pieces)

    return Application(ask=ask, log=log)


def _entrypoint(_: Any) -> Application:
    log: list[Asked] = []
    retriever, model = Notes(), ScriptedModel(log=log)

    @task
    def search(query: str) -> list[Document]:
        return retriever.invoke(query)

    @entrypoint()
    def ask(query: str) -> str:
        found = search(query).result()
        return str(model.invoke(f"{joined(found)}\n{query}").text)

    @task
    async def asearch(query: str) -> list[Document]:
        return await retriever.ainvoke(query)

    @entrypoint()
    async def aask(query: str) -> str:
        found = await asearch(query)
        return str((await model.ainvoke(f"{joined(found)}\n{query}")).text)

    def text(pieces: Sequence[Any]) -> str:
        return str(pieces[-1])

    return one_call(ask, log, text, waiting=aask, streams={"stream_mode": "values"})


def _block(monitor: Any) -> Application:
    log: list[Asked] = []
    retriever, model = Notes(), ScriptedModel(log=log)

    def ask(query: str) -> Asking:
        with monitor.interaction(query=query):
            pieces = yield Call(runnable=retriever, inputs=query)
            prompt = f"{joined(pieces[-1])}\n{query}"
            return whole((yield Call(runnable=model, inputs=prompt)))

    return Application(ask=ask, log=log)


SHAPES: tuple[Shape, ...] = (
    Shape(
        name="LCEL",
        since=CORE,
        how="The sequence's input; the retriever's documents; the sequence's output.",
        build=_lcel,
    ),
    Shape(
        name="LCEL that shows a part of what it found",
        since=CORE,
        how="As LCEL; the documents that stand in the prompt, the others apart.",
        build=_lcel_cut,
        chunks=lambda pump: all_notes(pump)[:2],
        not_shown=lambda pump: [notes(pump)[2].page_content],
    ),
    Shape(
        name="@chain function",
        since=CORE,
        how="The function's argument; the retriever's documents; what the function returns.",
        build=_chain_decorator,
    ),
    Shape(
        name="create_retrieval_chain",
        since=CLASSIC,
        how="`input`; `context`, with the retriever's ids and scores; `answer`.",
        build=_retrieval_chain,
    ),
    Shape(
        name="RunnableParallel",
        since=CORE,
        how="The input; `context` in the output; `answer` in the output.",
        build=_parallel,
    ),
    Shape(
        name="RunnableGenerator of dicts",
        since=CORE,
        how="The input; the retriever's documents; the model's pieces, as LangChain reports the "
        "last dict alone.",
        build=_generator,
    ),
    Shape(
        name="RunnableWithFallbacks",
        since=CORE,
        how="As LCEL; each attempt's model call is kept, that which failed with its error.",
        build=_fallbacks,
        retrievals=2,
    ),
    Shape(
        name="with_retry",
        since=CORE,
        how="As LCEL; each attempt's model call is kept, that which failed with its error.",
        build=_retry,
        retrievals=2,
    ),
    Shape(
        name="create_history_aware_retriever",
        since=CLASSIC,
        how="`input` and not the rewritten question; `context`; `answer`.",
        build=_history,
    ),
    Shape(
        name="MultiQueryRetriever",
        since=CLASSIC,
        how="As LCEL; the outer retriever's list; its own model calls are left out.",
        build=_multi_query,
    ),
    Shape(
        name="EnsembleRetriever",
        since=CLASSIC,
        how="As LCEL; the fused list, in its order.",
        build=_ensemble,
        chunks=lambda pump: [
            all_notes(pump)[1],
            all_notes(pump)[0],
            told(more_notes(pump))[1],
            all_notes(pump)[2],
        ],
    ),
    Shape(
        name="ContextualCompressionRetriever",
        since=CLASSIC,
        how="As LCEL; what the reranker left, with its scores; what it cut apart.",
        build=_compression,
        chunks=_reranked,
        not_shown=lambda pump: [notes(pump)[1].page_content],
    ),
    Shape(
        name="create_agent, create_retriever_tool",
        since=AGENTS,
        how="The last human message; the retriever's documents; the last message.",
        build=_agent(ask_notes),
    ),
    Shape(
        name="create_agent, tool with an artifact",
        since=AGENTS,
        how="The last human message; the documents in the tool's artifact; the last message.",
        build=_agent(lambda: _look_up),
    ),
    Shape(
        name="create_agent, tool that searches a vector store",
        since=AGENTS,
        how="The last human message; what the store found; the last message.",
        build=_agent(_store_tool),
        chunks=lambda pump: [
            (f"Pump {pump} is blue.", f"c-{pump}", 0.5),
            (f"Pump {pump} stands in hall 3.", f"h-{pump}", None),
        ],
    ),
    Shape(
        name="StateGraph",
        since=GRAPHS,
        how="`question` in the state; `context` in the state; `answer` in the state.",
        build=_graph,
        chunks=lambda pump: all_notes(pump)[:2],
        not_shown=lambda pump: [notes(pump)[2].page_content],
    ),
    Shape(
        name="StateGraph with subgraphs",
        since=GRAPHS,
        how="As StateGraph: the outermost graph is the interaction.",
        build=_subgraphs,
        chunks=lambda pump: all_notes(pump)[:2],
        not_shown=lambda pump: [notes(pump)[2].page_content],
    ),
    Shape(
        name="StateGraph, interrupt and Command(resume)",
        since=GRAPHS,
        how="As StateGraph; both runs of the thread are one interaction, with the second's caller.",
        build=_interrupted,
        chunks=lambda pump: all_notes(pump)[:2],
        not_shown=lambda pump: [notes(pump)[2].page_content],
    ),
    Shape(
        name="@entrypoint and @task",
        since=GRAPHS,
        how="The function's argument; the retriever's documents; what the function returns.",
        build=_entrypoint,
    ),
    Shape(
        name="retriever and model in monitor.interaction()",
        since=CORE,
        how="`query=`; the retriever's documents; the last model's reply.",
        build=_block,
        framework="python",
        at_once=False,
    ),
)


# --- the modes -----------------------------------------------------------------------------------

Answers = dict[str, tuple[str, SpanContext]]
"""By question: what its user saw, and the span that was current when it was asked."""


async def _invoke(call: Call) -> list[Any]:
    return [call.runnable.invoke(call.inputs, call.config)]


async def _ainvoke(call: Call) -> list[Any]:
    return [await call.awaited.ainvoke(call.inputs, call.config)]


async def _stream(call: Call) -> list[Any]:
    return [*call.runnable.stream(call.inputs, call.config, **call.streams)]


async def _astream(call: Call) -> list[Any]:
    stream = call.awaited.astream(call.inputs, call.config, **call.streams)
    return [piece async for piece in stream]


async def _astream_events(call: Call) -> list[Any]:
    root, pieces, ended = "", [], []
    async for event in call.awaited.astream_events(call.inputs, call.config, version="v2"):
        root = root or event["run_id"]
        if event["run_id"] != root:
            continue
        if event["event"].endswith("_stream") and not call.streams:
            pieces.append(event["data"]["chunk"])
        elif event["event"].endswith("_end"):
            ended.append(event["data"]["output"])
    return pieces or ended


async def _batch(calls: Sequence[Call]) -> list[Any]:
    inputs, configs = [c.inputs for c in calls], [c.config or {} for c in calls]
    return calls[0].runnable.batch(inputs, configs)


async def _abatch(calls: Sequence[Call]) -> list[Any]:
    inputs, configs = [c.inputs for c in calls], [c.config or {} for c in calls]
    return await calls[0].awaited.abatch(inputs, configs)


async def _asked(asking: Asking, run: Callable[[Call], Awaitable[list[Any]]]) -> str:
    pieces: Any = None
    while True:
        try:
            call = asking.send(pieces)
        except StopIteration as end:
            return end.value
        try:
            pieces = await run(call)
        except BaseException:  # a cancellation too: the application's generator must not stay open
            asking.close()
            raise


@contextmanager
def _request(tracer: Tracer) -> Iterator[SpanContext]:
    with tracer.start_as_current_span("request") as span:
        yield span.get_span_context()


def one_by_one(run: Callable[[Call], Awaitable[list[Any]]]) -> Any:
    async def mode(shape: Shape, app: Application, tracer: Tracer) -> Answers:
        answers: Answers = {}
        for query in map(question, (1, 2)):
            with _request(tracer) as span:
                answers[query] = await _asked(app.ask(query), run), span
        return answers

    return mode


def together(run: Callable[[Sequence[Call]], Awaitable[list[Any]]]) -> Any:
    async def alone(call: Call) -> list[Any]:
        return await run([call])

    async def mode(shape: Shape, app: Application, tracer: Tracer) -> Answers:
        if not shape.at_once:
            return await one_by_one(alone)(shape, app, tracer)
        answers: Answers = {}
        with _request(tracer) as span:
            going = [(query, app.ask(query)) for query in map(question, range(4))]
            given: list[Any] = [None] * len(going)
            while going:
                calls: list[Call] = []
                for (query, asking), pieces in zip(going, given, strict=True):
                    try:
                        calls.append(asking.send(pieces))
                    except StopIteration as end:
                        answers[query] = end.value, span
                going = going if calls else []
                given = [[output] for output in await run(calls)] if calls else []
        return answers

    return mode


async def _gathered(shape: Shape, app: Application, tracer: Tracer) -> Answers:
    async def one(query: str) -> tuple[str, tuple[str, SpanContext]]:
        with _request(tracer) as span:
            return query, (await _asked(app.ask(query), _ainvoke), span)

    return dict(await asyncio.gather(*map(one, map(question, range(50)))))


async def _pooled(shape: Shape, app: Application, tracer: Tracer) -> Answers:
    def one(query: str) -> tuple[str, tuple[str, SpanContext]]:
        asked = _asked(app.ask(query), _invoke)
        with _request(tracer) as span:
            return query, (_run_here(asked), span)

    with ThreadPoolExecutor(4) as pool:
        return dict(pool.map(one, map(question, range(12))))


def _run_here(coroutine: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine that waits for nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError


RUNS: Mapping[str, Callable[[Shape, Application, Tracer], Awaitable[Answers]]] = {
    "invoke": one_by_one(_invoke),
    "ainvoke": one_by_one(_ainvoke),
    "stream": one_by_one(_stream),
    "astream": one_by_one(_astream),
    "astream_events v2": one_by_one(_astream_events),
    "batch": together(_batch),
    "abatch": together(_abatch),
    "gather of 50": _gathered,
    "thread pool": _pooled,
}
MODES: tuple[str, ...] = tuple(RUNS)

_NOT_RETRIED = "RunnableRetry does not retry streams: what was yielded cannot be taken back."
IMPOSSIBLE: Mapping[tuple[str, str], str] = {
    ("with_retry", mode): _NOT_RETRIED for mode in ("stream", "astream", "astream_events v2")
}
"""Cells that the framework itself refuses, with its reason."""
