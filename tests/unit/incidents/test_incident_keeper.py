"""Incidents are opened, kept up to date and closed as alarms are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragmonitor.causes.explanation import Shift
from ragmonitor.incidents.incident_keeper import GRACE_S
from ragmonitor.incidents.journal import KIND, MAX_AGE_S, MAX_INCIDENTS
from ragmonitor.records import AlarmCause, Scored
from tests.support.incidents import (
    JUDGE,
    START_S,
    Explained,
    Scene,
    cleared,
    document,
    on,
    part,
    raised,
    report,
    state,
)

NONE = on()
JUDGE_CAUSE = AlarmCause(
    cause="judge",
    since_s=START_S,
    reread=30,
    flipped=12,
    waiting=0,
)


def test_an_alarm_opens_an_incident_that_names_its_cause():
    """With what moved, since when, and the answers behind it."""
    explain = Explained(document())
    scene = Scene(explain)
    scene.alarm(raised(), report())
    found = scene.incident
    assert found.is_open
    assert explain.asked == [("hallucination", START_S - 120)]
    assert (found.cause.kind, found.cause.name) == ("document", "handbook.md")
    assert found.leading.span is not None
    assert (found.leading.span.mean, found.leading.span.scored) == (0.41, 80)
    (answer,) = found.answers
    (sentence,) = answer.sentences
    assert (sentence.source, sentence.chunk, sentence.words) == ("handbook.md", 1, ("90",))


def test_alarms_that_are_on_together_are_one_incident_until_the_last_is_cleared():
    """Hallucination leads, whatever was first."""
    scene = Scene()
    scene.alarm(raised("weak_retrieval", kind="input"))
    scene.alarm(raised("faithfulness"))
    scene.alarm(raised("hallucination"))
    assert scene.incident.leading.signal == "hallucination"
    scene.alarm(cleared("hallucination", at_s=START_S + 60))
    scene.alarm(cleared("weak_retrieval", at_s=START_S + 60))
    assert scene.incident.is_open
    scene.alarm(cleared("faithfulness", at_s=START_S + 60))
    assert not scene.incident.is_open
    assert scene.notices.occasions == ["raised", "cleared"]


def test_evidence_that_comes_later_names_the_cause_and_people_are_told_once():
    """Until then the incident says that none is known, or that it is everywhere."""
    explain = Explained()
    scene = Scene(explain)
    scene.alarm(raised())
    assert scene.incident.cause.kind == "unknown"
    explain.found = replace(explain.found, is_everywhere=True)
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.cause.kind == "everywhere"
    explain.found = Explained(document()).found
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.cause.name == "handbook.md"
    scene.pass_time(100, on("hallucination"))
    assert scene.notices.occasions == ["raised", "named"]


def test_a_name_stays_when_the_evidence_fades():
    """After the cause is gone its answers are good again; the incident still says what it was."""
    explain = Explained(document())
    scene = Scene(explain)
    scene.alarm(raised())
    explain.found = Explained(is_everywhere=True, shift=Shift("route", 0.8)).found
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.cause.name == "handbook.md"
    assert scene.incident.shift is not None
    explain.found = Explained(is_everywhere=True).found
    scene.pass_time(60, on("hallucination"))
    assert scene.incident.shift is None, "the mix is what it is now"


def test_an_incident_shows_what_its_own_alarm_calls_bad():
    """Of an alarm on a score, low scores; hallucinated answers where the signal has no score."""
    fine = Scored(evaluator="faithfulness@1", judge=JUDGE, score=1.0)
    poor = replace(fine, score=0.25)
    reports = [replace(report(n), evaluations=(each,)) for n, each in ((1, fine), (2, poor))]
    scene = Scene()
    scene.alarm(raised("faithfulness", higher_is_better=True), *reports)
    assert [(each.id, each.badness) for each in scene.incident.answers] == [("i-2", 0.75)]
    other = Scene()
    other.alarm(raised("weak_retrieval", kind="input"), *reports)
    assert [each.id for each in other.incident.answers] == ["i-2", "i-1"]


def test_good_answers_drive_out_no_bad_one():
    """However many come between the bad ones and the alarm."""
    scene = Scene()
    bad, fine = report(), replace(report(2).assessment, sentences=())
    scene.keeper.export(bad)
    for number in range(1_000):
        scene.keeper.export(replace(report(number + 2), assessment=fine))
    scene.alarm(raised())
    assert [each.id for each in scene.incident.answers] == ["i-1"]


def test_answers_of_the_named_cause_come_first():
    """Though others are as bad."""
    scene = Scene(Explained(part("route=/other")))
    bad = [
        replace(each, interaction=replace(each.interaction, attributes={"route": route}))
        for each, route in ((report(1), "/returns"), (report(2), "/other"))
    ]
    scene.alarm(raised(), *bad)
    assert [each.id for each in scene.incident.answers] == ["i-2", "i-1"]


def test_a_judge_that_changed_is_named_before_any_document():
    """Its verdicts changed everywhere; documents would be named for no fault of theirs."""
    scene = Scene(Explained(document()))
    scene.alarm(raised())
    scene.pass_time(2, on("hallucination", cause=JUDGE_CAUSE))
    assert scene.incident.cause.kind == "judge"


def test_control_characters_of_others_are_in_no_incident():
    """Neither commands to a terminal nor signs that turn the direction of a line."""
    hostile = "a\x1b]0;owned\x07b\u202ec\r\nd"
    bad = report(1, text=hostile)
    asked = replace(bad.interaction, query=hostile, attributes={hostile: hostile})
    scene = Scene(Explained(document(hostile)))
    scene.alarm(raised(), replace(bad, interaction=asked))
    found = scene.incident
    assert found.answers[0].question == "a]0;ownedbc  d"
    kept = found.model_dump_json()
    assert not any(f"\\u{ord(each):04x}" in kept for each in "\x1b\x07")
    assert "\u202e" not in kept


# --- several processes, and restarts ----------------------------------------------------------


def test_an_incident_goes_on_after_a_restart():
    """The next run keeps it up to date, and closes it."""
    first = Scene()
    first.alarm(raised())
    second = Scene(Explained(document()), beside=first)
    second.pass_time(60, on("hallucination"))
    assert second.incident.cause.name == "handbook.md"
    second.pass_time(200, NONE)
    assert not second.incident.is_open
    assert second.notices.occasions == ["named", "cleared"]


def test_of_two_processes_one_opens_it_and_one_tells_people():
    """The other one finds it open, and adds its worst answers."""
    first = Scene()
    second = Scene(beside=first)
    second.keeper.export(report(2))
    second.pass_time(0, on("hallucination"))
    first.alarm(raised())
    first.pass_time(2, on("hallucination"))
    second.pass_time(2, on("hallucination"))
    assert first.notices.occasions + second.notices.occasions == ["raised"]
    assert [each.id for each in first.incident.answers] == ["i-2"]


def test_a_process_that_is_a_tick_behind_neither_closes_it_nor_opens_another():
    """Its snapshot is older than the alarm, or than its end."""
    first = Scene()
    second = Scene(beside=first)
    first.alarm(raised())
    second.pass_time(2, NONE)
    assert first.incident.is_open
    first.alarm(cleared(at_s=START_S + 60))
    second.pass_time(2, on("hallucination"))
    assert not first.incident.is_open
    first.now_s += GRACE_S
    second.pass_time(GRACE_S, NONE)
    second.pass_time(60, on("hallucination", "refusal"))
    assert len(first.journal.recent()) == 2, "another alarm opens another one"


def test_an_alarm_that_is_raised_again_is_another_incident():
    """Also where only its state is seen."""
    scene = Scene()
    scene.alarm(raised())
    scene.alarm(cleared(at_s=START_S + 60))
    later = replace(on(), alarms=(state(since_s=START_S + 600),))
    scene.pass_time(600, later)
    assert len(scene.journal.recent()) == 2


# --- the journal --------------------------------------------------------------------------------


def test_incidents_are_bounded_in_number_and_age():
    """The newest stay."""
    scene = Scene()
    for _ in range(MAX_INCIDENTS + 20):
        scene.now_s += 60
        scene.alarm(raised(at_s=scene.now_s))
        scene.alarm(cleared(at_s=scene.now_s))
    assert len(scene.journal.recent()) == MAX_INCIDENTS
    scene.now_s += MAX_AGE_S + 61
    scene.alarm(raised(at_s=scene.now_s))
    assert len(scene.journal.recent()) == 1


@pytest.mark.parametrize("content", ["hashed", "none"])
def test_a_stricter_policy_drops_what_an_earlier_one_kept(content):
    """No question, no document; the alarm that is on has a new incident."""
    first = Scene(Explained(document()))
    first.alarm(raised(), report())
    second = Scene(beside=first, content=content)
    assert second.journal.recent() == ()
    second.pass_time(0, on("hallucination"))
    rows = b"".join(second.store.rows(KIND).values())
    assert second.incident.is_open
    assert b"handbook" not in rows, "with the first answer it leaves the store"
    assert b"Goods" not in rows


def test_a_private_attribute_is_in_no_incident():
    """The others are."""
    bad = report()
    attributes = {"user_email": "ada@x.org", "route": "/returns"}
    scene = Scene()
    scene.alarm(raised(), replace(bad, interaction=replace(bad.interaction, attributes=attributes)))
    assert len(scene.incident.answers) == 1
    assert "ada@x.org" not in scene.incident.model_dump_json()
    assert "/returns" in scene.incident.model_dump_json()
