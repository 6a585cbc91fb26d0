"""What a real monitor learns from its judge's verdicts, and where it says so."""

import json

import pytest

from ragmonitor import Chunk, ExportSettings, Monitor, ServerSettings
from ragmonitor.cli.app import app
from ragmonitor.estimation import Predictions
from ragmonitor.estimation.predictions import STATE_VERSION, state_name
from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import Assessment, Interaction, JudgeIdentity, SentenceVerdict, Verdict
from ragmonitor.state import StateFile
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
            # Both kinds look alike to the built-in judge's risk: as many words of each are missing.
            word = "parking" if number % 2 else "breakfast"
            more = ("", " and a garden", " and a terrace with a view")[number % 3]
            monitor.observe(
                Interaction(
                    id=f"{number:032x}",
                    query="When does the hotel open?",
                    chunks=(CHUNK,),
                    answer=f"The hotel opens at nine, with {word}{more} by the lake.",
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
    observed(tmp_path, range(150, 300))
    observed(tmp_path, range(300, 400))
    # A quick machine scores each of these at one go, before the next is predicted: one to learn
    # the level from, one for the words, one for trust, one to calibrate what is trusted.
    observed(tmp_path, range(500, 650))
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


def test_what_was_learned_is_shown_exported_and_forgotten(tmp_path, capsys):
    """By the command line, of a state that monitors left; the next one begins anew."""
    observed(tmp_path, range(200))
    observed(tmp_path, range(200, 300))
    observed(tmp_path, range(300, 400))
    named = ["learned", "--state", str(tmp_path), "--service", "shop"]
    assert ended(named) == 0
    assert "missing words" in capsys.readouterr().err
    assert ended([*named, "--json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported["verdicts"] > 50
    assert 0 < exported["trust"] < 1
    assert len(exported["state"]["model"]["right"]) == len(exported["state"]["model"]["features"])
    assert ended([*named, "--reset"]) == 0
    assert ended(named) == 1
    reports = observed(tmp_path, range(400, 402))
    assert all(report.predicted is None for report in reports)
    assert ended(["learned", "--state", str(tmp_path), "--service", "another"]) == 1


def test_a_process_that_runs_while_it_is_forgotten_begins_anew_too(tmp_path):
    """With its next verdict, and does not write back what it held."""
    file = StateFile.of_service(
        tmp_path, state_name(BuiltinJudge().identity, "major"), "shop", version=STATE_VERSION
    )
    observed(tmp_path, range(200))
    running = Predictions(judge="scripted", file=file)
    assert ended(["learned", "--state", str(tmp_path), "--service", "shop", "--reset"]) == 0
    running._exchange()
    state = file.read()
    assert (state["signals"], state["resets"]) == ({}, 1)
    assert state["model"]["verdicts"] == 0


def ended(arguments):
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as end:
        app(arguments)
    return end.value.code
