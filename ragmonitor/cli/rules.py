"""`ragmonitor rules`: the rules of one's own objectives, as a rule file or a manifest."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import typer

from ragmonitor.cli.terminal import FINE, say
from ragmonitor.errors import InputError, SettingsError
from ragmonitor.rules import (
    Objective,
    RuleOptions,
    as_yaml,
    manifest,
    parse_days,
    parse_objective,
    rule_file,
)

Format = Literal["prometheus", "kubernetes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `ragmonitor rules`; None: the default."""

    services: tuple[str, ...] = ()
    false_alarm_every: str | None = None
    objectives: tuple[str, ...] = ()
    runbook_url: str | None = None
    dashboard_url: str | None = None
    form: Format = "prometheus"
    output: Path | None = None


def run(options: Options) -> int:
    """Print or write the rules and return the exit code.

    Raises:
        RagMonitorError: An option cannot be read, or the file cannot be written.
    """
    text = written(options)
    if options.output is None or str(options.output) == "-":
        typer.echo(text, nl=False)
        return FINE
    try:
        options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {options.output}: {error.strerror}") from error
    say(f"wrote {options.output}")
    return FINE


def written(options: Options) -> str:
    """Return the whole text, the command that makes it first.

    Raises:
        RagMonitorError: An option cannot be read.
    """
    rules = rule_options(options)
    content = rule_file(rules) if options.form == "prometheus" else manifest(rules)
    return (
        f"# Written by: {command(options)}\n# Change the options, not the file.\n{as_yaml(content)}"
    )


def command(options: Options) -> str:
    """Return the command line that gives the same rules."""
    words = ["ragmonitor", "rules"]
    for service in options.services:
        words += ["--service", service]
    if options.false_alarm_every is not None:
        words += ["--false-alarm-every", options.false_alarm_every]
    for objective in options.objectives:
        words += ["--objective", objective]
    if options.runbook_url is not None:
        words += ["--runbook-url", options.runbook_url]
    if options.dashboard_url is not None:
        words += ["--dashboard-url", options.dashboard_url]
    if options.form != "prometheus":
        words += ["--format", options.form]
    return shlex.join(words)


def rule_options(options: Options) -> RuleOptions:
    """Return what the options ask for.

    Raises:
        SettingsError: An option cannot be read, or two say different things.
    """
    rules = RuleOptions(services=options.services)
    if options.runbook_url is not None:
        rules = replace(rules, runbook_url=options.runbook_url)
    if options.dashboard_url is not None:
        rules = replace(rules, dashboard_url=options.dashboard_url)
    if options.false_alarm_every is not None:
        rules = replace(rules, threshold_days=parse_days(options.false_alarm_every))
    objectives = _objectives(options)
    return replace(rules, objectives=objectives) if objectives else rules


def _objectives(options: Options) -> tuple[Objective, ...]:
    objectives = tuple(parse_objective(text) for text in options.objectives)
    signals = [objective.signal for objective in objectives]
    for signal in signals:
        if signals.count(signal) > 1:
            raise SettingsError(f"two objectives for {signal}")
    return objectives
