"""Anchors: old answers that the judge reads again, to tell judge drift from a worse system."""

from __future__ import annotations

import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from ragmonitor import metrics
from ragmonitor.errors import InputError
from ragmonitor.estimation.alarm_streams import ANCHORS
from ragmonitor.estimation.alarms import Alarms, Stream
from ragmonitor.estimation.anchors import VERSION, Anchors
from ragmonitor.estimation.anchors.anchor_set import CLAIM_S, DAY_S
from ragmonitor.estimation.anchors.judge_change import MAX_TRIES, REREADING_S, chance_of_flips
from ragmonitor.estimation.anchors.membership import COLLECT_S, MAX_ANCHORS, MAX_CHARACTERS
from ragmonitor.estimation.judge_drift import JudgeDrift
from ragmonitor.guard import errors
from ragmonitor.records import Chunk, JudgeIdentity
from ragmonitor.settings import ContentSettings, JudgeSettings, Settings
from ragmonitor.state import StateFile
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wiring import builtin_judge, estimates_of, judging_of
from tests.support.stories import BEGAN_NS, CHINESE, interaction

FIRST = JudgeIdentity(name="model", version="1", kind="LLM")
SECOND = JudgeIdentity(name="model", version="2", kind="LLM")
THIRD = JudgeIdentity(name="model", version="3", kind="LLM")
BEGAN_S = BEGAN_NS / 1e9
PER_DAY = 1_000
"""Most that the setting allows; the tests need not wait for long."""


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "anchors.json", version=VERSION)


def answer(number, *, at_s=BEGAN_S, **changes):
    ended_ns = int(at_s * 1e9)
    return interaction(id=f"a{number}", started_ns=ended_ns, ended_ns=ended_ns, **changes)


def is_bad(interaction_id):
    """Every second answer is hallucinated."""
    return int(interaction_id.removeprefix("a")) % 2 == 1


def collected(*, per_day=PER_DAY, count=MAX_ANCHORS, **how):
    anchors = Anchors(per_day=per_day, **how)
    for number in range(count):
        anchors.offer([(answer(number), is_bad(f"a{number}"), FIRST)])
    return anchors


def checks(anchors):
    """Return the checks so far by outcome, as they are shown."""
    shown = [each for each in anchors.gauges("model") if each.name == metrics.ANCHOR_CHECKS]
    return {dict(each.labels)["outcome"]: each.value for each in shown}


class JudgeConfig:
    """Time, and a judge that reads whatever is due."""

    def __init__(self, anchors, *, verdict=is_bad, identity=FIRST, now_s=BEGAN_S + 10):
        self.anchors = anchors
        self.verdict = verdict
        self.identity = identity
        self.now_s = now_s
        self.outcomes = []
        self.read = []

    def step(self, seconds=0.0, identity=None):
        """Read what is due; return their ids."""
        self.now_s += seconds
        due = self.anchors.due(self.now_s, identity or self.identity)
        for each in due:
            self.read.append(each)
            self.outcomes.append(
                self.anchors.checked(
                    each.id, self.verdict(each.id), identity or self.identity, self.now_s
                )
            )
        return [each.id for each in due]

    def days(self, days, per_day=PER_DAY):
        for _ in range(round(days * per_day)):
            self.step(DAY_S / per_day)
        return self


def settled(**how):
    """Return a judge with a full set of anchors, all of them settled."""
    judging = JudgeConfig(collected(**how)).days(0.4)
    judging.anchors.take()
    judging.outcomes.clear()
    judging.read.clear()
    return judging


def flipping(*flipped):
    return lambda identity: is_bad(identity) != (identity in flipped)


def held(anchors):
    """Return what is checked every day, by id: whether it is hallucinated."""
    kept = anchors._set.anchors.items()
    return {i: anchor.hallucinated for i, anchor in kept if not anchor.in_reserve}


# --- becoming an anchor ---------------------------------------------------------------------------


