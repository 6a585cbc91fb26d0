"""Alarms and the judge's own health, in a real monitor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings
from ragmonitor.records import AlarmEvent, Cause
from ragmonitor.runtime.errors import JudgeError, SettingsError
from ragmonitor.stats.sums import JUDGED
from ragmonitor.stats.tick import Tick
from ragmonitor.store import store_at
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import total
from tests.support.settings import merged
from tests.support.stories import assessment, interaction

HALLUCINATION = {"signal": "hallucination"}


class Heard(ListExporter):
    """Hears of alarms, too."""

    def __init__(self):
        super().__init__()
        self.alarms: list[AlarmEvent] = []

    def alarm(self, event):
        self.alarms.append(event)


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def monitors(heard):
    """Make monitors of one service, all of whose answers are judged by the script."""
    made = []

    def make(script, **options):
        judge = {"model": ScriptedJudge(script)}
        defaults = {"sample": 1.0, "objectives": 0.1, "judge": judge}
        monitor = Monitor(
            service="test",
            exporters=[heard],
            server=ServerSettings(port=0),
            export=ExportSettings(traces=False),
            **merged(defaults, options),
        )
        made.append(monitor)
        return monitor

    yield make
    for monitor in made:
        monitor.close()


def tell_one(monitor, number, **changes):
    """Hand over an answer of now."""
    now_ns = time.time_ns()
    told = interaction(id=f"a{number}", started_ns=now_ns, ended_ns=now_ns, **changes)
    monitor.observe(told)


def tell(monitor, numbers, **changes):
    """Hand over answers of now, one after the other, and let the monitor take them in."""
    for number in numbers:
        tell_one(monitor, number, **changes)
    assert monitor.flush()


def good(_):
    return assessment("supported", "supported")


def bad(_):
    return assessment("supported", "absent")


def test_only_the_chosen_signals_have_an_alarm(monitors):
    """By name or pattern; `none` for nothing."""
    assert {s.signal for s in monitors(good, alarms=("hall*", "refusal")).alarms} == {
        "hallucination",
        "refusal",
    }
    assert monitors(good, alarms="none").alarms == ()


@pytest.mark.parametrize(
    "options", [{"objectives": {"halucination": 0.1}}, {"alarms": ("halucination",)}]
)
def test_a_misspelt_signal_is_an_error_and_not_ignored(monitors, options):
    """It says which signals there are, and which one was meant."""
    message = "'halucination' is no signal; signals are halluc.*; did you mean hallucination[?]"
    with pytest.raises(SettingsError, match=message):
        monitors(good, **options)


def test_an_alarm_outlives_a_restart(monitors, heard, tmp_path):
    """With a state folder it is still active afterwards, and is not raised a second time."""
    first = monitors(bad, state=tmp_path)
    tell(first, range(60))
    first.close()
    second = monitors(bad, state=tmp_path)
    tell(second, range(100, 160))
    assert [each.raised for each in heard.alarms if each.signal == "hallucination"] == [True]
    assert total(second.registry, "ragmonitor_alarm_active", **HALLUCINATION) == 1


def test_a_verdict_that_never_came_is_counted_as_missing(monitors):
    """The rate stands on the others; the interval takes them for all good, or all bad."""

    def script(each):
        if int(each.id[1:]) % 4 == 0:
            raise JudgeError("j", "gone", cause=Cause.JUDGE_TIMEOUT, retryable=True)
        return good(each)

    monitor = monitors(script)
    tell(monitor, range(100))
    labels = {"judge": "scripted", "window": "24h"}
    assert total(monitor.registry, "ragmonitor_hallucination_rate", **labels) < 0.01
    upper = total(monitor.registry, "ragmonitor_hallucination_rate_upper", **labels)
    assert 0.25 < upper < 0.36
    lower = total(monitor.registry, "ragmonitor_hallucination_rate_lower", **labels)
    assert lower == 0
    ratio = total(monitor.registry, "ragmonitor_judge_missing_ratio", judge="scripted")
    assert ratio == pytest.approx(0.25)


def test_too_many_parts_of_the_traffic_are_taken_together(monitors):
    """An id by mistake makes neither endless series nor endless memory."""
    monitor = monitors(good, estimation={"group_by": ("user",)})
    for number in range(120):
        tell_one(monitor, number, attributes={"user": f"u{number}"})
    assert monitor.flush()
    (family,) = (
        family
        for family in monitor.registry.collect()
        if family.name == "ragmonitor_group_hallucination_rate"
    )
    groups = {sample.labels["group"] for sample in family.samples}
    assert len(groups) == 21
    assert "other" in groups


def test_a_tagged_answer_is_judged_for_certain(monitors):
    """The share is tiny, and this one is read all the same, in a stratum of its own."""
    asked = []

    def script(each):
        asked.append(each.id)
        return good(each)

    monitor = monitors(script, sample=0.001)
    tell(monitor, range(50))
    tell(monitor, [1_000], tags=("ragmonitor:judge",))
    assert "a1000" in asked
    assert len(asked) < 5


def dies(folder, verdicts: int) -> None:
    """Run in a process of its own, which is killed some ticks after its last answer."""
    monitor = Monitor(
        service="test",
        judge=ScriptedJudge(good),
        sample=1.0,
        state=folder,
        server=ServerSettings(port=0),
        export=ExportSettings(traces=False),
    )
    for number in range(verdicts):
        tell_one(monitor, number)
        time.sleep(0.02)
    time.sleep(4.0)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_crash_loop_loses_hardly_a_verdict(tmp_path):
    """Three forked processes in turn: what was judged more than a tick ago is kept."""
    for _ in range(3):
        process = multiprocessing.get_context("fork").Process(target=dies, args=(tmp_path, 20))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    assert Tick(store_at(tmp_path, "test")).sums(0.0)["refusal"][JUDGED] == 60
