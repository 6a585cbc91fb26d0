"""A reference answer, read without a model: the same support, between other texts."""

from __future__ import annotations

from collections.abc import Sequence

from ragmonitor.judges.lexical.assessing import Support, support_of
from ragmonitor.judges.lexical.passages import Index, index
from ragmonitor.judges.sentences import split
from ragmonitor.records import Assessment, ReferenceReading, ReferenceSentence, Verdict


def read_reference(
    chunks: Sequence[str], answer: str, reference: str, found: Assessment
) -> ReferenceReading:
    """Return which sentences of answer and reference the texts bear out.

    A sentence is entailed where the judge would call it supported: by the reference, by the
    answer, by each chunk alone; and by several chunks together, where none does alone.

    Args:
        chunks: The retrieved texts, in order.
        answer: The answer.
        reference: The reference answer.
        found: Of the same answer; its claims are the ones that are checked.
    """
    by_chunk = [index([chunk]) for chunk in chunks]
    together = index(chunks)
    said = index([answer])
    sentences = []
    for sentence in split(reference):
        whole = support_of(sentence.text, together)
        if whole.is_claim:
            sentences.append(
                ReferenceSentence(
                    text=sentence.text,
                    chunks=_supporting(sentence.text, whole, by_chunk),
                    in_answer=support_of(sentence.text, said).is_supported,
                )
            )
    known = index([reference])
    claims = tuple(
        support_of(sentence.text, known).is_supported
        for sentence in found.sentences or ()
        if sentence.verdict is not Verdict.NO_CLAIM
    )
    return ReferenceReading(answer_claims=claims, sentences=tuple(sentences))


def _supporting(text: str, whole: Support, by_chunk: Sequence[Index]) -> tuple[int, ...]:
    alone = [at for at, chunk in enumerate(by_chunk) if support_of(text, chunk).is_supported]
    if alone:
        return tuple(alone)
    return whole.chunks if whole.is_supported else ()
