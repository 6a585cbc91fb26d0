"""Rules and groups as data, and the selectors that they share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.metrics import PAGE_INFO


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording rule."""

    record: str
    """`level:metric:operation`, after the labels that it has left."""
    expr: str

    def content(self) -> dict[str, object]:
        """Return the rule as Prometheus reads it."""
        return {"record": self.record, "expr": self.expr}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alerting rule."""

    name: str
    expr: str
    summary: str
    """Without numbers or names, so that it is the same text every time."""
    description: str
    lasts: str = "0m"
    """For how long it must hold before it fires; `0m`: at once."""
    severity: str = "ticket"
    """`page`: wakes somebody. `ticket`: this week. `info`: when one looks."""
    dashboard: str = "pipeline"
    labels: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables of the dashboard: name to the label that holds its value."""
    has_service: bool = True
    """The alert has the label `service`."""
    has_incident: bool = False
    """The monitor opens an incident for it, which the annotation `incident_url` leads to."""

    @property
    def runbook(self) -> str:
        """The name of its file in docs/runbooks."""
        return f"{kebab(self.name)}.md"

    def content(self, *, runbook_url: str, dashboard_url: str) -> dict[str, object]:
        """Return the rule as Prometheus reads it.

        Args:
            runbook_url: Of the folder that holds the runbooks.
            dashboard_url: Grafana's address.
        """
        query = "var-service={{ $labels.service | urlquery }}" if self.has_service else ""
        # Without the label it would choose a judge of no name, and every panel would be empty.
        query += "".join(
            f"{{{{ with $labels.{label} }}}}&var-{name}={{{{ . | urlquery }}}}{{{{ end }}}}"
            for name, label in self.variables.items()
        )
        address = f"{dashboard_url.rstrip('/')}/d/ragmonitor-{self.dashboard}"
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasts,
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "dashboard_url": f"{address}?{query}&from=now-6h&to=now" if query else address,
                "runbook_url": f"{runbook_url.rstrip('/')}/{self.runbook}",
            }
            | ({"incident_url": INCIDENT_URL} if self.has_incident else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group of rules, evaluated one after the other."""

    name: str
    interval: str
    rules: tuple[Recording | Alert, ...]


PREFIX: Final = "RagMonitor"
INCIDENT_URL: Final = (
    f'{{{{ with printf "{PAGE_INFO}{{service=%q}}" $labels.service | query }}}}'
    '{{ . | first | label "url" }}incidents/latest{{ end }}'
)
"""The newest incident on the page of the service; empty where `server.ui_url` is not set."""


def kebab(name: str) -> str:
    """Return `hallucination-spike` for `RagMonitorHallucinationSpike`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name.removeprefix(PREFIX)).lower()


@dataclass(frozen=True, slots=True)
class Scope:
    """The services that rules are for; none: all."""

    services: tuple[str, ...] = ()

    def pick(self, series: str, *matchers: str) -> str:
        """Return a selector of these services' series."""
        inside = ",".join((*self._matchers(), *matchers))
        return f"{series}{{{inside}}}" if inside else series

    def _matchers(self) -> tuple[str, ...]:
        if not self.services:
            return ()
        if len(self.services) == 1:
            return (f"service={quoted(self.services[0])}",)
        return (f"service=~{quoted('|'.join(re.escape(name) for name in self.services))}",)


def gained(scope: Scope, counter: str, window: str, *matchers: str) -> str:
    """Return how much each series of a counter grew, its first value included.

    `increase` loses what a counter is born with, and one with a label for a cause is born with its
    first count. A series is taken as born in the window if it was not there at any time of the hour
    before it: at one moment it may be missing only because nothing was scraped. What remains: after
    more than an hour without scrapes a lifetime's count is taken as new, once.
    """
    series = scope.pick(counter, *matchers)
    known = f"present_over_time({series}[1h] offset {window})"
    return f"(({series} unless {known}) or increase({series}[{window}]))"


def quoted(text: str) -> str:
    """Return a string literal of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
