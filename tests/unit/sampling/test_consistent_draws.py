"""The coin and the randomness it takes over from traces."""

import random

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace._sampling_experimental import (
    composable_traceid_ratio_based,
    composite_sampler,
)
from opentelemetry.sdk.trace._sampling_experimental._util import calculate_threshold
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from ragmonitor.records import SpanReference
from ragmonitor.sampling.consistent_draws import WHOLE, is_drawn, place_of, uniform_of
from tests.support.stories import interaction

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
"""Its low 56 bits, 48eb211c80319c, are about 0.285 of the whole."""


def caller(state, *, trace_id=TRACE_ID, sampled=True):
    return SpanReference(
        trace_id=trace_id, span_id="b7ad6b7169203331", trace_state=state, sampled=sampled
    )


def test_the_coin_is_fair_over_ids():
    """Of 20,000 ids, a tenth falls below 0.1, to within five standard errors."""
    below = sum(uniform_of(f"{n:032x}") < 0.1 for n in range(20_000))
    assert abs(below - 2_000) < 5 * (20_000 * 0.1 * 0.9) ** 0.5


@pytest.mark.parametrize("probability", [0.001, 0.28, 0.285, 0.5, 0.9])
def test_randomness_of_the_trace_is_used_as_the_specification_says(probability):
    """`R >= T` with `T = (1 - p) 2^56`: by `rv`, or by the trace id under a threshold."""
    threshold = 2**56 - round(probability * 2**56)  # as the SDK computes it
    for random_value in (0, threshold - 1, threshold, 2**56 - 1, 0x48EB211C80319C):
        explicit = interaction(caller=caller(f"ot=rv:{random_value:014x}"))
        implicit = interaction(
            caller=caller("ot=th:0", trace_id=f"{2**120 + random_value:032x}"),
        )
        assert is_drawn(explicit, probability) is (random_value >= threshold)
        assert is_drawn(implicit, probability) is (random_value >= threshold)


