"""The applications of examples/guarded: a release that is fine passes, a broken one is stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import ROOT

pytestmark = pytest.mark.slow

APPLICATIONS = ("langchain_shop", "llama_index_shop")


def run(folder: Path, release: str, *command: str) -> tuple[int, str]:
    """Return the exit status of a module's command, and what it says."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={
            **os.environ,
            "SHOP_RELEASE": release,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *ROOT.glob("integrations/*")))),
        },
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(ROOT / "examples" / "guarded", tmp_path / "guarded")


@pytest.mark.parametrize("application", APPLICATIONS)
def test_the_gate_stops_the_broken_release(folder, application):
    """It names the questions that last year's documents answer wrongly, and no other."""

    def gate(release: str, *options: str) -> tuple[int, str]:
        asked = ("gate", "goldens.jsonl", "--callable", f"{application}:ask", *options)
        return run(folder, release, "ragmonitor.cli.app", *asked)

    assert gate("", "--save", "scored.jsonl")[0] == 0
    assert gate("", "--baseline", "scored.jsonl")[0] == 0
    code, told = gate("broken", "--baseline", "scored.jsonl", "--markdown", "summary.md")
    assert code == 5, told  # eight questions: seen to be worse, and not for certain
    broken = {line.split("? (")[0] for line in told.splitlines() if line.startswith("  broken: ")}
    assert broken == {
        "  broken: Are returns free after delivery",
        "  broken: How many days are returns free",
        "  broken: How long does the warranty of the lamp last",
        "  broken: How many years of warranty has a lamp",
    }
    assert "Returns cost 5 euros" in (folder / "summary.md").read_text("utf-8")


@pytest.mark.parametrize(("release", "failed"), [("", 0), ("broken", 8)])
def test_the_plugin_stops_the_broken_release(folder, release, failed):
    code, told = run(
        folder, release, "pytest", "-p", "ragmonitor.pytest_plugin", "-p", "no:cacheprovider", "-q"
    )
    assert bool(failed) == bool(code)
    assert (f"{failed} failed, 8 passed" if failed else "16 passed") in told
    if failed:
        assert "missing: 'The warranty of the lamp lasts two years.' (warranty.md)" in told
