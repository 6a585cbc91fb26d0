"""Incidents are opened, kept up to date and closed as alarms are."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest

from ragmonitor.incidents import Journal
from ragmonitor.incidents.incident_keeper import ORPHANED_AFTER_S
from ragmonitor.incidents.journal import MAX_AGE_S, MAX_INCIDENTS
from ragmonitor.records import AlarmCause
from ragmonitor.store import Kept, store_at
from tests.support.incidents import (
    START_S,
    Scene,
    ScriptedFinder,
    candidate,
    cleared,
    example,
    on,
    raised,
    report,
)

NONE = on()
JUDGE_CAUSE = AlarmCause(
    cause="judge",
    since_s=START_S,
    reread=30,
    flipped=12,
    expected_else=0.05,
    expected_judge=0.3,
    needed=10,
    waiting=0,
)


def file(tmp_path, service="shop"):
    return Kept(store_at(tmp_path, service), "incidents", version=1)


def test_an_alarm_opens_an_incident_that_names_its_cause():
    """With what moved, since when, and the answers behind it."""
    finder = ScriptedFinder(candidate())
    scene = Scene(None, finder)
    scene.keeper.alarm(replace(raised(), examples=(example(),)))
    found = scene.incident
    assert found.is_open
    assert finder.asked == [("hallucination", START_S - 120)]
    assert (found.cause.kind, found.cause.name, found.cause.named_s) == (
        "document",
        "handbook.md",
        START_S,
    )
    assert found.leading.rise is not None
    assert (found.leading.rise.bad, found.leading.rise.scored) == (33, 80)
    (answer,) = found.answers
    (sentence,) = answer.sentences
    assert (sentence.source, sentence.chunk, sentence.words) == ("handbook.md", 1, ("90",))


def test_alarms_that_are_on_together_are_one_incident_until_the_last_is_cleared():
    """What comes in is another matter, with an incident of its own."""
    scene = Scene()
    scene.keeper.alarm(raised("faithfulness"))
    scene.keeper.alarm(raised("hallucination"))
    scene.keeper.alarm(raised("weak_retrieval", kind="input"))
    assert [each.scope for each in scene.journal.recent()] == ["answers", "input"]
    quality = scene.journal.recent()[0]
    assert quality.leading.signal == "hallucination"
    scene.keeper.alarm(cleared("hallucination", at_s=START_S + 60))
    assert scene.journal.find(quality.id).is_open
    scene.keeper.alarm(cleared("faithfulness", at_s=START_S + 60))
    assert not scene.journal.find(quality.id).is_open
    assert scene.notices.occasions == ["raised", "raised", "cleared"]


def test_evidence_that_comes_later_names_the_cause_and_people_are_told_once():
    """Until then the incident says that none is known."""
    finder = ScriptedFinder(candidate(is_discovery=False, e_value=3))
    scene = Scene(None, finder)
    scene.keeper.alarm(raised())
    assert scene.incident.cause.kind == "unknown"
    finder.found = [candidate()]
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.cause.name == "handbook.md"
    assert scene.incident.cause.named_s == START_S + 2
    scene.pass_time(100, on("hallucination"))
    assert scene.incident.cause.named_s == START_S + 2
    assert scene.notices.occasions == ["raised", "named"]


def test_a_name_stays_when_the_evidence_fades():
    """After the cause is gone its answers are good again; the incident still says what it was."""
    finder = ScriptedFinder(candidate())
    scene = Scene(None, finder)
    scene.keeper.alarm(raised())
    finder.found = [candidate("other.md", is_discovery=False)]
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.named is not None
    assert scene.incident.named.name == "handbook.md"


def test_what_is_shown_and_explains_most_is_named_first():
    """Suspicions never are, however large their share."""
    found = (
        candidate("suspected", explained_lower=0.99, is_discovery=False),
        candidate("small", explained_lower=0.1),
        candidate("large", explained_lower=0.6),
    )
    scene = Scene(None, ScriptedFinder(*found))
    scene.keeper.alarm(raised())
    assert [each.name for each in scene.incident.candidates] == ["large", "small", "suspected"]
    assert scene.incident.cause.name == "large"


@pytest.mark.parametrize(
    ("kind", "name", "of"),
    [
        ("version", "prompt_version 1.1", "prompt_version=1.1"),
        ("version", "version 1.5", "service_version=1.5"),
    ],
)
def test_a_document_or_version_is_named_rather_than_the_slice_of_its_answers(kind, name, of):
    """They are the same answers; what whoever is woken can act upon is the cause itself."""
    found = (candidate(of, kind="slice", e_value=1e9), candidate(name, kind=kind, e_value=30))
    scene = Scene(None, ScriptedFinder(*found))
    scene.keeper.alarm(raised())
    assert (scene.incident.cause.kind, scene.incident.cause.name) == (kind, name)
    assert [each.name for each in scene.incident.candidates] == [name]


def test_a_version_without_evidence_is_no_suspect():
    """That it is the newest one says nothing, unless its answers' slice has some."""
    new = candidate("prompt_version 1.1", kind="version", is_discovery=False, e_value=1.2)
    deployed = candidate("deployment: 1.5", kind="event", is_discovery=False, e_value=1)
    finder = ScriptedFinder(new, deployed)
    scene = Scene(None, finder)
    scene.keeper.alarm(raised())
    assert [each.kind for each in scene.incident.candidates] == ["event"]
    slice_ = candidate("prompt_version=1.1", kind="slice", is_discovery=False, e_value=8)
    finder.found = [*finder.found, slice_]
    scene.pass_time(2, on("hallucination"))
    version = scene.incident.candidates[0]
    assert (version.kind, version.is_discovery, version.e_value) == ("version", False, 8)


