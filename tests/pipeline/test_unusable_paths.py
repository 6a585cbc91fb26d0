"""Files and folders that cannot be used: one clear line each, and scoring goes on."""

from __future__ import annotations

import contextlib
import itertools
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from ragmonitor import EstimationSettings, JsonLines, Monitor, SettingsError, guard
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import total
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
            lambda place: {
                "state": place,
                "estimation": EstimationSettings(drift_reference_size=100),
            },
            "will be lost at the end of this process",
        ),
        (lambda place: {"exporters": [JsonLines(place)]}, "reports are lost until it can"),
        (
            lambda place: {"estimation": EstimationSettings(human_labels=place)},
            "does not correct the hallucination rate",
        ),
    ],
    ids=["state", "jsonl", "human labels"],
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


def put_a_file_in_its_place(folder: Path) -> None:
    """Whatever a monitor makes there at the same time."""
    for number in itertools.count():
        with contextlib.suppress(FileNotFoundError):
            folder.rename(folder.with_name(f"gone {number}"))
        with contextlib.suppress(FileExistsError):
            folder.touch(exist_ok=False)
            return


@pytest.mark.parametrize("worker", ["thread", "process"])
@pytest.mark.parametrize("breaks", ["before", "while running"])
def test_a_state_folder_that_fails_is_one_line_an_hour(
    tmp_path, caplog, monkeypatch, worker, breaks
):
    """It names the folder, the reason, the loss and the remedy; its series rises meanwhile."""
    monkeypatch.setattr(guard, "_unkept_s", {})
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "ours"
    if breaks == "before":
        folder.touch()
    with Monitor("test", worker=worker, server=False, state=folder) as monitor:
        for n in range(3):
            monitor.observe(interaction(id=f"{n:032x}"))
        assert monitor.flush(60)
        if breaks != "before":
            put_a_file_in_its_place(folder)
        for n in range(3, 6):
            monitor.observe(interaction(id=f"{n:032x}"))
        assert monitor.flush(60)
    failed = total(monitor.registry, "ragmonitor_internal_errors_total", stage="state")
    assert failed > 1
    (message,) = [record.getMessage() for record in caplog.records]
    assert f"cannot be kept in {folder} (" in message
    assert re.search("Not a directory|File exists", message)
    for part in ("will be lost", "write access", 'stage="state"'):
        assert part in message


def test_a_state_folder_that_still_fails_is_said_again_after_an_hour(caplog, monkeypatch):
    """Once for each place; what else fails there meanwhile is at DEBUG."""
    times = iter([5_000.0, 5_001.0, 5_002.0, 8_599.0, 8_601.0])
    monkeypatch.setattr(guard, "_unkept_s", {})
    monkeypatch.setattr(guard, "time", SimpleNamespace(monotonic=lambda: next(times)))
    caplog.set_level(logging.DEBUG)
    full = OSError(28, "No space left on device")
    for place in ("/a", "/a", "/b", "/a", "/a"):
        guard.record_unkept("alarms", place, full)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "DEBUG", "WARNING", "DEBUG", "WARNING"]


def test_reports_that_were_not_written_are_counted(blocked):
    """By their own reason."""
    made, _ = scored(exporters=[JsonLines(blocked)])
    assert total(made.registry, "ragmonitor_dropped_total", reason="jsonl_failed") == 6


def test_a_budget_that_cannot_be_kept_is_told_at_once(blocked):
    """Before any money is spent, where somebody looks."""
    with pytest.raises(SettingsError, match="state:"):
        scored(state=blocked, budget={"calls_per_day": 10})


def test_anchors_that_are_not_there_are_told_at_once(tmp_path):
    """Where somebody looks."""
    with pytest.raises(
        SettingsError, match=r"judge.reference_answers: .*nothing\.jsonl: No such file"
    ):
        scored(judge={"reference_answers": tmp_path / "nothing.jsonl"})
