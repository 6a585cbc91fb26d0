"""What is kept, and what is no interaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from integrations.llama_index.tests.scripted import (
    ANSWER,
    FakeMonitor,
    ListRetriever,
    ScriptedLLM,
    query_engine,
    some_nodes,
)


@pytest.mark.parametrize("n", [1, 200])
def test_nothing_is_kept_of_what_has_ended(monitor: FakeMonitor, n: int) -> None:
    """The table of open runs is empty between calls."""
    engine = query_engine()
    for _ in range(n):
        engine.query("How heavy?")
    assert monitor.open_runs == 0
    assert len(monitor.interactions) == n


async def test_a_workflow_without_retrieval_is_no_interaction(monitor: FakeMonitor) -> None:
    """A workflow may do anything."""

    class Adder(Workflow):
        @step
        async def add(self, ev: StartEvent) -> StopEvent:
            return StopEvent(result=str(ScriptedLLM().complete("1 + 1")))

    await Adder().run(query="1 + 1")
    assert monitor.interactions == []
    assert monitor.open_runs == 0


class Slow(ListRetriever):
    """Takes its time."""

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        await asyncio.sleep(0.02)
        return self._retrieve(query_bundle)


class Leaving(CustomQueryEngine):
    """Returns while another engine, which it asked, is at work."""

    left: Any = None

    def custom_query(self, query_str: str) -> str:
        raise NotImplementedError

    async def acustom_query(self, query_str: str) -> str:
        asked = query_engine(retriever=Slow(some_nodes())).aquery(query_str)
        self.left = asyncio.create_task(asked)
        await asyncio.sleep(0.001)
        return "Later."


async def test_what_an_ended_engine_left_at_work_is_a_part_of_the_block(
    monitor: FakeMonitor,
) -> None:
    """Its model begins below a step of the engine, which has ended."""
    engine = Leaving()
    with monitor.interaction(query="How heavy?"):
        await engine.aquery("How heavy?")
        await engine.left
    (generation,) = monitor.only().generations
    assert generation.output == ANSWER
