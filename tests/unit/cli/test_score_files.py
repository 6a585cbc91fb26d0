"""What `ragmonitor score` writes: JSON lines, CSV, RAGChecker's result file; and its summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from tests.support import stories

ENGLISH, CHINESE = (
    {"question": told[0], "contexts": list(told[1]), "answer": told[2]}
    for told in (stories.ENGLISH, stories.CHINESE)
)

runner = CliRunner()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*arguments, code=0):
    result = runner.invoke(app, ["score", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.stderr
    return result


def write(*records):
    Path("in.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    return "in.jsonl"


def test_a_csv_file_has_a_row_for_each_line():
    """Scores, causes, the sentences at fault; a bad line in its place."""
    wrong = {**ENGLISH, "id": "w", "answer": "Napoleon paid 12 million dollars. It is so."}
    refusal = {**ENGLISH, "id": "r", "answer": "I don't know."}
    file = write({**ENGLISH, "id": "e"}, {"question": "q"}, wrong, refusal)
    run(file, "-o", "out.csv", "-q", code=1)
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        good, bad, wrong, refusal = csv.DictReader(text)
    assert (good["id"], good["faithfulness"], good["faithfulness_unscored"]) == ("e", "1.0", "")
    assert (bad["line"], bad["error"]) == ("2", "missing contexts, answer")
    assert "Napoleon paid 12 million dollars." in wrong["unsupported"]
    assert (refusal["faithfulness"], refusal["faithfulness_unscored"]) == ("", "refusal")


@pytest.mark.parametrize("answer", ["=1+1 was paid by Napoleon.", "@SUM(A1) was in Rome."])
def test_no_answer_becomes_a_formula(answer):
    """A spreadsheet would run it."""
    run(write({**ENGLISH, "answer": answer}), "-o", "out.csv", "-q")
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        (row,) = csv.DictReader(text)
    assert row["unsupported"].startswith("'")


def test_both_languages_are_summed_up_apart():
    """As soon as there are two."""
    summary = json.loads(run(write(ENGLISH, CHINESE, CHINESE), "-o", "o", "--json").stdout)
    scored = {
        name: {row["evaluator"]: row["scored"] for row in rows}["faithfulness"]
        for name, rows in summary["languages"].items()
    }
    assert scored == {"en": 1, "zh": 2}
    alone = json.loads(run(write(ENGLISH), "-o", "o", "--json").stdout)
    assert alone["languages"] == {}
