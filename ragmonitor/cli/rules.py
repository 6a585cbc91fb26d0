"""`ragmonitor rules`: the rules of one's own objectives, as a rule file or a manifest."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

import typer

from ragmonitor.causes.signal_names import SIGNALS
from ragmonitor.cli.options import RulesOptions
from ragmonitor.cli.terminal import FINE, say
from ragmonitor.errors import SettingsError, file_errors, nearest
from ragmonitor.evaluators import table
from ragmonitor.rules import (
    RuleOptions,
    as_yaml,
    manifest,
    parse_days,
    parse_objective,
    rule_file,
)


def run(options: RulesOptions) -> int:
    """Print or write the rules and return the exit code.

    Raises:
        RagMonitorError: An option cannot be read, or the file cannot be written.
    """
    text = written(options)
    for hint in _hints(options):
        say(hint)
    if options.output is None or str(options.output) == "-":
        typer.echo(text, nl=False)
        return FINE
    with file_errors(options.output):
        options.output.write_text(text, encoding="utf-8")
    say(f"wrote {options.output}")
    return FINE


def written(options: RulesOptions) -> str:
    """Return the whole text, the command that makes it first.

    Raises:
        RagMonitorError: An option cannot be read.
    """
    rules = rule_options(options)
    content = rule_file(rules) if options.form == "prometheus" else manifest(rules)
    return (
        f"# Written by: {command(options)}\n# Change the options, not the file.\n{as_yaml(content)}"
    )


def _hints(options: RulesOptions) -> Iterator[str]:
    """Yield what is perhaps misspelt: an evaluator of one's own may have any name."""
    known = [*SIGNALS, *(each.name for each in table)]
    for text in options.objective or ():
        signal = parse_objective(text).signal
        near = nearest(signal, known, cutoff=0.8)
        if near and signal not in known:
            yield f"--objective {text}: ragmonitor has no {signal}; did you mean {near}?"


def command(options: RulesOptions) -> str:
    """Return the command line that gives the same rules."""
    values = {
        "service": options.service,
        "false-alarm-every": options.false_alarm_every,
        "objective": options.objective,
        "runbook-url": options.runbook_url,
        "dashboard-url": options.dashboard_url,
        "format": None if options.form == "prometheus" else options.form,
    }
    words = ["ragmonitor", "rules"]
    for name, value in values.items():
        for word in value if isinstance(value, list) else [value] if value is not None else []:
            words += [f"--{name}", word]
    return shlex.join(words)


def rule_options(options: RulesOptions) -> RuleOptions:
    """Return what the options ask for.

    Raises:
        SettingsError: An option cannot be read, or two say different things.
    """
    objectives = tuple(parse_objective(text) for text in options.objective or ())
    for signal, n in Counter(objective.signal for objective in objectives).items():
        if n > 1:
            raise SettingsError(f"two objectives for {signal}")
    every = options.false_alarm_every
    wanted: dict[str, Any] = {
        "services": tuple(options.service or ()),
        "threshold_days": None if every is None else parse_days(every),
        "objectives": objectives or None,
        "runbook_url": options.runbook_url,
        "dashboard_url": options.dashboard_url,
    }
    return RuleOptions(**{name: value for name, value in wanted.items() if value is not None})
