"""Who records what: the process, a block, and what is no interaction."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step

from integrations.llama_index.tests.scripted import (
    ANSWER,
    FakeMonitor,
    ScriptedLLM,
    query_engine,
)
from ragmonitor_llama_index import observed
from tests.support.scripts import run_python


def test_a_block_records_what_runs_inside(quiet_monitor: FakeMonitor) -> None:
    """Not what runs before, after, or in another thread meanwhile."""
    engine = query_engine()
    engine.query("before")
    with observed(quiet_monitor):
        engine.query("inside")
        thread = threading.Thread(target=engine.query, args=("elsewhere",))
        thread.start()
        thread.join()
    engine.query("after")
    assert quiet_monitor.only().query == "inside"


def test_a_stream_from_a_block_is_recorded_to_its_end(quiet_monitor: FakeMonitor) -> None:
    """It may be read after the block has ended."""
    with observed(quiet_monitor):
        response = query_engine(streaming=True).query("How heavy?")
    assert str(response) == ANSWER
    assert quiet_monitor.only().status == "ok"
    assert quiet_monitor.only().usage.output_tokens == 7


FORKING = """
import os, threading
from llama_index_instrumentation import get_dispatcher
from integrations.llama_index.tests.scripted import FakeMonitor, query_engine
from ragmonitor_llama_index import observed

monitor = FakeMonitor()
is_inside, may_end = threading.Event(), threading.Event()

def work():
    with observed(monitor):
        is_inside.set()
        may_end.wait()

def attached():
    return [type(each).__name__ for each in get_dispatcher().span_handlers][1:]

thread = threading.Thread(target=work, daemon=True)
thread.start()
is_inside.wait()
with observed(monitor):
    child = os.fork()
    if not child:
        query_engine().query("How heavy?")
if not child:
    os._exit(len(attached()) + 10 * (len(monitor.interactions) - 1))
assert os.waitpid(child, 0)[1] == 0
assert attached() == ["SpanListener"]
may_end.set()
thread.join()
print(attached())
"""


def test_a_child_is_in_no_block_of_its_parents_other_threads(tmp_path: Path) -> None:
    """It stays in the one that it was forked in, and listens to nothing after that."""
    assert run_python(FORKING, tmp_path, PYTHONPATH=str(Path(__file__).parents[3])) == "[]\n"


def test_a_block_and_instrument_count_once(monitor: FakeMonitor) -> None:
    """The same monitor both ways: one interaction."""
    with observed(monitor):
        query_engine().query("How heavy?")
    assert monitor.only().answer == ANSWER


def test_a_blocks_own_monitor_records_alone(monitor: FakeMonitor) -> None:
    """Two monitors: the block's has it, the process' has the rest."""
    other = FakeMonitor()
    with observed(other):
        query_engine().query("inside")
    query_engine().query("outside")
    assert other.only().query == "inside"
    assert monitor.only().query == "outside"


@pytest.mark.parametrize("n", [1, 200])
def test_nothing_is_kept_of_what_has_ended(monitor: FakeMonitor, n: int) -> None:
    """The map of open spans is empty between calls."""
    from ragmonitor_llama_index.handler import _places

    engine = query_engine()
    for _ in range(n):
        engine.query("How heavy?")
    assert _places == {}
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
