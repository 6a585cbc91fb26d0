"""Floors bias nothing: neither estimates nor the slices' own evidence."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.records import Interaction
from ragmonitor.sampling import AdaptiveSampler, Floors
from ragmonitor.testing import ManualClock

Answers = Sequence[tuple[bool, bool, bool, float]]
"""Of the route, of the tenant, whether it is bad, and its uncertainty."""

answers = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.floats(0, 2)), min_size=1, max_size=40
)


def asked(number: int, *, in_route: bool, in_tenant: bool) -> Interaction:
    """Return an interaction of the slices."""
    return Interaction(
        id=f"{number:032x}",
        query="",
        chunks=(),
        answer="",
        framework="python",
        started_ns=0,
        ended_ns=0,
        attributes={"route": "billing" if in_route else "faq", "tenant": "a" if in_tenant else "b"},
    )


@settings(max_examples=60, deadline=None)
@given(
    answers=answers,
    rate=st.floats(0.02, 1.0),
    per_hour=st.floats(1.0, 2_000.0),
    gap_s=st.floats(0.5, 120.0),
)
def test_the_expectation_over_the_draw_is_the_truth(answers: Answers, rate, per_hour, gap_s):
    """Each answer, weighted by its chance, counts once in means, and alike in its slice's alarm.

    The expectation is exact: chance times weight, for whatever floors and uncertainties there were
    before. In a slice it is what is common to the slice at that moment, whatever the answer.
    """
    clock = ManualClock()
    clock.now_s = 0.0
    sampler = AdaptiveSampler(rate, clock=clock, floors=Floors("route", per_hour))
    for number, (in_route, in_tenant, _, uncertainty) in enumerate(answers):
        clock.now_s += gap_s
        asked_of = asked(number, in_route=in_route, in_tenant=in_tenant)
        decision = sampler.draw(asked_of, uncertainty=uncertainty)
        probability = decision.inclusion_probability
        assert 0 < probability <= 1
        floors = dict(decision.floors)
        assert set(floors) == {"route=billing" if in_route else "route=faq"}
        for name, floor in floors.items():
            common = max(decision.rate, floor)
            assert abs(probability * decision.weight_in(name) - common) < 1e-9
            # Never cut off, or the evidence would be biased.
            assert decision.weight_in(name) <= 2 + 1e-9
        assert abs(probability * decision.importance_weight - decision.rate) < 1e-9
