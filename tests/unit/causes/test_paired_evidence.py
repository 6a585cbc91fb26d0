"""The evidence of one kind of answers against the others, and what is named by it."""

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.causes.discoveries import discovered
from ragmonitor.causes.paired_evidence import LIFE_S, Others, PairedEvidence

shares = st.floats(0.02, 0.98)
probabilities = st.floats(0.2, 1.0)


def _mean_e(theta: float, kinds: list[bool], drawn_with: list[float], rate: float) -> float:
    """Return the mean e-value over all draws and verdicts; each answer is bad with chance theta.

    One whose chance to be drawn is 0 has no sampling rate either.
    """
    mean = 0.0
    for outcomes in product(((0.0, 0.0), (1.0, 0.0), (1.0, 1.0)), repeat=len(kinds)):
        others, chance = Others(), 1.0
        evidence = PairedEvidence(others, 0.0)
        for is_of_kind, probability, (drawn, bad) in zip(kinds, drawn_with, outcomes, strict=True):
            chance *= probability * (theta if bad else 1 - theta) if drawn else 1 - probability
            weight = drawn * rate / probability / 2 if probability else 0.0
            answer = others.add(rate if probability else 0.0, weight, bad, 0.0)
            if is_of_kind:
                evidence.add([answer])
        mean += chance * evidence.e_value(0.0)
    return mean


@settings(max_examples=60, deadline=None)
@given(
    theta=shares,
    answers=st.lists(st.tuples(st.booleans(), probabilities), min_size=1, max_size=6),
    rate=st.floats(0.2, 0.4),
)
def test_the_mean_evidence_is_at_most_one(
    theta: float, answers: list[tuple[bool, float]], rate: float
):
    """It is an e-value where both kinds are bad equally often, whatever the chances to be drawn."""
    kinds, drawn_with = [each for each, _ in answers], [chance for _, chance in answers]
    assert _mean_e(theta, kinds, drawn_with, rate) <= 1 + 1e-9


def test_the_mean_evidence_is_at_most_one_where_an_answer_could_not_be_drawn():
    """The others since the answer before it are no fewer for it."""
    kinds = [True, False, False, False, True, False, True]
    drawn_with = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert _mean_e(0.01, kinds, drawn_with, 1.0) <= 1 + 1e-9


def test_evidence_grows_with_a_kind_that_is_bad():
    """Twenty bad answers beside four good others each are plenty."""
    others = Others()
    evidence = PairedEvidence(others, 0.0)
    for _ in range(20):
        for _ in range(4):
            others.add(1.0, 1.0, 0.0, 0.0)
        evidence.add([others.add(1.0, 1.0, 1.0, 0.0)])
    assert evidence.e_value(0.0) > 10_000


def test_evidence_is_of_two_days_at_most():
    """What is older says nothing any more."""
    others = Others()
    evidence = PairedEvidence(others, 0.0)
    for _ in range(20):
        others.add(1.0, 1.0, 0.0, 0.0)
        evidence.add([others.add(1.0, 1.0, 1.0, 0.0)])
    assert evidence.e_value(LIFE_S / 4) > 100
    assert evidence.e_value(2 * LIFE_S) == pytest.approx(1.0)


def test_a_kind_that_every_answer_is_of_is_compared_with_nothing():
    """Without others there is no evidence."""
    others = Others()
    evidence = PairedEvidence(others, 0.0)
    for _ in range(50):
        evidence.add([others.add(1.0, 1.0, 1.0, 0.0)])
    assert evidence.e_value(0.0) == 1.0


@pytest.mark.parametrize("per_batch", [1, 7, 1_000])
def test_answers_are_the_same_evidence_however_many_are_taken_in_at_once(per_batch: int):
    """Also where some follow each other, are not judged, or come after a life of the evidence."""
    rng = random.Random(4)
    others, kept = Others(), []
    single, several = PairedEvidence(others, 0.0), PairedEvidence(others, 0.0)
    for number in range(1_000):
        drawn = rng.random() < 0.5
        rate = rng.choice((0.0, 0.3, 1.0))
        answer = others.add(rate, 0.5 * drawn * rate, float(rng.random() < 0.3), 300.0 * number)
        if rng.random() < 0.3:
            single.add([answer])
            kept.append(answer)
            if len(kept) >= per_batch:
                several.add(kept)
                kept.clear()
    several.add(kept)
    assert single.e_value(300_000.0) == several.e_value(300_000.0) != 1.0


def _names_any(seed: int, kinds: int = 20, answers: int = 600) -> bool:
    """Return whether any kind is ever named in traffic whose rate rises for all kinds at once."""
    rng = random.Random(seed)
    others = Others()
    evidence = [PairedEvidence(others, 0.0) for _ in range(kinds)]
    for turn in range(answers):
        theta = 0.05 if turn < answers / 2 else 0.3
        bad = rng.random() < theta
        # Answers that are bad are likelier to be drawn, as by a sampler that predicts well.
        probability = 0.4 if bad else 0.15
        drawn = rng.random() < probability
        weight = 0.2 / probability / 2 if drawn else 0.0
        # In the second half other kinds come than in the first.
        first = 0 if turn < answers / 2 else kinds // 2
        answer = others.add(0.2, weight, float(bad), 0.0)
        for at in rng.sample(range(first, first + kinds // 2), 3):
            evidence[at].add([answer])
        if turn % 50 == 0:
            e_values = [each.e_value(0.0) for each in evidence]
            if discovered(e_values, [1.0] * kinds, kinds):
                return True
    return False


def test_nothing_is_named_where_all_kinds_get_worse_together():
    """Of a hundred such rises, looked at all the time, no more than the stated share names one."""
    assert sum(_names_any(seed) for seed in range(100)) <= 10
