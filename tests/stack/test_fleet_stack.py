"""The fleet of the compose file, its commands run as processes on loopback, under its rules."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.prometheus_server import (
    PrometheusServer,
    free_port,
    hurried_rules,
    prometheus_server,
)
from tests.support.redis_server import running_redis
from tests.support.waiting import until
from tests.unit.deploy.manifests import COMPOSE, DEPLOY, FLEET, services

pytestmark = [pytest.mark.stack, pytest.mark.slow]

RULES = DEPLOY / "prometheus" / "rules" / "ragmonitor.yml"
SERVICES = services(COMPOSE, FLEET)
PARTS = ("demo", "worker", "worker 2", "estimator", "standby")
BIN = Path(sys.executable).parent
OF_STREAMS = "RagMonitor(Stream|Workers|Estimator|Records|Target|Absent|Internal).*"


def command(name: str, port: int) -> list[str]:
    """Return what the container of a service runs."""
    told: list[str] = SERVICES[name].get("command") or ["ragmonitor", "demo", "--port", str(port)]
    return [str(BIN / told[0]), *told[1:]]


def environment(name: str, *, redis: str, port: int, state: Path) -> dict[str, str]:
    """Return its variables, with the addresses of this machine."""
    told: dict[str, str] = SERVICES[name]["environment"]
    here = {key: "" if value.startswith("${") else value for key, value in told.items()}
    here |= {
        "RAGMONITOR_STREAM": redis,
        "RAGMONITOR_SERVER__HOST": "127.0.0.1",
        "RAGMONITOR_SERVER__PORT": str(port),
        "OTEL_SDK_DISABLED": "true",
    }
    here.pop("OTEL_EXPORTER_OTLP_ENDPOINT")
    return os.environ | here | ({"RAGMONITOR_STATE": str(state)} if name == "demo" else {})


class Fleet:
    """The processes of the file, and a Prometheus that asks each."""

    def __init__(self, folder: Path, redis: str) -> None:
        self._folder, self._redis = folder, redis
        self.ports = {name: free_port() for name in PARTS}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.prometheus: PrometheusServer

    def start(self, name: str) -> None:
        """Start a part, also once more."""
        service, port = name.partition(" ")[0], self.ports[name]
        state = self._folder / "state"
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                command(service, port),
                env=environment(service, redis=self._redis, port=port, state=state),
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def end(self) -> None:
        """End all of them."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(40)

    def leader(self, term: int) -> str:
        """Return the part that has the given term as estimator; empty: none has it yet."""
        found = self.prometheus.query(f"ragmonitor_estimator_takeovers == {term}")
        by_address = {f"127.0.0.1:{port}": name for name, port in self.ports.items()}
        return by_address[found[0]["metric"]["instance"]] if len(found) == 1 else ""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Run all of it."""
    pytest.importorskip("redis")
    with running_redis(tmp_path) as server:
        made = Fleet(tmp_path, server.url)
        targets = " ".join(f"127.0.0.1:{port}" for port in made.ports.values())
        rules = hurried_rules(RULES, tmp_path)
        with prometheus_server(targets, tmp_path, rules=[rules]) as made.prometheus:
            try:
                for name in PARTS:
                    made.start(name)
                yield made
            finally:
                made.end()


def test_a_fleet_as_it_is_deployed(fleet: Fleet):
    """All take part, nothing fires, and after each end of the estimator the other one goes on."""
    value = fleet.prometheus.value

    def counts_more() -> None:
        before = value("sum(ragmonitor_interactions_total)") or 0
        now = lambda: value("sum(ragmonitor_interactions_total)") or 0  # noqa: E731
        until("answers are counted", lambda: now() > before + 20, within_s=60)

    until("all reach the stream", lambda: value("sum(ragmonitor_stream_up)") == 5, within_s=90)
    until("both workers are there", lambda: value("count(ragmonitor_stream_waiting)") == 2)
    read = 'count(ragmonitor_worker_seconds_count{stage="read"} > 0)'
    until("both workers read", lambda: value(read) == 2)
    counts_more()
    leader = until("somebody estimates", lambda: fleet.leader(1))
    # As in a rolling update: asked to end, and started anew.
    began_s = time.monotonic()
    fleet.running[leader].send_signal(signal.SIGTERM)
    other = until("the other one estimates", lambda: fleet.leader(2))
    print(f"taken over {time.monotonic() - began_s:.1f} s after SIGTERM")  # pytest -s shows it
    assert other != leader
    assert fleet.running[leader].wait(30) == 0
    counts_more()
    fleet.start(leader)
    until("it stands by", lambda: value("sum(ragmonitor_stream_up)") == 5, within_s=60)
    began_s = time.monotonic()
    fleet.running[other].kill()
    assert until("it estimates again", lambda: fleet.leader(3)) == leader
    print(f"taken over {time.monotonic() - began_s:.1f} s after SIGKILL")
    counts_more()
    firing = [each["labels"] for each in fleet.prometheus.alerts() if each["state"] == "firing"]
    assert [each for each in firing if re.match(OF_STREAMS, each["alertname"])] == []
    assert [each for each in fleet.prometheus.rules() if each["health"] == "err"] == []