def test_half_of_the_anchors_are_hallucinated_where_there_are_such():
    """Of a hundred at most, however many are offered."""
    verdicts = held(collected(count=1_000)).values()
    assert len(verdicts) == MAX_ANCHORS
    assert sum(verdicts) == MAX_ANCHORS // 2


def test_rare_hallucinated_answers_take_the_places_of_fine_ones():
    """At 4 % the first hundred are nearly all fine; they give way."""
    anchors = Anchors(per_day=20)
    for number in range(2_000):
        anchors.offer([(answer(number), number % 25 == 0, FIRST)])
    assert sum(held(anchors).values()) == MAX_ANCHORS // 2


def test_without_hallucinated_answers_fine_ones_fill_the_places():
    """A judge that becomes stricter shows on them."""
    anchors = Anchors(per_day=20)
    for number in range(300):
        anchors.offer([(answer(number), False, FIRST)])
    assert len(held(anchors)) == MAX_ANCHORS


def test_after_a_week_full_anchors_are_frozen():
    """A hallucinated answer comes too late then."""
    anchors = Anchors(per_day=20)
    for number in range(MAX_ANCHORS):
        anchors.offer([(answer(number), False, FIRST)])
    before = held(anchors)
    anchors.offer([(answer(500, at_s=BEGAN_S + COLLECT_S + 1), True, FIRST)])
    assert held(anchors) == before


def test_verdicts_of_another_judge_are_not_mixed_in():
    """A fallback's, or a new version's before the anchors were read by it."""
    anchors = collected(count=10)
    anchors.offer([(answer(10), True, SECOND)])
    assert "a10" not in held(anchors)


def test_very_long_texts_are_no_anchors():
    """They would be read in many calls, every time."""
    anchors = Anchors(per_day=20)
    anchors.offer([(answer(1, chunks=(Chunk(text="x" * MAX_CHARACTERS),)), True, FIRST)])
    assert not held(anchors)


def test_an_anchor_holds_what_a_judge_reads_and_no_more():
    """Question, chunks and answer; not the user, tags, metadata or model calls."""
    anchors = Anchors(per_day=PER_DAY)
    whole = answer(1, user_id="u1", tags=("vip",), attributes={"tenant": "acme"})
    anchors.offer([(whole, True, FIRST)])
    [again] = anchors.due(BEGAN_S + 10, FIRST)
    assert (again.id, again.query, again.answer) == (whole.id, whole.query, whole.answer)
    assert [chunk.text for chunk in again.chunks] == [chunk.text for chunk in whole.chunks]
    kept = (again.user_id, again.tags, again.attributes, again.generations, again.session_id)
    assert not any(kept)


def test_with_none_a_day_there_are_none():
    """The setting 0 keeps nothing and asks for nothing."""
    anchors = collected(per_day=0)
    assert not held(anchors)
    assert not anchors.due(BEGAN_S + 10, FIRST)


# --- settling and the daily share -----------------------------------------------------------------


def test_a_candidate_settles_when_the_judge_says_the_same_again():
    """The second reading is not yet a check of the judge."""
    judging = JudgeConfig(collected(count=1))
    assert judging.step() == ["a0"]
    assert judging.outcomes == [None]
    judging.step(DAY_S / PER_DAY)
    assert judging.outcomes == [None, "same"]


def test_a_hallucinated_candidate_has_to_be_confirmed_twice():
    """Among the rare verdict there are more slips."""
    anchors = Anchors(per_day=PER_DAY)
    anchors.offer([(answer(1), True, FIRST)])
    judging = JudgeConfig(anchors).days(3 / PER_DAY)
    assert judging.outcomes == [None, None, "same"]


def test_a_candidate_that_flips_at_once_was_a_slip_and_leaves():
    """It says that the judge wavers on it, and not that the judge has moved."""
    judging = JudgeConfig(collected(count=1), verdict=flipping("a0"))
    judging.step()
    assert judging.outcomes == [None]
    assert not held(judging.anchors)
    assert not judging.anchors.take()


def test_a_candidate_without_a_verdict_leaves():
    """What the judge cannot read is no anchor; the check is counted as missing."""
    judging = JudgeConfig(collected(count=1), verdict=lambda _: None)
    judging.step()
    assert judging.outcomes == ["missing"]
    assert not held(judging.anchors)


