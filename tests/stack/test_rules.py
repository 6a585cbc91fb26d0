"""Prometheus' own tool checks the rules, and every alert in worlds made for it."""

from __future__ import annotations

import math
import subprocess
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragmonitor.rules import RuleOptions, as_yaml, parse_objective, rule_file
from ragmonitor.rules.model import Alert
from ragmonitor.rules.writing import groups
from tests.stack.alert_cases import (
    CASES,
    MODEL,
    PIPELINE,
    SINCE,
    Case,
    Series,
    alarm,
    counters,
    estimate,
    labelled,
    rise,
    together,
)
from tests.support.prometheus_server import require_binary
from tests.support.recorded import Sums, recorded, sampled

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "ragmonitor.yml"

ALERTS = {
    rule.name: rule
    for group in groups(RuleOptions())
    for rule in group.rules
    if isinstance(rule, Alert)
}


def run_promtool(*arguments: str) -> str:
    """Return what it says; fail with that if it finds a fault."""
    done = subprocess.run(
        [require_binary("promtool"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def those_of(alert: str, folder: Path) -> Path:
    """Return a file with one alert and the recorded series it reads, out of the committed rules.

    All of them would do, and take four times as long.
    """
    everything = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    alerts = [rule for group in everything for rule in group["rules"] if rule.get("alert") == alert]
    text = str(alerts)
    recorded = [
        group
        for group in everything
        if any(rule.get("record", "nothing is called so") in text for rule in group["rules"])
    ]
    path = folder / "rules.yml"
    content = {"groups": [*recorded, {"name": "alerts", "rules": alerts}]}
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    return path


def check(
    folder: Path,
    series: Series,
    *,
    step: str = "1m",
    alerts: Sequence[Mapping[str, Any]] = (),
    values: Sequence[Mapping[str, Any]] = (),
    rules: Path = RULES,
) -> None:
    """Let promtool evaluate the rules over the series, and compare what comes out."""
    written = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"]
    content = {
        "rule_files": [str(rules)],
        # Else it takes groups in any order, and an alert may read what was recorded a step before.
        "group_eval_order": [group["name"] for group in written],
        "evaluation_interval": step,
        "tests": [
            {
                "interval": step,
                "input_series": [{"series": name, "values": text} for name, text in series.items()],
                "alert_rule_test": list(alerts),
                "promql_expr_test": list(values),
            }
        ],
    }
    path = folder / "rules_test.yml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    run_promtool("test", "rules", str(path))


def firing(case: Case, services: Sequence[str]) -> Mapping[str, Any]:
    """Return the expectation that the alert fires for these services and no other."""
    return {
        "expr": f'group by (service) (ALERTS{{alertname="{case.alert}",alertstate="firing"}})',
        "eval_time": case.at,
        "exp_samples": [
            {"labels": f'{{service="{service}"}}' if service else "{}", "value": 1}
            for service in services
        ],
    }


every_alert = pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)


def test_the_rules_pass_every_check():
    """Syntax, types, and what the linter knows."""
    assert "SUCCESS" in run_promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))


def test_every_alert_is_tried():
    """No alert without worlds, and none of them for an alert that is gone."""
    assert {case.alert for case in CASES} == set(ALERTS)


@pytest.mark.parametrize(
    ("case", "page"),
    [
        (case, page)
        for case in CASES
        for page in ("https://rag.example/ragmonitor/", "")
        if page or ALERTS[case.alert].has_incident
    ],
    ids=lambda each: each.alert if isinstance(each, Case) else "page" if each else "no page",
)
def test_it_fires_and_says_why(case: Case, page: str, tmp_path: Path):
    """With its labels, its numbers, and links that have their variables; or none, for a page."""
    alert = ALERTS[case.alert]
    series = dict(case.bad("bot"))
    if page:
        series[f'ragmonitor_page_info{{service="bot", url="{page}"}}'] = "1x5000"
    annotations = {
        "summary": alert.summary,
        "description": case.description,
        "dashboard_url": case.dashboard,
        "runbook_url": f"docs/runbooks/{alert.runbook}",
    }
    if alert.has_incident:
        annotations["incident_url"] = page and f"{page}incidents/latest"
    expected = {
        "alertname": case.alert,
        "eval_time": case.at,
        "exp_alerts": [{"exp_labels": dict(case.labels), "exp_annotations": annotations}],
    }
    rules = those_of(case.alert, tmp_path)
    check(tmp_path, series, rules=rules, step=case.step, alerts=[expected])


