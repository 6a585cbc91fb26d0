"""Incidents are opened, kept up to date and closed as alarms are."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest

from ragmonitor.causes import ChangePoint
from ragmonitor.export.content import ContentPolicy
from ragmonitor.incidents import Journal, as_markdown
from ragmonitor.incidents.incident_keeper import MAX_UPDATE_S, ORPHANED_AFTER_S
from ragmonitor.incidents.incident_pages import IncidentPages
from ragmonitor.incidents.journal import MAX_AGE_S, MAX_INCIDENTS
from ragmonitor.records import AlarmCause, Estimate, Snapshot
from ragmonitor.settings import ContentSettings, ServerSettings, Settings
from ragmonitor.state import StateFile
from ragmonitor.wiring import incidents_of
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
    return StateFile.of_service(tmp_path, "incidents", service, version=1)


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


def test_an_end_that_nobody_was_told_of_closes_it_too():
    """Another process was told, or the alarm ended while none ran."""
    scene = Scene()
    scene.keeper.alarm(raised())
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.is_open
    scene.pass_time(10, NONE)
    assert not scene.incident.is_open


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


@pytest.mark.parametrize(("content", "kept"), [("all", 2), ("hashed", 2), ("none", 3)])
def test_of_the_worst_answers_that_say_the_same_one_is_kept(content, kept):
    """The newest; where texts are withheld nobody knows which are the same."""
    scene = Scene(None, ScriptedFinder(candidate()), content=content)
    first = example(1)
    again = replace(first, interaction=replace(first.interaction, id="i-3"), at_s=START_S + 3)
    again = replace(again, interaction=replace(again.interaction, ended_ns=int(again.at_s * 1e9)))
    scene.keeper.alarm(replace(raised(), examples=(first, example(2), again)))
    answers = scene.incident.answers
    assert len(answers) == kept
    assert answers[0].id == "i-3"


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


def test_the_slice_of_one_documents_answers_is_told_as_the_document():
    """There may be no evidence on the document yet."""
    found = (
        candidate("source=handbook.md", kind="slice"),
        candidate("route=/r", kind="slice", explained_lower=0.1),
    )
    scene = Scene(None, ScriptedFinder(*found))
    scene.keeper.alarm(raised())
    told = [(each.kind, each.name) for each in scene.incident.candidates]
    assert told == [("document", "handbook.md"), ("slice", "route=/r")]
    assert (scene.incident.cause.kind, scene.incident.cause.name) == told[0]


@pytest.mark.parametrize(
    ("cause", "is_of"),
    [
        (candidate("route=/returns", kind="slice"), {3}),
        (candidate("route /returns", kind="version"), {3}),
        (candidate(examples=(example(3),)), {3}),
        (candidate(is_discovery=False, examples=(example(3),)), set()),
    ],
)
def test_answers_of_the_named_cause_come_first(cause, is_of):
    """By their attributes, or as its examples; then the worst of all, which are told apart."""
    others = [
        replace(found, interaction=replace(found.interaction, attributes={}))
        for found in (example(1), example(2))
    ]
    scene = Scene(None, ScriptedFinder(cause))
    scene.keeper.alarm(replace(raised(), examples=(*others, example(3, badness=0.2))))
    incident = scene.incident
    assert {n for n in (1, 2, 3) for each in incident.answers if each.id == f"i-{n}"} == {1, 2, 3}
    own = {int(each.id[2:]) for each in incident.answers if each.is_of(incident.cause)}
    assert own == is_of
    assert incident.answers[0].id == ("i-3" if is_of else "i-2")
    told = as_markdown(incident)
    assert ("Of these, 1 are answers of the named cause" in told) == bool(is_of)


def test_when_it_changed_is_told_with_its_interval_and_stays():
    """Of the first finder that dates changes; an update that cannot tell leaves it."""

    class Dating(ScriptedFinder):
        dated: ChangePoint | None = ChangePoint(
            at_s=START_S - 60,
            lower_s=START_S - 90,
            upper_s=START_S - 30,
            before=Estimate(mean=0.03, lower=0.01, upper=0.06, effective_n=200),
            after=Estimate(mean=0.4, lower=0.3, upper=0.5, effective_n=60),
        )

        def change(self, signal, since_s):
            assert (signal, since_s) == ("hallucination", START_S - 120)
            return self.dated

    finder = Dating()
    scene = Scene(None, ScriptedFinder(), finder)
    scene.keeper.alarm(raised())
    told = as_markdown(scene.incident)
    assert "between 2027-01-15 07:58:30 UTC and 2027-01-15 07:59:30 UTC (95 %)" in told
    assert (
        "Since it got worse, up to 2027-01-15 08:00:00 UTC: 40 % (30 % to 50 %); "
        "before: 3 % (1 % to 6 %)." in told
    )
    finder.dated = None
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.change is not None


class Fading(ScriptedFinder):
    """Dates a rise, and finds a mean after it that the test sets."""

    mean = 0.4

    def change(self, signal, since_s):
        times = {"at_s": START_S - 60, "lower_s": START_S - 90, "upper_s": START_S - 30}
        before = Estimate(mean=0.03, lower=0.01, upper=0.06, effective_n=200)
        ends = {"lower": self.mean - 0.1, "upper": self.mean + 0.1}
        after = Estimate(mean=self.mean, effective_n=60, **ends)
        return ChangePoint(**times, before=before, after=after)


def test_answers_after_the_rise_do_not_thin_out_what_is_told_of_it():
    """Rates and causes stay as they were when before and after were furthest apart."""
    finder = Fading(candidate(explained=0.98))
    scene = Scene(None, finder)
    scene.keeper.alarm(raised())
    finder.mean, finder.found = 0.2, (candidate(explained=4.83, explained_lower=-1.68),)
    scene.pass_time(2, on("hallucination"))
    assert scene.incident.change is not None
    assert (scene.incident.change.after.mean, scene.incident.named.explained) == (0.4, 0.98)
    finder.mean, finder.found = 0.5, (candidate(explained=0.9),)
    scene.pass_time(4, on("hallucination"))
    assert (scene.incident.change.after.mean, scene.incident.named.explained) == (0.5, 0.9)
    finder.mean, finder.found = 0.2, (candidate("prices.md"),)
    scene.pass_time(6, on("hallucination"))
    assert scene.incident.named.name == "prices.md"


def test_what_is_shown_while_the_rise_seems_to_fade_is_told_beside_the_named_cause():
    """Two things went wrong, and the verdicts that show the second come later."""
    route = candidate("route=a", kind="slice", is_discovery=False, explained_lower=0.1)
    finder = Fading(candidate(), route)
    scene = Scene(None, finder)
    scene.keeper.alarm(raised())
    finder.mean = 0.39
    finder.found = (candidate(explained=0.6), replace(route, is_discovery=True))
    scene.pass_time(2, on("hallucination"))
    shown = {each.name: each.explained for each in scene.incident.candidates if each.is_discovery}
    assert shown == {"handbook.md": 0.85, "route=a": 0.85}
    assert scene.incident.named.name == "handbook.md"
    assert "Shown besides: slice route=a." in as_markdown(scene.incident)


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


@pytest.mark.parametrize("ends", ["infinite", "nan"])
def test_numbers_that_json_does_not_have_are_kept_as_what_it_has(tmp_path, ends):
    """An e-value may overflow; the file must be readable all the same."""
    value = float("inf") if ends == "infinite" else float("nan")
    scene = Scene(Journal(file(tmp_path)), ScriptedFinder(candidate(e_value=value)))
    scene.keeper.alarm(raised())
    assert Journal(file(tmp_path)).recent() == (scene.incident,)


def test_bad_answers_that_come_while_it_is_open_are_added_the_worst_ten_kept():
    """Each once, as often as it is reported."""
    scene = Scene()
    scene.keeper.alarm(replace(raised(), examples=(example(1), example(2))))
    for number in range(1, 30):
        scene.keeper.export(report(number))
    scene.pass_time(2, on("hallucination"))
    ids = [each.id for each in scene.incident.answers]
    assert ids == [f"i-{number}" for number in range(29, 19, -1)]


def test_updates_become_rare_and_an_idle_keeper_writes_nothing(tmp_path):
    """A tenth of its age, up to a minute; without an open incident the file is not even touched."""
    scene = Scene(Journal(file(tmp_path)), finder := ScriptedFinder())
    for _ in range(5):
        scene.pass_time(2, NONE)
    assert not file(tmp_path).path.exists()
    scene.keeper.alarm(raised(at_s=scene.now_s))
    for _ in range(1_800):
        scene.pass_time(2, on("hallucination"))
    assert len(finder.asked) < 50 + 3_600 / MAX_UPDATE_S


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


def test_a_forked_child_leaves_its_parents_incident_alone():
    """It was told of no alarm."""
    scene = Scene()
    scene.keeper.alarm(raised())
    scene.journal.after_fork_in_child()
    scene.keeper.after_fork_in_child()
    scene.pass_time(2, NONE)
    assert scene.journal.recent() == ()


# --- the journal --------------------------------------------------------------------------------


def test_the_file_is_for_its_user_alone(tmp_path):
    """Questions and answers stand in it."""
    Scene(Journal(file(tmp_path))).keeper.alarm(raised())
    assert stat.S_IMODE(file(tmp_path).path.stat().st_mode) == 0o600


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
    file(tmp_path).write({"incidents": [{"id": "../../etc"}, *kept, 7]})
    assert [each.id for each in Journal(file(tmp_path)).recent()] == [kept[0]["id"]]


def test_a_full_disk_keeps_incidents_in_memory(tmp_path):
    """They are lost at the end of the process, and that is said once."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    scene = Scene(Journal(file(blocked)))
    scene.keeper.alarm(raised())
    assert scene.incident.is_open


