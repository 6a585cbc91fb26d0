"""The committed dashboards, by looking at them."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.dashboard_lint import faults
from tests.support.dashboards import FOLDER, PATHS, read

GENERATOR = FOLDER.parent / "generate.py"
PROVISIONING = FOLDER.parent / "provisioning"
ENGLISH = tuple(path for path in PATHS if not path.stem.endswith("-zh"))
CHINESE_TEXT = re.compile(r"[\u4e00-\u9fff]")
Dashboard = dict[str, Any]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_nothing_is_wrong(path: Path) -> None:
    """No rule of the linter finds a fault."""
    assert faults(read(path)) == []


def test_they_are_what_the_source_says(tmp_path: Path) -> None:
    """Generated anew, every file is the committed one, byte for byte, and none is left over."""
    pytest.importorskip("grafana_foundation_sdk")
    subprocess.run([sys.executable, str(GENERATOR), str(tmp_path)], check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in FOLDER.iterdir()}


def test_alerts_find_them() -> None:
    """The ids that alerts link to are there, in both languages, and no other."""
    names = {"ragmonitor-overview", "ragmonitor-investigate", "ragmonitor-pipeline"}
    uids = [read(path)["uid"] for path in PATHS]
    assert sorted(uids) == sorted(names | {f"{name}-zh" for name in names})


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    """Every link to a dashboard names one of ours."""
    uids = {read(each)["uid"] for each in PATHS}
    linked = set(re.findall(r'"/d/([\w-]+)', path.read_text(encoding="utf-8")))
    assert linked <= uids
    assert linked


def test_what_alerts_link_to_is_there() -> None:
    """Each alert's link names one of our dashboards, and sets variables that it has."""
    rules = (FOLDER.parents[1] / "prometheus" / "rules").glob("*.yml")
    text = " ".join(path.read_text(encoding="utf-8") for path in rules)
    known = {
        board["uid"]: {variable["name"] for variable in board["templating"]["list"]}
        for board in map(read, PATHS)
    }
    links = re.findall(r"/d/([\w-]+)\?(.*?)runbook_url", text, flags=re.DOTALL)
    assert links
    for uid, parameters in links:
        assert set(re.findall(r"var-(\w+)=", parameters)) <= known[uid], uid


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_both_languages_show_the_same(path: Path) -> None:
    """Queries, places, units, thresholds and variables are equal; only words differ."""
    one, other = read(path), read(path.with_name(f"{path.stem}-zh.json"))
    assert [_shown(panel) for panel in one["panels"]] == [
        _shown(panel) for panel in other["panels"]
    ]
    assert [_asked(v) for v in one["templating"]["list"]] == [
        _asked(v) for v in other["templating"]["list"]
    ]
    assert [a["expr"] for a in one["annotations"]["list"]] == [
        a["expr"] for a in other["annotations"]["list"]
    ]


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_each_language_is_its_own(path: Path) -> None:
    """English has no Chinese words; every Chinese title and description has some."""
    one, other = read(path), read(path.with_name(f"{path.stem}-zh.json"))
    english = [text for panel in one["panels"] for text in _texts(panel)]
    chinese = [text for panel in other["panels"] for text in _texts(panel)]
    assert [text for text in english if CHINESE_TEXT.search(text)] == []
    assert [text for text in chinese if not CHINESE_TEXT.search(text)] == []


def _shown(panel: Dashboard) -> list[Any]:
    defaults = panel.get("fieldConfig", {}).get("defaults", {})
    return [
        panel["type"],
        panel["gridPos"],
        panel.get("repeat"),
        [(t["expr"], t.get("instant"), t.get("exemplar")) for t in panel.get("targets", ())],
        [defaults.get(name) for name in ("unit", "min", "max", "thresholds", "decimals")],
    ]


def _asked(variable: Dashboard) -> list[Any]:
    return [variable.get(name) for name in ("name", "type", "query", "regex", "multi", "allValue")]


def _texts(panel: Dashboard) -> list[str]:
    texts = [panel["title"], panel.get("description", "")]
    return [text for text in texts if text and not text.startswith("$")]


# --- the linter finds what is wrong -------------------------------------------------------------


def _faulty(spoil: Callable[[Dashboard], object]) -> list[str]:
    dashboard = copy.deepcopy(read(FOLDER / "ragmonitor-overview.json"))
    spoil(dashboard)
    return faults(dashboard)


def _panel(dashboard: Dashboard, title: str = "Traffic") -> Dashboard:
    (found,) = [panel for panel in dashboard["panels"] if panel["title"] == title]
    return found


def _query(expr: str) -> Callable[[Dashboard], object]:
    return lambda board: _panel(board)["targets"][0].update(expr=expr, legendFormat="x")