def test_a_trace_that_was_kept_lies_among_those_kept():
    """Kept at 1/2 by R, a trace is judged at p of these, not at twice as much."""
    assert place_of(caller("ot=th:8;rv:80000000000000")) == (WHOLE // 2 - 1, WHOLE // 2)
    assert place_of(caller("ot=th:8;rv:ffffffffffffff")) == (0, WHOLE // 2)


@pytest.mark.parametrize(
    "state",
    [
        "",
        "=",
        "ot=th",
        "ot=th:8A",
        "ot=th:-1",
        "ot=rv:8",
        "ot=rv:١٢٣٤٥٦٧٨٩٠١٢٣٤",
        "vendor=ot=th:0",
        "\x00\ud800",
    ],
)
def test_what_is_no_randomness_is_left_alone(state):
    """Malformed entries, other vendors' and those of older drafts: the id's own coin falls."""
    told = interaction(caller=caller(state))
    assert place_of(told.caller) is None
    assert is_drawn(told, 0.5) is (uniform_of(told.id) < 0.5)


def test_randomness_below_its_threshold_is_not_what_was_decided_by():
    """R < T and kept nevertheless: somebody decided otherwise."""
    assert place_of(caller("ot=th:8;rv:7fffffffffffff")) is None


def test_a_trace_that_was_not_kept_has_the_ids_coin():
    """Its R lies below a threshold that nobody knows."""
    assert place_of(caller("ot=rv:ffffffffffffff", sampled=False)) is None


# With the SDK's own samplers


class SeededIds(RandomIdGenerator):
    """The SDK's ids, the same in every run: of its own a bound of five errors fails some day."""

    def __init__(self, rng):
        self._rng = rng

    def generate_span_id(self):
        return self._rng.getrandbits(64) or 1

    def generate_trace_id(self):
        return self._rng.getrandbits(128) or 1


def spans(sampler, count, *, seed=7, parent_state=None):
    """Yield references of root spans (or children of a remote parent) as we capture them."""
    rng = random.Random(seed)
    tracer = TracerProvider(sampler=sampler, id_generator=SeededIds(rng)).get_tracer("t")
    for _ in range(count):
        context = None
        if parent_state is not None:
            remote = SpanContext(
                rng.getrandbits(128) or 1,
                rng.getrandbits(64) or 1,
                is_remote=True,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
                trace_state=TraceState.from_header([parent_state(rng)]),
            )
            context = set_span_in_context(NonRecordingSpan(remote))
        found = tracer.start_span("s", context=context).get_span_context()
        yield SpanReference(
            trace_id=f"{found.trace_id:032x}",
            span_id=f"{found.span_id:016x}",
            sampled=found.trace_flags.sampled,
            trace_state=found.trace_state.to_header(),
        )


def within(found, chance, count):
    """Return whether a count of successes agrees with its chance: five standard errors."""
    return abs(found - chance * count) <= 5 * (count * chance * (1 - chance)) ** 0.5


SAMPLERS = {
    "consistent, all": composite_sampler(composable_traceid_ratio_based(1.0)),
    "consistent, half": composite_sampler(composable_traceid_ratio_based(0.5)),
    "consistent, a fiftieth": composite_sampler(composable_traceid_ratio_based(0.02)),
    "ratio of old, half": TraceIdRatioBased(0.5),
    "ratio of old, a thousandth": TraceIdRatioBased(0.001),
    "parent, ratio of old": ParentBased(TraceIdRatioBased(0.1)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_chance_holds_whatever_the_tracer_keeps(name):
    """As many are drawn as should be, among the kept and among the rest."""
    count = 20_000 if "thousandth" in name else 5_000
    told = [interaction(id=s.span_id, caller=s) for s in spans(SAMPLERS[name], count)]
    for kept in (True, False):
        part = [each for each in told if each.caller.sampled is kept]
        for probability in (0.02, 0.1, 0.6):
            drawn = sum(is_drawn(each, probability) for each in part)
            assert within(drawn, probability, len(part))


def test_the_specifications_samplers_leave_their_threshold():
    """Half of the traces, kept by R: their references say `th:8`, and R is not below it."""
    kept = [s for s in spans(SAMPLERS["consistent, half"], 200) if s.sampled]
    assert len(kept) > 50
    assert {s.trace_state for s in kept} == {"ot=th:8"}
    assert all(int(s.trace_id[-14:], 16) >= 1 << 55 for s in kept)
    assert all(place_of(s) is not None for s in kept)


def test_the_ratio_sampler_of_old_leaves_nothing_to_use():
    """It keeps the other end of the ids: their bits would let hardly any be judged."""
    kept = [s for s in spans(TraceIdRatioBased(0.001), 20_000) if s.sampled]
    assert len(kept) > 5
    assert {place_of(s) for s in kept} == {None}
    assert not any(int(s.trace_id[-14:], 16) >= WHOLE // 2 for s in kept)


def test_what_is_judged_at_a_lower_chance_is_kept_at_a_higher_one():
    """Judged at p of the half that was kept: whoever keeps p/2 by the same R keeps them all."""
    tracer_later = composite_sampler(composable_traceid_ratio_based(0.05))
    judged = [
        s
        for s in spans(SAMPLERS["consistent, half"], 4_000)
        if s.sampled and is_drawn(interaction(caller=s), 0.1)
    ]
    assert len(judged) > 100
    for reference in judged:
        result = tracer_later.should_sample(None, int(reference.trace_id, 16), "later")
        assert result.decision.is_sampled()


def test_explicit_randomness_travels_with_the_trace():
    """`rv` from a caller elsewhere, passed on by the SDK's default sampler: its R decides."""
    found = list(
        spans(
            ParentBased(ALWAYS_ON),
            2_000,
            parent_state=lambda rng: f"ot=th:0;rv:{rng.getrandbits(56):014x},vendor=1",
        )
    )
    drawn = [s for s in found if is_drawn(interaction(caller=s), 0.1)]
    assert within(len(drawn), 0.1, len(found))
    for reference in found:
        value = int(reference.trace_state.partition("rv:")[2][:14], 16)
        assert (reference in drawn) is (value >= 2**56 - round(0.1 * 2**56))


def test_thresholds_and_randomness_are_read_as_the_sdk_writes_them():
    """A consistent sampler's own `ot` entry, with `rv` from before: R, and T below it."""
    sampler = composite_sampler(composable_traceid_ratio_based(0.3))
    rng = random.Random(1)
    read = 0
    for _ in range(500):
        value = rng.getrandbits(56)
        before = TraceState.from_header([f"ot=rv:{value:014x}"])
        result = sampler.should_sample(None, 1, "s", trace_state=before)
        if result.decision.is_sampled():
            threshold = calculate_threshold(0.3)
            found = place_of(caller(result.trace_state.to_header()))
            assert found == (WHOLE - 1 - value, WHOLE - threshold)
            read += 1
    assert read > 100


def test_an_id_with_half_a_surrogate_pair_is_drawn():
    """Whatever text the application calls an interaction by has its number."""
    told = interaction(id="\ud83d")
    assert is_drawn(told, 0.999_999_999)
    assert not is_drawn(told, 1e-9)


def test_the_coin_is_the_same_everywhere():
    """A fixed id gives a fixed number: processes and releases agree."""
    assert uniform_of("5eed") == 0.7487164871511403