def test_a_hidden_text_is_in_no_incident():
    """Under `none` and `hashed`; ids, verdicts and names stay."""
    for content in ("none", "hashed"):
        scene = Scene(None, ScriptedFinder(candidate(examples=(example(3),))), content=content)
        scene.keeper.export(report(2))
        scene.keeper.alarm(replace(raised(), examples=(example(1),)))
        told = scene.incident.model_dump_json()
        assert "Goods" not in told
        assert "returned" not in told
        assert len(scene.incident.answers) == 3
        (sentence,) = scene.incident.answers[0].sentences
        assert sentence.source == "c1"  # the id: a source is a text


@pytest.fixture
def under_all(tmp_path):
    """Return the file of an incident of one document and its slice, kept under `all`."""
    route = candidate("route=/returns", kind="slice", e_value=30.0)
    found = candidate(examples=(example(3),))
    scene = Scene(Journal(file(tmp_path)), ScriptedFinder(found, route))
    scene.keeper.alarm(replace(raised(), examples=(example(1),)))
    scene.keeper.alarm(raised("hallucination{source=handbook.md}"))
    assert all(text in str(file(tmp_path).read()) for text in ("Goods", "handbook"))
    return file(tmp_path)


@pytest.mark.parametrize("content", ["hashed", "none"])
def test_after_a_restart_under_a_stricter_policy_nobody_is_shown_what_an_incident_holds(
    under_all, content
):
    """Questions, sentences, words, passages and names of documents; the verdicts stay."""
    journal = Journal(under_all, ContentPolicy(content=content))
    shown = IncidentPages(journal).reply("incidents.json", {}).body.decode()
    assert not any(text in shown for text in ("Goods", "goods", "returned", "handbook", '"90"'))
    (incident,) = journal.recent()
    assert incident.content == content
    assert incident.named.name.startswith("document-")
    assert [each.sentences[0].verdict for each in incident.answers] == ["contradicted"] * 2
    assert all(each.is_of(incident.cause) for each in incident.answers if each.causes)


