"""Observes what one answer took of time, tokens and money, for histograms. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ragmonitor.export.content import UNTYPED_ERROR
from ragmonitor.records import Generation, Interaction, error_type
from ragmonitor.semconv import conventions, metrics


class Amount(NamedTuple):
    """One observation of a histogram."""

    name: str
    """The name of the series in `metrics`."""
    labels: tuple[str, ...]
    """In the order of the table."""
    value: float


def amounts(interaction: Interaction, cost_usd: float | None) -> Iterator[Amount]:
    """Yield the observations of one answer; what is not known is not observed.

    Args:
        interaction: The interaction.
        cost_usd: What its model calls cost; None: that is not known.
    """
    for retrieval in interaction.retrievals:
        # A retrieval that capture saw no time of (chunks in a model call's metadata) has none.
        if retrieval.ended_ns > retrieval.started_ns:
            labels = (conventions.GENAI_OPERATION_RETRIEVAL, "", "", _error(retrieval.error))
            seconds = (retrieval.ended_ns - retrieval.started_ns) / 1e9
            yield Amount(metrics.GENAI_DURATION, labels, seconds)
    for generation in interaction.generations:
        yield from _of_call(generation)
    if interaction.first_token_s is not None:
        by = (interaction.framework,)
        yield Amount(metrics.FIRST_TOKEN_SECONDS, by, interaction.first_token_s)
    if cost_usd is not None:
        yield Amount(metrics.ANSWER_COST_USD, (interaction.model,), cost_usd)


def _of_call(generation: Generation) -> Iterator[Amount]:
    call = (conventions.GENAI_OPERATION_CHAT, generation.provider, generation.model)
    seconds = max(0, generation.ended_ns - generation.started_ns) / 1e9
    yield Amount(metrics.GENAI_DURATION, (*call, _error(generation.error)), seconds)
    usage = generation.usage
    for direction, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
        if count is not None:
            yield Amount(metrics.GENAI_TOKENS, (*call, direction), count)


def _error(text: str) -> str:
    return (error_type(text) or UNTYPED_ERROR) if text else ""
