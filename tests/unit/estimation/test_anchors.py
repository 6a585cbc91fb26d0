"""Anchors: old answers that the judge reads again, to tell judge drift from a worse system."""

from __future__ import annotations

import json
import math
import random
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from ragmonitor.errors import InputError
from ragmonitor.estimation.anchors import VERSION, Anchors
from ragmonitor.estimation.anchors.anchor_set import CLAIM_S, DAY_S
from ragmonitor.estimation.anchors.judge_change import chance_of_flips
from ragmonitor.estimation.anchors.membership import MAX_ANCHORS
from ragmonitor.guard import errors
from ragmonitor.records import JudgeIdentity
from ragmonitor.settings import ContentSettings, JudgeSettings, Settings
from ragmonitor.state import StateFile
from ragmonitor.testing import ScriptedJudge
from ragmonitor.wiring import builtin_judge, estimates_of, judging_of
from tests.support.stories import BEGAN_NS, CHINESE, interaction

FIRST = JudgeIdentity(name="model", version="1", kind="LLM")
SECOND = JudgeIdentity(name="model", version="2", kind="LLM")
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


# --- settling and the daily share -----------------------------------------------------------------


def test_a_candidate_settles_when_the_judge_says_the_same_again():
    """The second reading is not yet a check of the judge."""
    judging = JudgeConfig(collected(count=1))
    assert judging.step() == ["a0"]
    assert judging.outcomes == [None]
    judging.step(DAY_S / PER_DAY)
    assert judging.outcomes == [None, "same"]


def test_the_daily_share_is_read_and_no_more():
    """Twenty a day, spread over it."""
    judging = JudgeConfig(collected(per_day=20))
    counts = [len(judging.step(3_600)) for _ in range(72)]
    assert sum(counts) == pytest.approx(60, abs=3)
    assert max(counts) == 1


def test_what_is_never_reported_is_due_again():
    """Its process died, or there was no money: ten minutes later another may try."""
    anchors = collected(count=1)
    assert anchors.due(BEGAN_S + 10, FIRST)
    assert not anchors.due(BEGAN_S + 10 + CLAIM_S - 200, FIRST)
    assert anchors.due(BEGAN_S + 10 + CLAIM_S + 200, FIRST)


# --- flips ----------------------------------------------------------------------------------------


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


# --- a change of judge ----------------------------------------------------------------------------


def changed(judging, *flipped, identity=SECOND):
    """Let the judge be another one, which flips these; return the changes told."""
    judging.verdict = flipping(*flipped)
    judging.identity = identity
    for _ in range(3):
        judging.step(5)
    return judging.anchors.changes()


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


def test_a_new_version_that_judges_alike_has_not_moved():
    """Three in a hundred differ between two readings by one judge, too."""
    judging = settled()
    [change] = changed(judging, "a1", "a2", "a3")
    assert not change.drifted
    assert "judge drifted" not in str(change)


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


# --- several processes, and restarts --------------------------------------------------------------


def test_anchors_outlive_a_restart(file):
    """With their texts and verdicts, Chinese too."""
    texts = {"query": CHINESE[0], "answer": CHINESE[2]}
    anchors = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    anchors.offer([(answer(1, **texts), True, FIRST)])
    again = Anchors(per_day=PER_DAY, file=file, keep_texts=True)
    [due] = again.due(BEGAN_S + 10, FIRST)
    assert (due.query, due.answer) == (CHINESE[0], CHINESE[2])


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


def test_the_texts_are_for_the_services_own_user(file):
    """They are questions and answers of people."""
    Anchors(per_day=20, file=file, keep_texts=True).offer([(answer(1), True, FIRST)])
    assert file.path.with_suffix("").stat().st_mode & 0o077 == 0


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
