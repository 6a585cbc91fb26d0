"""Which run is the interaction, where engines, agents and workflows are nested."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llama_index.core.tools import FunctionTool
from llama_index_instrumentation.dispatcher import instrument_tags
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id

from integrations.llama_index.tests.matrix import (
    SHAPES,
    Parts,
    answer,
    clerk,
    found,
    memory,
    question,
    text_tool,
)
from integrations.llama_index.tests.scripted import FakeMonitor
from ragmonitor import Interaction
from ragmonitor.integration import INTERACTION_TAG
from ragmonitor_llama_index import instrument, uninstrument

# LlamaIndex's agents read deprecated attributes of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
)

LOAD = "7"
QUESTION = question(LOAD)
TAGGED = {"tags": [INTERACTION_TAG]}
AGENTS = ("FunctionAgent with QueryEngineTool", "AgentWorkflow with QueryEngineTool")
ALL = [told.id for told in found(LOAD)]


@contextmanager
def choosing(**options: Any) -> Iterator[FakeMonitor]:
    monitor = FakeMonitor(**options)
    instrument(monitor)  # type: ignore[arg-type]
    yield monitor
    uninstrument()
    assert monitor.open_runs == 0


async def asked(shape: str, monitor: FakeMonitor, *, streaming: bool = False) -> None:
    parts = Parts(monitor=monitor, streaming=streaming)
    assert await SHAPES[shape](parts).asynchronous(QUESTION) == answer(LOAD)


def assert_engines(interaction: Interaction, query: str, ids: list[str | None]) -> None:
    """Say that this is a query engine's own interaction, and a whole one."""
    assert (interaction.name, interaction.query) == ("RetrieverQueryEngine", query)
    assert (interaction.status, interaction.answer) == ("ok", answer(LOAD))
    assert [chunk.id for chunk in interaction.chunks] == ids
    assert len(interaction.generations) == 1


@pytest.mark.parametrize("shape", AGENTS)
async def test_a_named_agent_is_the_interaction(shape: str) -> None:
    """By its class' name, though an engine in it retrieves and answers."""
    name = shape.partition(" ")[0]
    with choosing(root_names=(name,)) as monitor:
        await asked(shape, monitor)
    interaction = monitor.only()
    assert (interaction.name, interaction.query) == (name, QUESTION)
    assert [chunk.id for chunk in interaction.chunks] == ALL


@pytest.mark.parametrize("shape", [*AGENTS, "RetrieverQueryEngine", "ContextChatEngine"])
async def test_of_names_nothing_else_is_an_interaction(shape: str) -> None:
    """Nor is anything left open."""
    with choosing(root_names=("OtherEngine",)) as monitor:
        await asked(shape, monitor)
    assert monitor.interactions == []


def _tagging_tool(parts: Parts) -> FunctionTool:
    engine = parts.engine()

    async def ask(input: str) -> str:  # noqa: A002 - what the model calls it
        with instrument_tags({**TAGGED, "route": "/tool"}):
            return str(await engine.aquery(input))

    return FunctionTool.from_defaults(async_fn=ask, name="search_notes", description="Asks.")


async def test_a_tagged_engine_is_the_interaction_and_so_is_not_its_agent(
    monitor: FakeMonitor,
) -> None:
    """The tag says no more than that: it is no label of the interaction."""
    parts = Parts(monitor=monitor)
    await clerk(parts, _tagging_tool(parts)).run(user_msg=QUESTION, memory=memory())
    interaction = monitor.only()
    assert_engines(interaction, f"Find load {LOAD}.", ALL)
    assert (interaction.tags, interaction.attributes) == ((), {"route": "/tool"})


@pytest.mark.parametrize("options", [{"root_names": ("NoSuch",)}], ids=str)
async def test_chosen_runs_of_many_tasks_stay_apart(options: Any) -> None:
    """Each under its own caller's span; what is not chosen leaves nothing behind."""
    provider = TracerProvider()
    tracer = provider.get_tracer("application")
    spans = {}

    async def ask(load: str) -> None:
        with tracer.start_as_current_span("request") as span:
            spans[f"Find load {load}."] = format_span_id(span.get_span_context().span_id)
            parts = Parts(monitor=monitor)
            await clerk(parts, parts.tool()).run(user_msg=question(load), memory=memory())

    with choosing(**options) as monitor:
        await asyncio.gather(*(ask(f"g{n}") for n in range(10)))
    callers = {i.query: i.caller and i.caller.span_id for i in monitor.interactions}
    assert callers == (spans if "RetrieverQueryEngine" in options["root_names"] else {})
    provider.shutdown()


async def test_a_tool_of_another_name_gives_no_retrieved_text() -> None:
    """Only those that `retrieval_tools` names; an agent over anything else is no interaction."""
    with choosing(retrieval_tools=("find_*",)) as monitor:
        agent = clerk(Parts(monitor=monitor), text_tool())
        await agent.run(user_msg=QUESTION, memory=memory())
    assert monitor.interactions == []
