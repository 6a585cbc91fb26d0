"""Laws of the search for causes: evidence, discoveries, and what a rise consists of."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.causes.betting import Sample, cell_of, log_worse
from ragmonitor.causes.decomposition import (
    rate_part,
    share_of_rise,
)
from ragmonitor.causes.discoveries import FALSE_DISCOVERY_RATE, discovered
from ragmonitor.causes.version_sums import AMOUNTS, Row, VersionSums
from tests.support.slice_rows import RATE, Traffic, only

counts = st.tuples(st.floats(1, 1_000), st.floats(0, 1)).map(lambda each: (each[0], each[1]))


def sample(rng: random.Random, n: int, rate: float, *, weighted: bool) -> Sample:
    """Return verdicts, drawn with chances that are unequal, and lower for bad answers."""
    found = Sample()
    while len(found) < n:
        bad = rng.random() < rate
        # Two kinds of answers; a bad one is more often of the first.
        weight = (0.7 if rng.random() < (0.8 if bad else 0.3) else 1.6) if weighted else 1.0
        if rng.random() < 0.6 / weight:
            found.cells[cell_of(float(bad), weight, 2.0 if weighted else 1.0)] += 1
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_evidence_against_equal_means_is_at_most_one_on_average(weighted, rate):
    """The e-value of two samples of one mean, at unequal chances to be judged too."""
    rng = random.Random(7)
    most = 2.0 if weighted else 1.0
    found = [
        math.exp(
            log_worse(
                sample(rng, 30, rate, weighted=weighted),
                sample(rng, 200, rate, weighted=weighted),
                most,
            )
        )
        for _ in range(150)
    ]
    assert sum(found) / len(found) < 1


@given(values=st.lists(st.tuples(st.floats(0, 1), st.floats(0.05, 2.5)), min_size=1, max_size=20))
def test_a_counted_verdict_lies_within_its_cell(values):
    """Rounding only ever bounds a weight and a value from both sides."""
    for value, weight in values:
        low, high, at_least, at_most = cell_of(value, weight, 2.0)
        assert low <= min(weight, 2.0) * (1 + 1e-9)
        assert high >= min(weight, 2.0) * (1 - 1e-9)
        assert high <= 2.0
        assert at_least <= value + 1e-9
        assert at_most >= value - 1e-9


@given(
    e_values=st.lists(st.floats(0, 1e6), max_size=12),
    others=st.integers(0, 20),
)
def test_discoveries_are_the_largest_that_meet_their_bar(e_values, others):
    """As the definition of e-BH has it, by trying every number of discoveries."""
    hypotheses = len(e_values) + others
    found = discovered(e_values, hypotheses)
    best = 0
    ranked = sorted(e_values, reverse=True)
    for k in range(1, len(ranked) + 1):
        if ranked[k - 1] >= hypotheses / (k * FALSE_DISCOVERY_RATE) * (1 - 1e-12):
            best = k
    assert abs(len(found) - best) <= 0 or math.isclose(
        ranked[best - 1] * best * FALSE_DISCOVERY_RATE, hypotheses
    )
    assert sorted((e_values[at] for at in found), reverse=True) == ranked[: len(found)]


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [1, 5])
def test_false_discoveries_keep_to_their_rate(sessions):
    """Nothing planted: in at most a tenth of the looks is anything named, over many looks each.

    All answers get worse at once, and each stream is looked at four times as it grows.
    """
    wrong = 0
    for seed in range(40):
        found: list[str] = []
        for now in (100, 200, 400, 800):
            traffic = Traffic(
                seed=seed,
                before=2_000,
                now=now,
                in_sessions_of=sessions,
                noise=3,
                rates=lambda since, _: 3 * RATE if since else RATE,
            )
            found += traffic.discoveries()
        wrong += bool(found)
    assert wrong <= 4


@pytest.mark.slow
def test_a_planted_slice_is_found_beside_few_wrong_ones():
    """A tenth of the traffic goes to 50 %: named first; and of all named few are wrong."""
    first, wrong = 0, []
    for seed in range(40):
        found = Traffic(seed=seed, now=500, rates=only(route="billing")(0.5)).discoveries()
        first += bool(found) and found[0] == "route=billing"
        if found:
            wrong.append(sum("billing" not in each for each in found) / len(found))
    assert first >= 38
    assert sum(wrong) / 40 <= FALSE_DISCOVERY_RATE


@pytest.mark.slow
@pytest.mark.parametrize("probability", [1.0, 0.2])
def test_intervals_of_explained_shares_hold_the_truth(probability):
    """Of the rise by one route: 95 % intervals, in at least 91 of 100 cases."""

    def rates(since: bool, values: dict[str, str]) -> float:
        return (0.3 if values["route"] == "billing" else 2 * RATE) if since else RATE

    # 0.04 -> 0.08 on all others, and 0.04 -> 0.3 of a route, from a tenth to three tenths.
    truth = 0.2 * (0.3 - RATE) / (0.3 * 0.3 + 0.7 * 2 * RATE - RATE)
    held = looks = 0
    for seed in range(100):
        search = Traffic(
            seed=seed,
            before=2_000,
            now=500,
            billing=(0.1, 0.3),
            rates=rates,
            probability=probability,
            noise=0,
        ).search()
        share = share_of_rise(
            search.everything,
            [search.parts["route", "billing"]],
            lambda everything, parts: rate_part(everything, parts[0], is_new=False),
        )
        if share is not None and share.lower is not None:
            looks += 1
            held += share.lower <= truth <= share.upper
    assert looks > 60
    assert held >= 0.91 * looks


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Return an answer with any signals, in any order, of one of two sessions or of none."""
    signals = tuple(draw(st.permutations(("a", "b", "c")))[: draw(st.integers(0, 3))])
    k = len(AMOUNTS) + len(signals)
    numbers = st.lists(st.floats(-2, 2), min_size=2 * k, max_size=2 * k)
    flags = st.lists(st.sampled_from((0.0, 1.0)), min_size=k, max_size=k)
    drawn = draw(st.sampled_from((0.0, 1.0, 4.0)))
    return Row(
        at_s=0.0,
        session=draw(st.sampled_from(("", "x", "y"))),
        signals=signals,
        outcomes=draw(numbers),
        judged=draw(flags),
        drawn=drawn,
        missing=signals[:1] if drawn else (),
        is_covered=draw(st.booleans()),
    )


