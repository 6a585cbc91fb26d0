"""`ragmonitor gate GOLDENS`: an application is asked, and the exit code says how it compares."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.pipeline import build
from tests.support.refused_judge import RefusedJudge

APPLICATION = """
import os
FACTS = {"parcel": "A parcel may weigh 40 kg.", "shop": "The shop opens at 9."}
def ask(question):
    if os.environ.get("DOWN"):
        raise RuntimeError("down")
    for name, fact in FACTS.items():
        if name in question:
            told = fact.replace("40", "90") if os.environ.get("BROKEN") else fact
            return {"answer": told, "chunks": [fact]}
    return {"answer": "The documents do not say.", "chunks": []}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with an application and its golden questions, as the working folder."""
    name = f"gated_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(APPLICATION)
    goldens = [{"question": f"Who is king? ({n})", "kind": "unanswerable"} for n in range(3)]
    for n in range(15):
        for subject, fact in (
            ("parcel", "A parcel may weigh 40 kg."),
            ("shop", "The shop opens at 9."),
        ):
            goldens.append({"question": f"Tell me of the {subject} ({n})", "answer": fact})
    goldens.append({"question": "gone?", "answer": "x", "status": "rejected"})
    (tmp_path / "goldens.jsonl").write_text("\n".join(map(json.dumps, goldens)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield name
    sys.modules.pop(name, None)


def gate(name, *arguments):
    return CliRunner().invoke(
        app, ["gate", "goldens.jsonl", "--callable", f"{name}:ask", *arguments]
    )


@pytest.fixture
def baseline(folder):
    assert gate(folder, "--save", "base.jsonl").exit_code == 0
    return folder


def test_a_run_that_is_kept_is_for_its_user_alone(baseline):
    """Questions and answers stand in it."""
    assert stat.S_IMODE(Path("base.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--baseline FILE"),
        (["--baseline", "missing.jsonl"], "missing.jsonl"),
        (["--save", "x", "--url", "http://a"], "whom to ask"),
        (["--save", "x", "--judge", "openai/x", "--budget-usd", "0"], "above 0"),
    ],
)
def test_wrong_use_is_said_before_anything_is_asked(folder, arguments, message):
    result = gate(folder, *arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("textwrap:nothing", "--callable textwrap:nothing: AttributeError"),
        ("no_such_module:ask", "--callable no_such_module:ask: ModuleNotFoundError"),
        ("broken:ask", "--callable broken:ask: ZeroDivisionError"),
        ("script:ask", "--callable script:ask: SystemExit: 0"),
        ("textwrap", "give module:function"),
    ],
)
def test_a_callable_that_cannot_be_had_is_said(folder, name, message):
    """Also one whose module raises, or is a script that ends the process as if all were fine."""
    Path("broken.py").write_text("1 / 0")
    Path("script.py").write_text("import sys; sys.exit(0)")
    arguments = ["gate", "goldens.jsonl", "--callable", name, "--save", "x"]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.output


def test_a_judge_that_answers_nothing_decides_nothing(baseline, monkeypatch):
    """The comparison is not undecided: there is none."""
    monkeypatch.setattr(build, "LlmJudge", RefusedJudge)
    before = Path("base.jsonl").read_bytes()
    words = ["--judge", "openai/x", "--budget-tokens", "1000000", "--save", "new.jsonl"]
    result = gate(baseline, "--baseline", "base.jsonl", "--json", *words)
    assert result.exit_code == 1
    assert "the key is refused" in result.stderr
    assert json.loads(result.stdout)["questions"] == 33
    assert Path("base.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("option", "file"),
    [
        ("--save", "base.jsonl"),
        ("--save", "goldens.jsonl"),
        ("--junit", "./base.jsonl"),
        ("--markdown", "goldens.jsonl"),
    ],
)
def test_no_output_takes_the_place_of_an_input(baseline, monkeypatch, option, file):
    """A broken release that had become its own baseline would pass the second time."""
    monkeypatch.setenv("BROKEN", "1")
    before = Path(file).read_bytes()
    result = gate(baseline, "--baseline", "base.jsonl", option, file)
    assert result.exit_code == 2
    assert f"{option} {Path(file)}" in result.output
    assert Path(file).read_bytes() == before


def test_a_question_that_was_edited_since_does_not_count(baseline):
    """Another reference answer under the same id must not look like another application."""
    goldens = [json.loads(line) for line in Path("goldens.jsonl").read_text().splitlines()]
    saved = json.loads(Path("base.jsonl").read_text())["goldens"]
    assert [each["question"] for each in saved[3:5]] == [e["question"] for e in goldens[3:5]]
    goldens[3] |= {"id": saved[3]["id"], "answer": "A parcel may weigh 90 kg."}
    goldens[4] |= {"id": saved[4]["id"], "question": "Tell me of the parcel (edited)"}
    Path("goldens.jsonl").write_text("\n".join(map(json.dumps, goldens)))
    result = gate(baseline, "--baseline", "base.jsonl", "--json")
    found = json.loads(result.stdout)
    assert (found["uncounted"], found["difference"]["pairs"], found["changes"]) == (2, 31, [])
    result = gate(baseline, "--baseline", "base.jsonl", "--markdown", "gate.md")
    said = "not counted: 2 questions"
    assert said in result.output
    assert said in Path("gate.md").read_text("utf-8")
