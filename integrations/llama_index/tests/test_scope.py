"""What is kept, and what is no interaction."""

from __future__ import annotations

import pytest
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from integrations.llama_index.tests.scripted import FakeMonitor, ScriptedLLM, query_engine


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
