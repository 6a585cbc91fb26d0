"""From a series to somebody's pager, and who is told of what."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings
from tests.support.prometheus_server import (
    alertmanager_server,
    hurried_alertmanager,
    hurried_rules,
    prometheus_server,
    require_binary,
)
from tests.support.renamed_judge import JUDGE
from tests.support.stories import ENGLISH
from tests.support.waiting import until
from tests.support.webhook import webhook

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "rules" / "ragmonitor.yml"
ROUTES = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
MODEL = "openai/gpt-4o-mini"
SPIKE = "RagMonitorHallucinationSpike"
INVENTED = "Napoleon paid 12 million dollars for the cathedral in 1804."


class Application:
    """Answers one question some twenty times a second, well or badly, under a monitor."""

    def __init__(self, monitor: Monitor) -> None:
        self.answers_badly = False
        self._monitor = monitor
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        query, chunks, answer = ENGLISH
        while not self._ended.wait(0.25):
            for _ in range(5):
                with self._monitor.interaction(query=query) as interaction:
                    interaction.retrieved(chunks)
                    interaction.answered(INVENTED if self.answers_badly else answer)
            self._monitor.flush(5)


@pytest.mark.slow
def test_a_spike_pages_and_its_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A live monitor is scraped; the page comes with its numbers, and ends after recovery."""
    for binary in ("prometheus", "prometheus-alertmanager"):
        require_binary(binary)
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    mean = 'service_signal_judge:ragmonitor_estimate:mean5m{signal="hallucination",judge="renamed"}'
    with (
        Monitor(
            service="客服",
            judge=JUDGE,
            sample=1.0,
            objectives=0.05,
            export=ExportSettings(traces=False),
            server=ServerSettings(port=0),
        ) as monitor,
        Application(monitor) as application,
        webhook() as pager,
    ):
        address = until("an endpoint", lambda: monitor.metrics_url)
        routes = hurried_alertmanager(ROUTES, tmp_path, pager.url)
        with (
            alertmanager_server(routes, tmp_path) as alertmanager,
            prometheus_server(
                address.removeprefix("http://").removesuffix("/metrics"),
                tmp_path,
                rules=[hurried_rules(RULES, tmp_path)],
                alertmanager=alertmanager,
            ) as prometheus,
        ):
            until("the first estimate", lambda: prometheus.query(mean))
            assert prometheus.value(mean) == 0
            assert pager.find(SPIKE, "firing") is None

            began = time.monotonic()
            application.answers_badly = True
            page = until("a page", lambda: pager.find(SPIKE, "firing"))
            fired_s = page.at_s - began

            began = time.monotonic()
            application.answers_badly = False
            recovery = until("its end", lambda: pager.find(SPIKE, "resolved"), within_s=60)
            resolved_s = recovery.at_s - began
            unhealthy = [rule for rule in prometheus.rules() if rule["health"] == "err"]

    print(f"paged after {fired_s:.1f} s, resolved after {resolved_s:.1f} s")  # pytest -s shows it
    (alert,) = page.alerts(SPIKE, "firing")
    assert page.receiver == "critical"
    assert page.content["groupLabels"] == {"service": "客服"}
    assert alert["labels"]["judge"] == "renamed"
    told = alert["annotations"]
    assert re.search(r"is hallucinated since \d\d:\d\d UTC; limit 0\.05", told["description"])
    assert "var-service=%E5%AE%A2%E6%9C%8D" in told["dashboard_url"]
    assert told["runbook_url"].endswith("#hallucination-spike")
    assert unhealthy == []


def test_the_configuration_is_valid():
    """By Alertmanager's own tool."""
    done = subprocess.run(
        [require_binary("amtool"), "check-config", str(ROUTES)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("severity", ["critical", "warning", "info"])
def test_each_severity_has_its_receiver(severity: str):
    """And what has none goes where it is seen at least."""
    amtool = require_binary("amtool")
    routed = [amtool, "config", "routes", "test", f"--config.file={ROUTES}"]
    found = subprocess.run(
        [*routed, f"--verify.receivers={severity}", f"severity={severity}", "service=bot"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def labels(alert: str, severity: str = "warning", **more: str) -> dict[str, str]:
    """Return the labels of an alert of the service `bot`."""
    return {
        "alertname": f"RagMonitor{alert}",
        "severity": severity,
        "service": "bot",
        "judge": MODEL,
        **more,
    }


SPIKES = labels("HallucinationSpike", "critical", kind="quality", signal="hallucination")
DRIFTS = labels("QualityDrift", kind="quality", signal="faithfulness")
ANCHORS = labels("JudgeDrift", kind="judge", signal="anchors")


@pytest.mark.parametrize(
    ("source", "target", "is_held_back"),
    [
        pytest.param(ANCHORS, SPIKES, True, id="judge-drift-holds-pages"),
        pytest.param(ANCHORS, DRIFTS, True, id="judge-drift-holds-tickets"),
        pytest.param(SPIKES, ANCHORS, False, id="a-page-holds-no-judge-drift"),
        pytest.param({**ANCHORS, "judge": "other"}, SPIKES, False, id="of-its-own-judge-only"),
        pytest.param({**ANCHORS, "service": "other"}, SPIKES, False, id="of-its-own-service-only"),
        pytest.param(labels("JudgeDown"), SPIKES, False, id="judge-down-holds-no-page"),
        pytest.param(
            labels("FleetFailing"), labels("AnswersDropped", reason="x"), True, id="fleet-drops"
        ),
        pytest.param(SPIKES, DRIFTS, True, id="a-page-holds-its-tickets"),
        pytest.param(DRIFTS, SPIKES, False, id="a-ticket-holds-no-page"),
        pytest.param(labels("Absent"), labels("JudgeDown"), True, id="absent-holds-warnings"),
        pytest.param(labels("Absent"), SPIKES, False, id="absent-holds-no-page"),
    ],
)
def test_one_cause_one_message(
    source: dict[str, str], target: dict[str, str], is_held_back: bool, tmp_path: Path
):
    """A real Alertmanager holds back what follows from something else, and nothing more."""
    routes = hurried_alertmanager(ROUTES, tmp_path, "http://127.0.0.1:9")
    with alertmanager_server(routes, tmp_path) as alertmanager:
        alertmanager.post(source)
        until("the cause is known", alertmanager.alerts)
        alertmanager.post(target)

        def state() -> str:
            for alert in alertmanager.alerts():
                if alert["labels"] == target and alert["status"]["state"] != "unprocessed":
                    return str(alert["status"]["state"])
            return ""

        assert until("the other is looked at", state) == (
            "suppressed" if is_held_back else "active"
        )
