"""An alert as data, and the selectors that rules share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.semconv import metrics as names

PREFIX: Final = "RagMonitor"
INCIDENT_URL: Final = (
    f'{{{{ with printf "{names.PAGE_INFO}{{service=%q}}" $labels.service | query }}}}'
    '{{ . | first | label "url" }}incidents/latest{{ end }}'
)
"""The newest incident on the page of the service; empty where `server.ui_url` is not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alerting rule."""

    name: str
    expr: str
    lasts: str = "5m"
    """For how long it must hold before it fires; `0m`: at once."""
    severity: str = "warning"
    """`critical`: wakes somebody. `warning`: this week. `info`: when one looks."""
    dashboard: str = "pipeline"
    variables: Mapping[str, str] = field(default_factory=dict)
    """The variables of the dashboard: name to the label that holds its value."""
    has_incident: bool = False
    """The monitor opens an incident for it, which the annotation `incident_url` leads to."""

    @property
    def anchor(self) -> str:
        """Its place on the runbook: `hallucination-spike` for RagMonitorHallucinationSpike."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.name.removeprefix(PREFIX)).lower()

    def links(self, runbook_url: str, dashboard_url: str) -> dict[str, str]:
        """Return the links of the alert, as annotations."""
        # Without the label it would choose a judge of no name, and every panel would be empty.
        query = "".join(
            f"{{{{ with $labels.{label} }}}}var-{name}={{{{ . | urlquery }}}}&{{{{ end }}}}"
            for name, label in {"service": "service", **self.variables}.items()
        )
        board = f"{dashboard_url.rstrip('/')}/d/ragmonitor-{self.dashboard}"
        return {
            "dashboard_url": f"{board}?{query}from=now-6h&to=now",
            "runbook_url": f"{runbook_url}#{self.anchor}",
        } | ({"incident_url": INCIDENT_URL} if self.has_incident else {})


@dataclass(frozen=True, slots=True)
class Scope:
    """The services that rules are for; none: all."""

    services: tuple[str, ...] = ()

    def pick(self, series: str, *matchers: str) -> str:
        """Return a selector of these services' series."""
        own: tuple[str, ...] = ()
        if len(self.services) == 1:
            own = (f"service={quoted(self.services[0])}",)
        elif self.services:
            own = (f"service=~{quoted('|'.join(re.escape(name) for name in self.services))}",)
        inside = ",".join((*own, *matchers))
        return f"{series}{{{inside}}}" if inside else series


def gained(scope: Scope, counter: str, window: str, *matchers: str) -> str:
    """Return how much each series of a counter grew, its first value included.

    `increase` loses what a counter is born with, and one with a label for a cause is born with its
    first count. A series is taken as born in the window if it was not there at any time of the hour
    before it: at one moment it may be missing only because nothing was scraped. What remains: after
    more than an hour without scrapes a lifetime's count is taken as new, once.
    """
    series = scope.pick(f"{counter}_total", *matchers)
    known = f"present_over_time({series}[1h] offset {window})"
    return f"(({series} unless {known}) or increase({series}[{window}]))"


def quoted(text: str) -> str:
    """Return a string literal of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
