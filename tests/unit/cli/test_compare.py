"""`ragmonitor compare`: the same questions, two versions of an application."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
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


def test_an_answer_without_a_score_is_in_no_pair(tmp_path):
    """No score is not a zero, here neither."""
    before = write(tmp_path / "b.jsonl", records(["I don't know.", WRONG]))
    after = write(tmp_path / "a.jsonl", records([RIGHT, RIGHT]))
    assert compared(before, after)[1]["faithfulness"]["pairs"] == 1
    assert "fewer than 10 pairs decide nothing" in run("compare", before, after).stderr


def test_a_judge_that_answers_nothing_is_a_failure(monkeypatch, versions):
    """Its reason is said, and the exit code is that of `ragmonitor score`."""
    monkeypatch.setattr(build, "LlmJudge", RefusedJudge)
    result = run("compare", *versions, "--judge", "openai/x", "--budget-tokens", 10**6)
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "20 answers were not judged, such as: judge_error: openai/x: the key is refused" in told


def test_numbers_for_ids_do_not_pair_different_questions(tmp_path):
    """Where a file was sorted anew, its line numbers mean nothing."""
    told = records([RIGHT, WRONG, WRONG], ids=False)
    first, second = write(tmp_path / "b.jsonl", told), write(tmp_path / "a.jsonl", told[::-1])
    assert compared(first, second)[1] == compared(first, first)[1]
