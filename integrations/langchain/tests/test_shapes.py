"""Retrievers in retrievers, tools, agents and graphs."""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import Document
from langchain_core.documents.compressor import BaseDocumentCompressor
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake import FakeListLLM
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda, chain
from langchain_core.tools import create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from ragmonitor_langchain import instrument


class Rerank(BaseDocumentCompressor):
    """Keeps the last document and gives it a score."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        last = documents[-1]
        return [last.model_copy(update={"metadata": {**last.metadata, "relevance_score": 0.7}})]


def _multi_query(apps: Any) -> Any:
    return MultiQueryRetriever.from_llm(apps.Notes(), llm=apps.model("one?\ntwo?\nthree?"))


class TestNestedRetrievers:
    """A retriever that asks other retrievers, and models, is one retrieval."""

    async def test_multi_query_counts_once(
        self, monitor: Any, build: Any, way: Any, apps: Any
    ) -> None:
        """Three rewritten questions inside: one retrieval, and one model call on the answer."""
        instrument(monitor)
        await way(build(_multi_query(apps)), ["a"], {})
        (interaction,) = monitor.interactions
        assert (len(interaction.retrievals), len(interaction.generations)) == (1, 1)

    async def test_multi_query_gives_the_final_chunks(
        self, monitor: Any, build: Any, way: Any, apps: Any
    ) -> None:
        """The outer retriever's list, without what it dropped as equal."""
        instrument(monitor)
        await way(build(_multi_query(apps)), ["a"], {})
        assert len(monitor.only.chunks) == 5
        assert monitor.only.chunks == monitor.only.retrievals[0].chunks

    def test_multi_query_counts_the_answers_tokens_only(self, monitor: Any, apps: Any) -> None:
        """The model inside the retriever does not work on the answer."""
        instrument(monitor)
        apps.lcel(_multi_query(apps)).chain.invoke("a")
        assert monitor.only.usage.output_tokens == len(apps.ANSWER.split())

    def test_an_ensemble_counts_once(self, monitor: Any, apps: Any) -> None:
        """Two retrievers, fused."""
        instrument(monitor)
        both = EnsembleRetriever(retrievers=[apps.Notes(), apps.Notes()], weights=[0.5, 0.5])
        apps.lcel(both).chain.invoke("a")
        assert (len(monitor.only.retrievals), len(monitor.only.chunks)) == (1, 3)

    def test_what_a_reranker_cut_is_not_there(self, monitor: Any, apps: Any) -> None:
        """The chunks are what came out, with the reranker's score."""
        instrument(monitor)
        reranked = ContextualCompressionRetriever(
            base_compressor=Rerank(), base_retriever=apps.Notes()
        )
        apps.lcel(reranked).chain.invoke("a")
        assert [(c.text, c.score) for c in monitor.only.chunks] == [("See page a", 0.7)]


def test_two_retrievers_side_by_side_are_two_retrievals(monitor: Any, apps: Any) -> None:
    """Their chunks are joined in order, equal ones once."""
    instrument(monitor)
    notes, model = apps.Notes(), apps.model()

    @chain
    def ask(question: str) -> str:
        found = notes.invoke(question) + notes.invoke("more " + question)
        return str(model.invoke(str(found)).text)

    ask.invoke("a")
    assert [r.query for r in monitor.only.retrievals] == ["a", "more a"]
    assert [c.text for c in monitor.only.chunks][2:] == ["See page a", "See page more a"]


def test_a_chain_called_inside_a_chain_is_one_interaction(monitor: Any, apps: Any) -> None:
    """The outermost call is what the user asked."""
    instrument(monitor)
    inner = apps.lcel().chain
    outer = RunnableLambda(lambda question: inner.invoke("rewritten " + question))
    outer.invoke("a")
    assert (monitor.only.query, monitor.only.retrievals[0].query) == ("a", "rewritten a")


def test_a_completion_model_is_a_model(monitor: Any, apps: Any) -> None:
    """Not only chat models answer."""
    instrument(monitor)
    apps.lcel(llm=FakeListLLM(responses=["a completion"])).chain.invoke("a")
    assert [g.output for g in monitor.only.generations] == ["a completion"]


async def test_an_async_completion_model_is_a_model(monitor: Any, apps: Any) -> None:
    """Not only chat models answer."""
    instrument(monitor)
    await apps.lcel(llm=FakeListLLM(responses=["a completion"])).chain.ainvoke("a")
    assert [g.output for g in monitor.only.generations] == ["a completion"]


def test_a_session_s_chat_history_is_not_the_question(monitor: Any, apps: Any) -> None:
    """Of several messages the human's last one is the question."""
    instrument(monitor)
    last = RunnableLambda(lambda messages: messages[-1].content)
    given = [HumanMessage("hello"), AIMessage("hello!"), HumanMessage("how often?")]
    (last | apps.lcel().chain).invoke(given)
    assert monitor.only.query == "how often?"


# --- agents and graphs ------------------------------------------------------------


