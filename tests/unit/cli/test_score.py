"""`ragmonitor score`: order, bad lines, exit codes, budgets."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.pipeline import build
from ragmonitor.records import Cause, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.errors import JudgeError
from tests.support import stories
from tests.support.openai_server import OpenAiServer

GOOD = {
    "id": "good",
    "question": stories.ENGLISH[0],
    "contexts": list(stories.ENGLISH[1]),
    "answer": stories.ENGLISH[2],
}

runner = CliRunner()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(tmp_path, *records):
    path = tmp_path / "in.jsonl"
    texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return str(path)


def run(*arguments, stdin=None):
    result = runner.invoke(app, ["score", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


class FakeLlm:
    """Costs 10 tokens a reading; the first answers come back last."""

    calls = 0
    most_at_once = 0

    def __init__(self, model, **_):
        self.identity = JudgeIdentity(name=model, version="1", kind="LLM")
        self._at_once = 0

    async def prepare(self):
        pass

    async def close(self):
        pass

    budget_unit = "tokens"

    def counting(self, unit):
        self.budget_unit = unit
        return self

    def expected_cost(self, interaction):
        return 10.0

    async def assess(self, interaction):
        type(self).calls += 1
        self._at_once += 1
        type(self).most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0.01 if interaction.id.endswith("0") else 0)
        self._at_once -= 1
        if interaction.id == "broken":
            raise JudgeError("fake", "no", cause=Cause.JUDGE_TIMEOUT, retryable=True)
        found = stories.assessment("supported", "absent")
        return replace(
            found, judge=self.identity, usage=JudgeUsage(calls=1, input_tokens=8, output_tokens=2)
        )


@pytest.fixture
def llm(monkeypatch):
    FakeLlm.calls = FakeLlm.most_at_once = 0
    monkeypatch.setattr(build, "LlmJudge", FakeLlm)
    return FakeLlm


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_records_is_not_a_success(tmp_path, text):
    """A job whose input was lost must not pass; and no output is touched."""
    (tmp_path / "in.jsonl").write_text(text)
    result = run(str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl"))
    assert result.exit_code == 2
    assert "in.jsonl holds no record: nothing was scored" in result.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_an_embedding_model_takes_the_place_of_ours(tmp_path):
    """By litellm, at the given address; its scores have a version of their own."""
    from ragmonitor.evaluators import table

    known = table._entries.copy()
    record = {**GOOD, "reference": GOOD["answer"]}
    options = ["--evaluators", "answer_similarity", "--embedding", "openai/embedder"]
    try:
        with OpenAiServer() as server:
            result = run(write(tmp_path, record), *options, "--api-base", server.api_base)
            (request,) = server.requests
        (entry,) = table.select(["answer_similarity"])
    finally:
        table._entries.clear()
        table._entries.update(known)
    assert request.body["input"] == [GOOD["answer"], GOOD["answer"]]
    (line,) = objects(result.stdout)
    assert line["evaluations"]["answer_similarity"]["score"] == pytest.approx(1)
    assert entry.version > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone.jsonl"], "gone.jsonl: No such file"),
        (["{file}", "--evaluators", "truth"], "unknown evaluator truth; known: "),
        (["{file}", "--judge", "m", "--budget-usd", "1", "--budget-tokens", "1"], "one budget"),
        (["{file}", "-o", "no/such/folder"], "no/such/folder: No such file"),
        (["{other}"], "no format has the columns 'prompt'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path, arguments, message):
    """It says what to do, and shows no traceback."""
    file = write(tmp_path, GOOD)
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "x"}\n')
    result = run(*(a.format(file=file, other=other) for a in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_plugin_registers_evaluators(tmp_path):
    """It is found in the current folder."""
    (tmp_path / "my_cli_plugin.py").write_text(
        "import ragmonitor\n"
        "from ragmonitor.evaluators import table\n"
        "if 'cli_brevity' not in {e.name for e in table}:\n"
        "    @ragmonitor.evaluator('cli_brevity')\n"
        "    def brevity(interaction, assessment):\n"
        "        return 1 / (1 + len(interaction.answer))\n"
    )
    from ragmonitor.evaluators import table

    known = table._entries.copy()
    try:
        result = run(
            write(tmp_path, GOOD), "--plugin", "my_cli_plugin", "--evaluators", "cli_brevity"
        )
    finally:
        table._entries.clear()
        table._entries.update(known)
        sys.path.remove(str(tmp_path))
        sys.modules.pop("my_cli_plugin", None)
    assert result.exit_code == 0
    assert 0 < objects(result.stdout)[0]["evaluations"]["cli_brevity"]["score"] < 1


def test_a_model_keeps_the_order_of_the_lines(tmp_path, llm):
    """However late a reply is; and calls overlap."""
    records = [{**GOOD, "id": str(n)} for n in range(60)]
    records.insert(30, "{no")
    result = run(write(tmp_path, *records), "--judge", "m", "--budget-tokens", "9999")
    lines = objects(result.stdout)
    assert [line.get("id") for line in lines] == [
        *map(str, range(30)),
        None,
        *map(str, range(30, 60)),
    ]
    assert lines[0]["judge"] == "m@1"
    assert lines[0]["evaluations"]["faithfulness"] == {"score": 0.5}
    assert llm.calls == 60
    assert llm.most_at_once > 1


def cli(*arguments, **options):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "ragmonitor.cli.app", *arguments],
        check=False,
        env=environment,
        capture_output=True,
        timeout=60,
        **options,
    )


def test_many_rows_are_read_in_several_processes_with_the_same_output(tmp_path):
    """Which end with the command; bad lines and those that are too long stay in their place."""
    rows = [{**GOOD, "id": str(n), "answer": f"{GOOD['answer']} {n} came."} for n in range(560)]
    rows[540] |= {"answer": "x" * 200_001}
    file = write(tmp_path, *rows[:550], "{no", *rows[550:])
    one, several = (cli("score", file, "--json", "--workers", n) for n in "12")
    assert one.returncode == several.returncode == 1
    assert several.stdout == one.stdout
    assert several.stderr == one.stderr
    assert len(objects(one.stdout)) == 561


def test_a_broken_pipe_is_quiet(tmp_path):
    """`ragmonitor score ... | head` is no error to read about."""
    file = write(tmp_path, *[GOOD] * 2000)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "ragmonitor.cli.app", "score", file],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert b"rror" not in running.stderr.read()
        running.wait(30)
