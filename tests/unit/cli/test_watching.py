"""`ragmonitor top` and `tail`, over the page of a real monitor."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from ragmonitor import Monitor, ServerSettings
from ragmonitor.cli import watching
from ragmonitor.cli.app import app
from ragmonitor.cli.monitor_options import TailOptions
from ragmonitor.errors import InputError

runner = CliRunner()


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    """Return a monitor with a page that keeps one bad answer."""
    with Monitor("tower", server=ServerSettings(port=0, ui=True)) as monitor:
        ask(monitor, "It was built from 1887 to 1889. Napoleon opened it.\x1b[2J")
        yield monitor


def ask(monitor: Monitor, answer: str) -> None:
    with monitor.interaction(query="When was it built?", attributes={"route": "/ask"}) as i:
        i.retrieved(["It was built from 1887 to 1889."])
        i.answered(answer)
    assert monitor.flush(10)


def test_tail_prints_what_is_not_supported(monitor: Monitor) -> None:
    result = runner.invoke(app, ["tail", str(monitor.ui_url), "--seconds", "0"])
    assert result.exit_code == 0, result.output
    assert "hallucination 1.00" in result.output
    assert "route=/ask" in result.output
    assert "? When was it built?" in result.output
    assert "absent: 'Napoleon opened it." in result.output
    assert "\x1b" not in result.output


def test_tail_prints_each_answer_once(monitor: Monitor, capsys: pytest.CaptureFixture[str]) -> None:
    """What came since the last look, and goes on when the monitor does not answer for a while."""
    looks = iter(["Caesar opened it.", None, "away", None])
    now = iter(range(10))

    def sleep(_: float) -> None:
        answer = next(looks)
        if answer == "away":
            monitor.close()
        elif answer:
            ask(monitor, answer)

    options = TailOptions(address=monitor.ui_url, every=1.0, seconds=4.0, json_output=True)
    assert watching.tail(options, clock=lambda: float(next(now)), sleep=sleep) == 0
    output = capsys.readouterr()
    answers = [json.loads(line) for line in output.out.splitlines()]
    assert [each["answer"][-1]["verdict"] for each in answers] == ["absent", "absent"]
    assert len({each["id"] for each in answers}) == 2
    assert output.err.count("nothing answers at") == 1


def test_tail_prints_good_answers_too_unless_it_is_told_not_to(monitor: Monitor) -> None:
    ask(monitor, "It was built from 1887 to 1889.")
    every = runner.invoke(app, ["tail", str(monitor.ui_url), "--seconds", "0"])
    assert "= It was built from 1887 to 1889." in every.output
    assert "absent: 'Napoleon opened it." in every.output
    bad = runner.invoke(app, ["tail", str(monitor.ui_url), "--seconds", "0", "--bad"])
    assert "= It was built" not in bad.output
    assert "absent: 'Napoleon opened it." in bad.output


def test_tail_prints_no_answer_again_for_what_a_person_said_of_it(
    monitor: Monitor, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = []

    def sleep(_: float) -> None:
        monitor.feedback(last.interaction.id, value=False)
        assert monitor.flush(10)
        looks.append(watching.Page(monitor.ui_url, "").poll()["answers"][0])

    last = monitor.last()
    assert last is not None
    now = iter(range(10))
    options = TailOptions(address=monitor.ui_url, every=1.0, seconds=2.0, json_output=True)
    assert watching.tail(options, clock=lambda: float(next(now)), sleep=sleep) == 0
    assert "feedback" in looks[0]
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_top_shows_the_newest_answers_and_the_bad_ones(monitor: Monitor) -> None:
    """The bad one stays where newer ones have pushed it off the list of the newest."""
    for number in range(1, watching.MAX_ANSWERS + 1):
        ask(monitor, f"It was built from 1887 to 1889. {' ' * number}")
    result = runner.invoke(app, ["top", str(monitor.ui_url), "--once"], env={"COLUMNS": "120"})
    newest, _, bad = result.output.partition("bad answers")
    assert newest.count("? When was it built?") == watching.MAX_ANSWERS
    assert "Napoleon opened it." in bad
    assert bad.count("? When was it built?") == 1


def test_top_shows_rates_with_intervals_and_bad_answers(monitor: Monitor) -> None:
    result = runner.invoke(app, ["top", str(monitor.ui_url), "--once"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "tower" in result.output
    assert "hallucination (builtin)" in result.output
    assert "alarms armed" in result.output
    assert "Napoleon opened it." in result.output


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "ALARM {signal}, raised {at}: 36 of 87 scored answers since {since}, 3.0% before; "),
        ({"bad": None, "before": None}, "a mean of 0.419 over 87 scored answers since {since}; "),
    ],
)
def test_an_alarm_is_told_by_the_answers_that_raised_it(changes, told) -> None:
    """Not by the last hour, which holds answers from before; rates and limits in one unit."""
    span = {"since_s": 1e9, "scored": 87, "mean": 0.419, "bad": 36, "before": 0.03, **changes}
    alarm = {"signal": "hallucination", "since_s": 1e9 + 9, "span": span, "objective": 0.15}
    said = watching._alarm({**alarm, "higher_is_better": False})
    names = {"signal": "hallucination", "at": watching._time(1e9 + 9), "since": watching._time(1e9)}
    assert told.format(**names) in said
    assert said.endswith("limit at most 15.0%" if span["bad"] else "limit at most 0.15")


def test_an_alarm_of_differences_is_told_in_differences() -> None:
    """Their scale of 0 to 1 holds differences of -1 to 1: half of it is none, and no mean score."""
    span = {"since_s": 1e9, "scored": 40, "mean": 0.42, "bad": None, "before": 0.5}
    alarm = {"signal": "golden_answer_correctness", "since_s": 1e9, "span": span}
    said = watching._alarm({**alarm, "objective": 0.475, "higher_is_better": True})
    assert "a mean of -0.160 over 40 scored answers" in said
    assert said.endswith("limit at least -0.050")


def test_a_time_of_another_day_has_its_date() -> None:
    """`tail` begins with the answers of a day, and an alarm may have been raised last week."""
    now_s = time.time()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", watching._time(now_s))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", watching._time(now_s - 90_000))


def test_where_no_page_is_served_the_remedy_is_said() -> None:
    with Monitor("tower", server=ServerSettings(port=0)) as monitor:
        ask(monitor, "It was built from 1887 to 1889.")
        with pytest.raises(InputError, match=r"server\.ui=true"):
            watching.Page(monitor.metrics_url, "").poll()


@pytest.mark.parametrize("command", [("tail", "--seconds", "0"), ("top", "--once")])
def test_what_an_answer_brings_along_commands_no_terminal(command: tuple[str, ...]) -> None:
    """Its attributes as little as its question: neither by escapes nor by lines of their own."""
    evil = "\x1b]52;c;Y3VybA==\x07\x9b2J\x1b[2K\n12:00:00  bad  model"
    with Monitor("tower", server=ServerSettings(port=0, ui=True)) as monitor:
        with monitor.interaction(query=f"When? {evil}", attributes={"route": f"/a{evil}"}) as i:
            i.retrieved(["It was built from 1887 to 1889."])
            i.answered(f"Napoleon opened it {evil}.")
        assert monitor.flush(10)
        shown = runner.invoke(app, [command[0], str(monitor.ui_url), *command[1:]])
    assert shown.exit_code == 0, shown.output
    assert "route=/a" in shown.output
    assert not any(each in shown.output for each in "\x1b\x07\x9b")
    assert not any(line.startswith("12:00:00") for line in shown.output.splitlines())
