from __future__ import annotations

import os

import pytest

from ragmonitor import ExportSettings, JudgeSettings, Monitor, Scored
from ragmonitor.testing import ListExporter

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the helper needs POSIX pipes")


def answer(monitor: Monitor) -> None:
    with monitor.interaction(query="How heavy may a parcel be?") as i:
        i.retrieved(["A parcel may weigh 40 kg."])
        i.answered("A parcel may weigh 40 kg.")


def evaluations(*, apart: bool) -> list[tuple[str, float]]:
    reports = ListExporter()
    with Monitor(
        service="test",
        server=False,
        export=ExportSettings(traces=False),
        exporters=[reports],
        judge=JudgeSettings(builtin_process=apart),
    ) as monitor:
        answer(monitor)
        assert monitor.flush(60)
    (report,) = reports.reports
    return [(e.evaluator, e.score) for e in report.evaluations if isinstance(e, Scored)]


def test_scores_do_not_depend_on_where_answers_are_read():
    """A thread and a helper process give the same evaluations."""
    apart = evaluations(apart=True)
    assert dict(apart)["faithfulness@1"] == 1.0
    assert apart == evaluations(apart=False)


def test_closing_a_monitor_ends_its_helper():
    """No process of ours outlives the monitor."""
    monitor = Monitor(
        service="test",
        server=False,
        export=ExportSettings(traces=False),
        judge=JudgeSettings(builtin_process=True),
    )
    answer(monitor)
    assert monitor.flush(60)
    pid = monitor._back.worker._builtin._judge.helper_pid
    os.kill(pid, 0)  # it is there
    monitor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
