"""`ragmonitor goldens`: made of documents, or taken from live traffic."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from tests.support.golden_model import GoldenModel
from tests.support.interrupted import environment, interrupted
from tests.support.openai_server import OpenAiServer


def run(*words):
    return CliRunner().invoke(app, ["goldens", *map(str, words)])


# --- generate -------------------------------------------------------------------------------------

TEXT = """# The harbour

The harbour of Aarhus opens its eastern gate at nine and closes at six.

# Boats

Whoever rents a rowing boat leaves a deposit of forty crowns at the desk.

# 渡船

往返对岸的渡船每天早上七点从北码头出发，晚上十点返回，周日停航，船票每人三元，儿童免费乘坐，自行车另付一元，宠物不得上船，
遇到大风时停航并退票，请在码头售票处办理退票手续，当天有效。
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a document, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "harbour.md").write_text(TEXT.replace("\n遇", "遇"), "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGINT to a process there")
def test_ctrl_c_waits_for_replies_under_way(folder):
    """Exit code 130; what was paid for is kept, and the same command pays for the rest alone."""
    model, gate = GoldenModel(), threading.Event()

    def slow(request):
        gate.wait(20)
        return model(request)

    with OpenAiServer() as server:
        server.always(slow)
        command = [
            *(sys.executable, "-m", "ragmonitor.cli.app", "goldens", "generate", "docs"),
            *("-o", "goldens.jsonl", "--judge", "openai/scripted", "--api-base", server.api_base),
            *("-n", "2", "--budget-tokens", "100000"),
        ]
        variables = environment(OPENAI_API_KEY="none")
        interrupted(command, variables, is_time=lambda: len(server.chats) >= 1, replies=gate)
        asked = len(server.chats)
        assert len((folder / "goldens.jsonl.replies").read_text().splitlines()) == asked
        done = subprocess.run(command, env=variables, capture_output=True, check=False, timeout=120)
        assert done.returncode == 0
        written = [each for each in model.asked if each.task == "write"]
        assert len({each.chunks for each in written}) == len(written)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "budget"),
        (["--budget-usd", 0], "--budget-usd (budget_usd) is above 0"),
        (["--budget-tokens", 0], "--budget-tokens"),
        (["--budget-usd", 1, "-o", "nowhere/goldens.jsonl"], "no such folder"),
    ],
)
def test_what_cannot_begin_says_why(folder, words, told):
    """Exit code 2, and nothing is written."""
    result = run("generate", "docs", "--judge", "openai/x", "-o", "goldens.jsonl", *words)
    assert result.exit_code == 2
    assert told in result.output
    assert [each.name for each in folder.iterdir()] == ["docs"]
