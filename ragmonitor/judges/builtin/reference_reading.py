"""A reference answer, read without a model: the same support, between other texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from heapq import nlargest
from typing import Final

from ragmonitor.judges.builtin.evidence import Evidence, Tick, unlimited
from ragmonitor.judges.builtin.judged_sentences import JudgedSentence, fewest_chunks, judge_sentence
from ragmonitor.judges.builtin.parsed_sentences import ParsedSentence, parse_sentence
from ragmonitor.judges.builtin.terms import simplified
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
    places = split(simplified(reference))
    expected = {each.text: parse_sentence(each.text) for each in places}
    said = [sentence.keys for sentence in expected.values()]
    together = Evidence(chunks, said, tick)
    by_answer = Evidence([answer], said, tick)

    @cache
    def alone(at: int) -> Evidence:
        return Evidence([chunks[at]], said, tick)

    def judged(sentence: ParsedSentence, evidence: Evidence) -> JudgedSentence:
        tick()
        return judge_sentence(sentence, evidence)

    def supporting(whole: JudgedSentence, sentence: ParsedSentence) -> tuple[int, ...]:
        """Return the chunks that support a sentence alone; if none does, those that do together."""
        most = sorted(nlargest(MAX_CHUNKS_ALONE, whole.held, key=whole.held.__getitem__))
        found = tuple(at for at in most if judged(sentence, alone(at)).is_supported)
        return found or (fewest_chunks(whole, together) if whole.is_supported else ())

    sentences = []
    for place in places:
        sentence = expected[place.text]
        whole = judged(sentence, together)
        if whole.verdict is not Verdict.NO_CLAIM:
            sentences.append(
                ReferenceSentence(
                    text=reference[place.start : place.end],
                    chunks=supporting(whole, sentence),
                    in_answer=judged(sentence, by_answer).is_supported,
                )
            )
    claims = [
        parse_sentence(simplified(sentence.text))
        for sentence in assessment.sentences or ()
        if sentence.verdict is not Verdict.NO_CLAIM
    ]
    by_reference = Evidence([reference], [claim.keys for claim in claims], tick)
    entailed = tuple(judged(claim, by_reference).is_supported for claim in claims)
    return ReferenceReading(answer_claims=entailed, sentences=tuple(sentences))