SERVICE = '{service=~"$service"}'
COUNTER = "ragmonitor_interactions_total"
SEEDED: dict[str, tuple[Callable[[Dashboard], object], str]] = {
    "misspelt series": (_query(f"max(ragmonitor_open_rums{SERVICE})"), "nothing exports it"),
    "not PromQL": (_query("sum(("), "not PromQL"),
    "any service": (_query("max(ragmonitor_open_runs)"), "of which service"),
    "naked counter": (_query(f"sum({COUNTER}{SERVICE})"), "as it stands"),
    "naked counter without braces": (_query(f"sum({COUNTER})"), "as it stands"),
    "counter by process": (_query(f"rate({COUNTER}{SERVICE}[$__rate_interval])"), "not added up"),
    "fixed span": (_query(f"sum(rate({COUNTER}{SERVICE}[2m]))"), "another span"),
    "fixed increase": (_query(f"sum(increase({COUNTER}{SERVICE}[2m]))"), "increase over 120 s"),
    "irate": (_query(f"sum(irate({COUNTER}{SERVICE}[$__rate_interval]))"), "irate"),
    "rate of a gauge": (
        _query(f"sum(rate(ragmonitor_open_runs{SERVICE}[$__rate_interval]))"),
        "of what is no counter",
    ),
    "quantile without le": (
        _query(
            "histogram_quantile(0.9, sum by (service)"
            f" (rate(ragmonitor_interaction_seconds_bucket{SERVICE}[$__rate_interval])))"
        ),
        "without `le`",
    ),
    "legend of a lost label": (
        lambda board: _panel(board)["targets"][0].update(legendFormat="{{framework}}"),
        "which are added up",
    ),
    "no legend": (lambda board: _panel(board)["targets"][0].update(legendFormat=""), "no legend"),
    "exemplars of a counter": (
        lambda board: _panel(board)["targets"][0].update(exemplar=True),
        "no histogram",
    ),
    "fixed data source": (
        lambda board: _panel(board).update(datasource={"type": "prometheus", "uid": "abc"}),
        "not the variable",
    ),
    "no data source variable": (
        lambda board: board["templating"]["list"].pop(0),
        "there is one variable `datasource`",
    ),
    "unknown variable": (_query('max(ragmonitor_open_runs{service=~"$serv"})'), "no variable"),
    "stale variable": (
        lambda board: board["templating"]["list"][1].update(refresh=1),
        "not asked again",
    ),
    "editable": (lambda board: board.update(editable=True), "editable"),
    "no description": (lambda board: _panel(board).update(description=""), "no description"),
    "no unit": (lambda board: _panel(board)["fieldConfig"]["defaults"].pop("unit"), "unit None"),
    "misspelt unit": (
        lambda board: _panel(board)["fieldConfig"]["defaults"].update(unit="percentUnit"),
        "unit 'percentUnit'",
    ),
    "no query": (lambda board: _panel(board).update(targets=[]), "no query"),
    "overlap": (lambda board: _panel(board)["gridPos"].update(w=9), "overlaps"),
    "outside": (lambda board: _panel(board)["gridPos"].update(x=20), "outside of the grid"),
    "one id twice": (lambda board: _panel(board).update(id=1), "two panels have one id"),
    "band without its floor": (
        lambda board: _panel(board, "Refusals")["targets"].pop(1),
        "which is not there",
    ),
    "falling thresholds": (
        lambda board: _panel(board, "Alarms active")["fieldConfig"]["defaults"]["thresholds"][
            "steps"
        ].append({"value": 0.5, "color": "green"}),
        "do not rise",
    ),
}


@pytest.mark.parametrize("name", SEEDED)
def test_the_linter_reports(name: str) -> None:
    """A fault put in on purpose is reported."""
    spoil, said = SEEDED[name]
    assert any(said in fault for fault in _faulty(spoil))


def test_the_linter_knows_a_table_s_columns() -> None:
    """A label that a table shows without a title is reported."""
    dashboard = copy.deepcopy(read(FOLDER / "ragmonitor-pipeline.json"))
    table = _panel(dashboard, "Who judges")
    del table["transformations"][-1]["options"]["renameByName"]["kind"]
    assert any("['kind']" in fault for fault in faults(dashboard))


# --- provisioning -------------------------------------------------------------------------------


def _provisioned(kind: str) -> list[dict[str, Any]]:
    (path,) = (PROVISIONING / kind).iterdir()
    assert path.suffix == ".yml"
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))[
        {"datasources": "datasources", "dashboards": "providers"}[kind]
    ]
    return found


def test_exemplars_lead_to_traces_and_back() -> None:
    """Prometheus names Tempo for its exemplars, and Tempo names Prometheus for its metrics."""
    sources = {source["uid"]: source for source in _provisioned("datasources")}
    assert {uid: source["type"] for uid, source in sources.items()} == {
        "prometheus": "prometheus",
        "tempo": "tempo",
    }
    (destination,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert destination == {"name": "trace_id", "datasourceUid": "tempo"}
    assert sources["tempo"]["jsonData"]["tracesToMetrics"]["datasourceUid"] == "prometheus"


def test_what_a_trace_asks_for_is_right() -> None:
    """The queries that Tempo links to are ones that the linter would let pass."""
    tempo = next(s for s in _provisioned("datasources") if s["uid"] == "tempo")
    for link in tempo["jsonData"]["tracesToMetrics"]["queries"]:
        expr = link["query"].replace("$$", "$").replace("$__tags", 'service=~"$service"')
        dashboard = copy.deepcopy(read(FOLDER / "ragmonitor-overview.json"))
        _panel(dashboard)["targets"][0].update(expr=expr, legendFormat="x")
        assert faults(dashboard) == []


def test_dashboards_come_in_a_folder() -> None:
    """The provider files them under the folder `ragmonitor`, and nobody edits them by hand."""
    (provider,) = _provisioned("dashboards")
    assert provider["folder"] == "ragmonitor"
    assert provider["allowUiUpdates"] is False