def test_what_a_stricter_policy_withholds_is_taken_out_of_the_file(under_all, tmp_path):
    """With the first numbers, whether or not anything has happened."""
    settings = Settings(
        service="shop",
        state=tmp_path,
        content=ContentSettings(policy="none"),
        server=ServerSettings(enabled=False),
    )
    keeper = incidents_of(settings, None, lambda _reason, _n: None)
    assert keeper.journal.recent()
    keeper.snapshot(on("hallucination"))
    assert "Goods" not in str(under_all.read())


def test_an_incident_that_goes_on_under_a_laxer_policy_says_that_it_holds_texts(under_all):
    """So that they are withheld once more when the policy is strict again."""
    Scene(Journal(under_all, policy := ContentPolicy(content="none")), content="none").pass_time(
        2, on("hallucination")
    )
    scene = Scene(Journal(under_all), ScriptedFinder(candidate(examples=(example(5),))))
    scene.pass_time(ORPHANED_AFTER_S + 5, on("hallucination"))
    assert "Goods" in str(under_all.read())
    (incident,) = Journal(under_all, policy).recent()
    assert "Goods" not in incident.model_dump_json()


def test_an_estimate_is_that_of_the_last_hour_of_the_signal():
    """As the alarm brought it, where the snapshot has none."""
    scene = Scene()
    scene.keeper.alarm(raised(estimate=Estimate(mean=0.2, lower=0.1, upper=0.3, effective_n=9)))
    scene.pass_time(2, Snapshot(alarms=on("hallucination").alarms))
    assert scene.incident.leading.estimate is not None
    assert scene.incident.leading.estimate.mean == 0.2