def test_the_daily_share_is_read_and_no_more():
    """Twenty a day, spread over it."""
    judging = JudgeConfig(collected(per_day=20))
    counts = [len(judging.step(3_600)) for _ in range(72)]
    assert sum(counts) == pytest.approx(60, abs=3)
    assert max(counts) == 1


def test_checks_begin_with_the_first_settled_anchor():
    """Settling a hundred takes days; half of the readings are checks meanwhile."""
    judging = JudgeConfig(collected(per_day=20)).days(2, per_day=48)
    checks = [outcome for outcome in judging.outcomes if outcome is not None]
    assert 15 <= len(checks) <= 22


def test_a_long_silence_is_not_made_up_for():
    """After a week off one anchor is due, not a hundred and forty."""
    judging = settled(per_day=20)
    assert len(judging.step(7 * DAY_S)) <= 1
    assert not judging.step(60)


def test_every_settled_anchor_is_as_likely_to_be_read():
    """Drawn, not in turn: the chance of a flip is the share that flips, whatever came before."""
    judging = settled().days(3)
    counts = {i: sum(each.id == i for each in judging.read) for i in held(judging.anchors)}
    assert min(counts.values()) >= 10
    assert max(counts.values()) <= 60
    first = [each.id for each in judging.read[:100]]
    assert len(set(first)) < 90


def test_a_clock_set_back_does_not_silence_the_checks():
    """Else they would wait until it is as late again."""
    judging = settled()
    judging.step(DAY_S)
    assert judging.step(-30 * DAY_S)


def test_what_is_never_reported_is_due_again():
    """Its process died, or there was no money: ten minutes later another may try."""
    anchors = collected(count=1)
    assert anchors.due(BEGAN_S + 10, FIRST)
    assert not anchors.due(BEGAN_S + 10 + CLAIM_S - 200, FIRST)
    assert anchors.due(BEGAN_S + 10 + CLAIM_S + 200, FIRST)


# --- flips ----------------------------------------------------------------------------------------


def test_a_flip_goes_to_the_alarm_with_its_time():
    """Once, and every check that found the same too."""
    judging = settled()
    judging.verdict = flipping(*held(judging.anchors))
    judging.step(DAY_S)
    assert judging.anchors.take() == ((judging.now_s, True),)
    assert judging.anchors.take() == ()


def test_checks_are_counted_by_outcome():
    """Same, flipped, or missing, since the process began."""
    judging = settled()
    before = checks(judging.anchors)["same"]
    judging.step(DAY_S)
    judging.verdict = flipping(*held(judging.anchors))
    judging.step(DAY_S)
    judging.verdict = lambda _: None
    judging.step(DAY_S)
    assert checks(judging.anchors) == {"same": before + 1, "flipped": 1, "missing": 1}


def test_a_judge_that_gave_nothing_is_no_flip():
    """The anchor stays and is drawn again some day."""
    judging = settled()
    judging.verdict = lambda _: None
    judging.step(DAY_S)
    assert judging.anchors.take() == ()
    assert len(held(judging.anchors)) == MAX_ANCHORS


def test_a_reading_by_a_fallback_says_nothing_of_the_judge():
    """Another judge, another measure."""
    judging = settled()
    [due] = judging.anchors.due(judging.now_s + DAY_S, FIRST)
    other = JudgeIdentity(name="fallback", version="1", kind="LLM")
    assert judging.anchors.checked(due.id, not is_bad(due.id), other, judging.now_s) is None
    assert judging.anchors.take() == ()


def test_an_anchor_that_flips_and_comes_back_leaves():
    """It was never settled; each of its slips would look like a judge that moves."""
    judging = settled(count=2)
    judging.verdict = flipping("a0", "a1")
    judging.days(10 / PER_DAY)
    judging.verdict = is_bad
    judging.days(10 / PER_DAY)
    assert not held(judging.anchors)
    judging.anchors.offer([(answer(7), True, FIRST)])
    assert held(judging.anchors) == {"a7": True}


