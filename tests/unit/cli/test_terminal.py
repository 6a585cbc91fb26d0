"""Texts of other people in tables for people."""

from __future__ import annotations

import pytest

from ragmonitor.cli import stream_records, watching
from ragmonitor.cli.terminal import figures_table, new_console

NAME = "route=[/x][bold]\x1b[2J"
SHOWN = "route=[/x][bold][2J"


def test_a_cell_is_shown_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it is markup, or a command to the terminal."""
    table = figures_table("slice", "rate")
    table.add_row(NAME, NAME)
    new_console().print(table)
    assert capsys.readouterr().out.count(SHOWN) == 2


def test_the_name_of_a_slice_is_no_markup_in_top(capsys: pytest.CaptureFixture[str]) -> None:
    """Its alarm has numbers of its own."""
    number = {"signal": NAME, "judge": "model", "window": "1h", "judged": 9.0}
    number |= dict.fromkeys(("mean", "lower", "upper"), 0.5)
    state = {"numbers": [number], "alarms": [], "judge": "model", "builtin": "b"}
    new_console().print(watching._numbers(state))
    assert f"{SHOWN} (model)" in capsys.readouterr().out


def test_the_reason_of_a_buried_record_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is its id: whoever writes to the stream gives both."""
    buried = [{"id": "1-0", "interaction": NAME, "bytes": 3, "reason": NAME}]
    stream_records._show({"waiting": 0, "oldest_s": 0.0}, buried)
    assert capsys.readouterr().out.count(SHOWN) == 2
