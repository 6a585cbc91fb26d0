"""Graphs that wait for a person: the runs before and after the pause are one interaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import create_retriever_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from integrations.langchain.tests.matrix import (
    Notes,
    ScriptedModel,
    State,
    joined,
    line,
    messages,
    notes,
    question,
    reply,
    state,
)
from ragmonitor.integration import INTERACTION_TAG
from ragmonitor_langchain import instrument

QUERY = question(7)
ON_THREAD: dict[str, Any] = {"configurable": {"thread_id": "t-1"}}

Going = Callable[[Any, Any], Awaitable[Any]]


async def _invoke(graph: Any, given: Any, config: Any) -> None:
    graph.invoke(given, config)


async def _ainvoke(graph: Any, given: Any, config: Any) -> None:
    await graph.ainvoke(given, config)


async def _stream(graph: Any, given: Any, config: Any) -> None:
    list(graph.stream(given, config))


async def _astream(graph: Any, given: Any, config: Any) -> None:
    async for _ in graph.astream(given, config, stream_mode=["messages", "values"]):
        pass


@pytest.fixture(params=[_invoke, _ainvoke, _stream, _astream])
def go(request: pytest.FixtureRequest) -> Any:
    """Give one way to run a graph on its thread."""

    async def going(graph: Any, given: Any, config: Any = None) -> None:
        await request.param(graph, given, config or ON_THREAD)

    return going


def _retrieve(given: State) -> State:
    return {"context": Notes().invoke(given["question"])}


def _generate(given: State) -> State:
    prompt = f"{joined(given['context'])}\n{given['question']}"
    return {"answer": str(ScriptedModel().invoke(prompt).text)}


def _asks(times: int) -> Callable[[State], State]:
    def ask(_: State) -> State:
        for number in range(times):
            interrupt(f"may I? ({number})")
        return {}

    return ask


def _graph(times: int = 1, **compiled: Any) -> Any:
    nodes = [("retrieve", _retrieve), ("ask", _asks(times)), ("generate", _generate)]
    return line(*nodes, checkpointer=InMemorySaver(), **compiled)


def _check(found: Any) -> None:
    assert (found.query, found.answer, found.status) == (QUERY, reply("07"), "ok")
    assert [c.text for c in found.chunks] == [each.page_content for each in notes("07")]
    assert (len(found.retrievals), len(found.generations)) == (1, 1)


async def test_before_and_after_are_one_interaction(monitor: Any, go: Going) -> None:
    """Question and documents of the run that paused, answer of the one that went on."""
    instrument(monitor)
    graph = _graph()
    await go(graph, state(QUERY))
    waiting = monitor.finished.copy()
    await go(graph, Command(resume="you may"))
    assert waiting == []
    _check(monitor.only)


async def test_a_pause_in_a_subgraph_that_was_chosen(monitor: Any, go: Going) -> None:
    """The subgraph is the interaction, before and after."""
    instrument(monitor)
    inner = line(("retrieve", _retrieve), ("ask", _asks(1)), ("generate", _generate))
    chosen = inner.with_config(tags=[INTERACTION_TAG], run_name="rag")
    graph = line(("inner", chosen), checkpointer=InMemorySaver())
    for given in (state(QUERY), Command(resume="you may")):
        await go(graph, given)
    _check(monitor.only)
    assert monitor.only.name == "rag"


async def test_a_breakpoint_is_a_pause(monitor: Any, go: Going) -> None:
    """`interrupt_before` shows in no callback: a thread that retrieved and asked nobody waits."""
    instrument(monitor)
    graph = _graph(0, interrupt_before=["generate"])
    await go(graph, state(QUERY))
    await go(graph, None)
    _check(monitor.only)


class _Searching(ScriptedModel):
    """Asks for its tool twice before it answers."""

    def _calls_tool(self, messages: list[BaseMessage]) -> bool:
        return sum(each.type == "tool" for each in messages) < 2

    def _call(self, messages: list[BaseMessage]) -> ToolCall:
        return ToolCall(name=self.tool, args={"query": "pump 07"}, id=str(len(messages)))


def _searching(**compiled: Any) -> Any:
    tool = create_retriever_tool(Notes(), "ask_notes", "Finds notes.")
    return create_agent(
        _Searching(tool="ask_notes"), [tool], checkpointer=InMemorySaver(), **compiled
    )


async def test_a_breakpoint_before_a_tool_that_nobody_passes_is_partial(
    monitor: Any, go: Going
) -> None:
    """The user has got no answer."""
    instrument(monitor)
    agent = _searching(interrupt_before=["tools"])
    for given in (messages(QUERY), None):
        await go(agent, given)
    monitor.known.end_paused()
    assert (monitor.only.status, monitor.only.answer) == ("partial", "")


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_stream_that_is_closed_at_the_pause_waits_too(monitor: Any, *, goes_on: bool) -> None:
    """The answer is there, a person approves it: applications read no further than that."""
    instrument(monitor)
    nodes = [("retrieve", _retrieve), ("generate", _generate), ("ask", _asks(1))]
    graph = line(*nodes, checkpointer=InMemorySaver())
    pieces = graph.stream(state(QUERY), ON_THREAD)
    while "__interrupt__" not in next(pieces):
        pass
    pieces.close()
    if goes_on:
        graph.invoke(Command(resume="you may"), ON_THREAD)
    monitor.known.end_paused()
    found = monitor.only
    assert (found.answer, found.status) == (reply("07"), "ok" if goes_on else "partial")


async def test_a_tool_that_runs_elsewhere_is_a_pause(monitor: Any, go: Going) -> None:
    """In the user's browser, say: the next run begins with its result, and has no question."""

    def ask(given: MessagesState) -> Any:
        if given["messages"][-1].type == "tool":
            prompt = f"{joined(notes('07'))}\n{QUERY}"
            return {"messages": [ScriptedModel().invoke(prompt)]}
        Notes().invoke(QUERY)
        call = ToolCall(name="show_map", args={}, id="1")
        return {"messages": [AIMessage("", tool_calls=[call])]}

    instrument(monitor)
    building = StateGraph(MessagesState)
    building.add_node("ask", ask)
    building.add_edge(START, "ask")
    graph = building.compile(checkpointer=InMemorySaver())
    await go(graph, messages(QUERY))
    await go(graph, {"messages": [ToolMessage("shown", tool_call_id="1")]})
    _check(monitor.only)


