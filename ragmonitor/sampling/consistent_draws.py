"""Draws by a hash of an id, or by a trace's own randomness; the same in every process."""

from __future__ import annotations

import hashlib
from typing import Final

from ragmonitor.records import Interaction, SpanReference
from ragmonitor.runtime.patterns import lazy_pattern


def uniform_of(interaction_id: str) -> float:
    """Return a number in [0, 1), uniform over ids; below its probability an answer is drawn.

    A higher probability keeps what a lower one kept.
    """
    # A keyed hash and not the id's own bits: the tracer's ratio sampler reads those, and two
    # decisions on the same bits are one decision.
    # An id may be the application's, and hold half of a surrogate pair.
    encoded = interaction_id.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=7, key=b"ragmonitor").digest()
    # 53 bits, all that a float in [0, 1) can hold exactly.
    return (int.from_bytes(digest, "big") >> 3) / 2**53


def is_drawn(interaction: Interaction, probability: float) -> bool:
    """Return whether this answer is drawn at this probability; the same in every process.

    The number is the randomness of the caller's trace, where OpenTelemetry's consistent sampling
    left any; else that of the interaction's id.
    """
    if probability >= 1:
        return True
    caller = interaction.caller
    caller_place = None if caller is None else place_of(caller)
    if caller_place is not None:
        place, among = caller_place
        # In whole numbers: a float has not the room for 56 bits.
        return place < round(probability * among)
    return uniform_of(interaction.id) < probability


WHOLE: Final = 1 << 56
"""The number of values that the randomness of a trace has."""
_OURS: Final = lazy_pattern(r"(?:^|,)[ \t]*ot=([^,]*)")
_THRESHOLD: Final = lazy_pattern(r"[0-9a-f]{1,14}")
_RANDOM_VALUE: Final = lazy_pattern(r"[0-9a-f]{14}")
_TRACE_ID: Final = lazy_pattern(r"[0-9a-f]{32}")


def place_of(caller: SpanReference) -> tuple[int, int] | None:
    """Return where the trace lies among those that were kept like it: `(place, among)`.

    `place` is uniform over 0 ... `among` - 1, 0 is kept by every sampler; so an answer is drawn
    with chance p where `place < p * among`. Nobody has sampled yet: `among` is 2^56 and the rule
    is the specification's `R >= T`, `T = (1 - p) 2^56`. A consistent sampler has kept the trace
    with its threshold `th`: all that is known of R is that it is not below, and the rule becomes
    `R >= T` with `T = (1 - p p_head) 2^56`. Either way the chance is p whatever was decided
    before, and a trace that is judged at a lower chance is judged at a higher one, by everyone.

    None: there is no such randomness, or none that may be used. It may not where

    - there is no `ot` entry: the ratio sampler of old, TraceIdRatioBased, keeps the ids with the
      lowest numbers, of which `R >= T` would pick hardly any;
    - the trace was not kept: a consistent sampler then takes its threshold away, R is below it,
      and how far is not known;
    - R is below the threshold: it is then not what the sampler decided by;
    - the entry, or the trace id where it is needed, is malformed.

    Source:
        https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/ and
        https://opentelemetry.io/docs/specs/otel/trace/tracestate-handling/ for `rv` and `th`.
    """
    state = caller.trace_state
    if not caller.sampled or "ot=" not in state:
        return None
    entry = _OURS.search(state)
    if entry is None:
        return None
    threshold, random_value = 0, None
    has_threshold = False
    for member in entry[1].strip().split(";"):
        name, _, value = member.partition(":")
        if name == "th" and _THRESHOLD.fullmatch(value):
            threshold, has_threshold = int(value.ljust(14, "0"), 16), True
        elif name == "rv" and _RANDOM_VALUE.fullmatch(value):
            random_value = int(value, 16)
    if random_value is None:
        if not has_threshold or not _TRACE_ID.fullmatch(caller.trace_id):
            return None
        random_value = int(caller.trace_id[-14:], 16)
    if random_value < threshold:
        return None
    return WHOLE - 1 - random_value, WHOLE - threshold
