"""`ragmonitor compare`: the same questions, two versions of an application."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.cli.compare import Answer, pair
from ragmonitor.wiring import wired_judges
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


def test_two_versions_are_compared(versions):
    """The difference of the means, with its interval, over the pairs."""
    told, rows = compared(*versions)
    assert (told["pairs"], told["only_first"], told["only_second"]) == (20, 0, 0)
    row = rows["faithfulness"]
    assert (row["first_mean"], row["second_mean"], row["difference"]) == (0.5, 1.0, 0.5)
    assert 0 < row["lower"] < 0.5 < row["upper"] <= 1
    assert row["is_told_apart"]
    assert not rows["context_relevance"]["is_told_apart"]


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
    assert told["paired_by"] == "id"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_an_output_is_known_by_what_it_holds(tmp_path, versions, form):
    """Whatever it is called."""
    for name, file in zip(("one.json", "two.json"), versions, strict=True):
        assert run("score", file, "-o", name, "--output-format", form, "-q").exit_code == 0
    _, rows = compared("one.json", "two.json")
    assert rows["faithfulness"]["difference"] == 0.5


def test_records_without_ids_are_paired_by_their_questions(tmp_path):
    """In whatever order they stand."""
    before = records([RIGHT, WRONG, WRONG], ids=False)
    after = list(reversed(records([RIGHT, RIGHT, WRONG], ids=False)))
    told, rows = compared(write(tmp_path / "b.jsonl", before), write(tmp_path / "a.jsonl", after))
    assert (told["paired_by"], told["pairs"]) == ("question", 3)
    assert rows["faithfulness"]["difference"] == pytest.approx(1 / 3, abs=1e-4)


def test_what_has_no_partner_is_counted(tmp_path):
    """And is in no mean."""
    before, after = records([RIGHT, WRONG, WRONG])[:2], records([RIGHT, RIGHT, WRONG])[1:]
    told, rows = compared(write(tmp_path / "b.jsonl", before), write(tmp_path / "a.jsonl", after))
    assert (told["pairs"], told["only_first"], told["only_second"]) == (1, 1, 1)
    assert rows["faithfulness"]["first_mean"] == 0


def test_an_answer_without_a_score_is_in_no_pair(tmp_path):
    """No score is not a zero, here neither."""
    before = write(tmp_path / "b.jsonl", records(["I don't know.", WRONG]))
    _, rows = compared(before, write(tmp_path / "a.jsonl", records([RIGHT, RIGHT])))
    assert rows["faithfulness"]["pairs"] == 1


def test_the_table_is_for_people(versions):
    """With a mark where the difference is more than chance; it fits 80 columns."""
    result = run("compare", *versions)
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert rows["faithfulness"][1:5] == ["20", "0.500", "1.000", "+0.500"]
    assert rows["faithfulness"][-1] == "*"
    assert rows["context_relevance"][-1] != "*"
    assert "20 pairs by id" in result.stderr


def test_a_bad_line_is_said_and_costs_the_exit_code(tmp_path):
    """The rest is compared."""
    first = write(tmp_path / "b.jsonl", [*records([RIGHT]), {"question": "?"}])
    result = run("compare", first, write(tmp_path / "a.jsonl", records([RIGHT])))
    assert result.exit_code == 1
    assert "line 2: missing contexts, answer" in result.stderr


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


def test_records_that_one_judge_read_in_several_ways_are_compared(tmp_path, versions):
    """Its identity grows by record: with a reference answer, or by another form of reply."""
    for name, file in zip(("one", "two"), versions, strict=True):
        run("score", file, "-o", f"{name}.jsonl", "-q")
        path = tmp_path / f"{name}.jsonl"
        lines = list(map(json.loads, path.read_text().splitlines()))
        lines[0 if name == "one" else 1]["judge"] += ".r1"
        write(path, lines)
    _, rows = compared("one.jsonl", "two.jsonl")
    assert rows["faithfulness"]["difference"] == 0.5


def test_a_judge_that_answers_nothing_is_a_failure(monkeypatch, versions):
    """Its reason is said, and the exit code is that of `ragmonitor score`."""
    monkeypatch.setattr(wired_judges, "LlmJudge", RefusedJudge)
    result = run("compare", *versions, "--judge", "openai/x", "--budget-tokens", 10**6)
    assert result.exit_code == 1
    told = " ".join(result.stderr.split())
    assert "20 answers were not judged, such as: judge_error: openai/x: the key is refused" in told


def test_what_a_judge_left_without_an_answer_in_a_file_is_a_failure(monkeypatch, versions):
    """Its lines say why, and so does the comparison."""
    with monkeypatch.context() as refused:
        refused.setattr(wired_judges, "LlmJudge", RefusedJudge)
        for file, name in zip(versions, ("one.jsonl", "two.jsonl"), strict=True):
            run("score", file, "-o", name, "-q", "--judge", "openai/x", "--budget-tokens", 10**6)
    result = run("compare", "one.jsonl", "two.jsonl")
    assert result.exit_code == 1
    assert "20 answers were not judged, such as: judge_error" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.jsonl", "{after}"], "gone.jsonl: No such file"),
        (["{before}"], "Missing argument"),
        (["{before}", "{other}"], "no id and no question in common"),
    ],
)
def test_wrong_use_is_exit_code_2(tmp_path, versions, arguments, message):
    """It says what to do."""
    before, after = versions
    other = write(
        tmp_path / "other.jsonl",
        [{"id": "x", "question": "Else?", "contexts": [], "answer": RIGHT}],
    )
    result = run("compare", *(a.format(before=before, after=after, other=other) for a in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def answers(*told):
    return [Answer(id=name, question=question, scores={}) for name, question in told]


def test_numbers_for_ids_do_not_pair_different_questions():
    """Where a file was sorted anew, its line numbers mean nothing."""
    found = pair(answers(("1", "a"), ("2", "b")), answers(("1", "b"), ("2", "a")))
    assert found.by == "question"
    assert [(x.question, y.question) for x, y in found.pairs] == [("a", "a"), ("b", "b")]


def test_equal_questions_are_paired_in_their_order():
    """Two times asked, two pairs."""
    asked = answers(("1", "a"), ("2", "a"))
    again = answers(("x", "a"), ("y", " A "))
    assert [(f.id, s.id) for f, s in pair(asked, again).pairs] == [("1", "x"), ("2", "y")]


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="this system names no pipe")
def test_a_pipe_is_read_from_its_beginning(tmp_path):
    """`compare <(...) file`: all pairs are compared, those of the first lines too."""
    lines = records([RIGHT] * 80)
    reading, writing = os.pipe()
    os.write(writing, "\n".join(map(json.dumps, lines)).encode())
    os.close(writing)
    files = f"/dev/fd/{reading}", write(tmp_path / "b.jsonl", lines)
    told = json.loads(run("compare", *files, "--json").stdout)
    os.close(reading)
    assert (told["pairs"], told["bad_lines"]) == (80, 0)
