"""Alertmanager's receivers work without a key: each notice is a line of a file."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.support.prometheus_server import (
    alertmanager_server,
    free_port,
    hurried_alertmanager,
)
from tests.support.scripts import ROOT
from tests.support.waiting import until

FOLDER = ROOT / "deploy" / "alertmanager"
NOTICE = {
    "version": "4",
    "status": "firing",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "RagMonitorHallucinationSpike", "service": "机器人"},
            "annotations": {"summary": "since 08:16, 31 of 60 scored answers"},
            "startsAt": "2026-11-23T08:16:00Z",
        }
    ],
}


def test_every_receiver_is_the_file():
    """No key is asked for: what is not set up cannot fail at night."""
    config = yaml.safe_load((FOLDER / "alertmanager.yml").read_text(encoding="utf-8"))
    for receiver in config["receivers"]:
        name = receiver.pop("name")
        [webhook] = receiver.pop("webhook_configs")
        assert webhook == {"url": f"http://alerts:9095/{name}", "send_resolved": True}
        assert receiver == {}


@pytest.fixture
def served(tmp_path):
    """Return the address and the file of a running one."""
    port, file = free_port(), tmp_path / "alerts" / "alerts.jsonl"
    command = [sys.executable, str(FOLDER / "notices.py"), str(file), "--port", str(port)]
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return urlopen(address, timeout=5).status == 200
        except OSError:
            return False

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            until("it listens", answers)
            yield address, file
        finally:
            process.terminate()


def test_a_notice_is_a_line_of_the_file(served):
    """With its receiver, and for its owner alone; what is no notice is refused."""
    address, file = served
    for _ in range(2):
        assert urlopen(Request(f"{address}/critical", json.dumps(NOTICE).encode())).status == 200
    for body in (b"{}", b"no json", b"[]", b'{"status": "firing", "alerts": [1]}'):
        with pytest.raises(HTTPError, match="400"):
            urlopen(Request(f"{address}/critical", body))
    first, second = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert (first["receiver"], first["status"]) == ("critical", "firing")
    assert first["alerts"] == second["alerts"]
    assert first["alerts"][0]["labels"] == NOTICE["alerts"][0]["labels"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert urlopen(address).read() == file.read_bytes()


def test_a_real_alertmanager_s_notice_arrives(served, tmp_path):
    """By the routes of the configuration, only that they wait for nothing."""
    address, file = served
    labels = {"alertname": "RagMonitorHallucinationSpike", "service": "bot", "severity": "critical"}
    routes = hurried_alertmanager(FOLDER / "alertmanager.yml", tmp_path, address)
    with alertmanager_server(routes, tmp_path) as alertmanager:
        alertmanager.post(labels)
        until("it is in the file", lambda: file.exists() and file.read_text())
    [line] = file.read_text(encoding="utf-8").splitlines()[:1]
    told = json.loads(line)
    assert (told["receiver"], told["status"]) == ("critical", "firing")
    assert told["alerts"][0]["labels"] == labels
