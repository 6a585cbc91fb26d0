"""The rules as a whole: what is committed, what they link to, what they may not contain."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ragmonitor.cli.options import RulesOptions
from ragmonitor.cli.rules import written
from ragmonitor.rules import RuleOptions, as_yaml, manifest, parse_objective, rule_file
from ragmonitor.rules.model import Alert, Recording, kebab
from ragmonitor.rules.writing import groups

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "ragmonitor.yml"
RUNBOOKS = ROOT / "docs" / "runbooks"
DASHBOARDS = ROOT / "deploy" / "grafana" / "dashboards"

ALL = [rule for group in groups(RuleOptions()) for rule in group.rules]
ALERTS = [rule for rule in ALL if isinstance(rule, Alert)]
SECTIONS = [
    "What it means",
    "First look",
    "Likely causes",
    "What to do",
    "When to silence",
]

every_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


def test_the_committed_file_is_what_the_command_prints():
    """`ragmonitor rules -o deploy/prometheus/rules/ragmonitor.yml` makes it anew."""
    assert RULES.read_text(encoding="utf-8") == written(RulesOptions())


def test_the_manifest_holds_the_same_rules():
    """One source: what promtool tests is what the operator loads."""
    assert manifest(RuleOptions())["spec"] == rule_file(RuleOptions())


def test_yaml_gives_back_what_was_written():
    """No line break, quote or brace of an expression or a template is lost."""
    content = manifest(RuleOptions(services=("客服",)))
    assert yaml.safe_load(as_yaml(content)) == content


def test_recorded_series_are_named_by_level_metric_and_operation():
    """https://prometheus.io/docs/practices/rules/"""  # noqa: D400, D415
    for rule in ALL:
        if isinstance(rule, Recording):
            level, metric, operation = rule.record.split(":")
            assert level.startswith("service")
            assert metric.startswith("ragmonitor_")
            assert operation


@every_alert
def test_an_alert_is_complete(alert: Alert):
    """A severity that is routed, a constant summary, numbers in the description."""
    assert alert.severity in {"page", "ticket", "info"}
    assert "{{" not in alert.summary
    assert alert.summary.endswith(".")
    assert alert.description
    assert alert.name.startswith("RagMonitor")


@every_alert
def test_an_alert_has_a_runbook_with_every_section(alert: Alert):
    """So that nobody who is woken has to think first."""
    text = (RUNBOOKS / alert.runbook).read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## (.+)$", text) == SECTIONS
    assert text.startswith(f"# {alert.name}\n")


def test_there_is_no_runbook_of_an_alert_that_is_gone():
    """And the list of them names each."""
    expected = {alert.runbook for alert in ALERTS}
    assert {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"} == expected
    listed = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    assert {name for name in expected if f"]({name})" not in listed} == set()
    sections = (RUNBOOKS.parent / "zh" / "runbooks.md").read_text(encoding="utf-8")
    titles = re.findall(r"(?m)^### \[(\w+)\]\(\.\./runbooks/([\w-]+\.md)\)$", sections)
    assert sorted(titles) == sorted({(alert.name, alert.runbook) for alert in ALERTS})


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", h.replace("`", "").lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_runbooks_lead_somewhere(page: Path):
    """To a file that exists, and a heading in it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@every_alert
def test_the_dashboard_of_an_alert_exists_with_its_variables(alert: Alert):
    """The link opens what it names, with everything filled in."""
    path = DASHBOARDS / f"ragmonitor-{alert.dashboard}.json"
    dashboard = json.loads(path.read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"ragmonitor-{alert.dashboard}"
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"service", *alert.variables} <= known


def test_only_reachable_burns_of_ones_own_objectives_are_alerts():
    """A budget of 20 % gets the slow ones alone."""
    wanted = RuleOptions(objectives=(parse_objective("hallucination=0.2"),))
    burns = [
        rule.labels["burn"]
        for group in groups(wanted)
        for rule in group.rules
        if isinstance(rule, Alert) and "burn" in rule.labels
    ]
    assert burns == ["3", "1"]


def test_every_selector_is_of_the_service_that_was_asked_for():
    """No series of ours is read without it, in expressions; `up` has no service."""
    for group in groups(RuleOptions(services=("bot",))):
        for rule in group.rules:
            for selector in re.findall(r"[\w:]*ragmonitor_[\w:]+\S*", rule.expr):
                assert '{service="bot"' in selector, rule


def test_a_runbooks_name_follows_from_the_alerts():
    """So that links can be written by hand."""
    assert kebab("RagMonitorHallucinationSpike") == "hallucination-spike"


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
