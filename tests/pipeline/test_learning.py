"""What a real monitor learns from its judge's verdicts, and where it says so."""

import json

import pytest

from ragmonitor import Chunk, ExportSettings, Monitor, ServerSettings
from ragmonitor.records import Assessment, Interaction, JudgeIdentity, SentenceVerdict, Verdict
from ragmonitor.testing import ListExporter, ScriptedJudge

JUDGE = JudgeIdentity(name="scripted", version="1", kind="CODE")
CHUNK = Chunk(text="The hotel opens at nine and lies by the lake.")


def verdict(interaction: Interaction) -> Assessment:
    """Find bad what speaks of parking, whatever else it says."""
    bad = "parking" in interaction.answer
    sentence = SentenceVerdict(
        text=interaction.answer,
        start=0,
        end=len(interaction.answer),
        verdict=Verdict.ABSENT if bad else Verdict.SUPPORTED,
    )
    return Assessment(
        judge=JUDGE,
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=None,
    )


def observed(folder, numbers, **options):
    """Have a monitor see answers, half of which lack a telling word, and return its reports."""
    reports = ListExporter()
    monitor = Monitor(
        service="shop",
        judge=ScriptedJudge(verdict),
        sample=1.0,
        state=folder,
        exporters=[reports],
        server=ServerSettings(enabled=False),
        export=ExportSettings(traces=False),
        **options,
    )
    with monitor:
        for number in numbers:
            # Both kinds look alike to the built-in judge's risk: one word of each is missing.
            word = "parking" if number % 2 else "breakfast"
            monitor.observe(
                Interaction(
                    id=f"{number:032x}",
                    query="When does the hotel open?",
                    chunks=(CHUNK,),
                    answer=f"The hotel opens at nine, with {word} by the lake.",
                    framework="python",
                    started_ns=0,
                    ended_ns=number + 1,
                )
            )
        assert monitor.flush(60)
    return reports.reports


def test_what_one_process_learned_the_next_one_says_of_each_answer(tmp_path):
    """After a restart answers that hold the telling word are predicted to be bad, others not."""
    observed(tmp_path, range(150))
    observed(tmp_path, range(150, 400))
    reports = observed(tmp_path, range(400, 402))
    fine, bad = (report.predicted for report in reports if report.judge.name == "builtin")
    assert fine < 0.35
    assert bad > 0.65
    assert all(report.predicted is None for report in reports if report.judge.name == "scripted")
    [file] = tmp_path.glob("calibration-*.json")
    state = json.loads(file.read_text("utf-8"))
    assert state["model"]["verdicts"] > 100
    assert "parking" not in file.read_text("utf-8")


def test_it_can_be_switched_off(tmp_path):
    """Then answers with the same risk have the same prediction, and the state holds no model."""
    options = {"estimation": {"learn_from_verdicts": False}}
    observed(tmp_path, range(150), **options)
    reports = observed(tmp_path, range(400, 402), **options)
    fine, bad = (report.predicted for report in reports if report.judge.name == "builtin")
    assert fine == pytest.approx(bad, abs=0.1)
    [file] = tmp_path.glob("calibration-*.json")
    assert json.loads(file.read_text("utf-8"))["model"] is None
