"""The randomness that OpenTelemetry's consistent samplers decide by, where a trace carries it."""

from __future__ import annotations

from typing import Final

from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import SpanReference

WHOLE: Final = 1 << 56
"""How many values the randomness of a trace has."""
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
