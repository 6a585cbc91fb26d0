"""`ragmonitor rules`: what it prints, where, and what it refuses."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ragmonitor.cli.app import app

runner = CliRunner()


def printed(*options: str) -> str:
    """Return the standard output of a run that works."""
    result = runner.invoke(app, ["rules", *options])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def alerts(text: str) -> list[dict[str, object]]:
    """Return the alerts of a rule file."""
    groups = yaml.safe_load(text)["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_help_has_exit_codes():
    """As every command's."""
    assert "Exit codes" in runner.invoke(app, ["rules", "--help"]).output


def test_the_command_stands_on_top():
    """So that whoever finds the file can make it anew."""
    text = printed("--service", "my bot", "--false-alarm-every", "2w", "--objective", "refusal=0.1")
    first = text.partition("\n")[0]
    assert first == (
        "# Written by: ragmonitor rules --service 'my bot' --false-alarm-every 2w "
        "--objective refusal=0.1"
    )


def test_objectives_make_budgets():
    """One alert for each burn rate that can be reached, and none of the defaults."""
    found = alerts(printed("--objective", "hallucination=0.1", "--objective", "faithfulness=0.5"))
    objectives = [str(rule["labels"]["objective"]) for rule in found if "burn" in rule["labels"]]
    assert objectives == ["hallucination<=0.1"] * 3 + ["faithfulness>=0.5"]


DAY_S = 86_400


def test_the_page_line_is_that_of_false_alarm_every():
    """And tickets are filed at a tenth of it."""
    found = {str(rule["alert"]): str(rule["expr"]) for rule in alerts(
        printed("--false-alarm-every", "20d")
    )}  # fmt: skip
    assert f">= {20 * DAY_S}\n" in found["RagMonitorHallucinationSpike"]
    assert f">= {2 * DAY_S}\n" in found["RagMonitorFaithfulnessDrift"]


def test_links_lead_where_they_are_told_to():
    """With or without a slash at the end."""
    found = alerts(
        printed("--runbook-url", "https://docs.example/r/", "--dashboard-url", "https://g.example")
    )
    links = found[0]["annotations"]
    assert links["runbook_url"] == "https://docs.example/r/hallucination-spike.md"
    assert str(links["dashboard_url"]).startswith("https://g.example/d/ragmonitor-overview?")


def test_a_manifest_for_the_operator():
    """The same rules, in a PrometheusRule."""
    content = yaml.safe_load(printed("--format", "kubernetes", "--service", "bot"))
    assert (content["kind"], content["metadata"]["name"]) == ("PrometheusRule", "ragmonitor-bot")
    assert content["spec"] == yaml.safe_load(printed("--service", "bot"))


def test_a_file_is_written(tmp_path: Path):
    """And nothing goes to standard output."""
    path = tmp_path / "rules.yml"
    assert printed("-o", str(path)) == ""
    assert path.read_text(encoding="utf-8") == printed()


def test_a_misspelt_signal_is_asked_about():
    """Its alerts would never fire; an evaluator of one's own has a name that is near none."""
    result = runner.invoke(app, ["rules", "--objective", "halucination=0.05"])
    assert "did you mean hallucination?" in result.stderr
    for fine in ("hallucination=0.05", "tone_of_voice=0.9"):
        assert not runner.invoke(app, ["rules", "--objective", fine]).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "hallucination=1"], "between 0 and 1"),
        (["--objective", "faithfulness"], "faithfulness=0.95"),
        (["--objective", "refusal=.1", "--objective", "refusal=.2"], "two objectives for refusal"),
        (["--false-alarm-every", "30"], "write a duration as 90s"),
        (["-o", "/nowhere/at/all.yml"], "No such file"),
    ],
)
def test_what_cannot_be_is_exit_code_2(options: list[str], message: str):
    """With one line that says what would do."""
    result = runner.invoke(app, ["rules", *options])
    assert result.exit_code == 2
    assert message in result.stderr


def test_without_yaml_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """The extra, as every optional part does."""
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name == "yaml":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    result = runner.invoke(app, ["rules"])
    assert result.exit_code == 2
    assert "pip install 'ragmonitor[rules]'" in result.stderr
