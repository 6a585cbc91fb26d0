"""The pages that say what the series of a real monitor mean."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ragmonitor.cli.drivers import GROUP
from ragmonitor.export import PrometheusExporter
from ragmonitor.semconv.metrics import TABLE
from ragmonitor.settings import Settings
from tests.support.prometheus_server import free_port, require_binary
from tests.support.scripts import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.slow

SECONDS = 200
"""Longer than anybody looks; it is ended before."""
RATE = 20
NUMBERS = ROOT / "docs" / "statistics.md"
PROMQL = re.findall(r"```promql\n(.*?)```", NUMBERS.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the demo until some answers are judged, and give its address."""
    for framework in ("langchain", "llama_index"):
        if not metadata.entry_points(group=GROUP, name=framework):
            pytest.skip(f"the integration of {framework} is not installed; see `make setup`")
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    command = [sys.executable, "-m", "ragmonitor.cli.app", "demo", "--json"]
    told = ["--seconds", str(SECONDS), "--rate", str(RATE), "--port", str(port)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMONITOR_", "OTEL_"))}
    process = subprocess.Popen(
        [*command, *told],
        cwd=tmp_path_factory.mktemp("demo"),
        env={**clean, "PYTHONPATH": str(ROOT), "RAGMONITOR_SAMPLE": "0.5"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until("verdicts enough", lambda: judged(url) > 60, within_s=90)
        yield url
    finally:
        process.kill()
        process.wait(timeout=30)


def fetched(url: str, accept: str = "text/plain") -> str:
    """Return what is served."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return str(reply.read(), "utf-8")


def judged(url: str) -> float:
    """Return how many answers the judge has scored; 0 while nobody answers."""
    try:
        (service,) = json.loads(fetched(url.replace("/metrics", "/metrics.json")))["services"]
    except (OSError, ValueError):
        return 0
    labels = {"service": "ragmonitor-demo", "signal": "hallucination", "judge": "demo/stand-in"}
    return sum(
        each["value"]
        for each in service["series"]
        if each["name"] == "ragmonitor_judged_answers_total" and each["labels"] == labels
    )


# --- docs/metrics.md ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def described() -> Iterator[dict[str, str]]:
    """Return the type of everything that the endpoint may ever serve."""
    exporter = PrometheusExporter(Settings.load(service="x", server=False))
    families = exporter.registry.collect()
    yield {family.name: family.type for family in families}
    exporter.close()


def test_every_metric_of_the_table_is_served(described: dict[str, str]):
    """And none that is not there; those behind others never leave."""
    assert described == {row.name: row.kind for row in TABLE.values() if row.section}


def test_labels_are_those_of_the_table(demo: str):
    """Of every series that the demo has."""
    accept = "application/openmetrics-text; version=1.0.0"
    families: Any = text_string_to_metric_families(fetched(demo, accept))  # type: ignore[no-untyped-call]
    served: dict[str, set[str]] = {}
    for family in families:
        if family.samples:
            labels = {label for sample in family.samples for label in sample.labels}
            served[family.name] = labels - {"service", "le"}
    assert len(served) > 40
    assert served == {name: set(TABLE[name].labels) for name in served}


# --- docs/statistics.md ---


def promtool(*arguments: str) -> None:
    """Fail with what it says if it finds a fault."""
    done = subprocess.run(
        [require_binary("promtool"), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.stack
def test_expressions_parse(tmp_path: Path):
    """As the rules of a real Prometheus."""
    rules = [{"record": f"of:page:{n}", "expr": expr} for n, expr in enumerate(PROMQL)]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))
    promtool("check", "rules", str(path))


def test_commands_on_the_page_are_there():
    """Every file that a command names exists."""
    text = NUMBERS.read_text(encoding="utf-8")
    files = set(re.findall(r"tests/[\w/]+\.py", text))
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []
