"""What is scraped from one process."""

from __future__ import annotations

import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ragmonitor.export import PrometheusExporter
from ragmonitor.records import (
    Cause,
    Snapshot,
    Unscored,
)
from ragmonitor.settings import Settings
from tests.unit.export.examples import (
    MODEL,
    TARGET,
    late_report,
    report,
    snapshot,
    sums,
)

HOUR: Final = "1h"


def exporter(**server: Any) -> PrometheusExporter:
    return PrometheusExporter(Settings.load(service="shop", server={"enabled": False, **server}))


def refresh(built: PrometheusExporter, **state: Any) -> None:
    built.refresh(**{"snapshot": Snapshot(), "queue_depth": 0, **state})


def sample(built: PrometheusExporter, name: str, **labels: str) -> float | None:
    return built.registry.get_sample_value(f"ragmonitor_{name}", {"service": "shop", **labels})


def fetch(url: str, accept: str = "application/openmetrics-text; version=1.0.0") -> tuple[str, str]:
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.headers["Content-Type"], reply.read().decode()


def openmetrics(built: PrometheusExporter) -> str:
    encoded: bytes = generate_latest(built.registry)  # type: ignore[no-untyped-call]
    return encoded.decode()


def exemplars(text: str) -> list[Mapping[str, str]]:
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return [s.exemplar.labels for family in families for s in family.samples if s.exemplar]


def test_a_trace_that_was_not_sampled_is_no_exemplar() -> None:
    """No link is better than a dead one."""
    built = exporter()
    built.export(report(target=replace(TARGET, sampled=False)))
    built.export(report(target=None))
    assert exemplars(openmetrics(built)) == []


def test_a_failed_reading_is_paid_for_too() -> None:
    """What was spent in vain is counted, and the reading's time under its cause."""
    built = exporter()
    cause = Unscored(evaluator="faithfulness@1", judge=MODEL, cause=Cause.JUDGE_TIMEOUT)
    built.export(late_report(assessment=None, evaluations=(cause,)))
    judge = {"judge": MODEL.name}
    assert sample(built, "judge_cost_usd_total", **judge) == 0.002
    assert sample(built, "judge_seconds_count", outcome="judge_timeout", **judge) == 1


def test_a_window_that_ran_empty_goes() -> None:
    """A mean that is no longer among the sums is no longer scraped."""
    built = exporter()
    labels = {"evaluator": "faithfulness", "judge": "builtin", "window": HOUR}
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, sums(1.0))))
    refresh(built, snapshot=Snapshot())
    assert sample(built, "score_mean", **labels) is None


def test_a_window_that_is_hardly_observed_has_no_mean() -> None:
    """It says nothing rather than something of a few."""
    built = exporter()
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, sums(0.5)), uncovered=0.75))
    labels = {"evaluator": "faithfulness", "judge": "builtin", "window": HOUR}
    assert sample(built, "score_mean", **labels) is None


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the cap, new values are `other` and old ones stay what they were."""
    monkeypatch.setattr("ragmonitor.export.instruments.MAX_LABEL_VALUES", 2)
    built = exporter()
    for reason in ("a", "b", "c", "a", "d"):
        built.dropped(reason)
    counts = [sample(built, "dropped_total", reason=each) for each in ("a", "b", "other")]
    assert counts == [2, 1, 2]


def test_a_taken_port_is_told_once_with_its_remedy(caplog: pytest.LogCaptureFixture) -> None:
    """No crash; one warning that names the settings that help."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        built = exporter(enabled=True, port=holder.getsockname()[1])
        refresh(built)
        refresh(built)
    messages = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(messages) == 1
    assert "name a file that they share (state)" in messages[0]
    assert "server.port" in messages[0]


def test_a_port_that_comes_free_is_taken_over() -> None:
    """The next refresh after the owner's end serves."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        built = exporter(enabled=True, port=holder.getsockname()[1])
        refresh(built)
        assert built.url is None
    refresh(built)
    try:
        assert built.url is not None
        assert fetch(built.url)[1].endswith("# EOF\n")
    finally:
        built.close()