@pytest.mark.slow
@every_alert
def test_it_does_not_fire_while_all_is_well(case: Case, tmp_path: Path):
    """A value just inside what is accepted is no alert."""
    rules = those_of(case.alert, tmp_path)
    check(tmp_path, case.good("bot"), rules=rules, step=case.step, values=[firing(case, ())])


@pytest.mark.slow
@every_alert
def test_no_data_is_no_reason_but_where_it_is_meant_to_be(case: Case, tmp_path: Path):
    """Only the alert on absence fires over nothing at all, and no template or rule breaks."""
    other = {'up{job="node"}': "1x120"}
    check(tmp_path, other, values=[firing(case, sorted(case.fires_without_data))])


@pytest.mark.slow
@every_alert
def test_a_restart_of_the_process_is_told_from_its_troubles(case: Case, tmp_path: Path):
    """Counters that fall to 0 neither raise it nor hide what is going on."""
    services = ("bot",) if case.fires_restarted else ()
    rules = those_of(case.alert, tmp_path)
    check(
        tmp_path,
        case.restarted("bot"),
        rules=rules,
        step=case.step,
        values=[firing(case, services)],
    )


@pytest.mark.slow
@every_alert
def test_one_service_of_two(case: Case, tmp_path: Path):
    """The other service is not blamed."""
    if case.alert == "RagMonitorNothingScraped":
        expected: tuple[str, ...] = ()  # one of two is enough for it
    else:
        expected = ("bot",)
    series = {**case.bad("bot"), **case.good("other")}
    rules = those_of(case.alert, tmp_path)
    check(tmp_path, series, rules=rules, step=case.step, values=[firing(case, expected)])


COUNTED_FROM_BIRTH = {
    "RagMonitorQueueDropping": ("dropped_total", {"reason": "queue_full"}),
    "RagMonitorDeliveryFailing": ("dropped_total", {"reason": "otlp_failed"}),
    "RagMonitorWorkerFailing": ("worker_restarts_total", {}),
    "RagMonitorInternalErrors": ("internal_errors_total", {"stage": "export"}),
    "RagMonitorSpansRefused": ("received_requests_total", {"outcome": "full"}),
    "RagMonitorTracesGivenUp": ("received_traces_total", {"outcome": "too_large"}),
}
"""The counter of which an alert reads also the first value."""


@pytest.mark.slow
@pytest.mark.parametrize("alert", COUNTED_FROM_BIRTH)
def test_old_counts_are_no_news_after_a_gap_in_the_scrapes(alert: str, tmp_path: Path):
    """Forty minutes without a scrape, between them and after nothing happens but good answers."""
    counter, labels = COUNTED_FROM_BIRTH[alert]
    traffic = (
        labelled("interactions_total", service="bot"),
        labelled("received_requests_total", service="bot", outcome="ok"),
        labelled("received_traces_total", service="bot", outcome="interaction"),
    )
    series = {
        labelled(counter, service="bot", **labels): "5000x100 _x40 5000x180",
        **dict.fromkeys(traffic, "0+10x100 _x40 1400+10x180"),
    }
    ever = {
        "expr": f'count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[3h])',
        "eval_time": "280m",
        "exp_samples": [],
    }
    check(tmp_path, series, rules=those_of(alert, tmp_path), values=[ever])


def test_a_mean_before_the_rise_that_is_not_known_has_no_number(tmp_path: Path):
    """Several processes show NaN for it."""
    case = next(case for case in CASES if case.alert == "RagMonitorRefusalSurge")
    began = rise("refusal", "quality", start=960, answers=60, mean=0.517, before=math.nan)
    description = case.description.replace(
        "when the rise began is not known yet",
        "since 1970-01-01 00:16:00 +0000 UTC a mean of 51.7 % over 60 scored answers; before: not "
        "known yet",
    ).replace("in the last hour: not known yet", "since then: none")
    changed = replace(case, bad=together(case.bad, began), description=description)
    test_it_fires_and_says_why(changed, "", tmp_path)


