"""What `ragmonitor score` writes: JSON lines, CSV, RAGChecker's result file; and its summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from tests.support import stories

# The shape of RAGChecker's documented example; the texts are our own.
RAGCHECKER = {
    "results": [
        {
            "query_id": "0",
            "query": "Which river is the longest?",
            "gt_answer": "The Nile is the longest river. It is 6650 km long.",
            "response": "The Nile is the longest river. It flows through Spain.",
            "retrieved_context": [
                {"doc_id": "000", "text": "The Nile is the longest river in the world."},
                {"doc_id": "001", "text": "Rain is rare in Egypt."},
            ],
        },
        {
            "query_id": "1",
            "query": "What does the blue of the flag stand for?",
            "gt_answer": "The blue stands for peace.",
            "response": "The blue stands for peace.",
            "retrieved_context": [{"doc_id": None, "text": "The blue stands for peace."}],
        },
    ]
}
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


@pytest.fixture
def checked():
    Path("in.json").write_text(json.dumps(RAGCHECKER, indent=2))
    run("in.json", "-o", "out.json", "-q")
    return json.loads(Path("out.json").read_text())


def test_ragcheckers_file_comes_back_with_its_metrics(checked):
    """Records as they were; shares for each, percent for all, in its groups."""
    for told, given in zip(checked["results"], RAGCHECKER["results"], strict=True):
        assert given.items() <= told.items()
    first, second = (told["metrics"] for told in checked["results"])
    assert (first["precision"], first["recall"], first["context_precision"]) == (0.5, 0.5, 0.5)
    assert second["f1"] == 1.0
    assert list(checked["metrics"]) == ["overall_metrics", "retriever_metrics", "generator_metrics"]
    assert checked["metrics"]["overall_metrics"]["precision"] == 75.0
    assert checked["metrics"]["retriever_metrics"]["context_precision"] == 75.0
    assert set(checked["metrics"]["generator_metrics"]) == {
        "context_utilization",
        "noise_sensitivity_in_relevant",
        "noise_sensitivity_in_irrelevant",
        "hallucination",
        "self_knowledge",
        "faithfulness",
    }


def test_what_was_written_for_ragchecker_can_be_scored_again(checked):
    """It is its own input format still."""
    assert checked["results"]
    assert json.loads(run("out.json", "-q").stdout.splitlines()[0])["id"] == "0"


def test_ragcheckers_format_wants_its_scores():
    """Others have no place in it."""
    result = run(write(ENGLISH), "-o", "out.json", "--evaluators", "faithfulness", code=2)
    assert "add --evaluators 'ragchecker_*'" in result.stderr


def test_the_format_can_be_named():
    """Whatever the file is called."""
    run(write(ENGLISH), "-o", "out.txt", "--output-format", "csv", "-q")
    assert Path("out.txt").read_text().startswith("id,line,error,faithfulness,")


def test_a_csv_file_has_a_row_for_each_line():
    """Scores, causes, the sentences at fault; a bad line in its place."""
    wrong = {**ENGLISH, "id": "w", "answer": "Napoleon paid 12 million dollars. It is so."}
    refusal = {**ENGLISH, "id": "r", "answer": "I don't know."}
    file = write({**ENGLISH, "id": "e"}, {"question": "q"}, wrong, refusal)
    run(file, "-o", "out.csv", "-q", code=1)
    with Path("out.csv").open(newline="") as text:
        good, bad, wrong, refusal = csv.DictReader(text)
    assert (good["id"], good["faithfulness"], good["faithfulness_unscored"]) == ("e", "1.0", "")
    assert (bad["line"], bad["error"]) == ("2", "missing contexts, answer")
    assert "Napoleon paid 12 million dollars." in wrong["unsupported"]
    assert (refusal["faithfulness"], refusal["faithfulness_unscored"]) == ("", "refusal")


@pytest.mark.parametrize("answer", ["=1+1 was paid by Napoleon.", "@SUM(A1) was in Rome."])
def test_no_answer_becomes_a_formula(answer):
    """A spreadsheet would run it."""
    run(write({**ENGLISH, "answer": answer}), "-o", "out.csv", "-q")
    with Path("out.csv").open(newline="") as text:
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


def test_the_table_shows_the_languages():
    """Beneath each evaluator."""
    shown = run(write(ENGLISH, CHINESE)).stderr
    rows = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert rows[rows.index("faithfulness") :][:3] == ["faithfulness", "en", "zh"]


def test_bottlenecks_are_shown_with_advice():
    """Where there are reference answers."""
    right = {**ENGLISH, "reference": ENGLISH["answer"]}
    wrong = {**right, "answer": "Napoleon paid 12 million dollars for the cathedral in 1804."}
    result = run(write(right, wrong, wrong), "-o", "o")
    assert "The facts were there" in " ".join(result.stderr.split())
    summary = json.loads(run("in.jsonl", "-o", "o", "--json").stdout)
    assert summary["bottlenecks"] == {"none": 1, "model": 2}


def test_without_references_there_are_no_bottlenecks():
    """Nothing is said of what is not known."""
    result = run(write(ENGLISH), "-o", "o")
    assert "work on" not in result.stderr


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\t", "\r", "\n", " =", "＝", "＋", "－", "＠"]
)
def test_no_cell_becomes_a_formula(sign):
    """Neither an id nor an error nor a sentence: applications, files and models write them."""
    text = f"{sign}1+1 was paid by Napoleon."
    run(write({**ENGLISH, "id": text, "answer": text}, {text: 1}), "-o", "out.csv", "-q", code=1)
    with Path("out.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 2
    cells = [cell for row in rows for cell in row.values() if not _is_number(cell)]
    assert [cell for cell in cells if cell.strip(" ").startswith(sign.strip(" "))] == []
    assert rows[0]["id"] == f"'{text}"


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True
