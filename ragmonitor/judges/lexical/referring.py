"""A reference answer, read without a model: the same support, between other texts."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Final

from ragmonitor.judges.lexical.assessing import Said, Support, say, support_of
from ragmonitor.judges.lexical.evidence import everywhere_from
from ragmonitor.judges.lexical.passages import Index, Tick, index, unhindered
from ragmonitor.judges.sentences import split
from ragmonitor.records import Assessment, ReferenceReading, ReferenceSentence, Verdict

ALONE: Final = 64
"""Chunks that are asked whether they bear out a sentence alone: those that hold most of it."""


def read_reference(
    chunks: Sequence[str],
    answer: str,
    reference: str,
    found: Assessment,
    *,
    tick: Tick = unhindered,
) -> ReferenceReading:
    """Return which sentences of answer and reference the texts bear out.

    A sentence is entailed where the judge would call it supported: by the reference, by the
    answer, by each chunk alone; and by several chunks together, where none does alone.

    Args:
        chunks: The retrieved texts, in order.
        answer: The answer.
        reference: The reference answer.
        found: Of the same answer; its claims are the ones that are checked.
        tick: Called before each chunk and each sentence; what it raises ends the reading.
    """
    by_chunk = [index([chunk], tick) for chunk in chunks]
    together = index(chunks, tick)
    answered = index([answer], tick)
    expected = _said([sentence.text for sentence in split(reference)], tick)
    everywhere_at = _everywhere_at(expected)
    sentences = []
    for said in expected:
        tick()
        whole = support_of(said, together, everywhere_at)
        if whole.is_claim:
            sentences.append(
                ReferenceSentence(
                    text=said.text,
                    chunks=_supporting(said, whole, by_chunk, everywhere_at, tick),
                    in_answer=support_of(said, answered, everywhere_at).is_supported,
                )
            )
    known = index([reference], tick)
    claims = _said(
        [s.text for s in found.sentences or () if s.verdict is not Verdict.NO_CLAIM], tick
    )
    everywhere_at = _everywhere_at(claims)
    borne = []
    for claim in claims:
        tick()
        borne.append(support_of(claim, known, everywhere_at).is_supported)
    return ReferenceReading(answer_claims=tuple(borne), sentences=tuple(sentences))


def _said(texts: Sequence[str], tick: Tick) -> list[Said]:
    """Return what sentences say, in order."""
    found = []
    for text in texts:
        tick()
        found.append(say(text))
    return found


def _everywhere_at(said: Sequence[Said]) -> int:
    return everywhere_from(sum(len(one.content) for one in said))


def _supporting(
    said: Said, whole: Support, by_chunk: Sequence[Index], everywhere_at: int, tick: Tick
) -> tuple[int, ...]:
    """Return the chunks that bear out a sentence alone; if none does, those that do together."""
    asked: Sequence[int] = range(len(by_chunk))
    if len(asked) > ALONE:
        asked = sorted(nlargest(ALONE, whole.held, key=whole.held.__getitem__))
    alone = []
    for chunk in asked:
        tick()
        if support_of(said, by_chunk[chunk], everywhere_at).is_supported:
            alone.append(chunk)
    if alone:
        return tuple(alone)
    return whole.chunks if whole.is_supported else ()