# --- recorded means and intervals -----------------------------------------------------------------

HOUR = 60
"""Steps of a minute; over so many `increase` is exact."""

WINDOWFULS = {
    "all judged": sampled(answers=120, judged=120, bad=6, chance=1, predicted=0),
    "a tenth judged": sampled(answers=1200, judged=120, bad=6, chance=0.1, predicted=0.05),
    "none bad": sampled(answers=60, judged=60, bad=0, chance=1, predicted=0),
    "all bad": sampled(answers=60, judged=60, bad=60, chance=1, predicted=0),
    "one judged": sampled(answers=60, judged=1, bad=1, chance=1 / 60, predicted=0.2),
    "below 0": sampled(answers=600, judged=90, bad=0, chance=0.1, predicted=0.2),
    "graded": Sums(
        answers=60,
        judged=60,
        value_positive=54,
        value_negative=0,
        scored_positive=60,
        scored_negative=0,
        value_squares=49.5,
        scored_squares=60,
        difference_squares=1.5,
    ),
}


def rising(sums: Sums, *, values: str = "0+{step}x120", service: str = "bot") -> Series:
    """Return counters that grow by these sums in an hour."""
    which = {"service": service, "signal": "hallucination", "judge": MODEL}
    return {
        labelled(f"{name}_total", **which): values.format(step=f"{total / HOUR:.12f}")
        for name, total in sums.counters().items()
    }


def is_near(
    operation: str, expected: float, at: str = "1h30m", service: str = "bot"
) -> Mapping[str, Any]:
    """Return the expectation of a value of the last hour; promtool compares floats exactly."""
    series = f'service_signal_judge:ragmonitor_estimate:{operation}1h{{service="{service}"}}'
    return {
        "expr": f"sum(abs({series} - {expected!r}) < bool 1e-6)",
        "eval_time": at,
        "exp_samples": [{"labels": "{}", "value": 1}],
    }


def all_near(sums: Sums, at: str = "1h30m", service: str = "bot") -> list[Mapping[str, Any]]:
    """Return the expectations of everything that is recorded of these sums."""
    found = recorded(sums)
    assert found is not None
    return [
        is_near(operation, getattr(found, operation), at, service)
        for operation in ("mean", "lower", "upper", "effective_n")
    ]


def test_prometheus_computes_the_formulas(tmp_path: Path):
    """Mean, ends and effective size are what Python makes of the same sums; a service each."""
    series = [rising(sums, service=what) for what, sums in WINDOWFULS.items()]
    values = [all_near(sums, service=what) for what, sums in WINDOWFULS.items()]
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, dict(ChainMap(*series)), rules=rules, values=[*chain(*values)])


def test_processes_add_up(tmp_path: Path):
    """Two processes of a service are one estimate, of all their answers."""
    sums = WINDOWFULS["a tenth judged"]
    first = rising(sums)
    second = {name.replace("{", '{pod="b",'): values for name, values in first.items()}
    both = Sums(**{name: 2 * getattr(sums, name) for name in Sums.__dataclass_fields__})
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, {**first, **second}, rules=rules, values=all_near(both))


def test_a_restart_loses_nothing_of_the_window(tmp_path: Path):
    """Counters that begin anew amid the window give the same estimate, but for one minute."""
    sums = WINDOWFULS["all judged"]
    series = rising(sums, values="0+{step}x60 0+{step}x60")
    lost_one = Sums(**{n: getattr(sums, n) * 59 / 60 for n in Sums.__dataclass_fields__})
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, series, rules=rules, values=all_near(lost_one))


def test_without_a_verdict_there_is_no_estimate(tmp_path: Path):
    """The sums of unjudged answers are predictions, and are not shown as a rate."""
    sums = sampled(answers=600, judged=0, bad=0, chance=0.1, predicted=0.05)
    nothing = {
        "expr": 'count({__name__=~"service_signal_judge:ragmonitor_estimate:.*1h"})',
        "eval_time": "1h30m",
        "exp_samples": [],
    }
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, rising(sums), rules=rules, values=[nothing])


# --- error budgets --------------------------------------------------------------------------------


