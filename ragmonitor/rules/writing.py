"""The rules as one knows them: a rule file, or a manifest for the Prometheus operator."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ragmonitor.rules.alerts import ALERTS, GONE, Alert
from ragmonitor.rules.recording import CONTEXT, WINDOWS, means
from ragmonitor.rules.texts import Language, filled
from ragmonitor.runtime.errors import MissingExtraError, SettingsError

DEFAULT_RUNBOOK_URL: Final = {"en": "docs/runbook.md", "zh": "docs/zh/runbook.md"}
"""Paths in this project, until somebody says where the page is published."""
DEFAULT_DASHBOARD_URL: Final = "http://127.0.0.1:3000"
"""Grafana of deploy/compose, on this machine."""
NAME: Final = "ragmonitor"
INCIDENT_URL: Final = (
    '{{ with printf "ragmonitor_page_info{service=%q}" $labels.service | query }}'
    '{{ . | first | label "url" }}incidents/latest{{ end }}'
)
"""The newest incident on the page of the service; empty where `server.ui_url` is not set."""
LONG: Final = 100
"""Characters from which a text stands in a block: no quotes, and expressions in one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """The options that rules are written by."""

    services: tuple[str, ...] = ()
    """None: every service, each on its own."""
    has_fleet: bool = False
    """Workers score what applications put on a stream."""
    has_receiver: bool = False
    """`ragmonitor receive` takes spans."""
    without: frozenset[str] = frozenset()
    """Names of alerts that are left out."""
    severities: Mapping[str, str] = field(default_factory=dict)
    """`critical`, `warning` or `info` to one's own name of it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of every alert, beside its own."""
    language: Language = "en"
    runbook_url: str | None = None
    """Where the runbook's page is published. None: its path in this project."""
    dashboard_url: str = DEFAULT_DASHBOARD_URL

    @property
    def name(self) -> str:
        """A name for the whole that Kubernetes takes: lower-case letters, digits and dashes."""
        if not self.services:
            return NAME
        full = "-".join(self.services)
        slug = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")
        if slug != full or len(slug) > 40:
            # Two services must not get one name because of what it cannot hold.
            digest = hashlib.blake2b(full.encode(), digest_size=4).hexdigest()
            slug = f"{slug[:40].strip('-')}-{digest}"
        return f"{NAME}-{slug.strip('-')}"


def rule_file(options: RuleOptions) -> dict[str, Any]:
    """Return what a rule file of Prometheus holds.

    Raises:
        SettingsError: An alert is to be left out that there is not.
    """
    alerts = dict(ALERTS)
    if not options.has_fleet:
        del alerts["fleet"]
    if not options.has_receiver:
        del alerts["receive"]
    known = {alert.name for each in alerts.values() for alert in each}
    if unknown := options.without - known:
        raise SettingsError(
            f"no alert is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}"
        )
    recorded = [(f"means-{window}", every, means(window)) for window, every in WINDOWS.items()]
    groups: list[tuple[str, str, list[dict[str, Any]]]] = [
        (name, every, [{"record": each, "expr": expr} for each, expr in rules.items()])
        for name, every, rules in (*recorded, ("context", "1m", CONTEXT))
    ]
    for name, each in alerts.items():
        kept = [alert for alert in each if alert.name not in options.without]
        groups.append((name, "30s", [_content(alert, options) for alert in kept]))
    return {
        "groups": [
            {
                "name": f"{options.name}-{name}",
                "interval": every,
                "rules": [rule | {"expr": _of(rule["expr"], options.services)} for rule in rules],
            }
            for name, every, rules in groups
            if rules
        ]
    }


def _of(expr: str, services: Sequence[str]) -> str:
    """Return an expression that reads the series of these services alone; none: of all."""
    if not services:
        return expr
    quoted = partial(json.dumps, ensure_ascii=False)  # PromQL has the escapes of JSON
    own = f"service={quoted(services[0])}"
    if len(services) > 1:
        own = f"service=~{quoted('|'.join(map(re.escape, services)))}"

    def selector(found: re.Match[str]) -> str:
        return f"{found[1]}{{{own}{',' if found[2] else '}'}"

    # A service that is named should be there, however long it has been gone.
    gone = "\nor\n".join(
        f"absent(ragmonitor_build_info{{service={quoted(each)}}})" for each in services
    )
    parts = expr.split(GONE)
    return gone.join(re.sub(r"([\w:]*ragmonitor_[\w:]+)(\{?)", selector, each) for each in parts)


def manifest(options: RuleOptions) -> dict[str, Any]:
    """Return the same as a PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": options.name,
            "labels": {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "rules"},
        },
        "spec": rule_file(options),
    }


def as_yaml(content: dict[str, Any]) -> str:
    """Return it as text, expressions of several lines as blocks.

    Raises:
        MissingExtraError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "rules") from None

    class Dumper(yaml.SafeDumper):
        """Expressions of several lines stand as they are."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value or len(value) > LONG else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)


def _content(alert: Alert, options: RuleOptions) -> dict[str, Any]:
    """Return an alert as Prometheus reads it."""
    summary, description = alert.summary, alert.description
    if options.language == "zh":
        summary, description = alert.summary_zh, alert.description_zh
    runbook_url = options.runbook_url or DEFAULT_RUNBOOK_URL[options.language]
    board = f"{options.dashboard_url.rstrip('/')}/d/ragmonitor-{alert.dashboard}"
    # Without the label it would choose a judge of no name, and every panel would be empty.
    query = "".join(
        f"{{{{ with $labels.{label} }}}}var-{label}={{{{ . | urlquery }}}}&{{{{ end }}}}"
        for label in (("service", "judge") if alert.by_judge else ("service",))
    )
    annotations = {
        "summary": summary,
        "description": filled(description, options.language),
        "dashboard_url": f"{board}?{query}from=now-6h&to=now",
        "runbook_url": f"{runbook_url}#{alert.anchor}",
    }
    if alert.has_incident:
        annotations["incident_url"] = INCIDENT_URL
    severity = options.severities.get(alert.severity, alert.severity)
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": severity, **options.labels},
        "annotations": annotations,
    }
