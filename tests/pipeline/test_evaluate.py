"""Recorded interactions scored offline: from Python, and by the command, on public data."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ragmonitor
from ragmonitor.runtime.errors import InputError
from tests.support import stories
from tests.support.openai_server import OpenAiServer

DATA = Path(os.environ.get("TESTS_DATA", "../shared/data")).absolute()
OURS = {
    "id": "one",
    "question": stories.ENGLISH[0],
    "contexts": list(stories.ENGLISH[1]),
    "answer": stories.ENGLISH[2],
}
RAGAS = {
    "user_input": stories.ENGLISH[0],
    "retrieved_contexts": list(stories.ENGLISH[1]),
    "response": stories.ENGLISH[2],
    "reference": stories.ENGLISH[2],
}
RAGCHECKER = {
    "query_id": "7",
    "query": stories.ENGLISH[0],
    "gt_answer": stories.ENGLISH[2],
    "response": stories.ENGLISH[2],
    "retrieved_context": [{"doc_id": "d", "text": text} for text in stories.ENGLISH[1]],
}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    """Take away what would be read from the environment and the current folder."""
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_rows_of_pandas_are_records():
    """As `to_dict("records")` has them: NaN for no reference, floats for ids, arrays and tuples."""
    numpy = pytest.importorskip("numpy")
    array = numpy.array(stories.ENGLISH[1], dtype=object)
    rows = [
        {**OURS, "id": 3.0, "reference": math.nan, "contexts": array},
        {**OURS, "id": numpy.int64(4), "contexts": tuple(stories.ENGLISH[1])},
    ]
    outcomes = ragmonitor.evaluate(rows).outcomes
    assert [each.line.error for each in outcomes] == ["", ""]
    read = [each.line.interaction for each in outcomes]
    assert [each.id for each in read] == ["3", "4"]
    assert [len(each.chunks) for each in read] == [len(stories.ENGLISH[1])] * 2
    assert read[0].reference == ""


def test_a_record_that_cannot_be_read_stands_in_its_place():
    """It says why; the others are scored."""
    result = ragmonitor.evaluate([OURS, {**OURS, "answer": None}, 7, OURS])
    assert [outcome.report is not None for outcome in result.outcomes] == [True, False, False, True]
    assert [error.number for error in result.errors] == [2, 3]
    assert result.to_dicts()[1] == {"line": 2, "error": "answer: expected text, not null"}


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ("answers.jsonl", "`ragmonitor score FILE` reads files"),
        (iter(["question", "contexts"]), r"table.to_dict\('records'\)"),
        ([None], "expected a mapping or an Interaction"),
    ],
)
def test_what_is_no_records_is_an_error(records, told):
    """A path, a table that iterates over its columns: it says what to give instead."""
    with pytest.raises(InputError, match=told):
        ragmonitor.evaluate(records)


def test_a_model_reads_within_its_budget():
    """One call for a record; the rest is over the budget, and nothing more is spent."""
    records = [{**OURS, "id": str(n)} for n in range(20)]
    with OpenAiServer() as server:
        result = ragmonitor.evaluate(
            records, judge="openai/judge", api_base=server.api_base, budget_tokens=6_000
        )
        calls = len(server.chats)
    row = result.summary["faithfulness"]
    assert 0 < row.scored < 20
    assert row.unscored == {"over_budget": 20 - row.scored}
    assert calls == row.scored == result.totals["judge_calls"]
    assert result.totals["judge_tokens"] <= 6_000


def test_what_a_judge_s_error_says_can_be_encoded():
    """Half of a surrogate pair in an error's text costs no trace: it arrives as a question mark."""

    def refuse(_prompts):
        raise ValueError("\ud800 was refused")

    judge = ragmonitor.FunctionJudge(refuse, name="odd")
    [report] = ragmonitor.evaluate([OURS], judge=judge, budget_tokens=10_000).reports
    assert all(each.detail.endswith("? was refused") for each in report.evaluations)


def test_it_works_on_a_running_loop():
    """As in a notebook."""

    async def main():
        return ragmonitor.evaluate([OURS])

    assert asyncio.run(main()).to_dicts() == ragmonitor.evaluate([OURS]).to_dicts()


def command(*arguments, name="score", **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "ragmonitor.cli.app", name, *map(str, arguments)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        **options,
    )


def public(name):
    file = DATA / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not there; set TESTS_DATA to a folder that has it")
    with file.open(encoding="utf-8") as lines:
        return file, [json.loads(line) for line in lines]


def test_the_command_and_python_say_the_same(tmp_path):
    """One engine: line for line, and in sum."""
    (tmp_path / "in.jsonl").write_text(json.dumps(OURS) + "\n" + json.dumps(RAGCHECKER | OURS))
    done = command("in.jsonl", "-o", "out.jsonl", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = ragmonitor.evaluate([OURS, RAGCHECKER | OURS])
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line in lines:
        del line["scoring_version"]
    assert lines == result.to_dicts()
    assert json.loads(done.stdout) == result.totals


@pytest.mark.slow
def test_right_and_invented_answers_are_told_apart(tmp_path):
    """Of 300 questions of a public corpus, one file with the right answers, one with invented."""
    _, records = public("halueval")
    answers = {False: [], True: []}
    for record in records[:600]:
        answers[record["hallucinated"]].append({**record, "id": record["source_id"]})
    for label, told in answers.items():
        text = "\n".join(map(json.dumps, told))
        (tmp_path / f"{label}.jsonl").write_text(text, encoding="utf-8")
    done = command("False.jsonl", "True.jsonl", "--json", name="compare", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    rows = {row["evaluator"]: row for row in told["evaluators"]}
    assert told["pairs"] > 250
    assert rows["faithfulness"]["upper"] < 0
    assert rows["hallucination"]["lower"] > 0
    assert not rows["context_relevance"]["is_told_apart"]
