"""Judge or application: a real monitor asks old answers why a rate rises."""

from __future__ import annotations

import time

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import total
from tests.support.settings import merged
from tests.support.stories import assessment, interaction

pytestmark = pytest.mark.slow

FINE = assessment("supported", "supported")
BAD = assessment("supported", "absent")
NEW = 10_000
"""Answers from this number on are given after the change."""


class Heard(ListExporter):
    """Hears of alarms, too."""

    def __init__(self):
        super().__init__()
        self.alarms = []

    def alarm(self, event):
        self.alarms.append(event)


def number_of(told):
    return int(told.id.removeprefix("a"))


class Changing:
    """A judge, and an application, either of which may get worse."""

    def __init__(self, *, stricter=False, worse=False):
        self.stricter, self.worse = stricter, worse
        self.has_changed = False

    def __call__(self, told):
        number = number_of(told)
        is_bad = number % 50 == 0 or (self.worse and number >= NEW and number % 2 == 0)
        # Of old answers all offend: else the first few that are read again could all be fine ones.
        offends = self.stricter and self.has_changed and (number < NEW or number % 2 == 1)
        return BAD if is_bad or offends else FINE


def tell(monitor, numbers):
    for number in numbers:
        now_ns = time.time_ns()
        monitor.observe(interaction(id=f"a{number}", started_ns=now_ns, ended_ns=now_ns))
    assert monitor.flush()


@pytest.fixture
def run(tmp_path):
    """Let a service be as it was, change, and be watched until its alarm's cause is known."""
    made = []

    def make(script, heard, **options):
        judge = {"model": ScriptedJudge(script)}
        defaults = {"sample": 1.0, "judge": judge, "objectives": 0.08}
        monitor = Monitor(
            service="test",
            exporters=[heard],
            server=ServerSettings(port=0),
            export=ExportSettings(traces=False),
            alarms=("hallucination", "faithfulness", "anchors"),
            **merged(defaults, options),
        )
        made.append(monitor)
        return monitor

    yield make
    for monitor in made:
        monitor.close()


def until_alarmed(monitor):
    """Give answers until there is an alarm; return the number of the next one."""
    number, end_s = NEW, time.monotonic() + 60
    while not total(monitor.registry, "ragmonitor_alarm_active", signal="hallucination"):
        assert time.monotonic() < end_s
        tell(monitor, range(number, number + 20))
        number += 20
        time.sleep(0.5)
    return number


def until_known(monitor, number):
    """Give answers until the cause is known; return what the gauges say of it."""
    end_s = time.monotonic() + 90
    while cause(monitor, "unknown") and time.monotonic() < end_s:
        tell(monitor, range(number, number + 20))
        number += 20
        time.sleep(0.5)
    return [each for each in ("judge", "application", "unknown") if cause(monitor, each)]


def cause(monitor, which):
    return total(monitor.registry, "ragmonitor_alarm_cause", cause=which)


def test_a_judge_that_got_stricter_is_named_and_not_the_application(run):
    """Old answers flip when they are read again."""
    heard, script = Heard(), Changing(stricter=True)
    monitor = run(script, heard)
    tell(monitor, range(300))
    assert heard.alarms == []
    time.sleep(11)  # so that a bucket of bets lies between
    script.has_changed = True
    number = until_alarmed(monitor)
    assert any(each.signal == "hallucination" and each.raised for each in heard.alarms)
    assert until_known(monitor, number) == ["judge"]


def test_an_application_that_got_worse_is_named_and_not_the_judge(run, caplog):
    """The judge says of old answers what it said, after a few dozen of them."""
    heard, script = Heard(), Changing(worse=True)
    monitor = run(script, heard)
    tell(monitor, range(300))
    time.sleep(11)  # so that a bucket of bets lies between
    script.has_changed = True
    number = until_alarmed(monitor)
    assert any(each.signal == "hallucination" and each.raised for each in heard.alarms)
    assert until_known(monitor, number) == ["application"]
    assert not any(each.signal == "anchors" for each in heard.alarms)
    assert "It is the application, not the judge" in caplog.text
    assert total(monitor.registry, "ragmonitor_alarm_active", signal="anchors") == 0
