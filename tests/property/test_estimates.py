"""What holds of every estimate, whatever was sampled, in whatever order it came."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import astuple
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.signals import Outcome
from ragmonitor.estimation.sums import Sums, difference
from ragmonitor.estimation.windows import Windows
from ragmonitor.records import Moments, SeriesKey, Totals
from ragmonitor.testing import ManualClock

KEY = SeriesKey(signal="hallucination", judge="judge")
shares = st.floats(0, 1)


class Told(NamedTuple):
    """What a series is told of one answer."""

    expected: tuple[float, float]
    chance: float
    drawn: bool
    outcome: Outcome | None
    session: str


outcome = st.one_of(
    st.builds(lambda value: Outcome(scored=True, value=value), shares),
    st.just(Outcome(scored=False, value=0.0)),
)
answer = st.builds(
    Told,
    expected=st.tuples(shares, shares),
    chance=st.floats(0.01, 1),
    drawn=st.booleans(),
    outcome=outcome,
    session=st.sampled_from(("", "a", "b", "c")),
)
answers = st.lists(answer, min_size=1, max_size=40)
alone = st.lists(answer.map(lambda told: told._replace(session="")), min_size=1, max_size=40)


def tell(sums: Sums, told: Told) -> None:
    if told.drawn:
        sums.read(told.expected, told.chance, told.outcome, told.session)
    else:
        sums.unread(told.expected, told.chance, told.session)


def summed(all_told: Iterable[Told]) -> Sums:
    sums = Sums()
    for told in all_told:
        tell(sums, told)
    return sums


def close(left: Moments, right: Moments, *, but: frozenset[str] = frozenset()) -> None:
    for name in Moments.__dataclass_fields__:
        if name not in but:
            assert getattr(left, name) == pytest.approx(getattr(right, name), rel=1e-9, abs=1e-6)


# How far predictions lie apart is taken from the mean of those before: of order, a little.
OF_ORDER = frozenset(("expected_variance",))


@given(told=answers, seed=st.integers())
def test_the_order_of_answers_within_a_tick_says_nothing(told: list[Told], seed: int) -> None:
    """Answers that come in another order give the same sums."""
    shuffled = random.Random(seed).sample(told, len(told))
    close(summed(told).moments(), summed(shuffled).moments(), but=OF_ORDER)


@given(told=answers, at=st.integers(0, 40))
def test_sums_of_two_times_add_up(told: list[Told], at: int) -> None:
    """What was there at a time, and what came since, are all of it."""
    sums = summed(told[:at])
    before = sums.moments()
    for later in told[at:]:
        tell(sums, later)
    after = sums.moments()
    close(before + difference(after, before), after)


@given(first=alone, second=alone)
def test_two_processes_sums_add_up(first: list[Told], second: list[Told]) -> None:
    """What two processes saw, added, is what one would have seen."""
    merged = summed(first).moments() + summed(second).moments()
    close(merged, summed(first + second).moments(), but=OF_ORDER)


def mean_of(totals: Iterable[Totals]) -> float:
    """Form the mean as PromQL does: from the sums of counters."""
    totals = list(totals)
    value = math.fsum(t.value_positive - t.value_negative for t in totals)
    scored = math.fsum(t.scored_positive - t.scored_negative for t in totals)
    return value / scored


@given(first=alone, second=alone)
def test_counters_of_two_processes_form_the_mean_of_both(
    first: list[Told], second: list[Told]
) -> None:
    """The mean formed of added counters is the mean of added moments."""
    left, right = summed(first), summed(second)
    moments = left.moments() + right.moments()
    assume(moments.scored > 0.01)
    found = mean_of((left.totals(), right.totals()))
    assert found == pytest.approx(moments.value / moments.scored, rel=1e-6, abs=1e-6)


@given(told=alone)
def test_counters_form_the_variance_of_the_moments(told: list[Told]) -> None:
    """Squares of the two pseudo-outcomes and of their difference give their products."""
    sums = summed(told)
    totals, moments = sums.totals(), sums.moments()
    product = (totals.value_squares + totals.scored_squares - totals.difference_squares) / 2
    assert totals.value_squares == pytest.approx(moments.value_value)
    assert totals.scored_squares == pytest.approx(moments.scored_scored)
    assert product == pytest.approx(moments.value_scored, rel=1e-6, abs=1e-6)


@given(told=answers)
def test_counters_never_fall(told: list[Told]) -> None:
    """Not by a rounding error either: Prometheus would take it for a restart from 0."""
    sums = Sums()
    before = astuple(sums.totals())
    for one in told:
        tell(sums, one)
        after = astuple(sums.totals())
        assert all(new >= old for new, old in zip(after, before, strict=True))
        before = after


@given(told=answers)
def test_an_interval_holds_its_mean_and_stays_within_0_and_1(told: list[Told]) -> None:
    """0 <= lower <= mean <= upper <= 1, and the bounds of what is missing hold the mean too."""
    estimate = summarise(summed(told).moments())
    assume(estimate is not None)
    assert estimate is not None
    assert 0 <= estimate.lower <= estimate.mean <= estimate.upper <= 1
    assert 0 <= estimate.missing_lower <= estimate.mean <= estimate.missing_upper <= 1
    assert estimate.effective_n > 0


@given(
    told=alone,
    missing=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_missing_verdicts_are_bounded_by_what_they_might_have_been(
    told: list[Told], missing: list[bool]
) -> None:
    """The mean with all verdicts lies between the best and the worst case without some of them."""
    # Without refusals: the bounds speak of values, given that there is one.
    whole = [
        t._replace(
            expected=(1.0, t.expected[1]), outcome=Outcome(scored=True, value=t.outcome.value)
        )
        for t in told
        if t.outcome is not None
    ]
    some = [
        t._replace(outcome=None if gone and t.drawn else t.outcome)
        for t, gone in zip(whole, missing, strict=False)
    ]
    complete, partial = summed(whole).moments(), summed(some).moments()
    bounds = summarise(partial)
    assume(bounds is not None)
    assert bounds is not None
    mean = min(1.0, max(0.0, complete.value / complete.scored))
    assert bounds.missing_lower - 1e-6 <= mean <= bounds.missing_upper + 1e-6


@given(predicted=shares, chance=st.floats(0.05, 1), value=shares)
def test_a_pseudo_outcome_is_right_on_average(
    predicted: float, chance: float, value: float
) -> None:
    """Read with its chance, not read otherwise: on average it is the value, however it was
    predicted."""
    outcome_ = Outcome(scored=True, value=value)
    read = summed([Told((1.0, predicted), chance, True, outcome_, "")]).moments()
    unread = summed([Told((1.0, predicted), chance, False, outcome_, "")]).moments()
    assert chance * read.value + (1 - chance) * unread.value == pytest.approx(value, abs=1e-9)
    assert chance * read.scored + (1 - chance) * unread.scored == pytest.approx(1.0)


jumps = st.lists(st.tuples(answer, st.floats(-1e6, 1e6, allow_nan=False)), min_size=1, max_size=20)


@given(steps=jumps)
def test_clock_jumps_make_nothing_count_more_than_it_did(
    steps: list[tuple[Told, float]],
) -> None:
    """However the clock jumps, a window holds no more than what was added, and an interval."""
    clock = ManualClock()
    windows = Windows(clock=clock)
    for told, jump_s in steps:
        sums = windows.sums(KEY)
        assert sums is not None
        tell(sums, told)
        clock.now_s += jump_s
        windows.tick()
    for _, _, moments in windows.moments():
        assert 0 <= moments.answers <= len(steps) + 1e-9
        assert 0 <= moments.judged <= len(steps) + 1e-9
        estimate = summarise(moments)
        assert estimate is None or 0 <= estimate.lower <= estimate.upper <= 1


@given(told=answers, gap_s=st.floats(0, 86_400))
def test_a_window_forgets_with_its_time_constant(told: list[Told], gap_s: float) -> None:
    """What was added counts exp(-age / time constant)."""
    clock = ManualClock()
    windows = Windows(clock=clock)
    sums = windows.sums(KEY)
    assert sums is not None
    for one in told:
        tell(sums, one)
    windows.tick()
    clock.advance(gap_s)
    windows.tick()
    moments = windows.of(KEY, "1h")
    assert moments is not None
    assert moments.answers == pytest.approx(
        len(told) * math.exp(-gap_s / 3_600), rel=1e-6, abs=1e-9
    )