def burning(*services: str, at: str, factor: str) -> Mapping[str, Any]:
    """Return the expectation that one burn rate fires for these services."""
    matchers = f'alertname="RagMonitorErrorBudgetBurn",alertstate="firing",burn="{factor}"'
    return {
        "expr": f"group by (service) (ALERTS{{{matchers}}})",
        "eval_time": at,
        "exp_samples": [{"labels": f'{{service="{name}"}}', "value": 1} for name in services],
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "factors"),
    [(0.03, ()), (0.1, ("1",)), (0.2, ("1", "3")), (0.5, ("1", "3", "6"))],
)
def test_a_budget_burns_as_fast_as_errors_come(
    bad: float, factors: tuple[str, ...], tmp_path: Path
):
    """A budget of 5 %: each rate fires from its multiple of that on, and no faster one does."""
    series = estimate("hallucination", judged=50, value=50 * bad, minutes=100)("bot")
    expected = [
        burning(*(("bot",) if factor in factors else ()), at="8h", factor=factor)
        for factor in ("1", "3", "6", "14.4")
    ]
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, series, step="5m", rules=rules, values=expected)


def test_a_burn_ends_when_its_short_window_has_recovered(tmp_path: Path):
    """Although the long one still remembers."""
    bad = sampled(answers=600, judged=600, bad=540, chance=1, predicted=0).counters()
    good = sampled(answers=600, judged=600, bad=0, chance=1, predicted=0).counters()
    which = {"service": "bot", "signal": "hallucination", "judge": MODEL}
    series = {
        labelled(f"{name}_total", **which): (
            f"0+{bad[name] / HOUR}x40 {40 * bad[name] / HOUR}+{good[name] / HOUR}x60"
        )
        for name in bad
    }
    expected = [
        burning("bot", at="40m", factor="14.4"),
        burning(at="47m", factor="14.4"),
    ]
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, series, rules=rules, values=expected)


def test_a_burn_goes_on_when_nothing_is_judged_any_more(tmp_path: Path):
    """A short window without a verdict is no recovery."""
    stopped = counters(
        "hallucination", n=10, value=9, values=lambda step: f"0+{step:g}x40 {40 * step:g}x60"
    )
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, stopped("bot"), rules=rules, values=[burning("bot", at="50m", factor="14.4")])


def test_two_bad_answers_of_two_burn_no_budget(tmp_path: Path):
    """Their interval reaches below the threshold, although all errors there are were seen."""
    series = estimate("hallucination", judged=0.05, value=0.05)("bot")
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, series, rules=rules, values=[burning(at="40m", factor="14.4")])


def test_the_builtin_judge_burns_no_budget_that_nobody_set(tmp_path: Path):
    """Its scale is its own: what a service is held to by default is a model's verdict."""
    series = estimate("hallucination", judged=10, value=9, judge="builtin")("bot")
    rules = those_of("RagMonitorErrorBudgetBurn", tmp_path)
    check(tmp_path, series, rules=rules, values=[burning(at="12m", factor="14.4")])


def written(tmp_path: Path, **wanted: Any) -> Path:
    """Return a file with rules that were asked for."""
    path = tmp_path / "wanted.yml"
    path.write_text(as_yaml(rule_file(RuleOptions(**wanted))), encoding="utf-8")
    return path


def test_an_objective_of_ones_own_holds_the_builtin_judge_where_there_is_no_model(
    tmp_path: Path,
):
    """Beside a model its scores inform, and never alert."""
    rules = written(tmp_path, objectives=(parse_objective("hallucination=0.05"),))
    alone = estimate("hallucination", judged=10, value=9, judge="builtin", minutes=20)
    model = estimate("hallucination", judged=10, value=0, minutes=20)
    series = {**alone("alone"), **alone("beside"), **model("beside")}
    check(tmp_path, series, rules=rules, values=[burning("alone", at="12m", factor="14.4")])


def test_rules_of_one_service_heed_no_other(tmp_path: Path):
    """Nor does a name with quotes or dots in it select another."""
    rules = written(tmp_path, services=("my.bot",))
    burns = estimate("hallucination", judged=10, value=9, minutes=20)
    series = {**burns("my.bot"), **burns("my-bot")}
    check(tmp_path, series, rules=rules, values=[burning("my.bot", at="12m", factor="14.4")])


