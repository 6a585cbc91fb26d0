"""The rules: what is committed, what they link to, and when they fire by Prometheus' own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ragmonitor.cli.options import RulesOptions
from ragmonitor.cli.rules import written
from ragmonitor.rules import RuleOptions, as_yaml, manifest, rule_file
from ragmonitor.rules.alerts import ALERTS, Alert
from ragmonitor.semconv.metrics import TABLE
from tests.support.prometheus_server import require_binary

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
WORLDS = Path(__file__).with_name("worlds.yml")

EVERYTHING = RuleOptions(has_fleet=True, has_receiver=True)
EVERY = [alert for group in ALERTS.values() for alert in group]


def promtool(*arguments: str | Path) -> None:
    """Run it; fail with what it says if it finds a fault."""
    done = subprocess.run(
        [require_binary("promtool"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.stack
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rules_pass_promtools_checks(language: str, tmp_path: Path):
    """In both languages, with everything that can be added."""
    path = tmp_path / "rules.yml"
    options = RulesOptions(fleet=True, receive=True, language=language, label=["team=rag"])
    path.write_text(written(options), encoding="utf-8")
    promtool("check", "rules", "--lint-fatal", path)


@pytest.mark.stack
def test_alerts_fire_in_their_worlds_and_in_no_other(tmp_path: Path):
    """worlds.yml says which, with the texts of one alert."""
    (tmp_path / "rules.yml").write_text(
        written(RulesOptions(fleet=True, receive=True)), encoding="utf-8"
    )
    shutil.copy(WORLDS, tmp_path)
    promtool("test", "rules", tmp_path / WORLDS.name)


def test_every_alert_has_a_world_in_which_it_fires():
    """So that none stays silent for ever."""
    fired = set(re.findall(r'alertname="(\w+)"', WORLDS.read_text(encoding="utf-8")))
    assert fired == {alert.name for alert in EVERY}


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("prometheus/rules/ragmonitor.yml", RulesOptions()),
        ("kubernetes/base/prometheusrule.yaml", RulesOptions(form="kubernetes")),
    ],
)
def test_the_committed_file_is_what_the_command_prints(path: str, options: RulesOptions):
    """`ragmonitor rules -o deploy/prometheus/rules/ragmonitor.yml` makes it anew."""
    command, _, rules = (DEPLOY / path).read_text(encoding="utf-8").split("\n", 2)
    assert command.endswith(f"-o deploy/{path}")
    assert rules == written(options)


def test_yaml_gives_back_what_was_written():
    """No line break, quote or brace of an expression or a template is lost."""
    content = manifest(RuleOptions(services=("客服",)))
    assert yaml.safe_load(as_yaml(content)) == content
    assert content["spec"] == rule_file(RuleOptions(services=("客服",)))


def test_every_series_that_is_read_is_one_of_ours():
    """A series that is renamed in the table is renamed in the rules."""
    for rule in (each for group in rule_file(EVERYTHING)["groups"] for each in group["rules"]):
        for series in re.findall(r"\b(ragmonitor_\w+)", json.dumps(rule)):
            assert {series, re.sub("_(total|count|info)$", "", series)} & TABLE.keys(), rule


def test_recorded_series_are_named_by_level_metric_and_operation():
    """https://prometheus.io/docs/practices/rules/"""  # noqa: D400, D415
    for rule in (each for group in rule_file(EVERYTHING)["groups"] for each in group["rules"]):
        if "record" in rule:
            level, metric, operation = rule["record"].split(":")
            assert level.startswith("service")
            assert metric.startswith("ragmonitor_")
            assert operation


@pytest.mark.parametrize("alert", EVERY, ids=lambda alert: alert.name)
def test_an_alert_leads_to_its_runbook_and_its_dashboard(alert: Alert):
    """In both languages; the dashboard has the variables that the link fills in."""
    english = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    headings = [each.lower().replace(" ", "-") for each in re.findall(r"(?m)^## (.+)$", english)]
    assert alert.anchor in headings
    chinese = (ROOT / "docs" / "zh" / "runbook.md").read_text(encoding="utf-8")
    assert f'<a id="{alert.anchor}"></a>' in chinese
    path = DEPLOY / "grafana" / "dashboards" / f"ragmonitor-{alert.dashboard}.json"
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"service", *(["judge"] if alert.by_judge else [])} <= known


@pytest.mark.parametrize("page", ["runbook.md", "zh/runbook.md"])
def test_the_runbook_has_five_steps_for_each_alert_and_none_of_another(page: str):
    """Nobody who is woken has to think first."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    sections = re.split(r"(?m)^## ", text)[1:]
    assert len(sections) == len(EVERY)
    for section in sections:
        assert re.findall(r"(?m)^(\d)\. ", section) == ["1", "2", "3", "4", "5"], section


def test_every_selector_is_of_the_service_that_was_asked_for():
    """No series of ours is read without it, in expressions; `up` has no service."""
    wanted = RuleOptions(services=("bot",), has_fleet=True, has_receiver=True)
    for group in rule_file(wanted)["groups"]:
        for rule in group["rules"]:
            for selector in re.findall(r"[\w:]*ragmonitor_[\w:]+\S*", rule["expr"]):
                assert '{service="bot"' in selector, rule


@pytest.mark.parametrize(
    ("services", "name"),
    [((), "ragmonitor"), (("bot",), "ragmonitor-bot"), (("a", "b"), "ragmonitor-a-b")],
)
def test_a_manifest_is_named_by_its_services(services: tuple[str, ...], name: str):
    """Several may stand in one namespace."""
    assert manifest(RuleOptions(services=services))["metadata"]["name"] == name


@pytest.mark.parametrize("service", ["客服", "My_Bot", "x" * 80, "my.bot"])
def test_a_manifests_name_is_one_that_kubernetes_takes(service: str):
    """RFC 1123, and two services never share one."""
    name = manifest(RuleOptions(services=(service,)))["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert name != manifest(RuleOptions(services=(f"{service}!",)))["metadata"]["name"]
