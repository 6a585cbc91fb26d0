"""`ragmonitor score`, run again: nothing is paid for twice, nothing is mixed, nothing is lost."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.pipeline import build
from ragmonitor.records import Cause, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.errors import JudgeError
from tests.support import stories
from tests.support.interrupted import environment, interrupted
from tests.support.openai_server import OpenAiServer, truthful

GOOD = {
    "question": stories.ENGLISH[0],
    "contexts": list(stories.ENGLISH[1]),
    "answer": stories.ENGLISH[2],
    "reference": stories.ENGLISH[2],
}
MODEL = ("--judge", "m", "--budget-tokens", "1000")
FORMATS = ("out.jsonl", "out.csv", "out.json")

runner = CliRunner()


class FakeLlm:
    """Costs 10 tokens a reading; fails where it is told to."""

    asked: tuple[str, ...] = ()
    failing: frozenset[str] = frozenset()
    version = "1"

    def __init__(self, model, **_):
        self.identity = JudgeIdentity(name=model, version=self.version, kind="LLM")

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
        type(self).asked += (interaction.id,)
        usage = JudgeUsage(calls=1, input_tokens=8, output_tokens=2)
        if interaction.id in self.failing:
            raise JudgeError("m", "no", cause=Cause.JUDGE_TIMEOUT, retryable=True, usage=usage)
        return replace(stories.assessment("supported", "absent"), judge=self.identity, usage=usage)


@pytest.fixture
def llm(monkeypatch):
    FakeLlm.asked, FakeLlm.failing, FakeLlm.version = (), frozenset(), "1"
    monkeypatch.setattr(build, "LlmJudge", FakeLlm)
    return FakeLlm


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return str(path)


def records(n):
    """Return answers that differ, so that each is read."""
    return [
        {**GOOD, "id": f"r{number}", "question": f"{number}: {GOOD['question']}"}
        for number in range(n)
    ]


def run(*arguments):
    result = runner.invoke(app, ["score", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ids_in(path):
    text = path.read_text("utf-8-sig")
    if path.suffix == ".csv":
        return [row["id"] for row in csv.DictReader(text.splitlines())]
    if path.suffix == ".json":
        return [record["query_id"] for record in json.loads(text)["results"]]
    return [json.loads(line)["id"] for line in text.splitlines()]


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_finished_is_not_asked_for_again(tmp_path, llm, name):
    """After a machine went down in the middle of the last reply: that one is asked for again."""
    file, output = write(tmp_path / "in.jsonl", *records(4)), tmp_path / name
    assert run(file, *MODEL, "-o", output).exit_code == 0
    before, replies = output.read_bytes(), tmp_path / f"{name}.replies"
    replies.write_bytes(replies.read_bytes()[:-20])
    output.unlink()
    llm.asked = ()
    result = run(file, *MODEL, "-o", output)
    assert result.exit_code == 0
    assert llm.asked == ("r3",)
    assert "3 read before" in result.stderr
    assert output.read_bytes() == before


def test_another_judge_or_another_answer_is_read_anew(tmp_path, llm):
    """An old verdict beside a new answer would be a lie; other evaluators need no new one."""
    output = tmp_path / "out.jsonl"
    file = write(tmp_path / "in.jsonl", *records(3))
    run(file, *MODEL, "-o", output)
    llm.asked = ()
    run(file, *MODEL, "--evaluators", "hallucination", "-o", output)
    assert llm.asked == ()
    changed = [*records(2), {**GOOD, "id": "r2", "answer": "Another answer."}]
    run(write(tmp_path / "in.jsonl", *changed), *MODEL, "-o", output)
    assert llm.asked == ("r2",)
    llm.version, llm.asked = "2", ()
    run(file, *MODEL, "-o", output)
    assert llm.asked == ("r0", "r1", "r2")
    assert ids_in(output) == ["r0", "r1", "r2"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to a process there")
@pytest.mark.parametrize("name", FORMATS)
def test_an_interrupted_run_is_gone_on_with(tmp_path, name):
    """Ctrl-C in the middle: a whole file, exit code 130; then each question was asked once."""
    plain = [{**record, "reference": ""} for record in records(24)]  # one call for each
    file, output = write(tmp_path / "in.jsonl", *plain), tmp_path / name
    gate = threading.Event()

    def slow(request):
        gate.wait(0 if len(server.chats) <= 4 else 20)
        return truthful(request)

    with OpenAiServer() as server:
        server.always(slow)
        command = [
            *(sys.executable, "-m", "ragmonitor.cli.app", "score", file, "-o", str(output)),
            *("--judge", "openai/judge", "--api-base", server.api_base),
            *("--budget-tokens", "1000000"),
        ]
        variables = environment()
        interrupted(command, variables, is_time=lambda: len(server.chats) >= 5, replies=gate)
        finished = len(ids_in(output))
        assert 4 <= finished < 24
        done = subprocess.run(command, env=variables, capture_output=True, check=False, timeout=120)
        assert done.returncode == 0
        assert len(ids_in(output)) == 24
        assert len(server.chats) == 24
