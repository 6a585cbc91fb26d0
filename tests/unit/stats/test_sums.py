"""What one answer adds to the sums."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.stats.interval import estimate
from ragmonitor.stats.sums import (
    ANSWERS,
    BAD,
    HEAD,
    JUDGED,
    LOST,
    MISSED,
    NOTHING,
    OPEN,
    WEIGHT,
    Answer,
    Ledger,
    Outcome,
    totals,
)
from ragmonitor.store import merge_buckets

SIGNALS = ("hallucination", "faithfulness")
chances = st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def settled_answers(draw):
    chance = draw(chances)
    answer = Answer(
        id=draw(st.text(max_size=4)),
        at_s=draw(st.integers(0, 2_000)),
        chance=chance,
        rate=0.5,
        is_drawn=chance > 0 and draw(st.booleans()),
        session=draw(st.sampled_from(["", "a"])),
        slices=draw(st.sampled_from([(), ("tenant=a", "route=x")])),
        expected={
            signal: draw(st.sampled_from([NOTHING, Outcome(0.5, 0.25)])) for signal in SIGNALS
        },
    )
    outcome = st.sampled_from([None, NOTHING, Outcome(1.0, 0.5), Outcome(1.0, 1.0)])
    return answer, {signal: draw(outcome) for signal in SIGNALS}


def increments_of(answers) -> dict:
    ledger = Ledger(higher_is_better=["faithfulness"])
    for answer, verdicts in answers:
        ledger.note(answer)
        if answer.is_drawn:
            ledger.settle(answer, verdicts)
    return ledger.take()


@given(answers=st.lists(settled_answers(), max_size=8), seed=st.integers(0, 9))
def test_sums_add_in_any_split_and_order(answers, seed):
    """Threads, processes and machines add theirs, and the sum is one process's."""
    total: dict = {}
    shuffled = answers[:]
    random.Random(seed).shuffle(shuffled)
    for each in shuffled:
        merge_buckets(total, increments_of([each]))
    whole = increments_of(answers)
    assert total.keys() == whole.keys()
    for name, rows in whole.items():
        assert {f: pytest.approx(row) for f, row in rows.items()} == total[name]


@given(one=settled_answers())
def test_a_verdict_takes_back_what_its_open_draw_had_added(one):
    """However late, the sums of means are those of an answer that was judged at once."""
    answer, verdicts = one
    row = increments_of([one])["r" + str(int(answer.at_s // 300 * 300))]["hallucination"]
    verdict, weight = verdicts["hallucination"], 1 / answer.chance if answer.is_drawn else 0.0
    applies, mean = answer.expected["hallucination"]
    does, found = verdict or NOTHING
    value, scored, lost = (sum(row[HEAD + each :: 3]) for each in range(3))
    assert row[ANSWERS] == 1
    if answer.chance:
        assert value == pytest.approx(applies * mean + weight * (does * found - applies * mean))
        assert scored == pytest.approx(applies + weight * (does - applies))
    assert lost == pytest.approx(weight * (verdict is None))
    assert row[LOST] == (answer.is_drawn and verdict is None)


def test_bets_of_a_draw_its_verdict_and_a_failed_one():
    """What is open becomes a verdict's weight, or a missed one's; badness is 1 less the score."""
    drawn = Answer(
        id="a", at_s=0, chance=0.25, rate=0.5, is_drawn=True, bucket=40,
        expected=dict.fromkeys(SIGNALS, NOTHING),
    )  # fmt: skip
    ledger = Ledger(higher_is_better=["faithfulness"])
    ledger.note(drawn)
    cell = ledger.take()["b40"][f"hallucination@{drawn.group}"]
    assert cell == [0.0, 0.0, 2.0, 0.0]
    ledger.settle(drawn, {"faithfulness": Outcome(1.0, 0.25)})
    bets = ledger.take()["b40"]
    failed, judged = (bets[f"{signal}@{drawn.group}"] for signal in SIGNALS)
    assert (failed[OPEN], failed[MISSED], failed[WEIGHT]) == (-2.0, 2.0, 0.0)
    assert (judged[OPEN], judged[MISSED], judged[WEIGHT], judged[BAD]) == (-2.0, 0.0, 2.0, 1.5)


def test_totals_only_rise_and_give_the_mean():
    """PromQL forms means over other windows from their rates."""
    rng = random.Random(1)
    ledger, seen = Ledger(), {}
    total = [0.0] * 7
    for n in range(600):
        bad = rng.random() < 0.2
        drawn = rng.random() < 0.25
        answer = Answer(
            id=str(n), at_s=0, chance=0.25, rate=0.25, is_drawn=drawn,
            expected={"refusal": Outcome(1.0, 0.1 + 0.2 * bad)},
        )  # fmt: skip
        ledger.note(answer)
        if drawn:
            ledger.settle(answer, {"refusal": Outcome(1.0, float(bad))})
        sums = ledger.take()
        row = totals(sums)["refusal"]
        assert min(row) >= 0
        total = [a + b for a, b in zip(total, row, strict=True)]
        merge_buckets(seen, sums)
    _, _, judged, value_up, value_down, scored_up, scored_down = total
    mean = (value_up - value_down) / (scored_up - scored_down)
    found = estimate(seen["r0"]["refusal"])
    assert mean == pytest.approx(found.mean)
    assert judged == found.judged == seen["r0"]["refusal"][JUDGED]
