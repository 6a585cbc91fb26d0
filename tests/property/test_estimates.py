"""What holds of every estimate, whatever was sampled, in whatever order it came."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable
from dataclasses import astuple
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ragmonitor.estimation import summarise
from ragmonitor.estimation.calibration import Calibration
from ragmonitor.estimation.interval import LEAST_COVERAGE
from ragmonitor.estimation.signals import Outcome
from ragmonitor.estimation.sums import Sums, group_of
from ragmonitor.estimation.windows import SPANS, Windows
from ragmonitor.records import (
    CompletedAnswer,
    Interaction,
    Moments,
    SamplingDecision,
    SeriesKey,
    Totals,
)
from ragmonitor.sampling import AdaptiveSampler, Budget, Floors
from ragmonitor.testing import ManualClock
from tests.support import simulation
from tests.support.streams import Records, Stream

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
        sums.await_verdict(told.chance)
        sums.add_drawn(told.expected, told.chance, told.outcome, group_of(told.session))
    else:
        sums.add_not_drawn(told.expected, told.chance, group_of(told.session))


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


@given(first=answers, second=answers)
def test_two_processes_sums_add_up(first: list[Told], second: list[Told]) -> None:
    """What two processes saw, added, is what one would have seen, sessions included."""
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
    """0 <= lower <= mean <= upper <= 1."""
    estimate = summarise(summed(told).moments())
    assume(estimate is not None)
    assert estimate is not None
    assert 0 <= estimate.lower <= estimate.mean <= estimate.upper <= 1
    assert LEAST_COVERAGE <= estimate.coverage <= 1
    assert estimate.effective_n > 0


@given(
    told=alone,
    missing=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_missing_verdicts_are_bounded_by_what_they_might_have_been(
    told: list[Told], missing: list[bool]
) -> None:
    """The mean with all verdicts lies in the interval without some of them."""
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
    bounds = summarise(partial, least_coverage=0.0)
    assume(bounds is not None)
    assert bounds is not None
    mean = min(1.0, max(0.0, complete.value / complete.scored))
    assert bounds.lower - 1e-6 <= mean <= bounds.upper + 1e-6


@given(predicted=shares, chance=st.floats(0.05, 1), value=shares)
def test_a_pseudo_outcome_is_right_on_average(
    predicted: float, chance: float, value: float
) -> None:
    """With its chance it is read, else not: on average it is the value, whatever was predicted."""
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


@given(told=answers, gap_s=st.floats(0, 7_200))
def test_a_window_holds_what_is_younger_than_it(told: list[Told], gap_s: float) -> None:
    """All of it while it is younger, and nothing once it is older by a step."""
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
    span = SPANS["1h"]
    if gap_s < span.length_s:
        assert moments.answers == len(told)
    elif gap_s > span.length_s + span.slot_s:
        assert moments.answers == moments.drawn == moments.awaited == 0
        assert not any(moments.groups)
        assert moments.coverage is None


# --- chances --------------------------------------------------------------------------------------


def told_of(number: int, tag: str, route: str) -> Interaction:
    return Interaction(
        id=f"{number:032x}",
        query="q",
        chunks=(),
        answer="a",
        framework="python",
        started_ns=0,
        ended_ns=0,
        tags=(tag,) if tag else (),
        attributes={"route": route} if route else {},
    )


arrivals = st.lists(
    st.tuples(
        st.floats(0, 600),
        st.floats(0, 20),
        st.sampled_from(("", "judge me")),
        st.sampled_from(("", "search", "checkout")),
    ),
    min_size=1,
    max_size=60,
)


@given(rate=st.floats(1e-3, 1), coming=arrivals)
def test_a_chance_is_above_0_and_up_to_1_and_its_stake_up_to_2(
    rate: float, coming: list[tuple[float, float, str, str]]
) -> None:
    """Whatever is uncertain or tagged: weights are finite, and no bet is above 2."""
    clock = ManualClock()
    sampler = AdaptiveSampler(
        rate, clock=clock, always=("judge me",), floors=Floors("route", per_hour=9.0)
    )
    for number, (gap_s, uncertainty, tag, route) in enumerate(coming):
        clock.advance(gap_s)
        decision = sampler.draw(told_of(number, tag, route), uncertainty=uncertainty)
        assert 0 < decision.inclusion_probability <= 1
        assert 0 < decision.rate <= 1
        assert 0 <= decision.importance_weight <= 2 + 1e-9
        assert decision.drawn or decision.inclusion_probability < 1
        if tag == "judge me":
            assert decision.inclusion_probability == 1


@given(
    limit=st.floats(1, 50),
    coming=arrivals,
    costs=st.lists(st.floats(0.01, 3), min_size=60, max_size=60),
)
def test_no_hour_costs_more_than_its_budget(
    limit: float, coming: list[tuple[float, float, str, str]], costs: list[float]
) -> None:
    """However they come in and whatever they cost; what had no chance has no weight either."""
    clock = ManualClock()
    cost = iter(costs)
    price: dict[str, float] = {}

    def expected(interaction: Interaction) -> float:
        return price.setdefault(interaction.id, next(cost))

    sampler = AdaptiveSampler(
        1.0,
        clock=clock,
        budget=Budget(per_hour=limit, unit="calls", clock=clock),
        expected_cost=expected,
        always=("judge me",),
    )
    spent: list[tuple[float, float]] = []
    for number, (gap_s, uncertainty, tag, route) in enumerate(coming):
        clock.advance(gap_s)
        interaction = told_of(number, tag, route)
        decision = sampler.draw(interaction, uncertainty=uncertainty)
        assert 0 <= decision.inclusion_probability <= 1
        assert decision.inclusion_probability > 0 or not decision.drawn
        if decision.drawn and decision.cause is None:
            spent.append((clock(), price[interaction.id]))
            sampler.refund(decision, price[interaction.id])
        within = math.fsum(amount for at_s, amount in spent if at_s > clock() - 3_600)
        assert within <= limit * (1 + 1e-9)


# --- the whole ------------------------------------------------------------------------------------


class Fate(NamedTuple):
    """What becomes of one simulated answer."""

    gap_s: float
    late_s: float
    verdict: bool | None
    jump_s: float


fates = st.lists(
    st.builds(
        Fate,
        gap_s=st.floats(0, 300),
        late_s=st.floats(0, 7_200),
        verdict=st.sampled_from((True, False, None)),
        jump_s=st.sampled_from((0.0, 0.0, 0.0, -86_400.0, 86_400.0)),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(all_fates=fates, seed=st.integers(0, 1_000))
def test_late_missing_and_jumping_leave_every_number_in_its_place(
    all_fates: list[Fate], seed: int
) -> None:
    """Late and missing verdicts and a wall clock that jumps: no number is out of bounds.

    Every answer is counted once, every interval holds its mean, evidence is finite, and nothing is
    raised before anything was learned.
    """
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",))
    estimates = simulation.statistics(clock, records)
    simulated = Stream(seed=seed, for_s=1e9).answers()
    waiting: list[tuple[float, int, CompletedAnswer]] = []
    for number, fate in enumerate(all_fates):
        clock.advance(fate.gap_s)
        records.began_s += fate.jump_s
        one = next(simulated)._replace(at_s=clock(), number=number)
        interaction = records.interaction(one)
        builtin = records.builtin(one, interaction)
        prediction = estimates.predict(builtin)
        decision = SamplingDecision(inclusion_probability=0.5, drawn=number % 2 == 0, rate=0.5)
        judged = None
        if decision.drawn:
            judged = (
                records.failed(interaction, decision)
                if fate.verdict is None
                else records.verdict(one, interaction, decision, hallucinated=fate.verdict)
            )
        settled = CompletedAnswer(
            builtin=builtin, prediction=prediction, decision=decision, judged=judged
        )
        heapq.heappush(waiting, (clock() + (fate.late_s if decision.drawn else 0), number, settled))
        while waiting and waiting[0][0] <= clock():
            estimates.add(heapq.heappop(waiting)[2])
        assert estimates.tick() == ()
    for _, _, settled in sorted(waiting, key=lambda each: each[:2]):
        estimates.add(settled)
    estimates.tick()
    snapshot = estimates.snapshot()
    totals = dict(snapshot.totals)
    assert totals[KEY].answers == len(all_fates)
    for _, _, moments in snapshot.moments:
        estimate = summarise(moments)
        assert estimate is None or 0 <= estimate.lower <= estimate.mean <= estimate.upper <= 1
    for state in snapshot.alarms:
        assert 0 <= state.evidence_s / 86_400 < math.inf


verdicts = st.lists(
    st.tuples(st.one_of(st.none(), shares), st.booleans(), shares, st.floats(1, 100)),
    max_size=200,
)


@given(told=verdicts, feature=st.one_of(st.none(), shares))
def test_what_a_calibration_keeps_makes_the_same_of_it_again(
    told: list[tuple[float | None, bool, float, float]], feature: float | None
) -> None:
    """Written as JSON and read by another process it predicts the same."""
    first, second, third = Calibration(), Calibration(), Calibration()
    for said, scored, value, weight in told:
        first.add(said, scored=scored, value=value if scored else 0.0, weight=weight)
    first.merge()
    kept = json.loads(json.dumps(first.state()))
    second.merge(kept)
    third.merge(json.loads(json.dumps(second.state())))
    first.fit()
    second.fit()
    third.fit()
    for one, other in zip(first.expected(feature), second.expected(feature), strict=True):
        assert 0 <= one <= 1
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4)
    assert second.expected(feature) == third.expected(feature)
