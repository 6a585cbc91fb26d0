"""The applications of examples/, run as they stand: real frameworks, a scripted model."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.scripts import ROOT, run_python

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
QUIET = {"RAGMONITOR_SERVER__PORT": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "MODEL": ""}
UNSUPPORTED = {
    "langgraph_agent.py": ["A licence is needed in Norway."],
    "llama_index_chat.py": ["Water damage is covered as well."],
    "plain_litellm.py": ["Pensioners pay five euros."],
    "chinese.py": ["退款会在三十天后到账。"],
}
"""Of each script, the sentences that its documents do not support."""
SERVED = """
import sys
sys.path.insert(0, {folder!r})
from fastapi.testclient import TestClient
import langchain_fastapi as example

body = {{"question": "How long can I return an order?", "session": "s-1"}}
with TestClient(example.app) as client:
    print(client.post("/ask", json=body).json()["answer"])
    told = example.monitor.last()
    print(client.post("/stream", json=body).text)
    streamed = example.monitor.last()
    assert "/ragmonitor/" in example.monitor.ui_url
for report, route in ((told, "/ask"), (streamed, "/stream")):
    assert report.interaction.session_id == "s-1", report
    assert report.interaction.attributes["route"] == route, report
    assert len(report.interaction.chunks) == 2, report
    assert [each.text for each in report.unsupported] == ["We also refund customs duty."], report
"""


def test_every_example_is_listed_and_tested() -> None:
    """A script that is added needs a row of the README and one here."""
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    assert scripts == {*UNSUPPORTED, "langchain_fastapi.py"}
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in (*scripts, "notebook.ipynb", "compose/"):
        assert f"[{path}](" in readme


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_script_shows_what_is_not_supported(name: str, tmp_path: Path) -> None:
    """These sentences, and no other."""
    output = run_python((EXAMPLES / name).read_text(encoding="utf-8"), tmp_path, **QUIET)
    shown = [line for line in output.splitlines() if line.startswith(("  absent", "  contra"))]
    assert shown == [f"  absent: {sentence!r}" for sentence in UNSUPPORTED[name]]


def test_the_server_answers_and_streams(tmp_path: Path) -> None:
    """Over HTTP: both routes are captured whole, with session and route."""
    output = run_python(SERVED.format(folder=str(EXAMPLES)), tmp_path, **QUIET)
    answer = "Returns are free within 30 days. We also refund customs duty."
    assert output.splitlines() == [answer, answer]


def test_the_notebook_runs_twice_in_one_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second monitor of the service has an address, too, and the sentence is marked."""
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    again = [nbformat.from_dict({**cell, "id": f"{cell['id']}-again"}) for cell in notebook.cells]
    notebook.cells += again
    done = NotebookClient(
        notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    results = [
        output["data"]
        for cell in done.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    html = [each["text/html"] for each in results if "text/html" in each]
    addresses = [each["text/plain"] for each in results if "/ragmonitor/" in each["text/plain"]]
    assert len(html) == len(addresses) == 2
    assert all("<mark>Napoleon opened it.</mark>" in each for each in html)