async def test_threads_pause_apart(monitor: Any, go: Going) -> None:
    """Each goes on with its own question."""
    instrument(monitor)
    graph = _graph()
    threads = {n: {"configurable": {"thread_id": str(n)}} for n in range(3)}
    for number, config in threads.items():
        await go(graph, state(question(number)), config)
    for _, config in reversed(threads.items()):
        await go(graph, Command(resume="you may"), config)
    assert [(i.query, i.session_id) for i in monitor.interactions] == [
        (question(n), str(n)) for n in (2, 1, 0)
    ]


async def test_an_agent_whose_tool_wants_approval(monitor: Any, go: Going) -> None:
    """The pause comes before anything is retrieved: the question is still the human's."""
    instrument(monitor)
    tool = create_retriever_tool(Notes(), "ask_notes", "Finds notes.")
    agent = create_agent(
        ScriptedModel(log=[], tool="ask_notes"),
        [tool],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"ask_notes": True})],
        checkpointer=InMemorySaver(),
    )
    await go(agent, messages(QUERY))
    await go(agent, Command(resume={"decisions": [{"type": "approve"}]}))
    assert (monitor.only.query, monitor.only.answer) == (QUERY, reply("07"))
    assert (len(monitor.only.chunks), len(monitor.only.generations)) == (3, 2)


async def test_another_question_instead_of_going_on(monitor: Any, go: Going) -> None:
    """The first is partial, the second is whole."""
    instrument(monitor)
    graph = _graph()
    await go(graph, state(question(1)))
    await go(graph, state(QUERY))
    await go(graph, Command(resume="you may"))
    first, second = monitor.interactions
    assert (first.query, first.status) == (question(1), "partial")
    _check(second)


@asynccontextmanager
async def _resumed_elsewhere(listening: Any, go: Going, graph: Any) -> AsyncIterator[Any]:
    """Ask a graph that pauses, resume it as another process would, and yield the monitor there."""
    with listening() as before:
        instrument(before)
        await go(graph, state(QUERY))
        before.known.clear()
    with listening() as monitor:
        instrument(monitor)
        await go(graph, Command(resume="you may"))
        yield monitor


async def test_going_on_in_another_process_without_the_documents(listening: Any, go: Going) -> None:
    """What was retrieved is not known there, so it is no interaction; nothing is left open."""

    def generate(_: State) -> State:
        return {"answer": str(ScriptedModel().invoke(f"{joined(notes('07'))}\n{QUERY}").text)}

    def retrieve(given: State) -> State:
        Notes().invoke(given["question"])
        return {}

    nodes = ("retrieve", retrieve), ("ask", _asks(1)), ("generate", generate)
    graph = line(*nodes, checkpointer=InMemorySaver())
    async with _resumed_elsewhere(listening, go, graph) as monitor:
        assert monitor.interactions == []


async def test_a_graph_that_retrieves_and_stops_is_no_interaction(monitor: Any, go: Going) -> None:
    """Held back as a possible pause, and given up at its thread's next question."""
    instrument(monitor)
    graph = line(("retrieve", _retrieve), checkpointer=InMemorySaver())
    for number in range(3):
        await go(graph, state(question(number)))
    assert (monitor.finished, monitor.open_runs) == ([], 1)
    monitor.known.clear()
