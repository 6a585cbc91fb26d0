"""The command line's interface: help everywhere, a version, a quick start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app

runner = CliRunner()
FULL = Path("/dev/full")
"""A disk that is always full, on Linux."""


@pytest.mark.parametrize("command", [[], ["score"], ["demo"], ["doctor"]])
def test_every_command_has_help_with_its_exit_codes(command):
    """What a command does, and what its exit code means."""
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Exit codes" in result.output


def test_the_start_imports_nothing_heavy():
    """Help must be there at once."""
    code = (
        "import sys, ragmonitor.cli.app\n"
        "heavy = {'litellm', 'numpy', 'langchain_core', 'llama_index', 'pydantic',"
        " 'prometheus_client', 'opentelemetry.sdk'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=False, timeout=60
    )
    assert done.stderr.strip() == b""


def command(*arguments, **options):
    """Return a run of the command line in a process of its own, whose streams are real."""
    return subprocess.run(
        [sys.executable, "-m", "ragmonitor.cli.app", *arguments],
        check=False,
        timeout=60,
        env={**os.environ, **options.pop("environment", {})},
        **options,
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no such device")
def test_a_full_disk_behind_standard_output_is_one_line():
    """And no traceback, nor a second word at the interpreter's end."""
    with FULL.open("w") as full:
        done = command("rules", stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the stream")
def test_a_closed_standard_error_is_an_empty_one(tmp_path):
    """Services are started without one."""
    record = {"question": "How tall?", "contexts": ["It is 330 metres tall."], "answer": "330 m."}
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    line = 'exec "$0" -m ragmonitor.cli.app score in.jsonl 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", line, sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert "evaluations" in json.loads(done.stdout)
