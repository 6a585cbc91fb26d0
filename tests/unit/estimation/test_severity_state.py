"""What was learned of another meaning of "hallucinated" is set aside, not mixed in and not lost."""

import json
from dataclasses import replace

import pytest

from ragmonitor import Monitor
from ragmonitor.estimation import Alarms
from ragmonitor.estimation.alarm_streams import streams
from ragmonitor.estimation.alarms import STATE_VERSION
from ragmonitor.estimation.parts import Observation
from ragmonitor.estimation.signals import outcomes
from ragmonitor.evaluators import table
from ragmonitor.records import Report, Severity
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock, ScriptedJudge
from tests.support.stories import JUDGE, assessment, interaction

BEGAN_S = 1_790_000_000.0
MAJOR, MINOR = Severity.MAJOR, Severity.MINOR


# Calibration


def verdicts_of(folder, least):
    """Run a monitor on the folder for one answer; return how many verdicts each file has."""
    with Monitor(
        "shop",
        judge=ScriptedJudge(lambda _: assessment("absent")),
        sample=1.0,
        state=folder,
        estimation={"min_severity": least},
        server=False,
        export={"traces": False},
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(60)
    found = {}
    for path in folder.glob("calibration*.json"):
        (signal,) = (
            value
            for name, value in json.loads(path.read_bytes())["signals"].items()
            if name == "hallucination/"
        )
        found[path.name.rpartition("-shop")[0]] = round(signal["counts"][0])
    return found


# Alarms


def alarms(folder, least, clock):
    found = streams(
        evaluators=("faithfulness", "minor_hallucination"),
        lower_is_better=("minor_hallucination",),
        builtin="builtin",
        judge="gpt",
        patterns=("*",),
        min_severity=least,
    )
    return Alarms(
        found,
        false_alarm_every_days=30.0,
        now=clock,
        objectives={"hallucination": 0.05, "refusal": 0.05},
        file=StateFile(folder / "alarms.json", version=STATE_VERSION),
    )


def active(told, clock, bad=0):
    for _ in range(bad):
        clock.advance(60)
        for signal in ("hallucination", "refusal"):
            told.update(Observation(signal=signal, value=1.0, at_s=clock()))
        told.apply(lambda _: None)
    return {state.signal for state in told.states() if state.active}


def test_evidence_of_another_severity_is_another_alarm(tmp_path):
    """Refusals stay on; the hallucination alarm begins anew, and comes back with the setting."""
    clock = ManualClock(BEGAN_S)
    both = {"hallucination", "refusal"}
    assert active(alarms(tmp_path, MINOR, clock), clock, bad=60) == both
    assert active(alarms(tmp_path, MAJOR, clock), clock) == {"refusal"}
    assert active(alarms(tmp_path, MAJOR, clock), clock, bad=1) == {"refusal"}
    assert active(alarms(tmp_path, MINOR, clock), clock) == both


def test_evidence_of_an_evaluator_s_other_version_is_another_alarm(tmp_path, monkeypatch):
    """A monitor's state has the scores of the new formula under a name of their own."""
    entry = next(each for each in table if each.name == "faithfulness")
    kept = []
    for version in (1, 2):
        monkeypatch.setitem(table._entries, "faithfulness", replace(entry, version=version))
        verdicts_of(tmp_path, "major")
        (file,) = tmp_path.glob("alarms-*.json")
        streams = json.loads(file.read_bytes())["streams"]
        kept.append({name for name in streams if name.startswith("faithfulness")})
    assert kept == [{"faithfulness"}, {"faithfulness", "faithfulness:2"}]


# Which rate


@pytest.mark.parametrize(("least", "rates"), [(MAJOR, (0.0, 1.0)), (MINOR, (1.0, 1.0))])
def test_both_rates_are_told(least, rates):
    """A minor finding is in the rate that pages only where the setting says so."""
    (sentence,) = assessment("absent").sentences
    found = assessment(sentences=(replace(sentence, severity=MINOR),), min_severity=least)
    report = Report(interaction=interaction(), judge=JUDGE, evaluations=(), assessment=found)
    told = dict(outcomes(report))
    assert (told["hallucination"].value, told["minor_hallucination"].value) == rates
    nothing = replace(report, assessment=None)
    assert dict(outcomes(nothing))["minor_hallucination"] is None
