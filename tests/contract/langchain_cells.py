"""Applications of LangChain and LangGraph as their documentation writes them, and how to call one.

The retriever and the model are scripted, so that `data/records/langchain.jsonl` can say what is to
be captured of each.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
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
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import Field

from tests.contract.kit_capture import THINGS

TOKENS = {"input_tokens": 40, "output_tokens": 12, "total_tokens": 52}
"""Of every call of the model: a record's tokens are a multiple, each call counted once."""


def question(thing: str) -> str:
    """Return what the user asks."""
    return f"How often is the {thing} serviced?"


def answer(thing: str) -> str:
    """Return what the model says."""
    return f"The {thing} is serviced every six months."


def thing_in(text: str) -> str:
    """Return what a text speaks of last."""
    return re.findall("|".join(THINGS), text)[-1]


def joined(documents: Sequence[Document]) -> str:
    """Return the documents' texts as one context."""
    return "\n\n".join(document.page_content for document in documents)


def notes(thing: str) -> list[Document]:
    """Return three documents on a thing."""
    served = f"Service of the {thing}: twice a year."
    return [
        Document(served, id=f"{thing}-1", metadata={"score": 0.9}),
        Document(f"The {thing} is blue.", id=f"{thing}-2", metadata={"relevance_score": 0.5}),
        Document(f"See page 12 for the {thing}.", metadata={"source": "index"}),
    ]


class Notes(BaseRetriever):
    """Finds the documents on a thing, or others; or fails."""

    more: bool = False
    fails: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        if self.fails:
            raise RuntimeError("the index is gone")
        found = notes(thing_in(query))
        if self.more:
            hall = Document(f"The {thing_in(query)} stands in hall 3.", id=f"{thing_in(query)}-3")
            return [found[1], hall]
        return found

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return self._get_relevant_documents(query, run_manager=run_manager)


class Model(BaseChatModel):
    """Answers word by word; with a tool it asks for that first; may fail, or wait for ever."""

    model: str = "scripted-1"
    says: Any = None
    tool: str = ""
    fails: int = 0
    """So many calls about each thing, before the first that is answered."""
    failed: Any = Field(default_factory=Counter)
    waits: Any = None
    """Set when an asynchronous call begins, which then never ends."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _message(self, messages: list[Any]) -> AIMessage:
        prompt = "\n".join(str(message.text) for message in messages)
        thing = thing_in(prompt)
        if self.failed[thing] < self.fails:
            self.failed[thing] += 1
            raise RuntimeError("the model is gone")
        if self.tool and messages[-1].type == "human":
            call = {"name": self.tool, "args": {"query": f"the {thing}"}, "id": "1"}
            return AIMessage("", tool_calls=[call], usage_metadata=TOKENS)
        said = (self.says and self.says(prompt)) or answer(thing)
        return AIMessage(said, usage_metadata=TOKENS)

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._message(messages))])

    async def _agenerate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        if self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return self._generate(messages)

    def _stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        message = self._message(messages)
        for piece in re.findall(r"\S+\s*", str(message.text)):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        end = {"tool_calls": message.tool_calls, "usage_metadata": TOKENS}
        yield ChatGenerationChunk(message=AIMessageChunk(content="", **end))

    async def _astream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        for piece in self._stream(messages):
            await asyncio.sleep(0)
            yield piece


# --- applications --------------------------------------------------------------------------------


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


@dataclass(frozen=True, kw_only=True)
class App:
    """One application: what is called, with what for a question, and how its output is read."""

    runnable: Any
    text: Callable[[Sequence[Any]], str] = whole
    inputs: Callable[[str], Any] = str
    resumed: Any = None
    """The input of a second call, on the same thread of a graph."""
    streams: Mapping[str, Any] = field(default_factory=dict)
    """How a graph is streamed."""
    awaited: Any = None
    """What is called asynchronously, where the framework wants another object."""

    def calls(self, query: str) -> list[tuple[Any, dict[str, Any]]]:
        """Return the inputs and configs of a question's calls, in turn."""
        config = {} if self.resumed is None else {"configurable": {"thread_id": query}}
        given = [self.inputs(query), self.resumed]
        return [(each, config) for each in given if each is not None]


PROMPT = ChatPromptTemplate.from_template("{context}\n\n{question}")
STUFFED = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{input}")])
STATES = {"streams": {"stream_mode": "values"}}


ALL = slice(None)


def lcel(retriever: Any = None, model: Any = None, shows: slice = ALL) -> Runnable[Any, str]:
    """Return the chain of LangChain's first page."""
    context = (retriever or Notes()) | (lambda found: joined(found[shows]))
    given = {"context": context, "question": RunnablePassthrough()}
    return given | PROMPT | (model or Model()) | StrOutputParser()


