"""`ragmonitor rules`: recording and alerting rules, as a rule file or a manifest."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from typing import Final

import typer

from ragmonitor.cli.options import RulesOptions
from ragmonitor.cli.terminal import FINE, say
from ragmonitor.rules import RuleOptions, as_yaml, manifest, rule_file
from ragmonitor.rules.writing import DEFAULT_DASHBOARD_URL
from ragmonitor.runtime.errors import SettingsError, file_errors

SEVERITIES: Final = ("critical", "warning", "info")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def run(options: RulesOptions) -> int:
    """Print or write the rules, the command that makes them first; return the exit code.

    Raises:
        RagMonitorError: An option cannot be read, or the file cannot be written.
    """
    command = shlex.join(["ragmonitor", *sys.argv[1:]])
    text = f"# Written by: {command}\n# Change the options, not the file.\n{written(options)}"
    if options.output is None or str(options.output) == "-":
        typer.echo(text, nl=False)
        return FINE
    with file_errors(options.output):
        options.output.write_text(text, encoding="utf-8")
    say(f"wrote {options.output}")
    return FINE


def written(options: RulesOptions) -> str:
    """Return the rules as YAML.

    Raises:
        RagMonitorError: An option cannot be read.
    """
    severities = _pairs("--severity", options.severity)
    if unknown := set(severities) - set(SEVERITIES):
        raise SettingsError(f"--severity {unknown.pop()}: there are {', '.join(SEVERITIES)}")
    labels = _pairs("--label", options.label)
    if wrong := next((name for name in labels if not _LABEL.fullmatch(name)), None):
        raise SettingsError(f"--label {wrong}: a name has letters, digits and underscores")
    rules = RuleOptions(
        services=tuple(options.service or ()),
        has_fleet=options.fleet,
        has_receiver=options.receive,
        without=frozenset(options.without or ()),
        severities=severities,
        labels=labels,
        language=options.language,
        runbook_url=options.runbook_url,
        dashboard_url=options.dashboard_url or DEFAULT_DASHBOARD_URL,
    )
    return as_yaml(rule_file(rules) if options.form == "prometheus" else manifest(rules))


def _pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or ()]
    if wrong := next((name for name, _, value in pairs if not name or not value), None):
        raise SettingsError(f"{option} {wrong}: write it as NAME=VALUE")
    return {name: value for name, _, value in pairs}
