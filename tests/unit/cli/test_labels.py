"""`ragmonitor labels`: answers for people to read, and what their verdicts make of the judge's."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app

runner = CliRunner()
AT = "2026-05-04T12:00:00.000Z"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def line(name, score, *, judge="model@1", **changes):
    told = {
        "time": AT,
        "id": name,
        "judge": judge,
        "chance": 0.5,
        "question": "长城有多长？",
        "contexts": ["长城全长约21196公里。", "It is long."],
        "answer": f"Answer {name}.",
        "evaluations": {
            "hallucination": {"unscored": "refusal"} if score is None else {"score": score}
        },
    }
    return told | changes


def write(path, *lines):
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


@pytest.fixture
def reports(tmp_path):
    """Write a thousand judged answers, a tenth found hallucinated, and their built-in score."""
    return write(
        tmp_path / "reports.jsonl",
        *(
            each
            for n in range(1_000)
            for each in (
                line(f"q{n}", 1.0, judge="builtin@9", chance=1.0),
                line(f"q{n}", float(n % 10 == 0)),
            )
        ),
    )


def run(*arguments):
    result = runner.invoke(app, ["labels", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def sampled(reports, *arguments, to="labels.csv"):
    result = run("sample", reports, "-o", to, *arguments)
    assert result.exit_code == 0, result.output
    with Path(to).open(encoding="utf-8-sig", newline="") as file:
        return [*csv.DictReader(file)]


def fill_in(rows, said, to="labels.csv"):
    """Be the person: write what `said` says of a row."""
    with Path(to).open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(row | {"human": said(row)} for row in rows)
    return to


# --- sample ---------------------------------------------------------------------------------------


def test_no_text_is_taken_for_a_formula(tmp_path):
    """Users write questions, and models answers."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0, answer="=1+1"), line("b", 0.0))
    assert "'=1+1" in [row["answer"] for row in sampled(path)]


def test_a_longer_draw_has_the_shorter_one_s_answers(reports):
    """Whoever has labelled fifty goes on with the others."""
    first, both = sampled(reports, "-n", 50, to="1.csv"), sampled(reports, "-n", 100, to="2.csv")
    assert {row["id"] for row in first} <= {row["id"] for row in both}


def test_somebodys_labels_are_not_overwritten(reports):
    """Exit code 2."""
    sampled(reports)
    result = run("sample", reports, "-o", "labels.csv")
    assert result.exit_code == 2
    assert "is there already" in result.stderr


def test_several_judges_are_refused(tmp_path):
    """They do not measure alike; the built-in judge counts where it is the only one."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0), line("b", 0.0, judge="other@1"))
    result = run("sample", path, "-o", "x.csv")
    assert result.exit_code == 2
    assert "several judges: model, other" in result.stderr
    path = write(tmp_path / "r.jsonl", line("a", 1.0, judge="builtin@1"))
    assert [row["id"] for row in sampled(path)] == ["a"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line("a", None)], "has no answer with a hallucination verdict"),
        ([line("a", 1.0, content="hashed")], "holds no texts that people could read"),
        ([{**line("a", 1.0), "answer": None}], "holds no texts that people could read"),
        ([], "has no answer with a hallucination verdict"),
    ],
)
def test_what_cannot_be_labelled_is_said(tmp_path, lines, said):
    """Exit code 2, and no file is left behind."""
    result = run("sample", write(tmp_path / "r.jsonl", *lines), "-o", "x.csv")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "x.csv").exists()


# --- rate -----------------------------------------------------------------------------------------


def told(*arguments, exit_code=0):
    result = run("rate", *arguments, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def test_a_bad_cell_is_named(reports):
    """With its row and column."""
    path = fill_in(sampled(reports), lambda _: "perhaps")
    result = run("rate", path)
    assert result.exit_code == 2
    assert "row 1, column human: 'perhaps'" in result.stderr
