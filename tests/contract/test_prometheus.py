"""A real Prometheus scrapes three replicas and evaluates the rules (`replicas.yaml`)."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.kit_outputs import (
    PROGRAMS,
    binary,
    environment,
    fetched,
    free_port,
    openmetrics,
    table,
    until,
)

TABLE = table("replicas.yaml")


def rules(folder: Path, *options: str) -> Path:
    """Return the file that `ragmonitor rules` writes."""
    path = folder / "rules.yml"
    subprocess.run(
        [sys.executable, "-m", "ragmonitor.cli.app", "rules", *options, "-o", path],
        env=environment(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    return path


class Replica:
    """One process of the service."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = self._said()

    def answers(self, told: dict[str, int]) -> None:
        """Have it answer, without waiting."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Wait until it has answered."""
        assert self._said() == "done"

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def replicas(n: int) -> Iterator[list[Replica]]:
    """Run processes until the block is left."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, PROGRAMS / "replica.py"],
                    env=environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(n)
        ]
        yield [Replica(process) for process in running]


class Prometheus:
    """The HTTP interface of a running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Return whether it answers queries."""
        return "Ready" in fetched(f"{self._url}/-/ready")

    def value(self, ask: str) -> float | None:
        """Return the value of the one series of a query; None: there is none yet."""
        found = self.get("query", query=ask)["result"]
        assert len(found) <= 1, ask
        return float(found[0]["value"][1]) if found else None

    def get(self, what: str, **parameters: str) -> Any:
        """Return what the server's API has."""
        query = urllib.parse.urlencode(parameters)
        return json.loads(fetched(f"{self._url}/api/v1/{what}?{query}"))["data"]


@contextmanager
def prometheus(targets: list[str], rule_file: Path, folder: Path) -> Iterator[Prometheus]:
    """Run a server that scrapes and evaluates every half second, until the block is left."""
    content = yaml.safe_load(rule_file.read_text("utf-8"))
    for group in content["groups"]:
        group["interval"] = "1s"
    quick = folder / "quick.yml"
    quick.write_text(yaml.safe_dump(content), "utf-8")
    config = folder / "prometheus.yml"
    scrape = {"job_name": "rag", "static_configs": [{"targets": targets}]}
    every = {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"}
    written = {"global": every, "rule_files": [str(quick)], "scrape_configs": [scrape]}
    config.write_text(yaml.safe_dump(written), "utf-8")
    port = free_port()
    command = [
        binary("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            server = Prometheus(port)
            until("Prometheus is ready", server.is_ready)
            yield server
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize(
    "options",
    [(), ("--service", "shop", "--fleet", "--receive", "--language", "zh")],
    ids=["every service", "one service"],
)
def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Syntax, types, and what its linter knows."""
    command = [binary("promtool"), "check", "rules", "--lint=all", "--lint-fatal"]
    done = subprocess.run(
        [*command, rules(tmp_path, *options)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_the_page_fires_while_an_alarm_is_on_and_not_else(tmp_path: Path) -> None:
    """One replica's alarm is enough; that of a judge that is outranked, or of others, is not."""
    pages = table("pages.yaml")
    written = rules(tmp_path, "--service", "shop")
    groups = yaml.safe_load(written.read_text("utf-8"))["groups"]
    firing = f'group by (service) (ALERTS{{alertname="{pages["alert"]}",alertstate="firing"}})'
    content = {
        "rule_files": [str(written)],
        "group_eval_order": [group["name"] for group in groups],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": world["world"],
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": f"{value}x10"}
                    for name, value in world["series"].items()
                ],
                "promql_expr_test": [
                    {
                        "expr": firing,
                        "eval_time": "10m",
                        "exp_samples": [{"labels": '{service="shop"}', "value": 1}]
                        * world["fires"],
                    }
                ],
            }
            for world in pages["worlds"]
        ],
    }
    worlds = tmp_path / "worlds.yml"
    worlds.write_text(yaml.safe_dump(content), "utf-8")
    command = [binary("promtool"), "test", "rules", worlds]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_of_three_replicas_are_those_of_all_answers_together(tmp_path: Path) -> None:
    """Counters and means add up over processes, and one replica's alarm pages."""
    binary("prometheus")
    rule_file = rules(tmp_path, "--service", "shop")
    with replicas(len(TABLE["then"])) as running:
        for replica in running:
            replica.answers(TABLE["warm"])
        for replica in running:
            replica.wait()
        targets = [urllib.parse.urlsplit(replica.url).netloc for replica in running]
        with prometheus(targets, rule_file, tmp_path) as server:
            began = "count(count_over_time(ragmonitor_interactions_total[1m]) >= 2)"
            until("two scrapes of each", lambda: server.value(began) == len(running))
            for replica, told in zip(running, TABLE["then"], strict=True):
                replica.answers(told)
            for replica in running:
                replica.wait()
            for row in TABLE["queries"]:
                expected = pytest.approx(row["is"], abs=1e-6)
                until(row["ask"], lambda row=row, e=expected: server.value(row["ask"]) == e)
            for row in TABLE["recorded"]:
                # Each replica is scraped at a moment of its own, so increases differ a little.
                expected = pytest.approx(row["is"], abs=0.04)
                until(row["ask"], lambda row=row, e=expected: server.value(row["ask"]) == e)
            alert = until("the page", lambda: firing(server))
            active = "max(ragmonitor_alarm_active{service='shop',signal='hallucination'})"
            assert server.value(active) == 1
            failed = [
                rule["lastError"]
                for group in server.get("rules")["groups"]
                for rule in group["rules"]
                if rule["health"] == "err"
            ]
    assert failed == []
    assert TABLE["page"].items() <= alert["labels"].items()
    for name in TABLE["annotations"]:
        assert alert["annotations"][name]
        assert "error" not in alert["annotations"][name].lower()


def firing(server: Prometheus) -> dict[str, Any] | None:
    """Return the alert that is to fire; None: it does not yet."""
    for alert in server.get("alerts")["alerts"]:
        named = alert["labels"]["alertname"] == TABLE["page"]["alertname"]
        if named and alert["state"] == "firing":
            return dict(alert)
    return None


def test_promtool_finds_no_fault_in_a_scrape() -> None:
    """Names, types and help texts follow Prometheus' own rules."""
    with replicas(1) as (replica,):
        replica.answers(TABLE["warm"])
        replica.wait()
        plain, exact = fetched(replica.url), openmetrics(replica.url)
    checked = subprocess.run(
        [binary("promtool"), "check", "metrics"],
        input=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert exact.endswith("# EOF\n")
