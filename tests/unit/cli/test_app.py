"""The command line's interface: help everywhere, a version, a quick start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from ragmonitor import __version__
from ragmonitor.cli.app import app

runner = CliRunner()


@pytest.mark.parametrize("command", [[], ["score"], ["replay"], ["demo"], ["doctor"]])
def test_every_command_has_help_with_its_exit_codes(command):
    """What a command does, and what its exit code means."""
    result = runner.invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Exit codes" in result.output


def test_the_version_is_said():
    """And nothing else."""
    assert runner.invoke(app, ["--version"]).output == f"ragmonitor {__version__}\n"


def test_wrong_use_is_exit_code_2():
    """As everywhere."""
    assert runner.invoke(app, ["score"]).exit_code == 2
    assert runner.invoke(app, ["demo", "--json"]).exit_code == 2
    assert runner.invoke(app, ["dance"]).exit_code == 2


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
