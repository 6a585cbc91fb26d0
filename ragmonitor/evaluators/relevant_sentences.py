"""Context relevance RAGAS' way: the share of the chunks' sentences that help with the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.protocols import Asker

_INSTRUCTIONS: Final = """\
SENTENCES holds the sentences of chunks C1..Cm, numbered from 1 in each chunk. Find those that can \
help to answer the QUESTION; none if the QUESTION cannot be answered from them."""
_FIELDS: Final = {
    "relevant": "a list of one list for each chunk C1..Cm, in order: the numbers of its sentences "
    "that help, [] if none does",
}


@evaluator("context_relevance_by_sentences", needs_query=True, by_default=False)
async def context_relevance_by_sentences(
    _interaction: Interaction, _assessment: Assessment, asker: Asker
) -> float:
    """Return the share of the chunks' sentences that help to answer the question, 0 to 1.

    The judge is shown the sentences by number and names numbers: it costs one call, and a reply of
    a few tokens where RAGAS has the sentences written out.

    Raises:
        NotScorableError: The chunks hold no text, or the reply names chunks or sentences that are
            not there.
        JudgeError: The judge gave no usable reply.

    Source:
        Es et al., "RAGAS" (2023), section 3, context relevance, arXiv:2309.15217.
    """
    counts = asker.sentence_counts
    if not sum(counts):
        raise NotScorableError(Cause.NO_CONTEXT)
    reply = await asker.ask(_INSTRUCTIONS, fields=_FIELDS, shown=("sentences", "question"))
    return sum(_relevant_counts(reply["relevant"], counts)) / sum(counts)


def _relevant_counts(value: object, counts: Sequence[int]) -> list[int]:
    """Return how many sentences of each chunk the reply names; a number named twice counts once.

    Raises:
        NotScorableError: The reply is about other chunks or sentences.
    """
    if not isinstance(value, list) or len(value) != len(counts):
        raise NotScorableError(Cause.UNREADABLE, f"expected a list of {len(counts)} lists")
    relevant = []
    for chunk, (numbers, count) in enumerate(zip(value, counts, strict=True), 1):
        if not isinstance(numbers, list):
            raise NotScorableError(Cause.UNREADABLE, f"C{chunk} has no list of numbers")
        for number in numbers:
            is_whole = isinstance(number, int) and not isinstance(number, bool)
            if not is_whole or not 1 <= number <= count:
                raise NotScorableError(
                    Cause.UNREADABLE, f"C{chunk} has sentences 1 to {count}, not {number!r:.20}"
                )
        relevant.append(len(set(numbers)))
    return relevant
