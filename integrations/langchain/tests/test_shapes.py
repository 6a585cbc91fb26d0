"""What the table of shapes does not ask: several retrievals, other models, other messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough, chain
from langchain_core.tools import InjectedToolCallId, create_retriever_tool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from integrations.langchain.tests.matrix import (
    PROMPT,
    Notes,
    ScriptedModel,
    State,
    agent,
    generating,
    joined,
    lcel,
    line,
    messages,
    notes,
    question,
    reply,
    retrieving,
    state,
)
from ragmonitor.integration import INTERACTION_TAG
from ragmonitor_langchain import instrument

QUERY = question(7)
NOTES = [each.page_content for each in notes("07")]


@pytest.mark.parametrize("mode", ["invoke", "ainvoke"])
async def test_a_chain_that_maps_questions_answers_each(monitor: Any, mode: str) -> None:
    """As in a batch: each question has its own answer, and its own documents."""
    instrument(monitor)
    asked = [question(7), question(8)]
    if mode == "invoke":
        lcel().map().invoke(asked)
    else:
        await lcel().map().ainvoke(asked)
    found = sorted(monitor.interactions, key=lambda each: each.query)
    assert [(i.query, i.answer) for i in found] == [
        (question(7), reply("07")),
        (question(8), reply("08")),
    ]


def test_a_retriever_that_maps_queries_is_a_step(monitor: Any) -> None:
    """Below another run, what maps is no root."""
    instrument(monitor)
    rewriting = RunnableLambda(lambda query: [query, f"more of {query}"])

    @chain
    def ask(query: str) -> str:
        found = (rewriting | Notes().map()).invoke(query)
        return str(ScriptedModel().invoke(f"{joined(found[0])}\n{query}").text)

    ask.invoke(QUERY)
    assert (monitor.only.query, len(monitor.only.retrievals)) == (QUERY, 2)


def test_protocol_events_are_a_stream_too(monitor: Any) -> None:
    """A model that is read with `stream_events` (v3) tells its pieces in events."""
    instrument(monitor)
    model = ScriptedModel()
    text = lcel(model=lambda prompt: str(model.stream_events(prompt, version="v3").text))
    assert text.invoke(QUERY) == reply("07")
    assert monitor.only.answer == reply("07")
    assert monitor.only.generations[0].first_token_ns > 0


# --- agents and graphs ---------------------------------------------------------------------------


def test_a_search_tool_s_text_beside_a_retriever_counts_once(monitor: Any) -> None:
    """A retriever ran in it: its documents have ids and scores, the tool's text has neither."""
    instrument(monitor)
    agent([], create_retriever_tool(Notes(), "search_notes", "Finds notes.")).invoke(
        messages(QUERY)
    )
    assert [(r.name, len(r.chunks)) for r in monitor.only.retrievals] == [("Notes", 3)]


def test_a_search_tool_s_content_parts_are_one_text(monitor: Any) -> None:
    """As some tools give them; what is no text is left out."""

    @tool
    def search_parts(query: str) -> list[Any]:
        """Search."""
        return [
            {"type": "text", "text": "Pump 07 is "},
            {"type": "image", "url": "https://example.org/pump.png"},
            {"type": "text", "text": "blue."},
        ]

    instrument(monitor)
    agent([], search_parts).invoke(messages(QUERY))
    assert [c.text for c in monitor.only.chunks] == ["Pump 07 is blue."]


def _results(found: list[str]) -> list[dict[str, str]]:
    return [{"url": "u", "content": text} for text in found]


@pytest.mark.parametrize(
    ("given", "chunks"),
    [
        pytest.param(_results, NOTES, id="dicts"),
        pytest.param(lambda found: {"results": _results(found)}, NOTES, id="dict"),
        pytest.param(list, ["\n".join(NOTES)], id="texts"),
    ],
)
def test_search_results_of_a_tool_that_a_node_calls(
    monitor: Any, given: Callable[[list[str]], Any], chunks: list[str]
) -> None:
    """A web search in a corrective graph: no message, but what the tool returns."""

    @tool
    def search_web(query: str) -> Any:
        """Search the web."""
        return given(NOTES)

    def search(asked: State) -> State:
        search_web.invoke({"query": asked["question"]})
        return {"context": notes("07")}

    instrument(monitor)
    line(("search", search), ("generate", generating(ScriptedModel()))).invoke(state(QUERY))
    assert [c.text for r in monitor.only.retrievals for c in r.chunks] == chunks


def test_documents_of_a_tool_that_a_node_calls(monitor: Any) -> None:
    """They are chunks, with their ids, whatever the tool is called."""

    @tool
    def ask_store(query: str) -> Any:
        """Ask a vector store."""
        return notes("07")

    def search(asked: State) -> State:
        return {"context": ask_store.invoke({"query": asked["question"]})}

    instrument(monitor)
    line(("search", search), ("generate", generating(ScriptedModel()))).invoke(state(QUERY))
    assert [(c.text, c.id) for r in monitor.only.retrievals for c in r.chunks] == [
        (each.page_content, each.id or "") for each in notes("07")
    ]


