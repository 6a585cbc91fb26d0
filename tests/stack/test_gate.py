"""The gate over a real Prometheus that scrapes two processes' endpoints, and its expression."""

from __future__ import annotations

import re
import subprocess
import time
from operator import add
from pathlib import Path

import pytest

from ragmonitor import metrics
from ragmonitor.causes.comparison import FIELDS, compare
from ragmonitor.cli import gate
from ragmonitor.cli.options import GateOptions
from ragmonitor.estimation import summarise
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
        exporters.append(PrometheusExporter("support", summarise=summarise, port=0))
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


def test_of_prometheus_hours_count_alike_for_a_canary_whose_share_is_raised(
    tmp_path: Path,
) -> None:
    """First 25 %, then 5 % are bad in both, while the canary gets a tenth, then the rest."""
    promtool = require_binary("promtool")
    began_s, minutes = time.time() - 4 * 3_600, 4 * 60
    lines, counters = [f"# TYPE {metrics.VERSION_SUMS} counter"], {}
    for version, per_minute in (("1.4", (180, 20)), ("1.5", (20, 180))):
        total = [0.0] * len(FIELDS)
        for minute in range(minutes):
            is_late = minute >= minutes // 2
            answers = per_minute[is_late]
            bad = answers // 20 if is_late else answers // 4
            if minute:
                total = list(map(add, total, sums(bad, answers - bad)))
            counters[version, minute] = total
    for version in ("1.4", "1.5"):
        for at, name in enumerate(FIELDS):
            labels = (
                f'service="support",by="service_version",version="{version}",'
                f'signal="hallucination",judge="builtin",sum="{name}"'
            )
            for minute in range(minutes):
                value, at_s = counters[version, minute][at], began_s + 60 * minute
                lines.append(f"{metrics.VERSION_SUMS}_total{{{labels}}} {value} {at_s:.0f}")
    lines.append(f"# TYPE {metrics.VERSION_FIRST_SEEN} gauge")
    for version in ("1.4", "1.5"):
        labels = f'service="support",by="service_version",version="{version}"'
        lines.extend(
            f"{metrics.VERSION_FIRST_SEEN}{{{labels}}} {began_s:.0f} {began_s + 60 * minute:.0f}"
            for minute in range(minutes)
        )
    past = tmp_path / "past.txt"
    past.write_text("\n".join([*lines, "# EOF", ""]), encoding="utf-8")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", past, tmp_path / "data"]
    subprocess.run(command, check=True, capture_output=True)
    with prometheus_server("127.0.0.1:9", tmp_path) as server:
        given = GateOptions(
            service="support",
            candidate="1.5",
            baseline="1.4",
            max_worse=0.02,
            timeout="0s",
            prometheus=server.url,
        )
        found = gate.decide(given, undecided=lambda _: None, wait=lambda _: True)
    assert found.comparison is not None, found.why
    # One slot of 24 may hold the moment of the change. All hours together differ by 0.16.
    assert found.comparison.difference == pytest.approx(0.0, abs=0.02)
