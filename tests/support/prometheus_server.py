"""A real Prometheus, from the system's packages, that scrapes what a test serves."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until

REQUIRED = "TESTS_REQUIRE_SERVERS"


def require_binary(name: str) -> str:
    """Return the program's path; skip the test without it, or fail where servers are required."""
    found = shutil.which(name)
    if found is None:
        message = f"{name} is not installed (Debian: apt-get install prometheus)"
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

    def _get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as reply:
            return json.load(reply)["data"]


@contextmanager
def prometheus_server(target: str, folder: Path) -> Iterator[PrometheusServer]:
    """Run a server that scrapes `host:port` once a second, until the block is left."""
    binary = require_binary("prometheus")
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: rag\n"
        f"    static_configs: [{{targets: ['{target}']}}]\n",
        encoding="utf-8",
    )
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--enable-feature=exemplar-storage",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            server = PrometheusServer(port)
            until("Prometheus is ready", server.is_ready)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=30)
