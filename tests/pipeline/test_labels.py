"""From a live monitor's reports to a corrected rate: draw, label, compute, and read it live."""

from __future__ import annotations

import pytest

from ragmonitor import ExportSettings, JsonLines, Monitor
from ragmonitor.estimation.anchors import VERSION, Anchors
from ragmonitor.records import Verdict
from ragmonitor.state import StateFile
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.stories import assessment, interaction

pytestmark = pytest.mark.slow

ANSWERS = 400
SLIPS = 10
"""Every tenth answer that is fine is suspected by the judge; no other error."""


def number_of(told):
    return int(told.query.split()[-1])


def is_hallucinated(number):
    return number % 8 == 0


def verdict(told):
    """Find what is so, and suspect some fine answers besides."""
    number = number_of(told)
    suspects = is_hallucinated(number) or number % SLIPS == 1
    return assessment(Verdict.ABSENT if suspects else Verdict.SUPPORTED)


@pytest.fixture(scope="module")
def monitored(tmp_path_factory):
    """Let a monitor with a judge watch four hundred answers; return its file and its reports."""
    path = tmp_path_factory.mktemp("monitored") / "reports.jsonl"
    reports = ListExporter()
    with Monitor(
        service="test",
        judge=ScriptedJudge(verdict),
        sample=1.0,
        exporters=[JsonLines(path), reports],
        export=ExportSettings(traces=False),
        server=False,
    ) as monitor:
        for number in range(ANSWERS):
            monitor.observe(interaction(id=f"{number:032x}", query=f"question {number}"))
        assert monitor.flush(60)
    return path, [report for report in reports.reports if report.judge.name == "scripted"]


def test_a_judge_is_watched_by_the_answers_it_has_read(monitored, tmp_path):
    """Real reports become anchors; a new version that suspects less is a judge that drifted."""
    state = StateFile.of_service(tmp_path, "anchors", "test", version=VERSION)
    anchors = Anchors(per_day=1_000, file=state, keep_texts=True)
    for report in monitored[1]:
        anchors.offer([(report.interaction, report.assessment.hallucinated, report.judge)])
    judge = monitored[1][0].judge
    now_s = interaction().ended_ns / 1e9

    def read(identity, found, times):
        nonlocal now_s
        for _ in range(times):
            now_s += 100
            for told in anchors.due(now_s, identity):
                anchors.checked(told.id, found(told), identity, now_s)

    read(judge, lambda told: verdict(told).hallucinated, 400)
    assert not any(flipped for _, flipped in anchors.take())
    laxer = type(judge)(name=judge.name, version="2", kind=judge.kind)
    read(laxer, lambda told: is_hallucinated(number_of(told)), 3)
    [change] = anchors.changes()
    assert change.drifted
    assert change.to_fine == change.flipped > 10
    assert change.to_hallucinated == 0
