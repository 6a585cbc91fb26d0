"""Recorded interactions through the real frameworks, by the command line."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path

import pytest

from ragmonitor.cli.drivers import GROUP
from ragmonitor.cli.options import ReplayOptions
from ragmonitor.cli.replay import run

pytestmark = pytest.mark.slow

DATA = Path(os.environ.get("TESTS_DATA", "../shared/data")).absolute()
FRAMEWORKS = ("langchain", "llama_index")
HARD = [
    {"question": "", "contexts": ["The tower is 330 metres tall."], "answer": "It is 330 metres."},
    {"question": "Nothing found?", "contexts": [], "answer": "I don't know."},
    {"question": "Twice?", "contexts": ["the same", "the same"], "answer": "The same."},
    {"question": "Empty?", "contexts": ["", "text"], "answer": "Text."},
    {"question": "{context} {x}", "contexts": ["{question} %s {0}"], "answer": "{braces} {{}}"},
    {"question": "长城有多长？", "contexts": ["长城全长约21196公里。"], "answer": "约21196公里。"},
    {"question": "Long?", "contexts": ["A long text. " * 8_000] * 2, "answer": "A long text."},
    {"question": "  spaces \n", "contexts": [" a \n\n b "], "answer": " padded\n\nanswer \t"},
]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    """Take away what the command would read from the environment and the current folder."""
    for name in tuple(os.environ):
        if name.startswith(("RAGMONITOR_", "OTEL_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def replayed(capsys, file, framework, **options):
    if not metadata.entry_points(group=GROUP, name=framework):
        pytest.skip(f"the integration of {framework} is not installed; see `make setup`")
    code = run(
        ReplayOptions(file=str(file), framework=framework, json_output=True, quiet=True, **options)
    )
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_hard_records_arrive_whole(capsys, tmp_path, framework):
    """Empty questions, no contexts, braces, 100 kB of text, Chinese, white space."""
    file = tmp_path / "hard.jsonl"
    file.write_text("\n".join(map(json.dumps, HARD)))
    code, told = replayed(capsys, file, framework)
    assert told["explanations"] == []
    assert told["matched"] == len(HARD)
    assert told["all_accounted_for"] is True
    assert told["internal_errors"] == {}
    assert code == 0


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "name", ["begin", "expertqa", "faithdial_audit", "halueval", "summedits", "uhgeval", "wice"]
)
def test_real_records_arrive_whole(capsys, framework, name):
    """A part of each public corpus that is at hand."""
    file = DATA / f"{name}.jsonl"
    if not file.exists():
        pytest.skip(f"{file} is not there; set TESTS_DATA to a folder that has it")
    code, told = replayed(capsys, file, framework, limit=60)
    assert told["explanations"] == []
    assert (told["matched"], told["all_accounted_for"], code) == (60, True, 0)