def test_a_service_that_is_named_is_missed_for_ever(tmp_path: Path):
    """`absent` of a name that rules are made for does not end when Prometheus forgets it."""
    rules = written(tmp_path, services=("bot",))
    expected = {
        "expr": 'ALERTS{alertname="RagMonitorAbsent",alertstate="firing"}',
        "eval_time": "30m",
        "exp_samples": [
            {
                "labels": 'ALERTS{alertname="RagMonitorAbsent",alertstate="firing",'
                'service="bot",severity="ticket"}',
                "value": 1,
            }
        ],
    }
    check(tmp_path, {'up{job="node"}': "1x60"}, rules=rules, values=[expected])


@pytest.mark.parametrize("name", ['quote"d', "back\\slash", "客服", "o'reilly|x"])
def test_rules_of_any_service_name_are_valid(name: str, tmp_path: Path):
    """Whatever a service is called."""
    path = written(tmp_path, services=(name, "bot"))
    run_promtool("check", "rules", "--lint=all", "--lint-fatal", str(path))


# --- the other ways in which an alert may come about ----------------------------------------------


def seen(alert: str, *services: str, at: str) -> Mapping[str, Any]:
    """Return the expectation that an alert fires for these services."""
    return {
        "expr": f'group by (service) (ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": at,
        "exp_samples": [{"labels": f'{{service="{name}"}}', "value": 1} for name in services],
    }


def ours(name: str, **labels: str) -> str:
    """Return the selector of a series of the service `bot`."""
    return labelled(name, service="bot", **labels)


def test_what_the_monitor_raised_pages_below_the_rules_line(tmp_path: Path):
    """Its own line may be lower: false_alarm_every_days is the application's setting."""
    series = alarm("hallucination", "quality", days="8x60", active="1x60")("bot")
    rules = those_of("RagMonitorHallucinationSpike", tmp_path)
    expected = seen("RagMonitorHallucinationSpike", "bot", at="30m")
    check(tmp_path, series, rules=rules, values=[expected])


@pytest.mark.parametrize(
    ("reader", "other"),
    [("builtin", MODEL), ("builtin:org/model", MODEL), ("builtin", "builtin:org/model")],
)
def test_the_builtin_judge_does_not_page_beside_a_model(reader: str, other: str, tmp_path: Path):
    """Even if the model is down and judges nothing; nor do the rules beside an encoder."""
    series = {
        **alarm("hallucination", "quality", days="80x60", judge=reader)("bot"),
        **estimate("hallucination", judged=5, value=4, judge=reader, minutes=60)("bot"),
        ours("answers_total", signal="hallucination", judge=other): "0+5x60",
    }
    rules = those_of("RagMonitorHallucinationSpike", tmp_path)
    expected = seen("RagMonitorHallucinationSpike", at="30m")
    check(tmp_path, series, rules=rules, values=[expected])


@pytest.mark.parametrize("reader", ["builtin", "builtin:org/model"])
def test_the_builtin_judge_pages_where_it_is_the_only_one(reader: str, tmp_path: Path):
    """What it is held to was learned from its own scores."""
    series = {
        **alarm("hallucination", "quality", days="80x60", judge=reader)("bot"),
        **estimate("hallucination", judged=5, value=4, judge=reader, minutes=60)("bot"),
    }
    rules = those_of("RagMonitorHallucinationSpike", tmp_path)
    expected = seen("RagMonitorHallucinationSpike", "bot", at="30m")
    check(tmp_path, series, rules=rules, values=[expected])


def test_a_judge_that_fails_on_most_readings_is_down(tmp_path: Path):
    """Although its breaker is closed, or it has none."""
    calls = "judge_seconds_count"
    series = {
        ours(calls, judge=MODEL, outcome="ok"): "0+1x60",
        ours(calls, judge=MODEL, outcome="judge_error"): "0+2x60",
        ours(calls, judge=MODEL, outcome="cached"): "0+50x60",
    }
    rules = those_of("RagMonitorJudgeDown", tmp_path)
    check(tmp_path, series, rules=rules, values=[seen("RagMonitorJudgeDown", "bot", at="30m")])


