"""The LLM judge in a real monitor: who reads, who stands in, what it may cost."""

import threading
import time

import pytest

from ragmonitor import Cause, ExportSettings, Monitor, ServerSettings
from ragmonitor.evaluators import table
from ragmonitor.testing import ListExporter
from tests.support.openai_server import OpenAiServer, refused, truthful
from tests.support.scrape import outcomes, total
from tests.support.settings import merged
from tests.support.stories import interaction

pytest.importorskip("litellm")

ENTRIES = len(table.select(()))


@pytest.fixture
def servers():
    with OpenAiServer() as first, OpenAiServer() as second:
        yield first, second


@pytest.fixture
def reports():
    return ListExporter()


@pytest.fixture
def monitors(servers, reports, monkeypatch):
    """Make monitors whose judge is the first server's model."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    made = []

    def make(**options):
        defaults = {
            "judge": {"model": "openai/first", "api_base": servers[0].api_base},
            "sample": 1.0,
            "budget": {"tokens_per_day": 10**9},
        }
        made.append(
            Monitor(
                service="test",
                exporters=[reports],
                server=ServerSettings(port=0),
                export=ExportSettings(traces=False),
                **merged(defaults, options),
            )
        )
        return made[-1]

    yield make
    for monitor in made:
        monitor.close()


def told(number, **changes):
    """Return an interaction of its own: no other is its duplicate."""
    return interaction(id=f"{number:032x}", query=f"When was tower {number} built?", **changes)


def observe(monitor, *numbers):
    for number in numbers:
        monitor.observe(told(number))
    assert monitor.flush(60)


def reported(reports, name):
    return [report for report in reports.reports if report.judge.name == name]


# Who stands in


def test_a_fallback_reads_what_the_judge_s_provider_fails_to(servers, reports, monitors):
    """Litellm asks it; the verdict bears its name, and counts in the means of the judge."""
    first, second = servers
    first.always(refused(401))
    monitor = monitors(judge={"fallbacks": (f"openai/other@{second.api_base}",)})
    observe(monitor, 1)
    _, read = reports.reports
    assert (read.role, read.judge.name) == ("sampled", "openai/other")
    assert read.assessment.judge.name == "openai/other"
    assert all(e.judge.name == "openai/other" for e in read.evaluations)
    assert total(monitor.registry, "ragmonitor_judge_calls_total", judge="openai/other") == 2
    mean = {"evaluator": "faithfulness", "window": "1h"}
    assert total(monitor.registry, "ragmonitor_score_mean", judge="openai/first", **mean) == 1


def test_a_dead_judge_is_down_before_the_coin(servers, reports, monitors, monkeypatch):
    """What comes then had no chance, is counted as `judge_down`, and the gauge says why."""
    servers[0].always(refused(401))
    monkeypatch.setattr("ragmonitor.pipeline.build.CONCURRENCY", 1)
    monitor = monitors()
    for number in range(7):
        observe(monitor, number)
    assert len(servers[0].chats) == 5
    decisions = [report.decision for report in reported(reports, "openai/first")]
    assert [decision.inclusion_probability for decision in decisions] == [1.0] * 5 + [0.0] * 2
    assert [decision.cause for decision in decisions[5:]] == [Cause.JUDGE_DOWN] * 2
    state = total(monitor.registry, "ragmonitor_judge_breaker_state", judge="openai/first")
    assert state == 2
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert sum(found.values()) == 7


# Duplicates


def test_duplicates_cost_no_call(servers, reports, monitors):
    """Ten equal answers, one after the other: one call, ten scores, nine counted as cached."""
    monitor = monitors()
    for number in range(10):
        monitor.observe(interaction(id=f"{number:032x}"))
        assert monitor.flush(60)
    assert len(servers[0].chats) == 1
    registry = monitor.registry
    judge = "openai/first"
    assert outcomes(registry, judge=judge, evaluator="faithfulness") == {"scored": 10}
    assert total(registry, "ragmonitor_judge_calls_total", judge=judge) == 1
    assert total(registry, "ragmonitor_judge_seconds_count", judge=judge, outcome="cached") == 9


# Many at once


class Slow:
    """Replies after a while, or once so many are in flight; notes how many were."""

    def __init__(self, latency_s=0.0, *, until=0):
        self.latency_s = latency_s
        self.now, self.most = 0, 0
        self.lock = threading.Condition()
        self.until = until

    def __call__(self, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.lock.notify_all()
            assert self.lock.wait_for(lambda: self.most >= self.until, 60)
        time.sleep(self.latency_s)
        with self.lock:
            self.now -= 1
        return truthful(request)


def test_no_more_are_drawn_than_may_wait(servers, reports, monitors, monkeypatch):
    """What comes beyond has no chance and a cause; memory does not grow with a slow provider."""
    servers[0].always(Slow(1.0))
    monkeypatch.setattr("ragmonitor.pipeline.judging.MAX_PENDING", 10)
    monitor = monitors()
    for number in range(100):
        monitor.observe(told(number))
    assert monitor.flush(60)
    found = outcomes(monitor.registry, judge="openai/first", evaluator="faithfulness")
    assert sum(found.values()) == 100
    assert found["judge_busy"] >= 70
    busy = [r for r in reported(reports, "openai/first") if r.decision.cause is Cause.JUDGE_BUSY]
    assert {report.decision.inclusion_probability for report in busy} == {0.0}


def test_the_judge_s_own_calls_are_not_traffic(servers, reports, monitors):
    """With litellm instrumented, what the judge asks is no interaction and no span of ours."""
    instrument = pytest.importorskip("ragmonitor_litellm")
    servers[0].always(truthful)
    monitor = monitors()
    instrument.instrument(monitor)
    try:
        observe(monitor, *range(3))
    finally:
        instrument.uninstrument()
    assert total(monitor.registry, "ragmonitor_interactions_total") == 3
    assert len(servers[0].chats) == 3
