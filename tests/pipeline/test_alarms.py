"""Alarms and the judge's own health, in a real monitor."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import time
from dataclasses import replace

import pytest

from ragmonitor import ExportSettings, Monitor, ServerSettings
from ragmonitor.errors import JudgeError, SettingsError
from ragmonitor.records import AlarmEvent, Cause
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.scrape import total
from tests.support.settings import merged
from tests.support.stories import JUDGE, assessment, interaction

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


def test_good_answers_raise_no_alarm(monitors, heard):
    """A hundred of them are no evidence."""
    monitor = monitors(good)
    tell(monitor, range(100))
    assert heard.alarms == []
    assert total(monitor.registry, "ragmonitor_alarm_active", **HALLUCINATION) == 0
    assert total(monitor.registry, "ragmonitor_alarm_objective", **HALLUCINATION) == 0.1


def test_a_spike_raises_the_alarm_and_good_answers_clear_it(monitors, heard, caplog):
    """Gauge, counter, log and event say so, with the worst answers; later, that it is over."""
    answers = {"are": bad}

    def script(each):
        return answers["are"](each)

    monitor = monitors(script)
    with caplog.at_level(logging.WARNING, logger="ragmonitor"):
        tell(monitor, range(60))
    (event,) = [each for each in heard.alarms if each.signal == "hallucination"]
    assert event.raised
    assert event.kind == "quality"
    assert event.evidence_s / 86_400 >= 30
    assert event.estimate.mean == 1.0
    assert len(event.examples) == 3
    assert event.examples[0].assessment.sentences[1].verdict == "absent"
    assert "alarm raised: hallucination (the answers got worse)" in caplog.text
    assert total(monitor.registry, "ragmonitor_alarm_active", **HALLUCINATION) == 1
    assert total(monitor.registry, "ragmonitor_alarm_evidence_seconds", **HALLUCINATION) >= 30
    assert total(monitor.registry, "ragmonitor_alarms_raised_total", **HALLUCINATION) == 1
    rise = {
        name: total(monitor.registry, f"ragmonitor_alarm_rise_{name}", **HALLUCINATION)
        for name in ("start_timestamp_seconds", "answers", "mean")
    }
    assert tuple(rise.values()) == (event.span.since_s, event.span.scored, event.span.mean)
    answers["are"] = good
    tell(monitor, range(1_000, 1_400))
    assert [each.raised for each in heard.alarms if each.signal == "hallucination"] == [True, False]
    assert total(monitor.registry, "ragmonitor_alarm_active", **HALLUCINATION) == 0
    assert total(monitor.registry, "ragmonitor_alarm_rise_answers", **HALLUCINATION) == 0


def test_without_a_judge_the_builtin_verdicts_are_watched_and_named(heard):
    """The alarm is said to be the built-in judge's."""
    with Monitor(
        service="test",
        exporters=[heard],
        server=ServerSettings(port=0),
        export=ExportSettings(traces=False),
        objectives=0.1,
    ) as monitor:
        tell(monitor, range(60), answer="It was sold to a circus in 1901 for 12 dollars.")
        assert {each.judge for each in heard.alarms} == {"builtin"}
        evidence = total(
            monitor.registry, "ragmonitor_alarm_evidence_seconds", judge="builtin", **HALLUCINATION
        )
        assert evidence >= 30


def test_what_the_service_tolerates_can_be_told_by_signal(monitors):
    """Of a mean that must not fall it is the lowest; what is not told is still to be learned."""
    monitor = monitors(good, objectives="hallucination=0.02,faithfulness=0.9")
    tell(monitor, range(2))
    states = {state.signal: state for state in monitor.alarms}
    assert states["hallucination"].objective == 0.02
    assert states["faithfulness"].objective == pytest.approx(0.9)
    assert states["faithfulness"].higher_is_better
    assert states["answer_relevancy"].objective is None
    assert 0 < states["answer_relevancy"].learned < 1


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


def test_the_state_is_small(monitors, tmp_path):
    """All that outlives the process, but for the anchors' texts, takes a few tens of kilobytes."""
    monitor = monitors(bad, state=tmp_path)
    tell(monitor, range(200))
    monitor.close()
    kept = [file for file in tmp_path.glob("*.json") if not file.name.startswith("anchors")]
    assert {file.name.partition("-")[0] for file in kept} >= {"alarms", "calibration"}
    # 20,000 of them are the sums of features, of whatever many verdicts; 36,000 are the
    # embeddings of usual questions.
    assert sum(file.stat().st_size for file in kept) < 75_000


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
    share = total(monitor.registry, "ragmonitor_hallucination_rate_coverage_ratio", **labels)
    assert share == pytest.approx(0.75)
    ratio = total(monitor.registry, "ragmonitor_judge_missing_ratio", judge="scripted")
    assert ratio == pytest.approx(0.25)


def test_answers_are_estimated_by_part_of_the_traffic(monitors):
    """A rate for each language, and for each value of the attributes that were named."""
    monitor = monitors(
        lambda each: (bad if each.attributes["route"] == "billing" else good)(each),
        estimation={"group_by": ("language", "route")},
    )
    tell(monitor, range(20), attributes={"route": "billing"})
    tell(monitor, range(20, 40), attributes={"route": "faq"})
    name = "ragmonitor_group_hallucination_rate"
    labels = {"judge": "scripted", "window": "1h", "dimension": "route"}
    assert total(monitor.registry, name, group="billing", **labels) == 1
    assert total(monitor.registry, name, group="faq", **labels) == 0
    labels["dimension"] = "language"
    assert total(monitor.registry, name, group="en", **labels) == pytest.approx(0.5, abs=0.01)


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
    assert len(groups) == 41
    assert "other" in groups
    assert len(monitor._back.estimates.means._groups) == 41


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


def test_calibration_outlives_a_restart(monitors, tmp_path):
    """What was learned from verdicts predicts the next ones at once."""

    def script(each):
        return (bad if int(each.id[1:]) % 3 == 0 else good)(each)

    first = monitors(script, state=tmp_path)
    tell(first, range(90))
    first.close()
    (file,) = tmp_path.glob("calibration-*.json")
    counts = json.loads(file.read_text())["signals"]["hallucination/"]["counts"]
    assert counts[0] == pytest.approx(90, rel=0.05)
    second = monitors(script, state=tmp_path)
    tell(second, [1_000])
    again = json.loads(file.read_text())["signals"]["hallucination/"]["counts"]
    assert again[0] > counts[0]


def test_a_reply_without_readable_verdicts_is_missing_and_not_good(monitors, heard):
    """The answers are reported; of their hallucinations nothing is said."""
    monitor = monitors(lambda each: replace(good(each), sentences=None))
    tell(monitor, range(5))
    assert sum(report.judge == JUDGE for report in heard.reports) == 5
    labels = {"judge": "scripted", **HALLUCINATION}
    assert total(monitor.registry, "ragmonitor_judged_answers_total", **labels) == 0


def dies(folder, verdicts: int) -> None:
    """Run in a process of its own, which is killed a second after its last answer."""
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
    time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_crash_loop_loses_hardly_a_verdict(tmp_path):
    """Three forked processes of less than a tick's length each: what was judged is kept."""
    for _ in range(3):
        process = multiprocessing.get_context("fork").Process(target=dies, args=(tmp_path, 20))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    (file,) = tmp_path.glob("alarms-*.json")
    told = json.loads(file.read_text())["streams"]["hallucination:major"]["learning"]
    assert told[3][0] + told[4][0] == 60
