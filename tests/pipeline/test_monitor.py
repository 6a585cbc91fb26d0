"""The whole way of an interaction through a real monitor."""

import threading

import pytest

from ragmonitor import (
    CaptureSettings,
    JudgeSettings,
    Monitor,
    ServerSettings,
)
from ragmonitor.settings import ContentSettings
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import outcomes, total
from tests.support.stories import assessment, interaction


@pytest.fixture
def reports():
    return ListExporter()


@pytest.fixture
def monitor(reports):
    with Monitor(service="test", server=ServerSettings(port=0), exporters=[reports]) as made:
        yield made


def observed(number, **changes):
    return interaction(id=f"{number:032x}", **changes)


def test_a_judge_reads_the_drawn_share_and_its_scores_are_weighted(reports):
    """Drawn answers get a late report, the others say `not_sampled`; chances are kept."""
    judge = ScriptedJudge(lambda _: assessment("supported", "absent"))
    with Monitor(
        service="test",
        judge=JudgeSettings(model=judge),
        sample=0.5,
        server=ServerSettings(port=0),
        exporters=[reports],
    ) as monitor:
        for number in range(200):
            monitor.observe(observed(number))
        assert monitor.flush()
        judged = [r for r in reports.reports if r.judge.name == "scripted"]
        read = [r for r in judged if r.assessment is not None]
        assert len(judged) == 200
        assert len(read) == len(judge.asked)
        assert 60 < len(read) < 140
        assert {r.decision.inclusion_probability for r in judged} == {0.5}
        assert all(r.late for r in read)
        found = outcomes(monitor.registry, judge="scripted", evaluator="faithfulness")
        assert found == {"scored": len(read), "not_sampled": 200 - len(read)}
        rate = total(
            monitor.registry, "ragmonitor_hallucination_rate", judge="scripted", window="1h"
        )
        # Predictions get better from verdict to verdict, so the last digits depend on their order.
        assert rate == pytest.approx(1.0, abs=0.01)


def test_refusals_do_not_pile_up_while_the_worker_hangs():
    """The notes of what was refused are bounded, and every one is counted."""
    hanging, free = threading.Event(), threading.Event()

    def hang(text):
        hanging.set()
        free.wait(30)
        return text

    with Monitor(
        service="test",
        server=ServerSettings(port=0),
        capture=CaptureSettings(queue_size=1),
        content=ContentSettings(redaction=(hang,)),
    ) as monitor:
        monitor.observe(interaction())
        assert hanging.wait(10)
        for number in range(12_000):
            monitor.observe(observed(number))
        dropped = total(monitor.registry, "ragmonitor_dropped_total", reason="queue_full")
        assert dropped > 10_000
        free.set()
        assert monitor.flush(30)
        assert total(monitor.registry, "ragmonitor_interactions_total") == 12_001


def test_two_monitors_of_one_process_keep_apart(reports):
    """Each counts and scores what it was handed."""
    other = ListExporter()
    with (
        Monitor(service="a", server=ServerSettings(port=0), exporters=[reports]) as first,
        Monitor(service="b", server=ServerSettings(port=0), exporters=[other]) as second,
    ):
        first.observe(observed(1))
        second.observe(observed(2))
        second.observe(observed(3))
        assert first.flush()
        assert second.flush()
        assert (len(reports.reports), len(other.reports)) == (1, 2)
        assert total(second.registry, "ragmonitor_interactions_total", service="b") == 2
        assert total(second.registry, "ragmonitor_interactions_total", service="a") == 0
