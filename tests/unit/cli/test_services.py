"""The commands that run until they are stopped: what they say of their addresses."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from ragmonitor.cli import services
from ragmonitor.cli.app import app

pytest.importorskip("redis")

METRICS = "metrics: http://127.0.0.1:{port}/metrics"
PAGE = "; page: http://127.0.0.1:{port}/ragmonitor/"


class Done:
    """Stands in for what a command runs: it ends at once."""

    listeners = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take whatever the command gives."""

    def listen(self) -> None:
        """Listen nowhere."""

    def run(self, *_: Any, **__: Any) -> None:
        """End."""


@pytest.mark.parametrize(
    ("words", "has_page"),
    [
        (("worker",), True),
        (("worker", "--fleet"), False),
        (("estimator",), True),
        (("receive", "--http-port", "0"), False),
    ],
    ids=["worker", "worker of a fleet", "estimator", "receiver"],
)
def test_a_command_says_where_its_page_is_if_it_has_one(
    words: tuple[str, ...], has_page: bool, monkeypatch: pytest.MonkeyPatch
):
    """A worker of a fleet and a receiver with a stream have none, whatever `server.ui` says."""
    monkeypatch.setenv("RAGMONITOR_STREAM", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("RAGMONITOR_SERVER__UI", "true")
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "9471")
    monkeypatch.setattr(services.signal, "signal", lambda *_: None)
    monkeypatch.setattr(services.gc, "freeze", lambda: None)
    monkeypatch.setattr(services.gc, "set_threshold", lambda _: None)
    for name in (
        "ragmonitor.back_half.stream_worker.StreamWorker",
        "ragmonitor.fleet.fleet_worker.FleetWorker",
        "ragmonitor.fleet.estimator.Estimator",
        "ragmonitor.receive.Receiver",
    ):
        monkeypatch.setattr(name, Done)
    result = CliRunner().invoke(app, [*words])
    assert result.exit_code == 0, result.output
    said = result.stderr.strip()
    expected = METRICS + (PAGE if has_page else "")
    assert said.endswith(expected.format(port=9471))
