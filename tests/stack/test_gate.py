"""The gate over a real Prometheus that scrapes two processes' endpoints, and its expression."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragmonitor.causes.comparison import compare
from ragmonitor.cli import gate
from ragmonitor.cli.options import GateOptions
from ragmonitor.export import PrometheusExporter
from ragmonitor.records import Snapshot
from tests.support.prometheus_server import prometheus_server, require_binary
from tests.support.waiting import until
from tests.unit.causes.test_versions import Versions, feed, sums, versions

pytestmark = [pytest.mark.stack, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "goldens.md"
COUNTER = 'sum(ragmonitor_version_sums_total{signal="hallucination",sum="judged"})'


def block(marker: str) -> str:
    """Return the code below a marker of the page."""
    found = re.search(rf"<!-- {marker} -->\n```\w+\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def show(exporter: PrometheusExporter, part: Versions) -> None:
    part.tick()
    gauges = tuple(part.gauges(None))  # type: ignore[arg-type]
    snapshot = Snapshot(gauges=gauges, records=part.records())
    exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})


def test_prometheus_adds_up_two_processes_and_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counters begin at zero, grow, and are compared as `compare` compares them."""
    require_binary("prometheus")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    parts, exporters = [], []
    for version in ("1.4", "1.5"):
        parts.append(versions(judge=None, version=version))
        exporters.append(PrometheusExporter("support", port=0))
        show(exporters[-1], parts[-1])
    rules = tmp_path / "rules.yml"
    rules.write_text(block("rules").replace("interval: 1m", "interval: 1s"), encoding="utf-8")
    targets = " ".join(
        str(each.url).removeprefix("http://").removesuffix("/metrics") for each in exporters
    )
    expression = block("expression")
    with prometheus_server(targets, tmp_path, rules=[rules]) as server:
        until("both are scraped at zero", lambda: server.value(f"count({COUNTER[4:-1]})") == 2)
        until("twice", lambda: server.value(f"sum(count_over_time({COUNTER[4:-1]}[1m]))") >= 4)
        for part, exporter, bad in zip(parts, exporters, (200, 1_000), strict=True):
            feed(part, "", bad, 4_000 - bad)
            show(exporter, part)
        until("both have grown", lambda: server.value(COUNTER) == 8_000)
        until("the rules say it", lambda: (server.value(expression) or 0) > 0.15)
        found = compare(sums(1_000, 3_000), sums(200, 3_800))
        assert found is not None
        # `increase` extrapolates to the ends of its window, and with it the number of answers.
        assert server.value(expression) == pytest.approx(found.upper, rel=0.15)
        given = GateOptions(
            service="support",
            candidate="1.5",
            baseline="1.4",
            timeout="0s",
            prometheus=server.url,
        )
        # The part's clock stands in the future, so that the window is the least one.
        assert gate.run(given) == gate.EXIT["worse"]
    for exporter in exporters:
        exporter.close()
