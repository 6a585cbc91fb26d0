"""Texts of other people in tables for people."""

from __future__ import annotations

import pytest

from ragmonitor.cli.terminal import print_table

NAME = "route=[/x][bold]\x1b[2J"
SHOWN = "route=[/x][bold][2J"


def test_a_cell_is_shown_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it is markup, or a command to the terminal."""
    print_table(("slice", "rate"), [(NAME, NAME)])
    assert capsys.readouterr().out.count(SHOWN) == 2
