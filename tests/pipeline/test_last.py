"""What who sits before the application sees: the newest report, in words and in a notebook."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ragmonitor import Monitor
from ragmonitor.judges import BuiltinJudge
from ragmonitor.testing import ScriptedJudge
from tests.support.waiting import until


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    """Return a monitor without an endpoint."""
    with Monitor("tower", server=False) as monitor:
        yield monitor


def ask(monitor: Monitor, answer: str, question: str = "When was the tower built?") -> None:
    with monitor.interaction(query=question) as i:
        i.retrieved(["The tower was built from 1887 to 1889.", "It is <b>330</b> metres tall."])
        i.answered(answer)


def test_the_newest_report_says_what_is_not_supported(monitor: Monitor) -> None:
    assert monitor.last() is None
    ask(monitor, "It was built from 1887 to 1889.")
    good = monitor.last()
    assert good is not None
    assert good.unsupported == ()
    assert str(good).splitlines()[0].startswith("builtin: faithfulness 1.00 · ")
    ask(monitor, "It was built from 1887 to 1889. Napoleon opened it in 1920.")
    bad = monitor.last()
    assert bad is not None
    assert [each.text for each in bad.unsupported] == ["Napoleon opened it in 1920."]
    shown = str(bad)
    assert "'Napoleon opened it in 1920.'" in shown
    assert "Napoleon" in shown.splitlines()[-1]


def test_an_answer_that_has_no_score_says_why(monitor: Monitor) -> None:
    ask(monitor, "")
    report = monitor.last()
    assert report is not None
    assert "no score (no_answer)" in str(report)


def test_it_is_the_judges_report_where_one_read_the_answer() -> None:
    judge = ScriptedJudge(lambda interaction: BuiltinJudge().read(interaction))
    with Monitor("tower", server=False, judge=judge, sample=1.0) as monitor:
        ask(monitor, "It was built from 1887 to 1889.")
        report = monitor.last()
    assert report is not None
    assert (report.role, report.judge.name) == ("sampled", judge.identity.name)


def test_the_log_says_once_where_everything_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ragmonitor")
    with Monitor("tower", server=False) as monitor:
        ask(monitor, "It was built from 1887 to 1889.")

        def lines() -> list[str]:
            assert monitor.flush(60)
            return [each for each in caplog.messages if "watching" in each]

        (line,) = until("it is said", lines)
        assert line == (
            "ragmonitor: watching tower (plain code); metrics: not served; page: not served "
            "(server.ui); traces: nowhere (set OTEL_EXPORTER_OTLP_ENDPOINT)"
        )
        assert monitor.flush(60)
        assert len(lines()) == 1