@given(answers=st.lists(rows(), min_size=1, max_size=12), cuts=st.sets(st.integers(1, 11)))
def test_versions_have_the_same_sums_however_their_answers_are_batched(answers, cuts):
    """Counts and sums are those of the answers, squares those of the sessions' sums."""
    sums, found = VersionSums(), {}
    edges = sorted({0, len(answers), *(cut for cut in cuts if cut < len(answers))})
    for begin, end in itertools.pairwise(edges):
        for signal, amounts in sums.add_up("by", "1.0", answers[begin:end]):
            known = found.setdefault(signal, [0.0] * len(amounts))
            found[signal] = [a + b for a, b in zip(known, amounts, strict=True)]
    for signal in "abc":
        own = [(row, row.signals.index(signal) + 2) for row in answers if signal in row.signals]
        if own:
            assert found[signal] == pytest.approx(_sums_of(signal, own), abs=1e-9)


def _sums_of(signal: str, own: list[tuple[Row, int]]) -> list[float]:
    """Return a signal's sums, one answer at a time."""
    y = [row.outcomes[at] for row, at in own]
    d = [row.outcomes[len(row.outcomes) // 2 + at] for row, at in own]
    sessions: dict[object, list[float]] = {}
    for place, (row, _) in enumerate(own):
        of_session = sessions.setdefault(row.session or place, [0.0, 0.0])
        of_session[0] += y[place]
        of_session[1] += d[place]
    return [
        sum(row.is_covered for row, _ in own),
        sum(not row.is_covered for row, _ in own),
        sum(row.judged[at] for row, at in own),
        sum(row.drawn for row, _ in own),
        sum(row.drawn for row, _ in own if signal in row.missing),
        sum(y),
        sum(d),
        sum(a * a for a, _ in sessions.values()),
        sum(a * b for a, b in sessions.values()),
        sum(b * b for _, b in sessions.values()),
    ]
