"""What the commands print, write and end with: 0 all fine, 1 something was wrong, 2 not begun."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragmonitor import Interaction, Monitor
from ragmonitor.records import Verdict
from tests.contract.kit import (
    DATA,
    Ended,
    JudgeObject,
    assessment,
    command,
    interaction,
    lines,
    parametrize,
    samples,
    settings,
    total,
    until,
)

ANSWERS = 240


def value(found: Any, path: str) -> Any:
    """Return what stands at a path of names and positions: `sentences.0.verdict`."""
    for part in path.split("."):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found


def check_fields(found: Any, fields: Mapping[str, Any]) -> None:
    """Check the values at paths."""
    assert {path: value(found, path) for path in fields} == fields


def ran(step: Mapping[str, Any], folder: Path, stdin: str = "") -> Ended:
    """Run a command with the variables of its step."""
    variables = {"COLUMNS": "120", **step.get("variables", {})}
    return command(step["arguments"], folder, stdin=stdin, **variables)


@parametrize("commands.jsonl")
def test_a_command_says_and_ends_as_documented(case: dict[str, Any], tmp_path: Path) -> None:
    """Results go to standard output and remarks to standard error, and no traceback to either."""
    shutil.copytree(DATA / "commands", tmp_path, dirs_exist_ok=True)
    stdin = (tmp_path / case["stdin"]).read_text("utf-8") if "stdin" in case else ""
    for step in case["steps"]:
        ended = ran(step, tmp_path, stdin)
        assert ended.status == step.get("status", 0), ended
        assert "Traceback" not in ended.out + ended.err
        assert [word for word in step.get("out", ()) if word not in ended.out] == [], ended
        assert [word for word in step.get("err", ()) if word not in ended.err] == [], ended
        printed = ended.out.splitlines()
        if "json" in step:
            check_fields(json.loads(printed[-1]), step["json"])
        if "lines" in step:
            for line, fields in zip(printed, step["lines"], strict=True):
                check_fields(json.loads(line), fields)
    for name, words in case.get("files", {}).items():
        text = (tmp_path / name).read_text("utf-8-sig")
        assert [word for word in words if word not in text] == []


def _says(answer: Interaction) -> Any:
    bad = answer.answer.startswith("Napoleon")
    return assessment(answer, Verdict.ABSENT if bad else Verdict.SUPPORTED)


def made_up(number: int) -> Interaction:
    """Return an answer that its chunk does not bear out."""
    return interaction(number, answer=f"Napoleon sold {number} bananas in Rome.")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which a monitor left reports and a state: every second answer was bad."""
    folder = tmp_path_factory.mktemp("kept")
    options = settings(
        judge=JudgeObject(_says),
        sample=1.0,
        objectives={"hallucination": 0.05},
        exporters=f"jsonl:{folder / 'reports.jsonl'}",
        state=folder / "kept.db",
    )
    with Monitor(**options) as monitor:
        for number in range(ANSWERS):
            monitor.observe(made_up(number) if number % 2 else interaction(number))

        def alarmed() -> bool:
            monitor.flush(10)
            found = samples(monitor.registry)
            return total(found, "ragmonitor_alarm_active", signal="hallucination") > 0

        until("the alarm is raised", alarmed)
    return folder


def test_an_incident_is_told_after_the_monitor_has_ended(kept: Path) -> None:
    """What moved, by how much more than is accepted, and the worst answers with their sentences."""
    step = {
        "arguments": ["incident", "latest"],
        "variables": {"RAGMONITOR_SERVICE": "contract", "RAGMONITOR_STATE": str(kept / "kept.db")},
    }
    ended = ran(step, kept)
    assert ended.status == 0, ended
    for word in ("Hallucination rate", "5 %", "Napoleon sold", "bananas in Rome.", "UTC"):
        assert word in ended.out


def test_labels_correct_what_the_judge_says(kept: Path, tmp_path: Path) -> None:
    """People find one in five of the judge's findings wrong: the rate falls by as much."""
    drawn = tmp_path / "labels.csv"
    ended = command(
        ["labels", "sample", str(kept / "reports.jsonl"), "-n", "200", "-o", str(drawn)], tmp_path
    )
    assert ended.status == 0, ended
    with drawn.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 200
    assert all(row["question"] and row["answer"] and not row["human"] for row in rows)
    bad = 0
    for row in rows:
        found = row["answer"].startswith("Napoleon")
        bad += found
        row["human"] = "yes" if found and bad % 5 else "no"
    with drawn.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    ended = command(["labels", "rate", str(drawn), "--json"], tmp_path)
    assert ended.status == 0, ended
    rate = json.loads(ended.out)["corrected_rate"]
    assert rate["mean"] == pytest.approx(0.4, abs=0.01)  # of the judge's 0.5
    assert 0 < rate["lower"] < 0.4 < rate["upper"] < 0.5


def test_the_worst_answers_of_live_traffic_become_golden_questions(
    kept: Path, tmp_path: Path
) -> None:
    """Candidates with the question and the application's answer, which a person is to put right."""
    arguments = ["goldens", "mine", str(kept / "reports.jsonl"), "-o", "mined.jsonl", "-n", "5"]
    ended = command(arguments, tmp_path)
    assert ended.status == 0, ended
    mined = lines(tmp_path / "mined.jsonl")
    assert len(mined) == 5
    assert all(each["source"].startswith("mined") for each in mined)
    assert all(each["answer"].startswith("Napoleon sold") for each in mined)
    assert all(each["question"].startswith("When was tower") for each in mined)


def test_the_demo_finds_the_bad_sentence(tmp_path: Path) -> None:
    """Real applications of both frameworks, a spike, and numbers that show it, in one command."""
    ended = command(["demo", "--seconds", "10", "--json"], tmp_path)
    assert ended.status == 0, ended
    assert "Traceback" not in ended.out + ended.err
    found = json.loads(ended.out.splitlines()[-1])
    assert found["interactions"] == found["asked"] == sum(found["by_framework"].values()) > 20
    assert found["failed"] == 0
    assert found["all_accounted_for"] is True
    rate = found["hallucination_rate"]
    assert rate["during"] > max(rate["before"], 0.05)
    assert found["worst"][0]["sentence"] in found["worst"][0]["answer"]
    assert found["worst"][0]["verdict"] in ("absent", "contradicted")