def _chain_function() -> App:
    retriever, model = Notes(), Model()

    @chain
    def ask(query: str) -> str:
        return str(model.invoke(f"{joined(retriever.invoke(query))}\n\n{query}").text)

    return App(runnable=ask)


def retrieval_chain(retriever: Any = None, model: Any = None) -> Runnable[Any, Any]:
    """Return the chain that names its context in its output."""
    stuffed = create_stuff_documents_chain(model or Model(), STUFFED)
    return create_retrieval_chain(retriever or Notes(), stuffed)


def _parallel() -> App:
    context = RunnablePassthrough.assign(context=lambda given: joined(given["context"]))
    sources = RunnableParallel({"context": Notes(), "question": RunnablePassthrough()})
    said = context | PROMPT | Model() | StrOutputParser()
    return App(runnable=sources.assign(answer=said), text=under("answer"))


def _dicts() -> App:
    def pieces(texts: Iterator[str]) -> Iterator[dict[str, str]]:
        for text in texts:
            yield {"answer": text}

    async def apieces(texts: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
        async for text in texts:
            yield {"answer": text}

    return App(runnable=lcel() | RunnableGenerator(pieces, apieces), text=under("answer"))


def _history() -> App:
    rewrite = ChatPromptTemplate.from_messages(
        [("system", "Rewrite."), MessagesPlaceholder("chat_history"), ("human", "{input}")]
    )
    model = Model(says=lambda p: f"service of the {thing_in(p)}" * p.startswith("Rewrite."))
    retriever = create_history_aware_retriever(model, Notes(), rewrite)
    history = [("human", "Is there a manual?"), ("ai", "There is.")]
    return App(
        runnable=retrieval_chain(retriever, model),
        text=under("answer"),
        inputs=lambda query: {"input": query, "chat_history": history},
    )


def _multi_query() -> App:
    model = Model(says=lambda prompt: "\n".join(f"{w} the {thing_in(prompt)}" for w in "ab"))
    return App(runnable=lcel(MultiQueryRetriever.from_llm(Notes(), llm=model)))


class Rerank(BaseDocumentCompressor):
    """Puts the last document first, drops the second, and gives scores."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        first, _, third = documents
        first.metadata["relevance_score"], third.metadata["relevance_score"] = 0.7, 0.8
        return [third, first]


def _compression() -> App:
    best = ContextualCompressionRetriever(base_compressor=Rerank(), base_retriever=Notes())
    return App(runnable=lcel(best))


def _agent(searching: Any) -> App:
    def messages(query: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": query}]}

    agent = create_agent(Model(tool=searching.name), [searching])
    return App(runnable=agent, text=in_state("messages"), inputs=messages, **STATES)


@tool(response_format="content_and_artifact")
def look_up(query: str) -> tuple[str, list[Document]]:
    """Look something up."""
    found = notes(thing_in(query))
    return joined(found), found


@tool
def search_notes(query: str) -> str:
    """Search the notes."""
    return f"Service of the {thing_in(query)}: twice a year."


class State(TypedDict, total=False):
    """A graph's state, in the usual names."""

    question: str
    context: list[Document]
    answer: str


def _retrieve(given: State) -> State:
    return {"context": Notes().invoke(given["question"])[:2]}


def _generate(given: State) -> State:
    return {"answer": str(Model().invoke(f"{joined(given['context'])}\n{given['question']}").text)}


def _approved(given: State) -> State:
    interrupt("may I?")
    return _generate(given)


def graph(*nodes: tuple[str, Any], **compiled: Any) -> Any:
    """Return a graph whose nodes run one after the other."""
    made = StateGraph(State)
    for name, node in nodes:
        made.add_node(name, node)
    for before, after in pairwise([START, *(name for name, _ in nodes), END]):
        made.add_edge(before, after)
    return made.compile(**compiled)


def _graph(*nodes: tuple[str, Any], resumed: Any = None, **compiled: Any) -> App:
    return App(
        runnable=graph(*nodes, **compiled),
        text=in_state("answer"),
        inputs=lambda query: {"question": query},
        resumed=resumed,
        **STATES,
    )


def _functional() -> App:
    retriever, model = Notes(), Model()

    @task
    def search(query: str) -> list[Document]:
        return retriever.invoke(query)

    @entrypoint()
    def ask(query: str) -> str:
        return str(model.invoke(f"{joined(search(query).result())}\n{query}").text)

    @task
    async def asearch(query: str) -> list[Document]:
        return await retriever.ainvoke(query)

    @entrypoint()
    async def aask(query: str) -> str:
        return str((await model.ainvoke(f"{joined(await asearch(query))}\n{query}")).text)

    return App(runnable=ask, awaited=aask, text=lambda pieces: str(pieces[-1]), **STATES)


APPS: dict[str, Callable[[], App]] = {
    "LCEL": lambda: App(runnable=lcel()),
    "LCEL that shows two of three": lambda: App(runnable=lcel(shows=slice(2))),
    "LCEL that shows the last first": lambda: App(runnable=lcel(shows=slice(None, None, -1))),
    "@chain function": _chain_function,
    "create_retrieval_chain": lambda: App(
        runnable=retrieval_chain(), text=under("answer"), inputs=lambda query: {"input": query}
    ),
    "RunnableParallel": _parallel,
    "RunnableGenerator of dicts": _dicts,
    "RunnableWithFallbacks": lambda: App(
        runnable=lcel(model=Model(fails=1)).with_fallbacks([lcel()])
    ),
    "with_retry": lambda: App(
        runnable=lcel(model=Model(fails=1)).with_retry(
            stop_after_attempt=2, wait_exponential_jitter=False
        )
    ),
    "create_history_aware_retriever": _history,
    "MultiQueryRetriever": _multi_query,
    "EnsembleRetriever": lambda: App(
        runnable=lcel(EnsembleRetriever(retrievers=[Notes(), Notes(more=True)], weights=[0.6, 0.4]))
    ),
    "ContextualCompressionRetriever": _compression,
    "create_agent, create_retriever_tool": lambda: _agent(
        create_retriever_tool(Notes(), "ask_notes", "Finds notes.")
    ),
    "create_agent, tool with an artifact": lambda: _agent(look_up),
    "create_agent, tool that returns text": lambda: _agent(search_notes),
    "StateGraph": lambda: _graph(("retrieve", _retrieve), ("generate", _generate)),
    "StateGraph with subgraphs": lambda: _graph(
        ("research", graph(("retrieve", _retrieve))), ("writing", graph(("generate", _generate)))
    ),
    "StateGraph, interrupt and Command(resume)": lambda: _graph(
        ("retrieve", _retrieve),
        ("generate", _approved),
        resumed=Command(resume="you may"),
        checkpointer=InMemorySaver(),
    ),
    "@entrypoint and @task": _functional,
}


# --- modes ---------------------------------------------------------------------------------------


def invoke(app: App, query: str) -> str:
    """Ask in this thread."""
    for given, config in app.calls(query):
        output = app.runnable.invoke(given, config)
    return app.text([output])


async def ainvoke(app: App, query: str) -> str:
    """Ask in this task."""
    for given, config in app.calls(query):
        output = await (app.awaited or app.runnable).ainvoke(given, config)
    return app.text([output])


def stream(app: App, query: str) -> str:
    """Ask, and read a stream to its end."""
    for given, config in app.calls(query):
        pieces = [*app.runnable.stream(given, config, **app.streams)]
    return app.text(pieces)


async def astream(app: App, query: str) -> str:
    """Ask, and read an asynchronous stream to its end."""
    for given, config in app.calls(query):
        made = (app.awaited or app.runnable).astream(given, config, **app.streams)
        pieces = [piece async for piece in made]
    return app.text(pieces)


async def astream_events(app: App, query: str) -> str:
    """Ask, and read the events; of a graph, the answer stands in its last one."""
    for given, config in app.calls(query):
        events = (app.awaited or app.runnable).astream_events(given, config, version="v2")
        all_events = [event async for event in events]
        last = all_events[-1]
        streamed = [e for e in all_events[:-1] if e["run_id"] == last["run_id"]]
        pieces = [e["data"]["chunk"] for e in streamed if e["event"].endswith("_stream")]
    return app.text([last["data"]["output"]] if app.streams else pieces)


async def _batched(app: App, batch: Callable[[list[Any], list[Any]], Awaitable[Any]]) -> list[str]:
    asked = [app.calls(question(thing)) for thing in THINGS]
    for calls in zip(*asked, strict=True):
        outputs = await batch([given for given, _ in calls], [config for _, config in calls])
    return [app.text([output]) for output in outputs]


async def batch(app: App) -> list[str]:
    """Ask of all things in one call."""

    async def at_once(inputs: list[Any], configs: list[Any]) -> Any:
        return app.runnable.batch(inputs, configs)

    return await _batched(app, at_once)


async def abatch(app: App) -> list[str]:
    """Ask of all things in one asynchronous call."""
    return await _batched(app, (app.awaited or app.runnable).abatch)


async def gather(app: App) -> list[str]:
    """Ask of all things in tasks."""
    return [*await asyncio.gather(*(ainvoke(app, question(thing)) for thing in THINGS))]


async def threads(app: App) -> list[str]:
    """Ask of all things in threads."""
    with ThreadPoolExecutor(3) as pool:
        return [*pool.map(lambda thing: invoke(app, question(thing)), THINGS)]


ONE: dict[str, Any] = {
    each.__name__: each for each in (invoke, ainvoke, stream, astream, astream_events)
}
MANY: dict[str, Any] = {each.__name__: each for each in (batch, abatch, gather, threads)}
