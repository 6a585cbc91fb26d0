"""The rules as one knows them: a rule file, or a manifest for the Prometheus operator."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragmonitor.errors import MissingExtraError
from ragmonitor.rules.alerts import alert_groups
from ragmonitor.rules.error_budgets import Objective
from ragmonitor.rules.model import Alert, Group, Scope
from ragmonitor.rules.recording import context_group, estimate_groups

DEFAULT_THRESHOLD_DAYS: Final = 30.0
DEFAULT_OBJECTIVES: Final = (
    Objective(signal="hallucination", level=0.05, is_floor=False, models_only=True),
    Objective(signal="faithfulness", level=0.95, is_floor=True, models_only=True),
)
DEFAULT_RUNBOOK_URL: Final = "docs/runbooks"
"""A path in this project, until somebody says where it is published."""
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
    threshold_days: float = DEFAULT_THRESHOLD_DAYS
    objectives: tuple[Objective, ...] = DEFAULT_OBJECTIVES
    runbook_url: str = DEFAULT_RUNBOOK_URL
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


def groups(options: RuleOptions) -> tuple[Group, ...]:
    """Return every rule, in groups."""
    scope = Scope(options.services)
    prefix = options.name
    return (
        *estimate_groups(scope, prefix),
        context_group(scope, prefix),
        *alert_groups(
            scope, prefix, threshold_days=options.threshold_days, objectives=options.objectives
        ),
    )


def rule_file(options: RuleOptions) -> dict[str, Any]:
    """Return what a rule file of Prometheus holds."""
    return {"groups": _content(groups(options), options)}


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
        """With literal blocks, and without references to what stands there twice."""

        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        is_template = "{{" in value
        style = None
        if "\n" in value or len(value) > LONG:
            style = ">" if is_template and "\n" not in value else "|"
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)


def _content(every_group: Sequence[Group], options: RuleOptions) -> list[dict[str, Any]]:
    return [
        {
            "name": group.name,
            "interval": group.interval,
            "rules": [
                rule.content(runbook_url=options.runbook_url, dashboard_url=options.dashboard_url)
                if isinstance(rule, Alert)
                else rule.content()
                for rule in group.rules
            ],
        }
        for group in every_group
    ]
