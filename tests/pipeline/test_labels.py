"""From a live monitor's reports to a corrected rate: draw, label, compute, and read it live."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor import ExportSettings, JsonLines, JudgeSettings, Monitor
from ragmonitor.cli.app import app
from ragmonitor.estimation.anchors import VERSION, Anchors
from ragmonitor.estimation.labels import HumanLabels, wilson
from ragmonitor.records import Estimate, Verdict
from ragmonitor.state import StateFile
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.stories import JUDGE, assessment, interaction

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


def labels(*arguments):
    result = CliRunner().invoke(app, ["labels", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def test_people_correct_the_rate_of_a_live_monitor(monitored, tmp_path):
    """The judge reports 21 %; people who read a hundred of its answers find the 12.5 % that are."""
    path = tmp_path / "labels.csv"
    labels("sample", monitored[0], "-o", path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [*csv.DictReader(file)]
    for row in rows:
        row["human"] = "yes" if is_hallucinated(int(row["question"].split()[-1])) else "no"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)

    told = json.loads(labels("rate", path, "--json").stdout)
    truth = sum(map(is_hallucinated, range(ANSWERS))) / ANSWERS
    judged = told["judged_rate"]
    assert judged["mean"] == pytest.approx(0.21, abs=0.03)
    assert told["corrected_rate"]["lower"] < truth < told["corrected_rate"]["upper"]
    assert told["corrected_rate"]["mean"] == pytest.approx(truth, abs=0.03)
    again = json.loads(labels("rate", path, "--reports", monitored[0], "--json").stdout)
    assert again["judged_rate"] == judged

    lower, upper = wilson(judged["mean"], ANSWERS)
    rate = Estimate(mean=judged["mean"], lower=lower, upper=upper, effective_n=ANSWERS)
    ended_s = interaction().ended_ns / 1e9
    live = HumanLabels(Path(path), now=lambda: ended_s).estimate(rate)
    assert live.mean == pytest.approx(told["corrected_rate"]["mean"], abs=1e-4)


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


def test_a_judge_is_known_by_the_identity_that_its_verdicts_carry(tmp_path):
    """A model that rejects the strict form of reply is asked as one judge and answers as another.

    After a restart too, old answers wait for its first verdict instead of being compared anew.
    """
    answering = replace(JUDGE, version="short")
    judge = ScriptedJudge(lambda _: assessment("supported", judge=answering))
    for start in range(2):
        with Monitor(
            service="test",
            judge=JudgeSettings(model=judge, reference_answers_per_day=1_000),
            sample=1.0,
            export=ExportSettings(traces=False),
            server=False,
            state=tmp_path,
            content="all",
        ) as monitor:
            for number in range(20):
                monitor.observe(interaction(id=f"{start} {number}"))
            assert monitor.flush(20)
        [path] = tmp_path.glob("anchors-*.json")
        state = json.loads(path.read_text())
        assert state["judge"] == str(answering)
        assert (state["rereading"], state["last_change"]) == (None, None)
    assert len(state["anchors"]) == 40
