"""Chances are known, coins agree, budgets hold, and 1 / chance is the right weight."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragmonitor.records import Cause, Interaction, SpanReference
from ragmonitor.sampling import AdaptiveSampler, Floors
from ragmonitor.sampling.consistent_draws import WHOLE, is_drawn, place_of
from ragmonitor.store import Budget, Memory
from ragmonitor.testing import ManualClock
from tests.support.stories import interaction

HOUR_S = 3_600.0
TOLD = interaction()

ids = st.text("0123456789abcdef", min_size=1, max_size=32)
rates = st.floats(0.001, 1)
uncertainties = st.one_of(st.floats(0, 10), st.floats())
callers = st.builds(
    SpanReference,
    trace_id=st.text("0123456789abcdef", min_size=32, max_size=32),
    span_id=st.just("b7ad6b7169203331"),
    sampled=st.booleans(),
    trace_state=st.one_of(
        st.text(max_size=40),
        st.from_regex(r"(a=b,)?ot=(th:[0-9a-f]{1,14})?;?(rv:[0-9a-f]{14})?(,c=d)?", fullmatch=True),
    ),
)


@st.composite
def interactions(draw: st.DrawFn) -> Interaction:
    """Return an interaction with anything that a chance or a coin looks at."""
    return replace(
        TOLD,
        id=draw(ids),
        session_id=draw(st.sampled_from(["", "s1", "s2", "s3"])),
        tags=draw(st.sampled_from([(), ("always",), ("other",)])),
        attributes=draw(st.sampled_from([{}, {"route": "a"}, {"route": "b"}, {"route": "c"}])),
        caller=draw(st.none() | callers),
    )


# An answer, its cost, how uncertain it is, until the next, how many later it is settled, share
# of what was reserved that is spent.
steps = st.lists(
    st.tuples(
        interactions(),
        st.floats(0.001, 3),
        uncertainties,
        st.one_of(st.just(0.0), st.floats(0, 1), st.floats(0, 7_200)),
        st.integers(0, 3),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(
    rate=rates,
    limits=st.none() | st.tuples(st.floats(0.5, 500), st.none() | st.floats(0.1, 50)),
    floors=st.booleans(),
    steps=steps,
)
def test_whatever_comes_chances_are_chances(rate, limits, floors, steps):
    """In range, bounded in stake, drawn only where there was one, never beyond any limit."""
    clock = ManualClock()
    per_day, per_hour = limits or (None, None)
    budget = Budget(Memory(clock), per_day=per_day, per_hour=per_hour) if limits else None
    costs: list[float] = []
    sampler = AdaptiveSampler(
        rate,
        clock=clock,
        budget=budget,
        expected_cost=lambda _: costs[-1],
        always=("always",),
        floors=Floors("route") if floors else None,
    )
    spent, open_ = [], []
    for told, cost, uncertainty, pause_s, later, share in steps:
        costs.append(cost)
        decision = sampler.draw(told, uncertainty=uncertainty)
        assert 0 <= decision.rate <= 1
        assert 0 <= decision.inclusion_probability <= 1
        assert decision.importance_weight <= 2 * (1 + 1e-12)
        if decision.drawn:
            # One process, one thread: nobody spends in between.
            assert decision.inclusion_probability > 0
            assert decision.cause is None
            assert decision.reserved == (cost if budget else 0.0)
            open_.append([later, decision, share, clock.now_s])
        else:
            assert decision.cause is (
                Cause.NOT_SAMPLED if decision.inclusion_probability else Cause.OVER_BUDGET
            )
            assert decision.reserved == 0
        if decision.inclusion_probability == 1:
            assert decision.drawn
        for entry in open_:
            entry[0] -= 1
        for entry in [entry for entry in open_ if entry[0] < 0]:
            open_.remove(entry)
            _, settled, part, at = entry
            sampler.refund(settled, settled.reserved * part)
            spent.append((at, settled.reserved * part))
        clock.advance(pause_s)
    for window_s, limit in ((24 * HOUR_S, per_day), (HOUR_S, per_hour)):
        for began, _ in spent:
            within = sum(cost for at, cost in spent if began <= at <= began + window_s)
            assert limit is None or within <= limit * (1 + 1e-9)


@settings(deadline=None)
@given(told=interactions(), low=rates, high=rates)
def test_a_higher_chance_keeps_what_a_lower_one_kept(told, low, high):
    """Turning the rate up adds judged answers and loses none: by id or trace."""
    assume(low <= high)
    if is_drawn(told, low):
        assert is_drawn(told, high)


@given(state=st.text(max_size=60), trace_id=st.text(max_size=40), sampled=st.booleans())
def test_no_trace_state_raises(state, trace_id, sampled):
    """Headers are anybody's."""
    place_of(
        SpanReference(trace_id=trace_id, span_id="", trace_state="ot=" + state, sampled=sampled)
    )


