"""Real Node.js applications, instrumentations and exporters, scored by `ragmonitor receive`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ragmonitor.records import Interaction, Scored
from tests.support.otlp_receiver import otlp_receiver
from tests.support.phoenix_server import phoenix_server
from tests.support.receiving import Receiving, receiving
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("node") is None or shutil.which("npm") is None, reason="Node.js and npm"
    ),
]

EXAMPLES = Path(__file__).parents[2] / "examples" / "nodejs"


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the examples in a folder of their own."""
    folder = tmp_path_factory.mktemp("nodejs")
    for path in (*EXAMPLES.glob("*.mjs"), EXAMPLES / "package.json"):
        shutil.copy(path, folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    patience = ["--fetch-retries", "1", "--fetch-timeout", "20000"]
    try:
        done = subprocess.run(
            [*install, *patience],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the registry of npm does not answer")
    if done.returncode:
        pytest.skip(f"the packages of npm: {done.stderr[-300:]}")
    return folder


def run(applications: Path, name: str, here: Receiving, backend: str = "") -> None:
    """Run an application, which sends its spans here, and to the backend."""
    endpoints = f"{here.url},{backend}" if backend else here.url
    addresses = {"OTEL_EXPORTER_OTLP_ENDPOINT": here.url, "ENDPOINTS": endpoints}
    environment = os.environ | addresses
    subprocess.run(["node", name], cwd=applications, env=environment, check=True, timeout=60)


def scored(applications: Path, name: str, here: Receiving) -> list[Interaction]:
    """Run an application, and return what was scored, in the order of the questions."""
    run(applications, name, here)
    return sorted(here.after(7), key=lambda each: each.started_ns)


def test_langchain_js_under_openinference(
    applications: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Question, chunks and answer, called and streamed; scores are linked to the root's span."""
    with otlp_receiver() as backend:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.url)
        with receiving(export={"traces": True}) as here:
            called, streamed = scored(applications, "langchain.mjs", here)
            first = here.reports.reports[0]
        carriers = {each.links[0].span_id.hex() for each in backend.spans().values()}
    for each in (called, streamed):
        assert (each.framework, each.status) == ("openinference", "ok")
        assert each.answer == "It was built from 1887 to 1889. Napoleon opened it."
        assert [(chunk.id, chunk.text) for chunk in each.chunks] == [
            ("tower-1", "The Eiffel Tower was built from 1887 to 1889."),
            ("tower-2", "It is 330 metres tall."),
        ]
        assert not each.capture_incomplete
    assert called.query == "When was the Eiffel Tower built?"
    assert streamed.query == "Who opened it?"
    scores = {e.evaluator: e.score for e in first.evaluations if isinstance(e, Scored)}
    assert scores["faithfulness@1"] == 0.5  # nobody says that Napoleon did
    assert carriers <= {each.target.span_id for each in (called, streamed) if each.target}
    assert carriers


def test_genai_conventions_of_plain_code(applications: Path) -> None:
    """Spans that an application writes itself, sent as JSON."""
    with receiving() as here:
        (found,) = scored(applications, "genai.mjs", here)
        (report,) = here.reports.reports
    assert (found.framework, found.status) == ("genai", "ok")
    assert found.query == "How often is the pump serviced?"
    assert found.answer == "The pump is serviced every six months."
    assert [(c.id, c.text, c.score) for c in found.chunks] == [("pump-7", found.answer, 0.9)]
    assert (found.session_id, found.generations[0].model) == ("s1", "scripted-1")
    assert found.attributes["service.name"] == "bot-js"
    scores = {e.evaluator: e.score for e in report.evaluations if isinstance(e, Scored)}
    assert scores["faithfulness@1"] == 1.0


@pytest.mark.stack
def test_phoenix_shows_the_scores_on_the_applications_own_spans(
    applications: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application sends its spans to both; the receiver sends the scores."""
    with phoenix_server(tmp_path) as phoenix:
        monkeypatch.setenv("PHOENIX_API_KEY", phoenix.api_key)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", phoenix.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", phoenix.otlp_headers)
        monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
        traces = {"exporters": [f"phoenix:{phoenix.url}"], "export": {"traces": True}}
        with receiving(**traces) as here:
            run(applications, "langchain.mjs", here, phoenix.url)
            here.clock.advance(7)
            here.receiver.sweep()

            def shown() -> dict[str, Any] | None:
                here.receiver.back.flush(5)
                annotations = phoenix.spans("default")["tower"]["annotations"]
                return annotations if len(annotations) >= 5 else None

            annotations = until("the scores are shown", shown, within_s=90.0)
    scores = {name: each["score"] for (name, _), each in annotations.items()}
    assert scores["faithfulness (builtin)"] == 0.5
