"""What panels make of several processes, of young counters, and of a 0 that stands for none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.test_rules import check
from tests.support.dashboards import FOLDER, read

pytestmark = [pytest.mark.stack, pytest.mark.slow]

OF_REFUSALS = 'signal="refusal",judge="model",window="1h"'
FILLED = {
    "$service": "shop",
    "$judge": "model",
    "$window": "1h",
    "$__range": "1h",
    "$__rate_interval": "5m",
    "$evaluator": ".*",
}


def expression(dashboard: str, title: str, n: int = 0) -> str:
    """Return the n-th query of a panel, its variables filled in."""
    panels = read(FOLDER / f"ragmonitor-{dashboard}.json")["panels"]
    (panel,) = [each for each in panels if each["title"].startswith(title)]
    expr = str(panel["targets"][n]["expr"])
    for name, value in FILLED.items():
        expr = expr.replace(name, value)
    return expr


def told(
    folder: Path, expr: str, series: dict[str, str], expected: dict[str, float], at: str = "2h"
) -> None:
    """Let promtool evaluate the expression, and compare."""
    rules = folder / "none.yml"
    rules.write_text("groups: []\n", encoding="utf-8")
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    values = [{"expr": expr, "eval_time": at, "exp_samples": samples}]
    check(folder, series, values=values, rules=rules)


@pytest.mark.parametrize(("n", "signal"), [(0, "empty_retrieval"), (1, "weak_retrieval")])
def test_a_share_of_questions_is_that_of_all_processes(n: int, signal: str, tmp_path: Path) -> None:
    """A process with few questions, all bad, does not count as much as one with many, all well."""
    series: dict[str, str] = {}
    for instance, bad, every in (("a", 1, 1), ("b", 0, 99)):
        labels = f'service="shop",judge="none",signal="{signal}",instance="{instance}"'
        for name, grows in (
            ("ragmonitor_estimate_sum_positive_total", bad),
            ("ragmonitor_estimate_sum_negative_total", 0),
            ("ragmonitor_estimate_count_positive_total", every),
            ("ragmonitor_estimate_count_negative_total", 0),
        ):
            series[f"{name}{{{labels}}}"] = f"0+{grows}x120"
        gauge = f'service="shop",window="1h",instance="{instance}"'
        series[f"ragmonitor_{signal}_ratio{{{gauge}}}"] = f"{bad / every:g}x120"
    expr = expression("investigate", "Empty and weak retrievals", n)
    told(tmp_path, f"round({expr}, 0.0001)", series, {'{service="shop"}': 0.01})


def test_how_far_people_agree_is_of_all_answers(tmp_path: Path) -> None:
    """A process counts by its answers; one that has too few for a share, for nothing."""
    series: dict[str, str] = {}
    for instance, agree, differ in (("a", 10, 10), ("b", 180, 0), ("c", 0, 3)):
        labels = f'service="shop",judge="model",instance="{instance}"'
        for people, n in (("good", agree), ("bad", differ)):
            name = f'ragmonitor_feedback_answers{{{labels},people="{people}",verdict="good"}}'
            series[name] = f"{n}x120"
        if agree + differ >= 20:
            share = agree / (agree + differ)
            series[f"ragmonitor_feedback_agreement{{{labels}}}"] = f"{share:g}x120"
    expr = expression("pipeline", "Judge and people agree")
    told(tmp_path, f"round({expr}, 0.0001)", series, {'{service="shop"}': 0.95})


def test_an_alarm_that_is_not_active_has_no_beginning(tmp_path: Path) -> None:
    """0 is of several processes without one: it is not a day in 1970."""
    labels = 'service="shop",judge="model",kind="quality"'
    name = "ragmonitor_alarm_since_timestamp_seconds"
    series = {
        f'{name}{{signal="refusal",{labels}}}': "0x120",
        f'{name}{{signal="hallucination",{labels}}}': "1800000000x120",
    }
    expected = {f'{{signal="hallucination",{labels}}}': 1.8e12}
    told(tmp_path, expression("investigate", "Alarms, now", 4), series, expected)


def test_a_limit_of_differences_is_one(tmp_path: Path) -> None:
    """Their scale of 0 to 1 holds differences of -1 to 1: 0.475 is "0.05 below"."""
    labels = 'service="shop",judge="model",kind="quality"'
    limits = {
        "hallucination": (0.05, 0.05),
        "golden_answer_correctness": (0.475, -0.05),
        "golden_availability": (0.95, 0.95),
    }
    series = {
        f'ragmonitor_alarm_objective{{signal="{signal}",{labels}}}': f"{value:g}x120"
        for signal, (value, _) in limits.items()
    }
    expr = expression("investigate", "Alarms, now", 2)
    expected = {f'{{signal="{signal}",{labels}}}': limit for signal, (_, limit) in limits.items()}
    told(tmp_path, f"round({expr}, 0.0001)", series, expected)


@pytest.mark.parametrize(
    ("title", "counter", "label"),
    [
        ("Errors of the monitoring itself", "ragmonitor_internal_errors_total", "stage"),
        ("Dropped", "ragmonitor_dropped_total", "reason"),
    ],
)
def test_the_first_error_shows(title: str, counter: str, label: str, tmp_path: Path) -> None:
    """A counter is born with its first count, of which `rate` and `increase` know nothing."""
    series = {
        f'{counter}{{service="shop",{label}="export",instance="a"}}': "_x100 1x20",
        'ragmonitor_build_info{service="shop",version="1",instance="a"}': "1x120",
    }
    of_label = {f'{{service="shop",{label}="export"}}': 1.0}
    told(tmp_path, expression("pipeline", title), series, of_label, at="1h45m")
    told(tmp_path, expression("pipeline", title, 1), series, {'{service="shop"}': 1.0}, at="1h45m")


@pytest.mark.parametrize(
    ("unit", "counter"),
    [
        ("usd", "ragmonitor_judge_cost_usd_total"),
        ("tokens", "ragmonitor_judge_tokens_total"),
        ("calls", "ragmonitor_judge_calls_total"),
    ],
)
def test_what_is_spent_of_each_kind_of_budget_shows(
    unit: str, counter: str, tmp_path: Path
) -> None:
    """A budget may be of dollars, tokens or calls."""
    limit = f'ragmonitor_budget_limit{{service="shop",unit="{unit}",per="hour",instance="a"}}'
    counted = f'{counter}{{service="shop",judge="model",instance="a"}}'
    series = {counted: "0+1x180", limit: "120x180"}
    expr = expression("overview", "Spent, of the budget")
    labels = f'{{service="shop",unit="{unit}",per="hour"}}'
    told(tmp_path, expr, series, {labels: 0.5})


def test_what_the_sampling_saves_is_of_each_service(tmp_path: Path) -> None:
    """One that saves much hides none that saves nothing."""
    series = {
        f'ragmonitor_sampling_efficiency{{service="{service}",{OF_REFUSALS}}}': f"{value}x120"
        for service, value in (("shop", 0.5), ("handbook", 3))
    }
    expr = expression("pipeline", "What the sampling saves").replace('"shop"', '"shop|handbook"')
    expected = {
        '{service="shop",signal="refusal"}': 0.5,
        '{service="handbook",signal="refusal"}': 3.0,
    }
    told(tmp_path, expr, series, expected)
