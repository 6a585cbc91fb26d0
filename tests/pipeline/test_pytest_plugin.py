"""The plugin in pytest runs of its own: what it makes of golden questions, and what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

FACT = "A parcel may weigh 40 kg."
GOLDENS = [
    {"question": "How heavy may a parcel be?", "answer": FACT, "chunks": [{"text": FACT}]},
    {"question": "包裹最重多少？", "answer": "包裹最重40公斤。", "language": "zh"},
    {"question": "gone?", "answer": "x", "status": "rejected"},
    {"question": "gone, too?", "answer": "the application's own", "source": "mined:worst"},
]
TESTS = """
import pytest

ANSWERS = {"H": "A parcel may weigh %s kg.", "包": "包裹最重40公斤。"}

@pytest.mark.rag(goldens="goldens.jsonl")
def test_answers(golden, ragmonitor_check):
    answer = ANSWERS[golden.question[0]]
    ragmonitor_check.assert_faithful(answer, [golden.answer], golden)
    ragmonitor_check.assert_correct(answer, golden, [golden.answer])

@pytest.mark.rag(goldens="goldens.jsonl")
async def test_on_a_loop(golden, ragmonitor_check):
    wanted = golden.chunks or ["x"]
    ragmonitor_check.assert_retrieves(wanted, wanted)

def test_without_a_golden_question(ragmonitor_check):
    ragmonitor_check.assert_faithful("It is 3 m tall.", ["It is 3 m tall."])
"""


def run(
    folder: Path, *arguments: str, plugins: tuple[str, ...] = ("pytest_asyncio.plugin",)
) -> str:
    """Return what a pytest run of its own prints."""
    named = [f"-p{name}" for name in ("ragmonitor.pytest_plugin", *plugins)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *named, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    def made(number="40"):
        lines = "\n".join(json.dumps(each, ensure_ascii=False) for each in GOLDENS)
        (tmp_path / "goldens.jsonl").write_text(lines, encoding="utf-8")
        (tmp_path / "test_app.py").write_text(TESTS.replace("%s", number), encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
        return tmp_path

    return made


def test_a_file_without_a_question_to_ask_is_no_success(folder):
    """All of them were rejected, or await their review: nothing would be tested."""
    place = folder()
    lines = "\n".join(map(json.dumps, GOLDENS[2:]))
    (place / "goldens.jsonl").write_text(lines, encoding="utf-8")
    told = run(place)
    assert "goldens.jsonl has no golden question to ask" in told
    assert "skipped" not in told


def test_a_run_that_does_not_use_it_imports_next_to_nothing(tmp_path):
    """The package's door and the plugin: no judge, no settings, no framework."""
    (tmp_path / "test_app.py").write_text(
        "import sys\ndef test_x():\n"
        "    assert {m for m in sys.modules if m.startswith('ragmonitor')} == "
        "{'ragmonitor', 'ragmonitor.pytest_plugin'}\n"
        "    assert 'msgspec' not in sys.modules and 'pydantic' not in sys.modules\n"
    )
    assert "1 passed" in run(tmp_path, plugins=())
