"""Frameworks come in by entry point; a missing one is said with its command."""

from __future__ import annotations

from importlib import metadata

import pytest
from typer.testing import CliRunner

from ragmonitor.cli import drivers
from ragmonitor.cli.app import app


@pytest.fixture
def registered(monkeypatch):
    """Entry points that a test makes up."""
    known: list[metadata.EntryPoint] = []

    def entry_points(**wanted):
        return metadata.EntryPoints(known).select(**wanted)

    monkeypatch.setattr(drivers.metadata, "entry_points", entry_points)
    return known


def entry(name, value):
    return metadata.EntryPoint(name=name, value=value, group=drivers.GROUP)


def test_a_missing_integration_names_its_command(registered):
    """Nobody should have to look up what it is called."""
    with pytest.raises(drivers.MissingDriverError, match="pip install ragmonitor-langchain"):
        drivers.load("langchain")
    with pytest.raises(drivers.MissingDriverError, match="pip install ragmonitor-langchain rag"):
        drivers.installed()


def test_a_driver_that_cannot_be_imported_is_said(registered):
    """The framework itself may be missing."""
    registered.append(entry("langchain", "no_such_package_at_all:Driver"))
    with pytest.raises(drivers.MissingDriverError, match="no_such_package_at_all"):
        drivers.load("langchain")
    with pytest.raises(drivers.MissingDriverError, match="no_such_package_at_all"):
        drivers.installed()


def test_the_command_line_says_it_in_one_line(registered):
    """And ends with exit code 2."""
    result = CliRunner().invoke(app, ["demo", "--seconds", "1", "--json"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no framework's integration is installed; run: pip")