@pytest.mark.parametrize("artifact", [None, notes("07")])
def test_a_tool_that_changes_the_state_gives_its_messages(monitor: Any, artifact: Any) -> None:
    """A `Command` with messages: the documents in their artifact, else their text."""

    @tool
    def search_state(query: str, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Search."""
        message = ToolMessage("Pump 07 is blue.", tool_call_id=call, artifact=artifact)
        return Command(update={"messages": [message]})

    instrument(monitor)
    agent([], search_state).invoke(messages(QUERY))
    assert [c.text for r in monitor.only.retrievals for c in r.chunks] == (
        NOTES if artifact else ["Pump 07 is blue."]
    )


def test_a_tool_that_is_no_search_is_no_retrieval(monitor: Any) -> None:
    """A tool that tells the time."""

    @tool
    def clock(query: str) -> str:
        """Tell the time."""
        return "noon"

    instrument(monitor)
    agent([], clock).invoke(messages(QUERY))
    assert monitor.interactions == []


# --- what cannot be known ------------------------------------------------------------------------


def _titled(model: Any) -> Callable[[State], State]:
    def name(given: State) -> State:
        list(model.stream(f"Name the talk: {given['answer']}"))
        return {}

    return name


def test_the_first_token_is_that_of_the_model_that_answered(monitor: Any) -> None:
    """Not that of one that was asked afterwards, to name the conversation."""
    instrument(monitor)
    graph = line(
        ("retrieve", retrieving()),
        ("generate", generating(ScriptedModel())),
        ("name", _titled(ScriptedModel(respond=lambda _: "Service of pumps"))),
    )
    list(graph.stream(state(QUERY), stream_mode="messages"))
    answering, naming = monitor.only.generations
    assert monitor.only.first_token_ns == answering.first_token_ns
    assert 0 < answering.first_token_ns < naming.first_token_ns


def test_the_first_token_of_a_block_is_that_of_the_model_that_answered(monitor: Any) -> None:
    """A model that is asked afterwards changes nothing, streamed or not."""
    instrument(monitor)
    with monitor.interaction(query=QUERY) as block:
        prompt = f"{joined(Notes().invoke(QUERY))}\n{QUERY}"
        answer = "".join(piece.text for piece in ScriptedModel().stream(prompt))
        ScriptedModel(respond=lambda _: "Service of pumps").invoke(f"Name the talk: {answer}")
        block.answered(answer)
    assert monitor.only.first_token_ns == monitor.only.generations[0].first_token_ns > 0


# --- stores that are searched without a retriever ------------------------------------------------


def _searching(given: State) -> State:
    return {"context": notes("07")} if "pump" in given["question"] else {}


def _by_state(graph: Any) -> None:
    graph.invoke(state(QUERY))


def _by_stream(graph: Any) -> None:
    list(graph.stream(state(QUERY), stream_mode="messages"))


@pytest.mark.parametrize("run", [_by_state, _by_stream])
def test_documents_in_a_graphs_state_were_retrieved(
    monitor: Any, run: Callable[[Any], None]
) -> None:
    """As in LangChain's own tutorial, whose node asks its vector store by itself."""
    instrument(monitor)
    run(line(("retrieve", _searching), ("generate", generating(ScriptedModel()))))
    assert (monitor.only.query, monitor.only.answer) == (QUERY, reply("07"))
    assert [(c.text, c.id) for r in monitor.only.retrievals for c in r.chunks] == [
        (each.page_content, each.id or "") for each in notes("07")
    ]


def test_documents_beside_an_answer_were_retrieved(monitor: Any) -> None:
    """In what a chain gives, as `create_retrieval_chain` does."""
    instrument(monitor)
    found = RunnableParallel(context=lambda _: notes("07"), question=RunnablePassthrough())
    found.assign(answer=PROMPT | ScriptedModel() | StrOutputParser()).invoke(QUERY)
    (retrieval,) = monitor.only.retrievals
    assert [c.text for c in retrieval.chunks] == NOTES


def test_documents_that_an_application_passes_in_were_not_retrieved(monitor: Any) -> None:
    """It wants them summed up."""
    instrument(monitor)
    line(("generate", generating(ScriptedModel()))).invoke({**state(QUERY), "context": notes("07")})
    assert monitor.interactions == []


def test_documents_of_an_earlier_question_were_not_retrieved(monitor: Any) -> None:
    """They stand in the thread's state, and in no prompt."""

    def generate(given: State) -> State:
        context = joined(given["context"]) if "pump" in given["question"] else "pump 07"
        return {"answer": str(ScriptedModel().invoke(f"{context}\n{given['question']}").text)}

    instrument(monitor)
    nodes = ("retrieve", _searching), ("generate", generate)
    graph = line(*nodes, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    graph.invoke(state(QUERY), config)
    assert graph.invoke(state("Thanks!"), config)["context"]
    assert monitor.only.query == QUERY


def test_documents_of_a_chosen_graph_are_not_retrieved_again_around_it(monitor: Any) -> None:
    """The state of the graph around it names them, too."""
    instrument(monitor)
    inner = line(("retrieve", _searching), ("generate", generating(ScriptedModel())))
    chosen = inner.with_config(tags=[INTERACTION_TAG], run_name="rag")
    line(("rag", chosen)).invoke(state(QUERY))
    assert monitor.only.name == "rag"
