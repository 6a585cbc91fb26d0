"""Texts of other people in tables for people."""

from __future__ import annotations

import pytest

from ragmonitor.cli import document_lists
from ragmonitor.cli.terminal import figures_table, new_console

NAME = "route=[/x][bold]\x1b[2J"
SHOWN = "route=[/x][bold][2J"


def test_a_cell_is_shown_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it is markup, or a command to the terminal."""
    table = figures_table("slice", "rate")
    table.add_row(NAME, NAME)
    new_console().print(table)
    assert capsys.readouterr().out.count(SHOWN) == 2


def test_the_name_of_a_document_is_shown_once_as_it_stands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the backslashes that keep it from being markup elsewhere."""
    entry = {"document": NAME, "id": "", "retrieved": 9, "shown": 9, "rated": 9}
    lists = dict.fromkeys(("misleading", "missing", "conflicting", "retrievals"), ())
    lists |= {"noise": [entry], "kept": 1, "judged": 9}
    document_lists._print("http://127.0.0.1", lists, list(document_lists._tables(lists)))
    assert SHOWN in capsys.readouterr().out
