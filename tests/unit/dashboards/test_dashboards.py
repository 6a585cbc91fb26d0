"""The committed dashboards: what the source says, and queries that Prometheus reads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragmonitor.semconv.metrics import TABLE
from tests.support.prometheus_server import require_binary

GRAFANA = Path(__file__).parents[3] / "deploy" / "grafana"
FOLDER = GRAFANA / "dashboards"
PATHS = sorted(FOLDER.glob("*.json"))
VALUES = {"$__rate_interval": "5m", "$__range": "6h", "$window": "1h"}
"""What Grafana puts in the place of variables that stand for a time; of others, a name."""


def panels(path: Path) -> list[dict[str, Any]]:
    """Return the panels of a dashboard, without its rows."""
    found = json.loads(path.read_text(encoding="utf-8"))["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def queries(path: Path) -> list[str]:
    """Return the queries of all panels, with values in the place of variables."""
    written = [target["expr"] for panel in panels(path) for target in panel["targets"]]
    for name, value in VALUES.items():
        written = [expr.replace(name, value) for expr in written]
    return [re.sub(r"\$\w+", "name", expr) for expr in written]


def test_they_are_what_the_source_says(tmp_path: Path):
    """Generated anew, every file is the committed one, byte for byte, and none is left over."""
    subprocess.run([sys.executable, GRAFANA / "generate.py", tmp_path], check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


def test_there_are_at_most_thirty_panels_and_each_asks_a_question():
    """In both languages, with a description of what to do about the answer."""
    chinese = [path for path in PATHS if path.stem.endswith("-zh")]
    for paths, mark in ((set(PATHS) - set(chinese), "?"), (chinese, "？")):
        found = [panel for path in paths for panel in panels(path)]
        assert 20 <= len(found) <= 30
        assert [panel["title"] for panel in found if mark not in panel["title"]] == []
        assert [panel["title"] for panel in found if not panel["description"]] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_queries_ask_for_series_that_there_are(path: Path):
    """And for the chosen services only."""
    suffixes = ("_bucket", "_sum", "_count", "_total", "_info", "")
    for expr in queries(path):
        for name in re.findall(r"\b(?:ragmonitor|gen_ai)_\w+(?=[{\[])", expr):
            assert any(name.removesuffix(suffix) in TABLE for suffix in suffixes), name
        assert 'service=~"' in expr


@pytest.mark.stack
def test_prometheus_reads_every_query(tmp_path: Path):
    """By its own tool."""
    rules = [
        {"record": f"panel:{number}:x", "expr": expr}
        for number, expr in enumerate(expr for path in PATHS for expr in queries(path))
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    done = subprocess.run(
        [require_binary("promtool"), "check", "rules", file],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_lead_to_dashboards_that_there_are(path: Path):
    """Every link to a dashboard names one of ours."""
    uids = {json.loads(each.read_text(encoding="utf-8"))["uid"] for each in PATHS}
    linked = set(re.findall(r'"/d/([\w-]+)', path.read_text(encoding="utf-8")))
    assert linked <= uids
    assert linked