class Agent(BaseChatModel):
    """Calls its tool once, then answers."""

    answer: str
    tool: str

    @property
    def _llm_type(self) -> str:
        return "agent"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> Any:
        if messages[-1].type == "human":
            call = ToolCall(name=self.tool, args={"query": "rewritten"}, id="call-1")
            reply = AIMessage(content="", tool_calls=[call])
        else:
            reply = AIMessage(content=[{"type": "text", "text": self.answer}])
        return ChatResult(generations=[ChatGeneration(message=reply)])


@tool(response_format="content_and_artifact")
def look_up(query: str) -> tuple[str, list[Document]]:
    """Look something up without a retriever."""
    found = [Document("Found " + query, id="x-1", metadata={"score": 0.4})]
    return found[0].page_content, found


@tool
def clock(query: str) -> str:
    """Tell the time."""
    return "noon"


def _agent(apps: Any, kind: str) -> Any:
    tools = {
        "retriever": create_retriever_tool(apps.Notes(), "search", "Searches."),
        "both": create_retriever_tool(
            apps.Notes(), "search", "Searches.", response_format="content_and_artifact"
        ),
        "artifact": look_up,
        "clock": clock,
    }
    return create_agent(Agent(answer=apps.ANSWER, tool=tools[kind].name), [tools[kind]])


ASKED = {"messages": [{"role": "user", "content": "how often?"}]}


def _run(agent: Any, way: str) -> None:
    if way == "invoke":
        agent.invoke(ASKED)
    else:
        list(agent.stream(ASKED, stream_mode=["messages", "values"]))


async def _arun(agent: Any, way: str) -> None:
    if way == "invoke":
        await agent.ainvoke(ASKED)
    else:
        async for _ in agent.astream(ASKED, stream_mode=["messages", "values"]):
            pass


@pytest.mark.parametrize("kind", ["retriever", "both", "artifact"])
@pytest.mark.parametrize("way", ["invoke", "stream"])
class TestAgents:
    """An agent that retrieves through a tool is one interaction."""

    def test_query_and_answer(self, monitor: Any, apps: Any, kind: str, way: str) -> None:
        """The human's question and the agent's last words."""
        instrument(monitor)
        _run(_agent(apps, kind), way)
        assert (monitor.only.query, monitor.only.answer) == ("how often?", apps.ANSWER)

    def test_each_text_once(self, monitor: Any, apps: Any, kind: str, way: str) -> None:
        """One retrieval, whether a retriever or only the tool's artifact showed it."""
        instrument(monitor)
        _run(_agent(apps, kind), way)
        (retrieval,) = monitor.only.retrievals
        assert (retrieval.query, retrieval.chunks) == ("rewritten", monitor.only.chunks)

    @pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks need their context")
    async def test_async(self, monitor: Any, apps: Any, kind: str, way: str) -> None:
        """The same in async."""
        instrument(monitor)
        await _arun(_agent(apps, kind), way)
        assert (monitor.only.answer, len(monitor.only.retrievals)) == (apps.ANSWER, 1)


def test_an_agent_that_retrieves_nothing_is_no_interaction(monitor: Any, apps: Any) -> None:
    """A tool that tells the time is no retrieval."""
    instrument(monitor)
    _agent(apps, "clock").invoke(ASKED)
    assert monitor.interactions == []


class State(TypedDict, total=False):
    """A graph's state, in the usual names."""

    question: str
    context: list[Document]
    answer: Annotated[str, "what the user sees"]


def _graph(apps: Any, *, asks: bool = False) -> Any:
    notes, model = apps.Notes(), apps.model()

    def retrieve(state: State) -> State:
        return {"context": notes.invoke(state["question"])[:2]}

    def generate(state: State) -> State:
        if asks:
            interrupt("may I?")
        return {"answer": str(model.invoke(str(state["context"])).text)}

    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "generate")
    graph.add_edge("generate", END)
    return graph.compile(checkpointer=InMemorySaver() if asks else None)


def test_a_graph_is_one_interaction(monitor: Any, apps: Any) -> None:
    """Query and answer are in the state."""
    instrument(monitor)
    _graph(apps).invoke({"question": "how often?"})
    assert (monitor.only.query, monitor.only.answer) == ("how often?", apps.ANSWER)


def test_a_graph_s_context_is_what_the_model_saw(monitor: Any, apps: Any) -> None:
    """The retriever found three documents; the state kept two."""
    instrument(monitor)
    _graph(apps).invoke({"question": "how often?"})
    assert (len(monitor.only.chunks), len(monitor.only.retrievals[0].chunks)) == (2, 3)


def test_a_graph_s_thread_is_the_session(monitor: Any, apps: Any) -> None:
    """`thread_id` is LangGraph's word for it; nothing of LangGraph's own is an attribute."""
    instrument(monitor)
    _graph(apps).invoke({"question": "a"}, {"configurable": {"thread_id": "t-1"}})
    assert (monitor.only.session_id, monitor.only.attributes) == ("t-1", {})


def test_an_interrupted_graph_warns_nobody(monitor: Any, apps: Any) -> None:
    """It pauses before its model: no interaction, no warning, and nothing left open."""
    instrument(monitor)
    graph = _graph(apps, asks=True)
    config = {"configurable": {"thread_id": "t-1"}}
    graph.invoke({"question": "a"}, config)
    graph.invoke(Command(resume=True), config)
    assert monitor.interactions == []
