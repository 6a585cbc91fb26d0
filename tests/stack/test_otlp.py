"""Traces and events by the standard exporters, received over HTTP as a collector would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]

APPLICATION = """
from dataclasses import replace
from ragmonitor.export import OtelExporter
from tests.unit.export.examples import CALLER, interaction, late_report, report

exporter = OtelExporter("客服")
target = exporter.emit(interaction(caller=CALLER), [report()])
steps = {"retrievals": (), "generations": ()}
exporter.emit(interaction(name="broken", status="error", error="ValueError: 坏", **steps), [])
exporter.export(late_report(target=target))
assert exporter.flush(20)
exporter.close()
print(target.span_id)
"""


def run(receiver: OtlpReceiver, **variables: str) -> str:
    """Run the application in a process of its own; return the root span's id."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", APPLICATION],
        cwd=ROOT,
        env={
            **clean,
            "PYTHONPATH": str(ROOT),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_the_environment_may_name_the_service() -> None:
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before."""
    with otlp_receiver() as receiver:
        run(receiver, OTEL_RESOURCE_ATTRIBUTES="service.name=desk,deployment.environment=prod")
    for resource in receiver.resources():
        assert resource["service.name"] == "desk"
        assert resource["deployment.environment"] == "prod"


def test_logs_can_be_left_out() -> None:
    """OTEL_LOGS_EXPORTER=none, for backends that take traces only."""
    with otlp_receiver() as receiver:
        run(receiver, OTEL_LOGS_EXPORTER="none")
    assert receiver.log_records() == []
    assert len(receiver.spans()) == 5


def test_a_collector_that_is_gone_costs_no_exception() -> None:
    """Nothing is raised, and a flush says that it failed in time."""
    script = (
        "import logging; logging.disable()\n"
        "from ragmonitor.export import OtelExporter\n"
        "from tests.unit.export.examples import interaction\n"
        "exporter = OtelExporter('s')\n"
        "assert exporter.emit(interaction(), []) is not None\n"
        "exporter.flush(0.2)\n"
        "exporter.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
