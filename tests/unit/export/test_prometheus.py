"""What is scraped from one process."""

from __future__ import annotations

import asyncio
import logging
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ragmonitor import guard, metrics
from ragmonitor.export import PrometheusExporter
from ragmonitor.export.instruments import Labels
from ragmonitor.records import (
    Cause,
    GaugeValue,
    Moments,
    Snapshot,
    Unscored,
)
from tests.unit.export.examples import (
    MODEL,
    TARGET,
    late_report,
    report,
    snapshot,
    summarise,
    sums,
)

HOUR: Final = "1h"


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def exporter(**options: Any) -> PrometheusExporter:
    return PrometheusExporter("shop", summarise=summarise, **{"serve": False, **options})


@pytest.fixture
def served() -> Iterator[PrometheusExporter]:
    built = exporter(serve=True, port=0)
    refresh(built)
    yield built
    built.close()


def refresh(built: PrometheusExporter, **state: Any) -> None:
    built.refresh(
        **{
            "snapshot": Snapshot(),
            "queue_depth": 0,
            "open_runs": 0,
            "errors": guard.errors,
            **state,
        }
    )


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


def test_too_little_to_say_is_no_series() -> None:
    """Where the summary is None there is no number, rather than a zero."""
    built = exporter()
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, Moments())))
    labels = {"evaluator": "faithfulness", "judge": "builtin", "window": HOUR}
    assert sample(built, "score_mean", **labels) is None


def test_a_window_that_ran_empty_goes() -> None:
    """A mean that is no longer among the sums is no longer scraped."""
    built = exporter()
    labels = {"evaluator": "faithfulness", "judge": "builtin", "window": HOUR}
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, sums(1.0))))
    refresh(built, snapshot=Snapshot())
    assert sample(built, "score_mean", **labels) is None


def test_a_broken_summary_costs_only_its_gauge() -> None:
    """The scrape goes on, and the error is counted."""

    def broken(_: Moments) -> None:
        raise ZeroDivisionError

    built = PrometheusExporter("shop", summarise=broken, serve=False)
    before = guard.errors["estimate"]
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, sums(1.0))), queue_depth=7)
    assert sample(built, "queue_depth") == 7
    assert guard.errors["estimate"] == before + 1


def test_errors_are_counted_from_our_beginning() -> None:
    """Growth is added; what happened before us is not."""
    guard.errors["test-stage"] = 5
    try:
        built = exporter()
        refresh(built, errors={"test-stage": 7})
        refresh(built, errors={"test-stage": 8})
        assert sample(built, "internal_errors_total", stage="test-stage") == 3
    finally:
        del guard.errors["test-stage"]


def test_coverage_is_shown_where_the_mean_is_not() -> None:
    """A window that is hardly observed has no mean, and says why."""
    built = exporter()
    moments = Moments.of(0.5) + Moments(uncovered=3.0)
    refresh(built, snapshot=snapshot(("faithfulness", HOUR, moments)))
    labels = {"evaluator": "faithfulness", "judge": "builtin", "window": HOUR}
    assert sample(built, "score_coverage_ratio", **labels) == pytest.approx(0.25)
    assert sample(built, "score_mean", **labels) is None


def test_labels_are_bounded() -> None:
    """Beyond the cap, new values are `other` and old ones stay what they were."""
    labels = Labels(max_values=2)
    given = [labels.value("framework", name) for name in ("a", "b", "c", "a", "d")]
    assert given == ["a", "b", "other", "a", "other"]


def test_an_applications_registry_shows_it_too() -> None:
    """The series stand in the given registry beside our own."""
    theirs = CollectorRegistry(auto_describe=True)
    built = exporter(registry=theirs)
    built.dropped("queue_full", 2)
    labels = {"service": "shop", "reason": "queue_full"}
    assert theirs.get_sample_value("ragmonitor_dropped_total", labels) == 2


def test_the_endpoint_speaks_openmetrics_when_asked(served: PrometheusExporter) -> None:
    """With exemplars; plain text goes to who does not ask."""
    served.export(report(target=TARGET))
    assert served.url is not None
    kind, text = fetch(served.url)
    assert kind.startswith("application/openmetrics-text")
    assert exemplars(text) != []
    kind, text = fetch(served.url, accept="*/*")
    assert kind.startswith("text/plain")
    assert "ragmonitor_score_bucket" in text


def test_nothing_listens_before_the_first_refresh() -> None:
    """Building the exporter opens no port."""
    built = exporter(serve=True, port=0)
    assert built.url is None


def test_a_taken_port_is_told_once_with_its_remedy(caplog: pytest.LogCaptureFixture) -> None:
    """No crash; one warning that names the settings that help."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        built = exporter(serve=True, port=holder.getsockname()[1])
        refresh(built)
        refresh(built)
    messages = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(messages) == 1
    assert "PROMETHEUS_MULTIPROC_DIR" in messages[0]
    assert "server.port" in messages[0]


def test_a_port_that_comes_free_is_taken_over() -> None:
    """The next refresh after the owner's end serves."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        built = exporter(serve=True, port=holder.getsockname()[1])
        refresh(built)
        assert built.url is None
    refresh(built)
    try:
        assert built.url is not None
        assert fetch(built.url)[1].endswith("# EOF\n")
    finally:
        built.close()


def test_a_late_variable_is_not_heeded_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    """The library reads it at its import only; set later, it would lose every number."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    built = exporter()
    built.dropped("queue_full")
    assert sample(built, "dropped_total", reason="queue_full") == 1
    assert "before the process starts" in caplog.text


@pytest.mark.parametrize(
    "gauge",
    [
        *GaugeValue.interval(metrics.CORRECTED_RATE, 0.3, 0.2, 0.4, judge="j"),
        GaugeValue.of(metrics.ANCHOR_FLIP_RATE, 0.1, judge="j"),
        *GaugeValue.interval(metrics.FEEDBACK_AGREEMENT, 0.8, 0.7, 0.9, judge="j"),
        GaugeValue.of(metrics.BUDGET_LEVEL, 4.0, unit="calls", per="day"),
        GaugeValue.of(metrics.BUDGET_LIMIT, 9.0, unit="calls", per="day"),
    ],
    ids=lambda gauge: gauge.name,
)
def test_what_is_not_known_any_more_is_gone(gauge: GaugeValue) -> None:
    """A rate whose answers are gone, or a budget out of reach, has no last value that stays."""
    built = exporter()
    built.refresh(snapshot=Snapshot(gauges=(gauge,)), queue_depth=0, open_runs=0, errors={})
    name = gauge.name.removeprefix("ragmonitor_")
    assert sample(built, name, **dict(gauge.labels)) == gauge.value
    built.refresh(snapshot=Snapshot(), queue_depth=0, open_runs=0, errors={})
    assert sample(built, name, **dict(gauge.labels)) is None


async def test_it_can_be_mounted_in_an_asgi_application() -> None:
    """`make_asgi_app(registry=...)` serves exemplars and derived gauges."""
    built = exporter()
    built.export(report(target=TARGET))
    refresh(
        built,
        snapshot=snapshot(("faithfulness", HOUR, sums(1.0))),
    )
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "query_string": b"",
        "headers": [(b"accept", b"application/openmetrics-text; version=1.0.0")],
    }
    await asyncio.wait_for(make_asgi_app(registry=built.registry)(scope, receive, send), 10)
    text = sent[1]["body"].decode()
    assert exemplars(text) != []
    assert "ragmonitor_score_mean{" in text
