"""Files and folders that cannot be used: one clear line each, and scoring goes on."""

from __future__ import annotations

import logging
import re
import sqlite3

import pytest

from ragmonitor import JsonLines, Monitor
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.settings import merged
from tests.support.stories import assessment, interaction


@pytest.fixture
def blocked(tmp_path):
    """Return a path at which neither a file nor a folder can be made, not even by root."""
    (tmp_path / "blocker").write_text("")
    return tmp_path / "blocker" / "inside"


def scored(**options):
    """Return a monitor's reports of three answers."""
    reports = ListExporter()
    judge = ScriptedJudge(lambda _: assessment("supported"))
    exporters = [reports, *options.pop("exporters", ())]
    defaults = {"judge": judge, "sample": 1.0, "server": False, "exporters": exporters}
    with Monitor("test", **merged(defaults, options)) as made:
        for number in range(3):
            made.observe(interaction(id=f"{number:032x}"))
        assert made.flush()
    return made, reports.reports


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        (
            lambda place: {"state": place},
            "end with it",
        ),
        (lambda place: {"exporters": [JsonLines(place)]}, "reports are lost until it can"),
    ],
    ids=["state", "jsonl"],
)
@pytest.mark.parametrize("content", ["all", "none"])
def test_a_place_that_cannot_be_used_is_a_line_a_matter(caplog, blocked, options, lost, content):
    """What will be lost and what to do, without a traceback; every answer is scored."""
    caplog.set_level(logging.WARNING)
    _, reports = scored(content=content, **options(blocked))
    assert len(reports) == 6
    told = [record.getMessage() for record in caplog.records]
    assert told
    assert len(set(told)) == len(told)
    for record, message in zip(caplog.records, told, strict=True):
        assert str(blocked.parent) in message
        assert lost in message
        assert re.search("Not a directory|File exists", message)
        assert (record.exc_info, "\n" in message) == (None, False)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sums SET row = x'a0c8eb85f3cce17f' || x'a0c8eb85f3cce17f'",
        "UPDATE sums SET row = x'000000000000f87f' || x'000000000080c3c0'",
        "UPDATE sums SET row = x'0102'",
        "UPDATE rows SET row = x'5b5d'",
    ],
    ids=["1e308", "NaN", "bytes", "rows"],
)
def test_a_spoiled_number_in_the_state_stops_no_scoring(caplog, tmp_path, change):
    """The application starts, every answer has its report, and each fault is one warning."""
    state = tmp_path / "state.db"
    scored(state=state)
    spoiled = sqlite3.connect(state)
    with spoiled:
        spoiled.execute(change)
    spoiled.close()
    caplog.clear()
    _, reports = scored(state=state)
    assert len(reports) == 6
    told = [(each.getMessage(), each.exc_text) for each in caplog.records if each.levelno >= 30]
    assert len(set(told)) == len(told)
