"""A real Prometheus scrapes the endpoint; real processes share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.prometheus_server import free_port

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]

# Does as it is told, a JSON object a line, and says what port it has got after each.
APPLICATION = """
import json, os, sys
from dataclasses import replace
from ragmonitor.export import PrometheusExporter
from tests.unit.export.examples import TARGET, report, snapshot, summarise, sums

exporter = PrometheusExporter("客服", summarise=summarise, port=int(sys.argv[1]))

def refresh(scores):
    state = snapshot(("faithfulness", "1h", sums(*scores)))
    exporter.refresh(snapshot=state, queue_depth=1, open_runs=0, errors={})

for line in sys.stdin:
    order = json.loads(line)
    if order.get("close"):
        exporter.close()
        print(json.dumps({"url": exporter.url}), flush=True)
        continue
    if order.get("fork"):
        child = os.fork()
        if child:
            print(json.dumps({"child": child}), flush=True)
            continue
        exporter.forget()
        exporter = PrometheusExporter("客服", summarise=summarise, port=int(sys.argv[1]))
        sys.stdin.close()
        for score in order["scores"]:
            exporter.interaction("langchain", "ok")
        refresh(order["scores"])
        os.kill(os.getpid(), 19)  # stopped: neither dead nor serving
        os._exit(0)
    for score in order["scores"]:
        span = order.get("span", TARGET.span_id)
        exporter.interaction("langchain", "ok")
        exporter.export(report(score=score, target=replace(TARGET, span_id=span)))
    refresh(order["scores"])
    print(json.dumps({"url": exporter.url}), flush=True)
"""


class Application:
    """One of several processes of the same application."""

    def __init__(self, port: int, folder: Path | None) -> None:
        variables = {k: v for k, v in os.environ.items() if k != "PROMETHEUS_MULTIPROC_DIR"}
        if folder is not None:
            variables["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-c", APPLICATION, str(port)],
            cwd=ROOT,
            env={**variables, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def order(self, **order: Any) -> dict[str, Any]:
        """Have it score answers and refresh; return what it says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        reply: dict[str, Any] = json.loads(self.process.stdout.readline())
        return reply

    def kill(self) -> None:
        """End it without a chance to tidy up."""
        self.process.kill()
        self.process.wait(timeout=30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def applications(tmp_path: Path) -> Iterator[list[Application]]:
    """Two processes that share a folder and a port."""
    port = free_port()
    running = [Application(port, tmp_path / "shared") for _ in range(2)]
    yield running
    for application in running:
        if application.process.poll() is None:
            application.kill()


def scrape(url: str) -> dict[str, list[Any]]:
    """Return the samples by name, as OpenMetrics."""
    request = urllib.request.Request(
        url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        text = reply.read().decode()
    found: dict[str, list[Any]] = {}
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def value(found: dict[str, list[Any]], name: str) -> float:
    (sample,) = found[f"ragmonitor_{name}"]
    return float(sample.value)


def test_a_survivor_takes_the_port_over(applications: list[Application]) -> None:
    """When the owner is killed, the next refresh of another serves; counters stay."""
    first, second = applications
    url = first.order(scores=[1.0, 1.0])["url"]
    second.order(scores=[0.0])
    first.kill()
    assert second.order(scores=[0.0])["url"] == url
    found = scrape(url)
    assert value(found, "interactions_total") == 4
    assert value(found, "score_count") == 4


def test_what_only_the_living_have_goes_with_the_dead(applications: list[Application]) -> None:
    """A killed process no longer counts in gauges, and its exemplars go."""
    first, second = applications
    url = first.order(scores=[1.0], span="00000000000000a1")["url"]
    second.order(scores=[0.0], span="00000000000000b2")
    assert value(scrape(url), "score_mean") == 0.5
    second.kill()
    found = scrape(url)
    assert value(found, "score_mean") == 1.0
    assert value(found, "queue_depth") == 1
    spans = {s.exemplar.labels["span_id"] for s in found["ragmonitor_score_bucket"] if s.exemplar}
    assert spans == {"00000000000000a1"}
    assert value(found, "interactions_total") == 2


def test_without_a_shared_folder_the_first_one_serves() -> None:
    """Two processes without the variable: one endpoint, with its own numbers, and no crash."""
    port = free_port()
    first, second = Application(port, None), Application(port, None)
    try:
        url = first.order(scores=[1.0])["url"]
        assert second.order(scores=[0.0])["url"] is None
        assert value(scrape(url), "interactions_total") == 1
    finally:
        first.kill()
        second.kill()
