"""A real Prometheus and a real Alertmanager, from the system's packages, on loopback.

Nothing here needs pytest but `require_binary`, so that scripts can start the same servers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.support.waiting import until

REQUIRED = "TESTS_REQUIRE_SERVERS"
PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "amtool": "prometheus-alertmanager",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
    "docker-compose": "docker-compose",
    "redis-server": "redis-server",
}


def require_binary(name: str) -> str:
    """Return the program's path; skip the test without it, or fail where servers are required."""
    found = shutil.which(name)
    if found is None:
        import pytest

        package = PACKAGES.get(name, "prometheus")
        message = f"{name} is not installed (Debian: apt-get install {package})"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(message)
        pytest.skip(message)
    return found


def free_port() -> int:
    """Return a loopback port that was free just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class PrometheusServer:
    """The HTTP interface of a running server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Return whether it answers queries."""
        with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as reply:
            return bool(reply.status == 200)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        result: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return result

    def value(self, expression: str) -> float | None:
        """Return the value of the one series of an instant query; None if there is none yet."""
        series = self.query(expression)
        return float(series[0]["value"][1]) if len(series) == 1 else None

    def exemplars(self, expression: str, *, start: float, end: float) -> list[dict[str, Any]]:
        """Return every exemplar of the series that the expression names."""
        data = self._get("query_exemplars", query=expression, start=str(start), end=str(end))
        return [exemplar for series in data for exemplar in series["exemplars"]]

    def targets(self) -> list[dict[str, Any]]:
        """Return the scraped targets, with health and last error."""
        active: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return active

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that are pending or firing, with labels, annotations and state."""
        alerts: list[dict[str, Any]] = self._get("alerts")["alerts"]
        return alerts

    def rules(self) -> list[dict[str, Any]]:
        """Return every rule with its health and last error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as reply:
            return json.load(reply)["data"]


class AlertmanagerServer:
    """The HTTP interface of a running server."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self.url = f"http://{self.address}"

    def is_ready(self) -> bool:
        """Return whether it takes alerts."""
        with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as reply:
            return bool(reply.status == 200)

    def post(self, *alerts: Mapping[str, str]) -> None:
        """Have alerts of these labels fire, from a minute ago, for ten minutes."""
        now = datetime.now(UTC)
        body = [
            {
                "labels": dict(labels),
                "startsAt": (now - timedelta(minutes=1)).isoformat(),
                "endsAt": (now + timedelta(minutes=10)).isoformat(),
            }
            for labels in alerts
        ]
        request = urllib.request.Request(
            f"{self.url}/api/v2/alerts",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=10):
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """Return what it knows of, with `status.state` (active or suppressed) and receivers."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as reply:
            found: list[dict[str, Any]] = json.load(reply)
        return found


@contextmanager
def prometheus_server(
    target: str,
    folder: Path,
    *,
    rules: Sequence[Path] = (),
    alertmanager: AlertmanagerServer | None = None,
    port: int | None = None,
) -> Iterator[PrometheusServer]:
    """Run a server that scrapes `host:port` once a second, until the block is left.

    Args:
        target: What is scraped; several with spaces between them.
        folder: For its data, its configuration and its log.
        rules: Rule files, evaluated as often as their groups say, else once a second.
        alertmanager: Where alerts are sent.
        port: To listen on; None: any free one.
    """
    binary = require_binary("prometheus")
    scrape = {"job_name": "rag", "static_configs": [{"targets": target.split()}]}
    content: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [scrape],
    }
    if alertmanager is not None:
        static = [{"targets": [alertmanager.address]}]
        content["alerting"] = {"alertmanagers": [{"static_configs": static}]}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(content), encoding="utf-8")
    port = free_port() if port is None else port
    command = [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--enable-feature=exemplar-storage",
        "--rules.alert.resend-delay=1s",
    ]
    with _running(command, folder / "prometheus.log"):
        server = PrometheusServer(port)
        until("Prometheus is ready", server.is_ready)
        yield server


@contextmanager
def alertmanager_server(
    config: Path, folder: Path, *, port: int | None = None
) -> Iterator[AlertmanagerServer]:
    """Run an Alertmanager with this configuration until the block is left.

    Args:
        config: Its configuration.
        folder: For its data and its log.
        port: To listen on; None: any free one.
    """
    binary = require_binary("prometheus-alertmanager")
    port = free_port() if port is None else port
    command = [
        binary,
        f"--config.file={config}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        # Empty: no gossip, which would listen on every interface.
        "--cluster.listen-address=",
    ]
    with _running(command, folder / "alertmanager.log"):
        server = AlertmanagerServer(port)
        until("Alertmanager is ready", server.is_ready)
        yield server


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def hurried_rules(rules: Path, folder: Path, *, every: str = "1s") -> Path:
    """Return a copy of a rule file whose groups are evaluated so often."""
    text = rules.read_text(encoding="utf-8")
    hurried, groups = re.subn(r"(?m)^(\s*)interval: \S+$", rf"\1interval: {every}", text)
    assert groups > 0
    path = folder / f"hurried-{rules.name}"
    path.write_text(hurried, encoding="utf-8")
    return path


def hurried_alertmanager(config: Path, folder: Path, webhook: str) -> Path:
    """Return a copy of a configuration that waits for nothing and tells one webhook everything.

    Routes, grouping and inhibition stay; each receiver posts to `webhook` with its name behind it.
    """
    content = yaml.safe_load(config.read_text(encoding="utf-8"))
    for route in (content["route"], *content["route"].get("routes", ())):
        route |= {"group_wait": "0s", "group_interval": "1s"}
    content["receivers"] = [
        {
            "name": receiver["name"],
            "webhook_configs": [{"url": f"{webhook}/{receiver['name']}", "send_resolved": True}],
        }
        for receiver in content["receivers"]
    ]
    path = folder / "alertmanager.yml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path
