"""Shortens a record that is too long: first by what no score rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ragmonitor.records import Chunk, Interaction, SpanReference

MAX_CHUNKS: Final = 100
"""Chunks that the shortest form keeps."""
MAX_LABELS: Final = 100
"""Attributes and tags that it keeps."""
MAX_LABEL_CHARACTERS: Final = 500
"""The characters of a name, an error, a tag or an attribute."""
MAX_TEXT_CHARACTERS: Final = 100_000
"""The characters of the question, the answer and the reference, each."""
MAX_CHUNK_CHARACTERS: Final = 1_000
"""The characters of a chunk's text."""


def fitting(record: Interaction) -> Iterator[Interaction]:
    """Yield two ever shorter forms of a record; the last has at most some 3 MB.

    1. Without metadata, prompts and the texts of steps: what no judge reads.
    2. Only the beginnings of question, chunks and answer, marked `capture_incomplete`, so that it
       is counted and not scored.
    """
    yield replace(
        record,
        chunks=tuple(replace(each, metadata={}) for each in record.chunks),
        not_shown=_bare(record.not_shown),
        reference_chunks=tuple(replace(each, metadata={}) for each in record.reference_chunks),
        retrievals=tuple(replace(each, chunks=_bare(each.chunks)) for each in record.retrievals),
        generations=tuple(replace(each, input=(), output="") for each in record.generations),
    )
    attributes = list(record.attributes.items())[:MAX_LABELS]
    yield Interaction(
        id=_label(record.id),
        query=record.query[:MAX_TEXT_CHARACTERS],
        chunks=tuple(
            Chunk(text=each.text[:MAX_CHUNK_CHARACTERS], id=_label(each.id), score=each.score)
            for each in record.chunks[:MAX_CHUNKS]
        ),
        answer=record.answer[:MAX_TEXT_CHARACTERS],
        reference=record.reference[:MAX_TEXT_CHARACTERS],
        framework=_label(record.framework),
        started_ns=record.started_ns,
        ended_ns=record.ended_ns,
        name=_label(record.name),
        status=record.status,
        error=_label(record.error),
        usage=record.usage,
        caller=_span(record.caller),
        target=_span(record.target),
        session_id=_label(record.session_id),
        user_id=_label(record.user_id),
        tags=tuple(map(_label, record.tags[:MAX_LABELS])),
        attributes={_label(name): _label(value) for name, value in attributes},
        capture_incomplete=True,
        redacted=record.redacted,
        first_token_ns=record.first_token_ns,
    )


def _bare(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    return tuple(replace(chunk, text="", metadata={}) for chunk in chunks)


def _span(span: SpanReference | None) -> SpanReference | None:
    return span and replace(span, trace_state=_label(span.trace_state))


def _label(text: str) -> str:
    return text[:MAX_LABEL_CHARACTERS]
