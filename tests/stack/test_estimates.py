"""What a real Prometheus makes of the counters is what the gauges say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ragmonitor.estimation import summarise
from ragmonitor.export import PrometheusExporter
from ragmonitor.records import Estimate, SeriesKey, Snapshot
from ragmonitor.sampling import AdaptiveSampler
from ragmonitor.testing import ManualClock
from tests.support import simulation
from tests.support.prometheus_server import prometheus_server, require_binary
from tests.support.simulation import Service
from tests.support.streams import Records, Stream, steady
from tests.support.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

SIGNALS = ("hallucination", "refusal", "faithfulness", "answer_relevancy")
MEAN = """
  sum({of}(ragmonitor_estimate_sum_positive_total{{signal="{signal}",judge="judge"}}{over})
    - {of}(ragmonitor_estimate_sum_negative_total{{signal="{signal}",judge="judge"}}{over}))
/ sum({of}(ragmonitor_estimate_count_positive_total{{signal="{signal}",judge="judge"}}{over})
    - {of}(ragmonitor_estimate_count_negative_total{{signal="{signal}",judge="judge"}}{over}))
"""


def crowd() -> Service:
    """Return a service that has thousands of answers in seconds, so that none of them ages."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness", "answer_relevancy"))
    return Service(
        estimates=simulation.statistics(clock, records),
        sampler=AdaptiveSampler(0.2, clock=clock),
        clock=clock,
        records=records,
        verdict_after_s=lambda _: 0.1,
        tick_s=0.5,
    )


def hour(snapshot: Snapshot, signal: str) -> Estimate:
    key = SeriesKey(signal=signal, judge="judge")
    (moments,) = (m for k, window, m in snapshot.moments if (k, window) == (key, "1h"))
    found = summarise(moments)
    assert found is not None
    return found


def mean_since(before: Snapshot, after: Snapshot, signal: str) -> float:
    """Return the mean of what was added between two snapshots."""
    key = SeriesKey(signal=signal, judge="judge")
    old, new = dict(before.totals)[key], dict(after.totals)[key]
    value = new.value_positive - new.value_negative - old.value_positive + old.value_negative
    scored = new.scored_positive - new.scored_negative - old.scored_positive + old.scored_negative
    return value / scored


def test_promql_of_the_counters_equals_the_gauges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the beginning, and over a window of time that only Prometheus knows of."""
    require_binary("prometheus")
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    service = crowd()
    stream = Stream(
        seed=1, for_s=6.0, per_minute=60_000.0, rate=steady(0.15), refusals=0.1, auroc=steady(0.9)
    )
    answers = list(stream.answers())
    half = len(answers) // 2
    exporter = PrometheusExporter("support", summarise=summarise, port=0)

    def show() -> Snapshot:
        snapshot = service.estimates.snapshot()
        exporter.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors={})
        return snapshot

    service.feed(answers[:half])
    service.pass_time(3.5)
    first = show()
    assert exporter.url is not None
    target = exporter.url.removeprefix("http://").removesuffix("/metrics")
    try:
        with prometheus_server(target, tmp_path) as server:
            judged = 'ragmonitor_judged_answers_total{signal="refusal",judge="judge"}'
            before = until("a scrape", lambda: server.value(judged))
            for signal in SIGNALS:
                found = server.value(MEAN.format(of="", over="", signal=signal))
                assert found == pytest.approx(hour(first, signal).mean, rel=0.002)
                assert found == pytest.approx(shown(server.value, signal), rel=0.002)
            until("a second scrape", lambda: server.value(f"count_over_time({judged}[1m]) > 2"))
            service.feed(answers[half:])
            service.pass_time(10.0)
            second = show()
            until("the other half", lambda: (server.value(judged) or 0) > before)
            for signal in SIGNALS:
                found = server.value(MEAN.format(of="increase", over="[5m]", signal=signal))
                # Prometheus extrapolates each increase by the same factor, which cancels.
                assert found == pytest.approx(mean_since(first, second, signal), rel=1e-6)
    finally:
        exporter.close()


def shown(value: Callable[[str], float | None], signal: str) -> float | None:
    """Return the gauge of the last hour."""
    name = {
        "hallucination": "ragmonitor_hallucination_rate{",
        "refusal": "ragmonitor_refusal_rate{",
    }.get(signal, f'ragmonitor_score_mean{{evaluator="{signal}",')
    return value(f'{name}judge="judge",window="1h"}}')
