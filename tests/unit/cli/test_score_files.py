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
    run(file, "-o", "out.csv", code=1)
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        good, bad, wrong, refusal = csv.DictReader(text)
    assert (good["id"], good["faithfulness"], good["faithfulness_unscored"]) == ("e", "1.0", "")
    assert (bad["line"], "no format has the columns" in bad["error"]) == ("2", True)
    assert "Napoleon paid 12 million dollars." in wrong["unsupported"]
    assert (refusal["faithfulness"], refusal["faithfulness_unscored"]) == ("", "refusal")


@pytest.mark.parametrize("answer", ["=1+1 was paid by Napoleon.", "@SUM(A1) was in Rome."])
def test_no_answer_becomes_a_formula(answer):
    """A spreadsheet would run it."""
    run(write({**ENGLISH, "answer": answer}), "-o", "out.csv")
    with Path("out.csv").open(encoding="utf-8-sig", newline="") as text:
        (row,) = csv.DictReader(text)
    assert row["unsupported"].startswith("'")
