"""Which run is the interaction, where several are nested: the outermost, or what was chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from opentelemetry import trace
from opentelemetry.trace import format_span_id

from integrations.langchain.tests import matrix
from integrations.langchain.tests.matrix import RUNS, lcel, one_call
from ragmonitor.integration import INTERACTION_TAG
from ragmonitor_langchain import instrument

TAGGED = {"tags": [INTERACTION_TAG]}
QUESTIONS = [matrix.question(1), matrix.question(2)]


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Any:
    """Give one way to ask an application two questions."""
    return lambda app: matrix.asked(app, request.param)


def _inside(rag: Any) -> Any:
    """Return a chain that asks another one in its own words."""

    def ask(query: str) -> str:
        return str(rag.invoke(f"In short: {query}"))

    async def aask(query: str) -> str:
        return str(await rag.ainvoke(f"In short: {query}"))

    return RunnableLambda(ask, aask)


def _agent_over(rag: Any, log: list[Any], name: str) -> Any:
    @tool(name)
    def sync_rag(query: str, config: RunnableConfig) -> str:
        """Answer from the notes."""
        return str(rag.invoke(query, config))

    async def async_rag(query: str, config: RunnableConfig) -> str:
        return str(await rag.ainvoke(query, config))

    sync_rag.coroutine = async_rag
    return matrix.agent(log, sync_rag)


@pytest.mark.parametrize("choice", [{"root_names": ("rag",)}])
async def test_a_named_chain_is_the_interaction(choosing: Any, run: Any) -> None:
    """Wherever it is nested; it has the name it was found by."""
    instrument(choosing)
    rag = lcel().with_config(run_name="rag")
    asked = await run(one_call(_inside(rag), []))
    assert sorted(i.query for i in choosing.interactions) == [f"In short: {q}" for q in asked]
    assert {i.name for i in choosing.interactions} == {"rag"}


@pytest.mark.parametrize("choice", [{"root_names": ("rag",)}])
async def test_of_names_nothing_else_is_an_interaction(choosing: Any, run: Any) -> None:
    """A chain of another name is left alone, also as a root."""
    instrument(choosing)
    await run(one_call(lcel().with_config(run_name="other"), []))
    assert choosing.interactions == []


@pytest.mark.parametrize("choice", [{"root_names": ("rag",)}])
async def test_a_name_within_a_chosen_run_changes_nothing(choosing: Any, run: Any) -> None:
    """Names recur in nested runs, and tags are inherited by them."""
    instrument(choosing)
    rag = lcel(parser=RunnableLambda(lambda message: message.text).with_config(run_name="rag"))
    asked = await run(one_call(rag.with_config(run_name="rag", **TAGGED), []))
    assert sorted(i.query for i in choosing.interactions) == asked


@pytest.fixture
def choice() -> dict[str, Any]:
    """Choose by no setting."""
    return {}


@pytest.fixture
def choosing(choice: dict[str, Any], listening: Any) -> Iterator[Any]:
    """Give a monitor with settings of its own."""
    with listening(**choice) as monitor:
        yield monitor


async def test_a_rag_tool_of_an_agent_is_a_part_of_it(monitor: Any, run: Any) -> None:
    """By default the agent is the interaction: its question, its answer, the tool's documents."""
    instrument(monitor)
    log: list[Any] = []
    graph = _agent_over(lcel(log), log, "search_notes")
    values = {"streams": {"stream_mode": "values"}}
    app = one_call(graph, log, matrix.in_state("messages"), matrix.messages, **values)
    asked = await run(app)
    assert sorted(i.query for i in monitor.interactions) == asked
    assert {(len(i.chunks), len(i.generations)) for i in monitor.interactions} == {(3, 3)}


@pytest.mark.parametrize("choice", [{}, {"root_names": ("rag",)}])
async def test_a_rag_tool_of_an_agent_can_be_the_interaction(
    choosing: Any, choice: Any, run: Any
) -> None:
    """Chosen by tag or by name: the agent around it is then none.

    Its chunk would be the tool's answer, which would be judged against itself.
    """
    instrument(choosing)
    log: list[Any] = []
    rag = lcel(log).with_config(run_name="rag", **({} if choice else TAGGED))
    graph = _agent_over(rag, log, "search_notes")
    values = {"streams": {"stream_mode": "values"}}
    app = one_call(graph, log, matrix.in_state("messages"), matrix.messages, **values)
    asked = await run(app)
    pumps = sorted(f"pump {matrix.pump_in(query)}" for query in asked)
    assert sorted(i.query for i in choosing.interactions) == pumps
    assert {(len(i.chunks), len(i.generations)) for i in choosing.interactions} == {(3, 1)}


async def test_a_chosen_chain_has_the_caller_of_the_run_around_it(monitor: Any) -> None:
    """The application's span is the parent, at any depth."""
    instrument(monitor)
    context = trace.SpanContext(1, 2, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        _inside(lcel().with_config(TAGGED)).invoke(QUESTIONS[0])
    assert monitor.only.caller.span_id == format_span_id(context.span_id)