def test_a_private_attribute_is_in_no_incident():
    """Of alarms, examples and reports alike; the others are."""
    private = replace(
        example(1).interaction, attributes={"user_email": "ada@x.org", "route": "/returns"}
    )
    bad = replace(example(1), interaction=private)
    scene = Scene(None, ScriptedFinder(candidate(examples=(bad,))), leave_out=("user*",))
    scene.keeper.export(
        replace(report(2), interaction=replace(private, id="i-2", query="Another?"))
    )
    scene.keeper.alarm(replace(raised(), examples=(bad,)))
    assert len(scene.incident.answers) == 2
    assert "ada@x.org" not in scene.incident.model_dump_json()
    assert "/returns" in scene.incident.model_dump_json()


def test_a_judge_that_changed_is_named_before_any_document():
    """Its verdicts changed everywhere; documents would be named for no fault of theirs."""
    scene = Scene(None, ScriptedFinder(candidate()))
    scene.keeper.alarm(raised())
    scene.pass_time(2, on("hallucination", cause=JUDGE_CAUSE))
    assert scene.incident.cause.kind == "judge"


def test_a_finder_that_fails_hurts_neither_the_incident_nor_other_finders():
    """Its error is counted; what others find is there."""

    class Failing:
        def candidates(self, signal, since_s):
            raise ZeroDivisionError

    scene = Scene(None, Failing(), ScriptedFinder(candidate()))
    scene.keeper.alarm(raised())
    assert scene.incident.cause.name == "handbook.md"


def test_a_reminder_comes_after_the_hours_that_were_asked_for():
    """Once, and again after as long."""
    scene = Scene(still_on_s=4 * 3_600)
    scene.keeper.alarm(raised())
    for _ in range(9 * 60):
        scene.pass_time(60, on("hallucination"))
    assert scene.notices.occasions == ["raised", "on", "on"]


# --- several processes, and restarts ----------------------------------------------------------


def test_an_incident_goes_on_after_a_restart(tmp_path):
    """The next run keeps it up to date once the first has not for a while, and closes it."""
    first = Scene(Journal(file(tmp_path)))
    first.keeper.alarm(raised())
    second = Scene(Journal(file(tmp_path)), ScriptedFinder(candidate()))
    second.pass_time(ORPHANED_AFTER_S + 1, on("hallucination"))
    assert second.incident.cause.name == "handbook.md"
    second.pass_time(200, NONE)
    assert not second.incident.is_open
    assert second.notices.occasions == ["named", "cleared"]


def test_of_two_processes_one_opens_it_and_one_tells_people(tmp_path):
    """The other one sees the same alarm, and finds the incident open."""
    first, second = Scene(Journal(file(tmp_path))), Scene(Journal(file(tmp_path)))
    second.pass_time(0, on("hallucination"))
    first.keeper.alarm(raised())
    first.pass_time(2, on("hallucination"))
    second.pass_time(2, on("hallucination"))
    assert first.incident == second.incident
    assert first.notices.occasions + second.notices.occasions == ["raised"]


# --- the journal --------------------------------------------------------------------------------


def test_the_file_is_for_its_user_alone(tmp_path):
    """Questions and answers stand in it."""
    Scene(Journal(file(tmp_path))).keeper.alarm(raised())
    assert {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()} == {0o600}


def test_incidents_are_bounded_in_number_and_age():
    """The newest stay."""
    scene = Scene()
    for _ in range(MAX_INCIDENTS + 20):
        scene.now_s += 60
        scene.keeper.alarm(raised(at_s=scene.now_s))
        scene.keeper.alarm(cleared(at_s=scene.now_s))
    assert len(scene.journal.recent()) == MAX_INCIDENTS
    scene.now_s += MAX_AGE_S + 61
    scene.keeper.alarm(raised(at_s=scene.now_s))
    assert len(scene.journal.recent()) == 1


def test_a_record_that_cannot_be_read_is_dropped_and_the_others_stay(tmp_path):
    """Whoever wrote it."""
    journal = Journal(file(tmp_path))
    Scene(journal).keeper.alarm(raised())
    kept = file(tmp_path).read()["incidents"]
    broken = {"incidents": [{"id": "../../etc"}, *kept, 7]}
    assert file(tmp_path).update(lambda _: broken, stage="incident", what="incidents")
    assert [each.id for each in Journal(file(tmp_path)).recent()] == [kept[0]["id"]]
