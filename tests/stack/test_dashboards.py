"""Every question that the dashboards ask, put to a real Prometheus that holds a past."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, Histogram, start_http_server

from ragmonitor.cli.drivers import GROUP
from ragmonitor.metrics import SCORE_BUCKETS
from tests.support.dashboards import (
    LABEL,
    PATHS,
    Question,
    Source,
    annotations,
    intervals,
    questions,
    read,
    variables,
)
from tests.support.history import HOUR_S, LIVES, MODEL, STEP_S, write_history
from tests.support.prometheus_server import (
    REQUIRED,
    free_port,
    prometheus_server,
    require_binary,
)
from tests.support.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

NOBODY = "127.0.0.1:9"
ENGLISH = tuple(path for path in PATHS if not path.stem.endswith("-zh"))
DEMO = "from ragmonitor.cli.app import main; main()"
MAX_LEGEND = 70
"""Characters of a series' name that a panel has room for."""
MAX_SERIES = 40


@pytest.fixture(scope="module", params=[1, 7], ids=["a day", "a week"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run a Prometheus with the past of two services."""
    require_binary("prometheus")
    days: int = request.param
    if days > 1 and os.environ.get(REQUIRED) != "1":
        pytest.skip(f"a week takes up to a minute to write: {REQUIRED}=1 asks for it")
    folder = tmp_path_factory.mktemp("past")
    # What is not two hours old would be in memory, not in blocks; either is asked the same way.
    end_s = int(time.time()) // STEP_S * STEP_S
    write_history(folder, end_s=end_s, days=days)
    with prometheus_server(NOBODY, folder) as server:
        yield Source(server.url, start_s=end_s - days * 86_400, end_s=end_s)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_panel_is_empty(path: Path, source: Source) -> None:
    """Every query of every panel gives numbers, under legends without a hole."""
    dashboard = read(path)
    step_s = max(STEP_S, (source.end_s - source.start_s) // 300)
    builtin = intervals(source, scrape_s=STEP_S, step_s=step_s)
    wrong, asked = [], 0
    for question in questions(dashboard, variables(dashboard, source), builtin):
        asked += 1
        series = (
            source.instant(question.expr)
            if question.instant
            else source.over_time(question.expr, step_s=step_s)
        )
        wrong += [f"{fault}: {question.where}" for fault in _faults(question, series)]
    assert asked > len(dashboard["panels"])
    assert wrong == []


def _faults(question: Question, series: list[dict[str, Any]]) -> Iterator[str]:
    numbers = [float(value) for one in series for _, value in one.get("values") or [one["value"]]]
    if not series:
        yield "no data"
    elif not [number for number in numbers if math.isfinite(number)]:
        yield "no number"
    if len(series) > MAX_SERIES:
        yield f"{len(series)} series"
    labels = LABEL.findall(question.legend)
    for one in series:
        missing = [label for label in labels if not one["metric"].get(label)]
        if missing:
            yield f"{missing} of the legend in {one['metric']}"
        name = LABEL.sub(lambda match, metric=one["metric"]: metric[match[1]], question.legend)
        if len(name) > MAX_LEGEND:
            yield f"long legend {name!r}"
    if question.panel["type"] not in ("table", "heatmap"):
        names = {tuple(one["metric"].get(label, "") for label in labels) for one in series}
        if len(names) != len(series):
            yield "two series have one legend"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_heatmaps_have_buckets(path: Path, source: Source) -> None:
    """A heatmap's series are cumulative buckets, up to the infinite one, which has answers."""
    dashboard = read(path)
    builtin = intervals(source, scrape_s=STEP_S, step_s=STEP_S)
    for question in questions(dashboard, variables(dashboard, source), builtin):
        if question.panel["type"] != "heatmap":
            continue
        found = {
            float(one["metric"]["le"]): dict(one["values"])
            for one in source.over_time(question.expr, step_s=STEP_S)
        }
        bounds = sorted(found)
        assert bounds[-1] == math.inf
        assert any(float(value) > 0 for value in found[math.inf].values())
        # Where a counter is young, `increase` extrapolates down to 0 at most, each by itself.
        grown = source.start_s + HOUR_S
        for lower, upper in pairwise(bounds):
            for at, value in found[lower].items():
                assert at < grown or float(value) <= float(found[upper][at]) + 1e-9


def test_annotations_mark_what_happened(source: Source) -> None:
    """Deployments, the change of a judge and alarms are found, each under its own words."""
    dashboard = read(PATHS[0])
    values = variables(dashboard, source)
    titles = []
    for annotation, expr in annotations(dashboard, values):
        series = source.over_time(expr, step_s=max(60, (source.end_s - source.start_s) // 10_000))
        assert series, annotation["name"]
        if annotation["useValueForTime"]:  # milliseconds, and within the history
            at_s = [float(value) / 1_000 for one in series for _, value in one["values"]]
            assert all(source.start_s - HOUR_S < each < source.end_s for each in at_s)
        written = annotation["titleFormat"]
        titles += [
            LABEL.sub(lambda match, metric=one["metric"]: metric[match[1]], written)
            for one in series
        ]
    text = " / ".join(titles)
    assert "support-bot" in text
    assert "1.5" in text
    assert f"{MODEL} p5-81cc" in text
    assert "hallucination" in text
    assert "weak_retrieval" in text
    assert "reindexed" in text
    assert "hallucination 自此变差" in text


def test_variables_have_the_model_first(source: Source) -> None:
    """Both services are offered, and a model before the built-in judge."""
    values = variables(read(PATHS[0]), source)
    assert values["service"] == sorted(life.service for life in LIVES)
    assert values["judge"] == [MODEL, "builtin"]
    assert values["window"] == ["1h", "24h"]
    assert values["dimension"] == ["language", "route", "version"]


def test_the_budget_s_share_is_what_was_spent(source: Source) -> None:
    """Spent, of the budget: a day's dollars by the day's limit, one series for each limit."""
    (path,) = [path for path in PATHS if path.stem == "ragmonitor-overview"]
    dashboard = read(path)
    builtin = intervals(source, scrape_s=STEP_S, step_s=STEP_S)
    asked = questions(dashboard, variables(dashboard, source), builtin)
    spent = {
        (one["metric"]["service"], one["metric"]["unit"], one["metric"]["per"]): float(
            one["value"][1]
        )
        for question in asked
        if question.panel["title"] == "Spent, of the budget"
        for one in source.instant(question.expr)
    }
    assert set(spent) == {
        (life.service, unit, per)
        for life in LIVES
        for unit, per in (("usd", "day"), ("tokens", "hour"))
    }
    for life in LIVES:
        counter = f'sum(increase(ragmonitor_judge_cost_usd_total{{service="{life.service}"}}[1d]))'
        (one,) = source.instant(counter)
        assert spent[life.service, "usd", "day"] == pytest.approx(float(one["value"][1]) / 0.5)


ELSEWHERE = {
    *("Judge and people agree", "Feedback per hour"),
    *("On the stream", "How late: the oldest answer, the estimator's state"),
    *("Takeovers, buried records, reach", "Requests with spans, by outcome"),
    "Traces received, by what was found",
}
"""Panels of what people say, of streams and of receivers: there is none of these in the demo."""


def test_the_demo_fills_every_panel(tmp_path: Path) -> None:
    """Scraped while it runs, the demo leaves no panel of any dashboard empty."""
    require_binary("prometheus")
    if os.environ.get(REQUIRED) != "1":
        pytest.skip(f"the demo takes a minute or two to fill all of them: {REQUIRED}=1 asks for it")
    for framework in ("langchain", "llama_index"):
        if not metadata.entry_points(group=GROUP, name=framework):
            pytest.skip(f"the integration of {framework} is not installed; see `make setup`")
    port = free_port()
    began = int(time.time())
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO, "demo", "--seconds=300", "--json", f"--port={port}"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(("RAGMONITOR_", "OTEL_"))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with prometheus_server(f"127.0.0.1:{port}", tmp_path) as server:

            def is_full() -> bool:
                source = Source(server.url, start_s=began, end_s=int(time.time()))
                empty = [panel for path in ENGLISH for panel in _empty_panels(path, source)]
                # Every look is some 150 queries: the demo needs the processor, too.
                time.sleep(2 if empty else 0)
                assert empty == []
                return True

            until("every panel has data", is_full, within_s=240)
    finally:
        demo.terminate()
        demo.wait(timeout=30)


def _empty_panels(path: Path, source: Source) -> list[str]:
    dashboard = read(path)
    full: dict[tuple[str, Any], bool] = {}
    builtin = intervals(source, scrape_s=1, step_s=2)
    for question in questions(dashboard, variables(dashboard, source), builtin):
        key = (question.panel["title"], question.scope)
        series = source.over_time(question.expr, step_s=2)
        has_data = not any(fault.startswith("no ") for fault in _faults(question, series))
        full[key] = full.get(key, False) or has_data
    return [
        title for (title, _), has_data in full.items() if not has_data and title not in ELSEWHERE
    ]


def test_dots_name_traces(tmp_path: Path) -> None:
    """The panels that ask for exemplars get them from a scrape, with the trace's id."""
    require_binary("prometheus")
    registry = CollectorRegistry()
    score = Histogram(
        "ragmonitor_score",
        "Scores.",
        ("service", "evaluator", "judge"),
        buckets=SCORE_BUCKETS,
        registry=registry,
    )
    info = Gauge(
        "ragmonitor_judge_info",
        "Judges.",
        ("service", "judge", "version", "kind"),
        registry=registry,
    )
    info.labels("bot", MODEL, "p1", "LLM").set(1)
    trace = "0af7651916cd43dd8448eb211c80319c"
    score.labels("bot", "faithfulness", MODEL).observe(0.3, {"trace_id": trace})
    (path,) = [path for path in PATHS if path.stem == "ragmonitor-investigate"]
    values = {
        "datasource": ["prometheus"],
        "service": ["bot"],
        "judge": [MODEL],
        "evaluator": ["faithfulness"],
        "window": ["1h"],
        "dimension": ["language"],
    }
    port = free_port()
    endpoint, thread = start_http_server(port, addr="127.0.0.1", registry=registry)
    began = int(time.time())
    try:
        with prometheus_server(f"127.0.0.1:{port}", tmp_path) as server:
            source = Source(server.url, start_s=began - 60, end_s=began + 60)
            asked = [
                question
                for question in questions(
                    read(path), values, intervals(source, scrape_s=1, step_s=1)
                )
                if question.exemplars
            ]
            assert len(asked) == 2
            for question in asked:
                found = until(question.where, lambda q=question: source.exemplars(q.expr))
                assert {one["labels"]["trace_id"] for one in found} == {trace}
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()
