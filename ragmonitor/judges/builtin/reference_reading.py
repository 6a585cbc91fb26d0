"""A reference answer, read without a model: the same support, between other texts."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Final

from ragmonitor.judges.builtin.assessment import (
    JudgedSentence,
    ParsedSentence,
    judge_sentence,
    parse_sentences,
    term_everywhere_at,
)
from ragmonitor.judges.builtin.passage_index import PassageIndex, Tick, unlimited
from ragmonitor.judges.builtin.simplified import simplified
from ragmonitor.judges.sentences import split
from ragmonitor.records import Assessment, ReferenceReading, ReferenceSentence, Verdict

MAX_CHUNKS_ALONE: Final = 64
"""Chunks that are each asked whether they support a sentence alone: those that hold most of it."""


def read_reference(
    chunks: Sequence[str],
    answer: str,
    reference: str,
    assessment: Assessment,
    *,
    tick: Tick = unlimited,
) -> ReferenceReading:
    """Return which sentences of answer and reference the texts entail.

    A sentence is entailed where the judge would call it supported: by the reference, by the
    answer, by each chunk alone; and by several chunks together, where none does alone.

    Args:
        chunks: The retrieved texts, in order.
        answer: The answer.
        reference: The reference answer.
        assessment: The same answer's; its claims are the ones that are checked.
        tick: Called before each chunk and each sentence; what it raises ends the reading.
    """
    chunks, answer, read_as = [*map(simplified, chunks)], simplified(answer), simplified(reference)
    by_chunk = [PassageIndex([chunk], tick) for chunk in chunks]
    together = PassageIndex(chunks, tick)
    answer_index = PassageIndex([answer], tick)
    split_reference = split(read_as)
    expected = _parsed([sentence.text for sentence in split_reference], tick)
    everywhere_at = term_everywhere_at(expected)
    sentences = []
    for place, sentence in zip(split_reference, expected, strict=True):
        tick()
        judged = judge_sentence(sentence, together, everywhere_at)
        if judged.is_claim:
            sentences.append(
                ReferenceSentence(
                    text=reference[place.start : place.end],
                    chunks=_supporting(sentence, judged, by_chunk, everywhere_at, tick),
                    in_answer=judge_sentence(sentence, answer_index, everywhere_at).is_supported,
                )
            )
    reference_index = PassageIndex([read_as], tick)
    claims = _parsed(
        [
            simplified(sentence.text)
            for sentence in assessment.sentences or ()
            if sentence.verdict is not Verdict.NO_CLAIM
        ],
        tick,
    )
    everywhere_at = term_everywhere_at(claims)
    entailed = []
    for claim in claims:
        tick()
        entailed.append(judge_sentence(claim, reference_index, everywhere_at).is_supported)
    return ReferenceReading(answer_claims=tuple(entailed), sentences=tuple(sentences))


def _parsed(texts: Sequence[str], tick: Tick) -> list[ParsedSentence]:
    by_text = parse_sentences(texts, tick)
    return [by_text[text] for text in texts]


def _supporting(
    sentence: ParsedSentence,
    judged: JudgedSentence,
    by_chunk: Sequence[PassageIndex],
    everywhere_at: int,
    tick: Tick,
) -> tuple[int, ...]:
    """Return the chunks that support a sentence alone; if none does, those that do together."""
    asked: Sequence[int] = range(len(by_chunk))
    if len(asked) > MAX_CHUNKS_ALONE:
        held = judged.overlap.by_chunk
        asked = sorted(nlargest(MAX_CHUNKS_ALONE, held, key=lambda chunk: len(held[chunk])))
    alone = []
    for chunk in asked:
        tick()
        if judge_sentence(sentence, by_chunk[chunk], everywhere_at).is_supported:
            alone.append(chunk)
    if alone:
        return tuple(alone)
    return judged.chunks if judged.is_supported else ()