def test_two_failed_readings_are_no_outage(tmp_path: Path):
    """All of two."""
    series = {ours("judge_seconds_count", judge=MODEL, outcome="judge_error"): "0x10 1x10 2x40"}
    rules = those_of("RagMonitorJudgeDown", tmp_path)
    check(tmp_path, series, rules=rules, values=[seen("RagMonitorJudgeDown", at="25m")])


def test_a_worker_that_stands_still_is_missed(tmp_path: Path):
    """Interactions end, and no answer is counted for any judge."""
    series = {
        ours("interactions_total", framework="langchain", status="ok"): "0+1x160",
        ours("answers_total", signal="refusal", judge="builtin"): "0+1x20 20x140",
    }
    rules = those_of("RagMonitorJudgingStopped", tmp_path)
    expected = seen("RagMonitorJudgingStopped", "bot", at="1h45m")
    check(tmp_path, series, rules=rules, values=[expected])


def test_the_link_of_an_alert_without_a_judge_chooses_none(tmp_path: Path):
    """A judge of no name would leave every panel of the dashboard empty."""
    series = {ours("interactions_total", status="ok"): "0+2x160", ours("answers_total"): "5x160"}
    rules = those_of("RagMonitorJudgingStopped", tmp_path)
    (alert,) = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"][-1]["rules"]
    alert["annotations"] = {"dashboard_url": alert["annotations"]["dashboard_url"]}
    everything = yaml.safe_load(rules.read_text(encoding="utf-8"))
    everything["groups"][-1]["rules"] = [alert]
    rules.write_text(yaml.safe_dump(everything), encoding="utf-8")
    url = f"{PIPELINE}{SINCE}"
    told = {
        "exp_labels": {"service": "bot", "severity": "ticket"},
        "exp_annotations": {"dashboard_url": url},
    }
    expected = {"alertname": "RagMonitorJudgingStopped", "eval_time": "1h45m", "exp_alerts": [told]}
    check(tmp_path, series, rules=rules, alerts=[expected])


def test_a_signal_that_applies_to_no_answer_does_not_look_stopped(tmp_path: Path):
    """An hour of refusals has no verdict on hallucination, and is judged all the same."""
    series = {
        **estimate("refusal", judged=2, value=2, minutes=160)("bot"),
        ours("answers_total", signal="hallucination", judge=MODEL): "0+2x160",
        ours("judged_answers_total", signal="hallucination", judge=MODEL): "0x160",
        ours("judge_sampling_rate", judge=MODEL): "1x160",
    }
    rules = those_of("RagMonitorJudgingStopped", tmp_path)
    check(tmp_path, series, rules=rules, values=[seen("RagMonitorJudgingStopped", at="1h45m")])


def test_none_judged_of_few_is_chance(tmp_path: Path):
    """Of 60 answers at a chance of one in a hundred none is to be expected."""
    series = {
        ours("answers_total", signal="hallucination", judge=MODEL): "0+1x160",
        ours("judged_answers_total", signal="hallucination", judge=MODEL): "0x160",
        ours("judge_sampling_rate", judge=MODEL): "0.01x160",
    }
    rules = those_of("RagMonitorJudgingStopped", tmp_path)
    check(tmp_path, series, rules=rules, values=[seen("RagMonitorJudgingStopped", at="1h45m")])


def test_a_fleet_without_an_estimator_is_told(tmp_path: Path):
    """Also where none was ever scraped; a worker alone needs none, and has nothing settled."""
    alert = "RagMonitorEstimatorGone"
    rules = those_of(alert, tmp_path)
    fleet = {ours("stream_settled"): "4x60", ours("stream_waiting"): "4x60"}
    check(tmp_path, fleet, rules=rules, values=[seen(alert, "bot", at="10m")])
    alone = {ours("stream_waiting"): "4x60", ours("stream_up"): "1x60"}
    check(tmp_path, alone, rules=rules, values=[seen(alert, at="10m")])


def test_traces_of_which_none_has_an_answer_are_told(tmp_path: Path):
    """From twenty of them on: then something is wrong with what is sent."""
    alert = "RagMonitorTracesGivenUp"
    rules = those_of(alert, tmp_path)
    for each, services in (("0+1x120", ("bot",)), ("0+0.3x120", ())):
        series = {ours("received_traces_total", outcome="none"): each}
        check(tmp_path, series, rules=rules, values=[seen(alert, *services, at="1h30m")])