def test_anchors_that_stay_flipped_stay():
    """A judge that has moved goes on showing, until somebody accepts it."""
    judging = settled()
    moved = {f"a{n}" for n in range(20)}
    judging.verdict = flipping(*moved)
    judging.days(2)
    flips = [flipped for _, flipped in judging.anchors.take()]
    assert len(held(judging.anchors)) == MAX_ANCHORS
    assert sum(flips) / len(flips) == pytest.approx(0.2, abs=0.03)


def test_a_wavering_judge_flips_fewer_settled_anchors_than_raw_ones():
    """Slips among rare verdicts are common; who settles first keeps them from the alarm.

    One in a hundred fine answers is a slip of the judge that the next reading takes back, a third
    of the answers that are found hallucinated at 2 %; frozen at once, they all would flip.
    """
    rng = random.Random(5)
    anchors = Anchors(per_day=PER_DAY)
    truth = {}
    for number in range(20_000):
        truth[f"a{number}"] = rng.random() < 0.02
        slip = rng.random() < 0.01
        anchors.offer([(answer(number), truth[f"a{number}"] != slip, FIRST)])
    raw = sum(truth[i] != verdict for i, verdict in held(anchors).items()) / MAX_ANCHORS
    judging = JudgeConfig(anchors, verdict=lambda i: truth[i] != (rng.random() < 0.01)).days(1)
    flips = [flipped for _, flipped in anchors.take()]
    assert raw > 0.1
    assert sum(flips) / len(flips) < 0.03
    assert len(judging.read) > 900


def test_the_flip_rate_is_of_the_last_hundred_checks():
    """And not shown before there were twenty."""
    judging = settled()
    labels = (("judge", "model"),)
    fresh = JudgeConfig(collected(count=3))
    fresh.step()
    assert metrics.ANCHOR_FLIP_RATE not in {each.name for each in fresh.anchors.gauges("model")}
    judging.days(0.2)
    judging.verdict = flipping(*held(judging.anchors))
    judging.days(0.05)
    told = {each.name: each for each in judging.anchors.gauges("model")}
    assert told[metrics.ANCHORS].value == MAX_ANCHORS
    assert told[metrics.ANCHOR_FLIP_RATE].value == pytest.approx(0.5, abs=0.02)
    assert told[metrics.ANCHOR_FLIP_RATE].labels == labels


# --- a change of judge ----------------------------------------------------------------------------


def changed(judging, *flipped, identity=SECOND):
    """Let the judge be another one, which flips these; return the changes told."""
    judging.verdict = flipping(*flipped)
    judging.identity = identity
    for _ in range(3):
        judging.step(5)
    return judging.anchors.changes()


def test_a_new_judge_reads_all_anchors_at_once():
    """One first, to see that it is a new judge indeed; then the rest."""
    judging = settled()
    judging.identity = SECOND
    assert len(judging.step(5)) == 1
    assert len(judging.step(5)) == MAX_ANCHORS - 1
    assert not judging.step(5)


def test_a_judge_that_drifted_is_told_with_its_directions():
    """How many flipped, and whether the new judge is stricter or laxer there."""
    judging = settled()
    [change] = changed(judging, *[f"a{n}" for n in range(0, 24, 2)], "a1", "a3")
    assert change.drifted
    assert (change.checked, change.flipped) == (100, 14)
    assert (change.to_hallucinated, change.to_fine) == (12, 2)
    assert (change.before, change.after) == ("model@1", "model@2")
    assert change.p_value < 1e-4
    assert "judge drifted" in str(change)
    assert judging.anchors.last_change == change
    assert judging.anchors.changes() == ()


