"""The rules as one knows them: a rule file, or a manifest for the Prometheus operator."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ragmonitor.rules import alerts
from ragmonitor.rules.model import PREFIX, Alert, Scope
from ragmonitor.rules.recording import WINDOWS, context, means
from ragmonitor.rules.texts import Language, text_of
from ragmonitor.runtime.errors import MissingExtraError, SettingsError

DEFAULT_RUNBOOK_URL: Final = {"en": "docs/runbook.md", "zh": "docs/zh/runbook.md"}
"""Paths in this project, until somebody says where the page is published."""
DEFAULT_DASHBOARD_URL: Final = "http://127.0.0.1:3000"
"""Grafana of deploy/compose, on this machine."""
NAME: Final = "ragmonitor"
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


def alerts_of(options: RuleOptions) -> dict[str, list[Alert]]:
    """Return the alerts by their group.

    Raises:
        SettingsError: An alert is to be left out that there is not.
    """
    scope = Scope(options.services)
    every = {
        "quality": alerts.quality(scope),
        "judging": alerts.judging(scope),
        "operation": alerts.operation(scope),
        "fleet": alerts.fleet(scope) if options.has_fleet else (),
        "receive": alerts.receive(scope) if options.has_receiver else (),
    }
    known = {alert.name for each in every.values() for alert in each}
    if unknown := options.without - known:
        raise SettingsError(
            f"no alert is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}"
        )
    return {
        name: [alert for alert in each if alert.name not in options.without]
        for name, each in every.items()
    }


def rule_file(options: RuleOptions) -> dict[str, Any]:
    """Return what a rule file of Prometheus holds. Raises as `alerts_of`."""
    scope = Scope(options.services)
    recorded = [(f"means-{each}", WINDOWS[each], means(scope, each)) for each in WINDOWS]
    recorded.append(("context", "1m", context(scope)))
    groups: list[tuple[str, str, list[dict[str, Any]]]] = [
        (name, interval, [{"record": record, "expr": expr} for record, expr in rules.items()])
        for name, interval, rules in recorded
    ]
    for name, each in alerts_of(options).items():
        groups.append((name, "30s", [_content(alert, options) for alert in each]))
    return {
        "groups": [
            {"name": f"{options.name}-{name}", "interval": interval, "rules": rules}
            for name, interval, rules in groups
            if rules
        ]
    }


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


def _content(rule: Alert, options: RuleOptions) -> dict[str, Any]:
    """Return an alert as Prometheus reads it."""
    severity = options.severities.get(rule.severity, rule.severity)
    summary, description = text_of(rule.name.removeprefix(PREFIX), options.language)
    runbook_url = options.runbook_url or DEFAULT_RUNBOOK_URL[options.language]
    return {
        "alert": rule.name,
        "expr": rule.expr,
        "for": rule.lasts,
        "labels": {"severity": severity, **options.labels},
        "annotations": {
            "summary": summary,
            "description": description,
            **rule.links(runbook_url, options.dashboard_url),
        },
    }
