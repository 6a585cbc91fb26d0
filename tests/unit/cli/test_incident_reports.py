"""`ragmonitor incident`, from the state folder."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.store import Sqlite
from tests.support.incidents import START_S, Explained, Scene, document, raised, report


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return a state with one incident of the service shop."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMONITOR_STATE", str(tmp_path / "kept.db"))
    monkeypatch.setenv("RAGMONITOR_SERVICE", "shop")
    keep(tmp_path / "kept.db", raised())


def keep(file, event, *bad, part=None):
    """Have an alarm raised."""
    store = Sqlite(file, "shop", clock=lambda: START_S)
    Scene(Explained(part or document()), store=store).alarm(event, *bad)
    store.close()


def run(*words):
    return CliRunner().invoke(app, ["incident", *map(str, words)])


def test_without_an_incident_the_exit_code_says_so(state, monkeypatch):
    """As for any command that found nothing."""
    monkeypatch.setenv("RAGMONITOR_SERVICE", "other")
    assert run().exit_code == 1


def test_one_incident_is_written_as_markdown_for_its_user_alone(state, tmp_path):
    """In Chinese where asked; questions and answers stand in it."""
    file = tmp_path / "a.md"
    assert run("latest", "-o", file, "--language", "zh").exit_code == 0
    text = file.read_text("utf-8")
    assert text.startswith("# ")
    assert "原因" in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "problem"),
    [(("nope",), "there is no incident 'nope'"), (("-o", "a.md"), "-o writes one incident")],
)
def test_what_is_wrong_is_said_in_one_line(state, words, problem):
    """And the exit code is that of a usage error."""
    result = run(*words)
    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize("words", [(), ("latest",)])
def test_an_incident_commands_no_terminal(tmp_path, monkeypatch, words):
    """Names of documents and attributes of answers are other people's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMONITOR_STATE", str(tmp_path / "kept.db"))
    monkeypatch.setenv("RAGMONITOR_SERVICE", "shop")
    evil = "a.md\x1b]52;c;Y3VybA==\x07\x9b2J\n20270115-080000-forged  open"
    bad = report()
    bad = replace(bad, interaction=replace(bad.interaction, attributes={"route": evil}))
    keep(tmp_path / "kept.db", raised(), bad, part=document(evil))
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "a.md" in result.stdout
    assert not any(each in result.stdout for each in "\x1b\x07\x9b")
    assert not any(line.startswith("20270115-080000-forged") for line in result.stdout.splitlines())