@pytest.mark.parametrize(
    ("since_change_s", "is_active"), [(3_600.0, True), (-60.0, True), (-30 * 86_400.0, False)]
)
def test_a_change_that_was_found_while_the_clock_was_ahead_is_no_alarm_until_then(
    since_change_s, is_active
):
    """A judge that drifted is an active alarm for a day; a month ahead of now that is over."""
    judging = settled()
    [change] = changed(judging, *[f"a{n}" for n in range(0, 24, 2)])
    drift = JudgeDrift(
        judging.anchors,
        judge="model",
        threshold_s=1.0,
        now=lambda: change.at_s + since_change_s,
    )
    alarms = Alarms(
        [Stream(signal=ANCHORS, judge="model", kind="judge", share=1.0)],
        false_alarm_every_days=30,
    )
    [state] = alarms.states()
    assert drift.shown(state).active is is_active


def test_a_new_version_that_judges_alike_has_not_moved():
    """Three in a hundred differ between two readings by one judge, too."""
    judging = settled()
    [change] = changed(judging, "a1", "a2", "a3")
    assert not change.drifted
    assert "judge drifted" not in str(change)


def test_the_batch_does_not_go_to_the_daily_alarm():
    """It has a test of its own; a hundred bets at one moment would be another."""
    judging = settled()
    changed(judging, *[f"a{n}" for n in range(50)])
    assert judging.anchors.take() == ()


def test_after_a_change_the_new_judges_verdicts_are_frozen():
    """Its verdicts are the frozen ones, so nothing flips any more."""
    judging = settled()
    changed(judging, "a0", "a1", "a2")
    assert held(judging.anchors)["a0"] is True
    judging.days(1)
    flips = [flipped for _, flipped in judging.anchors.take()]
    assert len(flips) > 500
    assert not any(flips)


def test_answers_that_the_new_judge_read_become_anchors_again():
    """Free places are filled with its verdicts."""
    judging = settled(count=50)
    changed(judging)
    judging.anchors.offer([(answer(70), False, SECOND)])
    assert "a70" in held(judging.anchors)


def test_an_anchor_that_the_new_judge_cannot_read_is_done_without():
    """After some tries with growing pauses."""
    judging = settled()
    judging.identity = SECOND
    judging.verdict = lambda i: None if i == "a4" else is_bad(i)
    for _ in range(100):
        judging.step(CLAIM_S / 2)
    assert [each.id for each in judging.read].count("a4") == MAX_TRIES
    [change] = judging.anchors.changes()
    assert (change.checked, change.missing) == (99, 1)
    assert "a4" not in held(judging.anchors)


def test_a_judge_that_fails_the_probe_is_tried_again():
    """A provider that is down costs a few calls and not hundreds."""
    judging = settled()
    judging.identity = SECOND
    judging.verdict = lambda _: None
    assert len(judging.step(5)) == 1
    assert not judging.step(60)
    assert len(judging.step(CLAIM_S)) == 1


def test_an_outage_of_an_hour_does_not_cost_the_anchors():
    """They are tried again when the judge is back."""
    judging = settled()
    judging.identity = SECOND
    judging.step(5)
    judging.verdict = lambda _: None
    for _ in range(60):
        judging.step(60)
    judging.verdict = is_bad
    for _ in range(60):
        judging.step(60)
    [change] = judging.anchors.changes()
    assert (change.checked, change.missing) == (100, 0)


def test_old_processes_do_not_turn_the_anchors_back():
    """While a service is rolled out both judges run; each would pay for a hundred readings."""
    judging = settled()
    changed(judging)
    assert not judging.step(3_600, identity=FIRST)
    judging.step(DAY_S + 3_600, identity=FIRST)
    assert len(judging.step(5, identity=FIRST)) == MAX_ANCHORS - 1


def test_a_new_judge_that_goes_away_leaves_the_old_one_in_place():
    """Rolled back after an hour, the daily checks go on."""
    judging = settled()
    judging.anchors.due(judging.now_s + 5, SECOND)
    assert not judging.step(60)
    assert len(judging.step(REREADING_S + 600)) == 1


def test_two_new_judges_do_not_undo_each_other():
    """The first one's batch is left in peace for an hour."""
    judging = settled()
    judging.anchors.due(judging.now_s + 5, SECOND)
    assert not judging.anchors.due(judging.now_s + 10, THIRD)
    assert judging.anchors.due(judging.now_s + REREADING_S + 600, THIRD)


