"""What text may leave the process: a hook that sees every text before judge and exporters do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ragmonitor.guard import record_error
from ragmonitor.records import Chunk, Interaction

Redact = Callable[[str], str]
"""Returns the text with what must not leave replaced."""


def redacted(interaction: Interaction, redact: Redact) -> Interaction:
    """Return the interaction with every text passed through `redact`.

    Where the hook fails nothing may leak: the record then comes back without any text, marked
    `capture_incomplete`, so that it is counted and not scored.
    """
    try:
        return _map_texts(interaction, redact)
    except Exception as error:  # noqa: BLE001 - the hook is anybody's code
        record_error("redact", error)
        return replace(_map_texts(interaction, lambda _: ""), capture_incomplete=True)


def _map_texts(interaction: Interaction, redact: Redact) -> Interaction:
    def chunks(of: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        # Metadata repeats texts and paths; without knowing its keys none of it may pass.
        return tuple(replace(chunk, text=redact(chunk.text), metadata={}) for chunk in of)

    return replace(
        interaction,
        query=redact(interaction.query),
        chunks=chunks(interaction.chunks),
        answer=redact(interaction.answer),
        error=redact(interaction.error) if interaction.error else "",
        retrievals=tuple(
            replace(r, query=redact(r.query), chunks=chunks(r.chunks), error=redact(r.error))
            for r in interaction.retrievals
        ),
        generations=tuple(
            replace(g, output=redact(g.output), error=redact(g.error))
            for g in interaction.generations
        ),
    )
