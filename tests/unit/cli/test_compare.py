"""`ragmonitor compare`: the same questions, two versions of an application."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.cli.compare import Answer, pair
from ragmonitor.pipeline import build
from tests.support.refused_judge import RefusedJudge

CHUNK = "The Eiffel Tower was built from 1887 to 1889. It is 330 metres tall."
RIGHT = "The Eiffel Tower was built from 1887 to 1889."
WRONG = "Napoleon paid 12 million dollars for the cathedral in 1804."

runner = CliRunner()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def records(answers, ids=True):
    return [
        {"question": f"When was tower {n} built?", "contexts": [CHUNK], "answer": answer}
        | ({"id": f"q{n}"} if ids else {})
        for n, answer in enumerate(answers)
    ]


def write(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return str(path)


def run(command, *arguments):
    result = runner.invoke(app, [command, *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def compared(first, second, *arguments):
    result = run("compare", first, second, "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    return told, {row["evaluator"]: row for row in told["evaluators"]}


@pytest.fixture
def versions(tmp_path):
    """Half of the answers are wrong before, none is after."""
    before = write(tmp_path / "before.jsonl", records([RIGHT, WRONG] * 10))
    after = write(tmp_path / "after.jsonl", records([RIGHT] * 20))
    return before, after


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.json"])
def test_outputs_are_compared_as_the_data_would_be(tmp_path, name):
    """What is scored is not scored again, in any format that is written."""
    files = []
    for folder, answers in (("before", [RIGHT, WRONG] * 5), ("after", [RIGHT] * 10)):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "in.jsonl"
        write(file, [{**record, "reference": RIGHT} for record in records(answers)])
        output = tmp_path / folder / name
        options = ["--evaluators", "faithfulness,ragchecker_*"]
        assert run("score", file, "-o", output, "-q", *options).exit_code == 0
        files.append((file, output))
    (first, first_out), (second, second_out) = files
    _, of_data = compared(first, second, *options)
    told, of_outputs = compared(first_out, second_out)
    assert of_outputs == of_data
    assert told["paired_by"] == "id"  # an output has no questions


def test_an_answer_without_a_score_is_in_no_pair(tmp_path):
    """No score is not a zero, here neither."""
    before = write(tmp_path / "b.jsonl", records(["I don't know.", WRONG]))
    _, rows = compared(before, write(tmp_path / "a.jsonl", records([RIGHT, RIGHT])))
    assert rows["faithfulness"]["pairs"] == 1


def test_different_scoring_versions_are_not_compared(tmp_path, versions):
    """That would tell of judges or evaluators, and not of the application."""
    before, after = versions
    run("score", before, "-o", "one.jsonl", "--evaluators", "faithfulness")
    run("score", after, "-o", "two.jsonl", "--evaluators", "faithfulness,refusal")
    result = run("compare", "one.jsonl", "two.jsonl")
    assert result.exit_code == 2
    assert "different evaluators" in result.stderr
    line = json.loads((tmp_path / "two.jsonl").read_text().splitlines()[0])
    write(tmp_path / "two.jsonl", [{**line, "judge": "another@1"}])
    result = run("compare", "one.jsonl", "two.jsonl")
    assert "would compare judges" in result.stderr


def test_a_judge_that_answers_nothing_is_a_failure(monkeypatch, versions):
    """Its reason is said, and the exit code is that of `ragmonitor score`."""
    monkeypatch.setattr(build, "LlmJudge", RefusedJudge)
    result = run("compare", *versions, "--judge", "openai/x", "--budget-tokens", 10**6)
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "20 answers were not judged, such as: judge_error: openai/x: the key is refused" in told


def answers(*told):
    return [Answer(id=name, question=question, scores={}) for name, question in told]


def test_numbers_for_ids_do_not_pair_different_questions():
    """Where a file was sorted anew, its line numbers mean nothing."""
    found = pair(answers(("1", "a"), ("2", "b")), answers(("1", "b"), ("2", "a")))
    assert found.by == "question"
    assert [(x.question, y.question) for x, y in found.pairs] == [("a", "a"), ("b", "b")]