@given(threshold=st.integers(0, WHOLE - 1), value=st.integers(0, WHOLE - 1), explicit=st.booleans())
def test_a_trace_lies_among_those_that_were_kept(threshold, value, explicit):
    """`0 <= place < among <= 2^56` where R is not below the threshold; else it is not used."""
    written = f"{threshold:014x}".rstrip("0") or "0"
    found = place_of(
        SpanReference(
            trace_id="f" * 18 + ("0" * 14 if explicit else f"{value:014x}"),
            span_id="b7ad6b7169203331",
            trace_state=f"ot=th:{written}" + (f";rv:{value:014x}" if explicit else ""),
        )
    )
    if value < threshold:
        assert found is None
    else:
        assert found is not None
        place, among = found
        assert 0 <= place < among <= WHOLE


# Bursts that are worse


def traffic(seed: int, hours: int) -> Iterator[tuple[float, bool, float]]:
    """Yield time, whether the answer is bad, and its uncertainty (mean 1, higher for bad ones).

    Six a minute; six bursts a day of a quarter of an hour, ten times as many, and there 12 % bad
    instead of 4 %.
    """
    rng = random.Random(seed)
    now = 0.0
    while now < hours * HOUR_S:
        in_burst = now % (4 * HOUR_S) < 900 and now > HOUR_S
        now += rng.expovariate(1.0 if in_burst else 0.1)
        bad = rng.random() < (0.12 if in_burst else 0.04)
        yield now, bad, rng.gammavariate(2, 0.5) * (2.0 if bad else 0.95)


@pytest.mark.parametrize("floors", [None, "route"])
def test_one_over_the_chance_is_the_right_weight(floors):
    """Two days of bursts on 60 calls an hour: right to within four standard errors."""
    clock = ManualClock()
    rng = random.Random(99)
    sampler = AdaptiveSampler(
        1.0,
        clock=clock,
        budget=Budget(Memory(clock), per_hour=80.0, unit="calls"),
        expected_cost=lambda _: 1.0,
        floors=floors and Floors(floors),
    )
    answers = bad_answers = uncovered = 0
    drawn, weighted, variance = [], 0.0, 0.0
    for number, (at, bad, uncertainty) in enumerate(traffic(2, 48)):
        clock.now_s = at
        told = replace(
            TOLD,
            id=f"{number:x}",
            attributes={"route": "rare" if rng.random() < 0.02 else "busy"},
        )
        decision = sampler.draw(told, uncertainty=uncertainty)
        if decision.inclusion_probability == 0:
            uncovered += 1
            continue
        answers += 1
        bad_answers += bad
        variance += bad * (1 / decision.inclusion_probability - 1)
        if decision.drawn:
            sampler.refund(decision, 1.0)
            weighted += bad / decision.inclusion_probability
            drawn.append(at)
    assert answers > 20_000
    assert uncovered < 0.02 * answers
    assert abs(weighted - bad_answers) < 4 * math.sqrt(variance)
    for began in drawn:
        assert sum(began <= at <= began + HOUR_S for at in drawn) <= 80
