"""LangChain's shapes of an application, and the ways to call one: rows and columns of the coverage.

Every shape is a real application around a scripted model and retriever, written as LangChain's and
LangGraph's own documentation writes it. `tests/test_matrix.py` runs each in every mode.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain_classic.chains import create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnablePassthrough,
)
from langchain_core.tools import create_retriever_tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from ragmonitor import Interaction
from ragmonitor.integration import InteractionRecorder, Recorder, Translator
from ragmonitor_langchain.driver import AnsweringModel

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

"""Text, id and score of a chunk."""


def retrieval_chain(
    log: list[Asked] | None = None, *, retriever: Any = None, model: Any = None
) -> Runnable[Any, Any]:
    answer = create_stuff_documents_chain(model or ScriptedModel(log=log), STUFFED)
    return create_retrieval_chain(retriever or Notes(), answer)


def agent(log: list[Asked], of: Any, **model: Any) -> Any:
    return create_agent(ScriptedModel(log=log, tool=of.name, **model), [of])


def messages(query: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": query}]}


def ask_notes() -> Any:
    return create_retriever_tool(Notes(), "ask_notes", "Finds notes.")


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


# --- the modes -----------------------------------------------------------------------------------

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


RUNS: Mapping[str, Callable[[Call], Awaitable[list[Any]]]] = {
    "invoke": _invoke,
    "ainvoke": _ainvoke,
    "stream": _stream,
    "astream": _astream,
}


async def asked(app: Application, mode: str) -> list[str]:
    """Ask an application two questions; return these."""
    for query in map(question, (1, 2)):
        await _asked(app.ask(query), RUNS[mode])
    return [question(1), question(2)]