def test_without_confirmed_anchors_a_new_judge_begins_anew():
    """There is nothing to compare; its own verdicts are taken from then on."""
    anchors = collected(count=5)
    assert not anchors.due(BEGAN_S + 10, SECOND)
    anchors.offer([(answer(9), True, SECOND)])
    assert held(anchors) == {"a9": True}
    assert anchors.changes() == ()


def test_freezing_anew_takes_what_the_judge_says_now_and_raises_nothing():
    """Who accepts a judge that moved in silence says so."""
    judging = settled()
    judging.verdict = flipping(*[f"a{n}" for n in range(30)])
    judging.days(0.3)
    judging.anchors.refreeze()
    for _ in range(3):
        judging.step(5)
    [change] = judging.anchors.changes()
    assert (change.before, change.after) == ("model@1", "model@1")
    assert change.flipped == 30
    assert not change.drifted
    judging.anchors.take()
    judging.days(0.5)
    assert not any(flipped for _, flipped in judging.anchors.take())


@pytest.mark.parametrize(("hits", "n"), [(0, 100), (1, 1), (3, 60), (8, 100), (9, 100), (200, 200)])
def test_the_chance_of_so_many_flips_is_exact(hits, n):
    """The chance of at least so many flips by one judge, as fractions have it."""
    chance = Fraction(3, 100)
    fewer = sum(math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(hits))
    assert chance_of_flips(hits, n) == pytest.approx(float(1 - fewer), rel=1e-9)


def test_the_batch_finds_a_judge_that_flips_12_percent_and_spares_one_at_3():
    """Simulated batches of a hundred: 80 % found at least, and 1 % raised for nothing at most."""
    rng = random.Random(2)

    def raised(chance):
        flips = (sum(rng.random() < chance for _ in range(100)) for _ in range(2_000))
        return sum(chance_of_flips(found, 100) < 0.01 for found in flips) / 2_000

    assert raised(0.12) > 0.8
    assert raised(0.03) < 0.01


# --- a person's own anchors -----------------------------------------------------------------------


def given(path, *lines):
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return path


LINE = {
    "question": CHINESE[0],
    "contexts": [*CHINESE[1]],
    "answer": CHINESE[2],
    "hallucinated": False,
}


def test_a_persons_own_anchors_are_read_first(tmp_path):
    """Their texts as the file has them."""
    anchors = collected(count=3)
    assert anchors.load(given(tmp_path / "mine.jsonl", LINE)) == 1
    [due] = anchors.due(BEGAN_S + 10, FIRST)
    assert (due.query, due.answer) == (CHINESE[0], CHINESE[2])
    assert [chunk.text for chunk in due.chunks] == [*CHINESE[1]]


def test_of_a_persons_anchor_the_judges_own_first_verdict_is_frozen(tmp_path, caplog):
    """A judge that errs is not one that moved; that it errs is logged."""
    anchors = Anchors(per_day=PER_DAY)
    anchors.load(given(tmp_path / "mine.jsonl", LINE))
    judging = JudgeConfig(anchors, verdict=lambda _: True).days(5 / PER_DAY)
    assert judging.outcomes == [None, None, None, "same", "same"]
    assert "unlike its file says: hallucinated, not fine" in caplog.text


def test_a_persons_anchors_take_the_places_of_the_traffics(tmp_path):
    """There are a hundred places."""
    anchors = collected()
    lines = [LINE | {"question": f"{n}?"} for n in range(30)]
    assert anchors.load(given(tmp_path / "mine.jsonl", *lines)) == 30
    assert len(held(anchors)) == MAX_ANCHORS


def test_an_anchor_taken_out_of_the_file_leaves(tmp_path):
    """The file is what counts."""
    anchors = Anchors(per_day=20)
    anchors.load(given(tmp_path / "mine.jsonl", LINE, LINE | {"question": "?"}))
    assert anchors.load(given(tmp_path / "mine.jsonl", LINE)) == 1


