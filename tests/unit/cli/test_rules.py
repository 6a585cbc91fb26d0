"""`ragmonitor rules`: what it prints, where, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ragmonitor.cli.app import app

runner = CliRunner()


def alerts(text: str) -> list[dict[str, Any]]:
    """Return the alerts of a rule file."""
    groups = yaml.safe_load(text)["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--without", "RagMonitorNobody"], "no alert is called RagMonitorNobody"),
        (["--severity", "page=critical"], "there are critical, warning, info"),
        (["--severity", "critical"], "write it as NAME=VALUE"),
        (["--label", "a-b=c"], "letters, digits and underscores"),
        (["-o", "/nowhere/at/all.yml"], "No such file"),
    ],
)
def test_what_cannot_be_is_exit_code_2(options: list[str], message: str):
    """With one line that says what would do."""
    result = runner.invoke(app, ["rules", *options])
    assert result.exit_code == 2
    assert message in result.stderr
