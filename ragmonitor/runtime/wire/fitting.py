"""Shortens a record that is too long: first by what no score rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ragmonitor.records import Chunk, Interaction, Report, SpanReference, Unscored

MAX_CHUNKS: Final = 100
"""Chunks of each kind that the shortest form keeps."""
MAX_LABELS: Final = 100
"""Attributes and tags that it keeps."""
MAX_LABEL_CHARACTERS: Final = 500
"""The characters of a name, an error, a tag or an attribute."""
MAX_TEXT_CHARACTERS: Final = 100_000
"""The characters of the question, the answer and the reference, each."""
MAX_CHUNK_CHARACTERS: Final = 1_000
"""The characters of a chunk's text."""


def fitting(record: Interaction | Report) -> Iterator[Interaction | Report]:
    """Yield ever shorter forms of a record; the last has at most some 3 MB.

    1. Without metadata and without what the models were asked.
    2. Also without the texts of retrieved chunks beside those that the model saw.
    3. Only the beginnings of question, chunks and answer, marked `capture_incomplete`, so that it
       is counted and not scored. A report loses its assessment as well.
    """
    if isinstance(record, Interaction):
        yield from _forms(record)
        return
    *longer, shortest = _forms(record.interaction)
    for interaction in longer:
        yield replace(record, interaction=interaction)
    yield replace(
        record,
        interaction=shortest,
        assessment=None,
        evaluations=tuple(
            replace(each, detail=_label(each.detail))
            if isinstance(each, Unscored)
            else replace(each, explanation=_label(each.explanation))
            for each in record.evaluations[:MAX_LABELS]
        ),
    )


def _forms(record: Interaction) -> Iterator[Interaction]:
    plain = _without_metadata(record)
    unprompted = replace(
        plain, generations=tuple(replace(each, input=()) for each in plain.generations)
    )
    yield unprompted
    yield replace(
        unprompted,
        not_shown=_without_texts(plain.not_shown),
        retrievals=tuple(replace(r, chunks=_without_texts(r.chunks)) for r in plain.retrievals),
        generations=tuple(replace(each, output="") for each in unprompted.generations),
    )
    yield _shortest(record)


def without_metadata(record: Interaction | Report) -> Interaction | Report:
    """Return the record with its chunks' metadata empty."""
    if isinstance(record, Report):
        return replace(record, interaction=_without_metadata(record.interaction))
    return _without_metadata(record)


def _without_metadata(record: Interaction) -> Interaction:

    def bare(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        return tuple(replace(chunk, metadata={}) for chunk in chunks)

    return replace(
        record,
        chunks=bare(record.chunks),
        not_shown=bare(record.not_shown),
        reference_chunks=bare(record.reference_chunks),
        retrievals=tuple(replace(each, chunks=bare(each.chunks)) for each in record.retrievals),
    )


def _without_texts(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    return tuple(replace(chunk, text="") for chunk in chunks)


def _shortest(record: Interaction) -> Interaction:
    attributes = list(record.attributes.items())[:MAX_LABELS]
    return Interaction(
        id=_label(record.id),
        query=record.query[:MAX_TEXT_CHARACTERS],
        chunks=_beginnings(record.chunks),
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


def _beginnings(chunks: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
    return tuple(
        Chunk(text=each.text[:MAX_CHUNK_CHARACTERS], id=_label(each.id), score=each.score)
        for each in chunks[:MAX_CHUNKS]
    )


def _span(span: SpanReference | None) -> SpanReference | None:
    return span and replace(span, trace_state=_label(span.trace_state))


def _label(text: str) -> str:
    return text[:MAX_LABEL_CHARACTERS]