def test_a_persons_wavering_anchor_does_not_come_back_with_the_file(tmp_path):
    """It left because the judge wavers on it."""
    anchors = Anchors(per_day=PER_DAY)
    path = given(tmp_path / "mine.jsonl", LINE)
    anchors.load(path)
    verdicts = iter([True, False])
    JudgeConfig(anchors, verdict=lambda _: next(verdicts)).days(2 / PER_DAY)
    assert anchors.load(path) == 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 2: JSON is malformed"),
        ("[]", "line 2: Expected `object`"),
        (json.dumps(LINE | {"answer": None}), r"line 2: .*`\$\.answer`"),
        (json.dumps(LINE | {"contexts": "one text"}), r"line 2: .*`\$\.contexts`"),
        (json.dumps(LINE | {"hallucinated": "yes"}), r"line 2: .*`\$\.hallucinated`"),
    ],
)
def test_a_bad_line_is_named_and_nothing_taken_in(tmp_path, line, said):
    """Half a file of anchors would be another measure."""
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{line}\n")
    anchors = Anchors(per_day=20)
    with pytest.raises(InputError, match=said):
        anchors.load(path)
    assert not held(anchors)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    """Somebody named it."""
    with pytest.raises(InputError, match="No such file"):
        Anchors(per_day=20).load(tmp_path / "none.jsonl")


# --- several processes, and restarts --------------------------------------------------------------


def test_anchors_outlive_a_restart(file):
    """With their texts and verdicts, Chinese too."""
    texts = {"query": CHINESE[0], "answer": CHINESE[2]}
    anchors = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    anchors.offer([(answer(1, **texts), True, FIRST)])
    again = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    [due] = again.due(BEGAN_S + 10, FIRST)
    assert (due.query, due.answer) == (CHINESE[0], CHINESE[2])


def test_the_whole_state_comes_back_as_it_was(file):
    """In the middle of a batch, and after one."""
    judging = settled(file=file, keep_texts=True, count=20)
    judging.identity = SECOND
    judging.step(5)
    again = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    assert not again.due(judging.now_s, THIRD)
    assert again._set == judging.anchors._set
    changed(judging, "a1")
    again.due(judging.now_s + 3_600, SECOND)
    assert again.last_change == judging.anchors.last_change
    assert again.last_change.flipped == 1


def test_no_text_reaches_the_disk_unless_it_may(file):
    """The anchors then live as long as the process."""
    anchors = Anchors(per_day=20, file=file, keep_texts=False)
    anchors.offer([(answer(1), True, FIRST)])
    assert held(anchors)
    assert not [*file.path.parent.iterdir()]


@pytest.mark.parametrize("judge", [None, ScriptedJudge(lambda _: None)])
@pytest.mark.parametrize(("content", "per_day"), [("hashed", 20), ("none", 20), ("all", 0)])
def test_texts_that_may_no_longer_be_kept_leave_the_disk(tmp_path, content, per_day, judge, caplog):
    """After a restart with other settings, whether or not there is a judge; and that is said."""
    file = StateFile.of_service(tmp_path, "anchors", "shop", version=VERSION)
    Anchors(per_day=PER_DAY, file=file, keep_texts=True).offer(
        [(answer(1, answer="SEEN"), True, FIRST)]
    )
    texts = file.path.with_suffix("")
    assert [*texts.iterdir()]
    settings = Settings(
        service="shop",
        state=tmp_path,
        content=ContentSettings(policy=content),
        judge=JudgeSettings(model=judge, reference_answers_per_day=per_day),
    )
    estimates_of(settings, builtin_judge(), judging_of(settings)).tick()
    assert not [*texts.iterdir()]
    assert not file.path.exists()
    assert "the reference answers were removed" in caplog.text


def test_the_texts_of_anchors_that_left_leave_the_disk(file):
    """Nothing of the traffic stays for longer than it serves."""
    anchors = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    anchors.offer([(answer(1, answer="SECRET"), True, FIRST)])
    texts = [*file.path.with_suffix("").iterdir()]
    assert len(texts) == 1
    assert "SECRET" in texts[0].read_text()
    JudgeConfig(anchors, verdict=lambda _: False).step()
    assert not [*file.path.with_suffix("").iterdir()]


