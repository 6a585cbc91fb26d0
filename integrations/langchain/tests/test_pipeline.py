"""With the real monitor: from a chain's answer to its scores."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from integrations.langchain.tests import matrix
from ragmonitor import ExportSettings, Monitor
from ragmonitor.testing import ListExporter
from ragmonitor_langchain import instrument, uninstrument


@pytest.fixture
def reports() -> Any:
    """Keep what the monitor exported."""
    return ListExporter()


@pytest.fixture
def real(reports: Any) -> Any:
    """Run a monitor that serves and sends nothing."""
    with Monitor(
        service="test", server=False, export=ExportSettings(traces=False), exporters=[reports]
    ) as monitor:
        yield monitor
        uninstrument()


def test_the_readme_s_example_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says can be pasted."""
    monkeypatch.setenv("RAGMONITOR_SERVER", "false")
    readme = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    example, *_ = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    uninstrument()
    names["monitor"].close()
    assert capsys.readouterr().out == "The pump is serviced every two years.\n"


def test_what_a_graph_paused_with_is_scored_at_the_end(real: Any, reports: Any) -> None:
    """On a thread that may go on, a tool's text that was the answer is held back until then."""

    @tool(return_direct=True)
    def search_manual(query: str) -> str:
        """Search the manual."""
        return "Pump 07 is serviced twice a year."

    instrument(real)
    graph = matrix.agent([], search_manual)
    graph.invoke(matrix.messages(matrix.question(7)), {"configurable": {"thread_id": "t-1"}})
    assert real.flush(10)
    assert reports.reports == []
    assert real.close(10)
    assert [each.interaction.answer for each in reports.reports] == [
        "Pump 07 is serviced twice a year."
    ]