def test_the_texts_are_for_the_services_own_user(file):
    """They are questions and answers of people."""
    Anchors(per_day=20, file=file, keep_texts=True).offer([(answer(1), True, FIRST)])
    assert file.path.with_suffix("").stat().st_mode & 0o077 == 0


def test_an_anchor_whose_texts_were_lost_leaves(file):
    """Nobody can read it any more."""
    collected(count=1, file=file, keep_texts=True)
    for texts in file.path.with_suffix("").iterdir():
        texts.unlink()
    again = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    assert not again.due(BEGAN_S + 10, FIRST)
    assert not held(again)


def test_two_processes_share_the_daily_share(file):
    """Each due anchor is read by one of them."""
    first = JudgeConfig(collected(per_day=24, count=50, file=file, keep_texts=True))
    second = JudgeConfig(Anchors(per_day=24, file=file, keep_texts=True))
    for _ in range(2 * 48):
        first.step(1_800)
        second.step(1_800)
    assert len(first.read) + len(second.read) == pytest.approx(48, abs=3)


def test_a_batch_is_shared_and_told_once(file):
    """Whoever reads the last anchor tells of the change."""
    first = settled(file=file, keep_texts=True)
    second = JudgeConfig(
        Anchors(per_day=PER_DAY, file=file, keep_texts=True), identity=SECOND, now_s=first.now_s
    )
    first.identity = SECOND
    first.step(5)
    shared = second.anchors.due(first.now_s + 5, SECOND, limit=40)
    rest = first.anchors.due(first.now_s + 5, SECOND)
    assert (len(shared), len(rest)) == (40, 59)
    for process, part in ((first, rest), (second, shared)):
        for each in part:
            process.anchors.checked(each.id, is_bad(each.id), SECOND, first.now_s + 6)
    assert first.anchors.changes() == ()
    [change] = second.anchors.changes()
    assert change.checked == 100


def test_processes_at_once_never_read_the_same_anchor(file):
    """Locks on a file hold between any two that opened it, threads of this test too."""
    settled(file=file, keep_texts=True, count=40).anchors.refreeze()
    now_s = BEGAN_S + 2 * DAY_S
    [probe] = Anchors(per_day=PER_DAY, file=file, keep_texts=True).due(now_s, FIRST)
    first = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    first.checked(probe.id, is_bad(probe.id), FIRST, now_s)

    def claim(_):
        process = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
        return [each.id for each in process.due(now_s, FIRST, limit=7)]

    with ThreadPoolExecutor(8) as pool:
        claimed = [identity for part in pool.map(claim, range(8)) for identity in part]
    assert len(claimed) == len(set(claimed)) == 39


def test_a_broken_file_begins_anew_and_is_counted(file):
    """Anchors come again by themselves."""
    file.path.write_text('{"version": 1, "judge": "x"}')
    before = errors["estimation"]
    anchors = Anchors(per_day=20, file=file, keep_texts=True)
    anchors.offer([(answer(1), True, FIRST)])
    assert held(anchors) == {"a1": True}
    assert errors["estimation"] == before + 1


def test_without_the_disk_anchors_go_on_in_memory(tmp_path):
    """A folder that cannot be made is our trouble and not the application's."""
    (tmp_path / "taken").write_text("")
    file = StateFile(tmp_path / "taken" / "anchors.json", version=VERSION)
    before = errors["state"]
    judging = JudgeConfig(collected(count=2, file=file, keep_texts=True)).days(6 / PER_DAY)
    assert "same" in judging.outcomes
    assert errors["state"] > before


def test_a_forked_child_counts_from_nothing():
    """Its parent keeps what was read."""
    judging = settled()
    judging.step(DAY_S)
    judging.anchors.clear()
    assert judging.anchors.take() == ()
    assert not any(checks(judging.anchors).values())
    assert not held(judging.anchors)
