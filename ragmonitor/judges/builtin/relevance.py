"""Relevance of an answer and of each chunk to the question; it says no more than "off topic"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragmonitor.judges.builtin.overlap import LOOSE_CREDIT, Overlap
from ragmonitor.judges.builtin.passage_index import PassageIndex, Places
from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.patterns import lazy_pattern

ON_TOPIC: Final = 0.5
"""Share of a question's content that an answer on its topic holds, itself or by its source."""
CANNOT_TELL: Final = 0.5
"""Relevancy of an answer too short to be off topic in its words alone."""
SHORT: Final = 3
"""Terms up to which an answer is too short to tell."""

SAYS_LITTLE: Final = 0.6
"""Weight below which a question holds no more than one common word."""

_POLAR: Final = lazy_pattern(
    r"\s*(?:is|are|was|were|am|do|does|did|can|could|will|would|shall|should|may|might|must|has|have|had"
    r"|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|can't|couldn't|won't)\b|.*(?:吗|是否|是不是|能不能|有没有|对不对)",
    re.IGNORECASE | re.DOTALL,
)


def covered(question: Sequence[Term], held: Sequence[Term]) -> float:
    """Return the share of a question's content, by weight, that stands among other terms."""
    total = sum(term.weight for term in question)
    if not total:
        return 0.0
    keys = {term.key for term in held}
    asks_words = any(term.prefix for term in question)
    prefixes = {term.prefix for term in held if term.prefix} if asks_words else set()
    return min(1.0, sum([_credit(term, keys, prefixes) for term in question]) / total)


def _credit(term: Term, keys: set[str], prefixes: set[str]) -> float:
    if term.key in keys:
        return term.weight
    return term.weight * LOOSE_CREDIT if term.prefix in prefixes else 0.0


def scaled(share: float) -> float:
    """Return a relevance from 0 to 1: 1 from `ON_TOPIC` of the question's content on."""
    return min(1.0, share / ON_TOPIC)


def answer_relevancy(
    query: str,
    question: Sequence[Term],
    answer: Sequence[Term],
    asked: Overlap,
    overlaps: Sequence[Overlap],
) -> float | None:
    """Return whether the answer speaks of the question, or None if the question says nothing.

    `Paris.` repeats no word of its question. So a place in the chunks that holds both what the
    answer says and what the question asks joins them: the share of the one times the share of
    the other. What is too short to be called off topic by its words gets `CANNOT_TELL` at least.

    Args:
        query: The question's text.
        question: Its terms.
        answer: The answer's terms.
        asked: What the chunks hold of the question.
        overlaps: What the chunks hold of each sentence of the answer.
    """
    if not asked.weight:
        return None
    content = [term for term in answer if term.weight]
    if not content:
        return 1.0 if _POLAR.match(query[:400]) else CANNOT_TELL
    share = covered(question, content)
    for overlap in overlaps:
        if share >= ON_TOPIC:
            return 1.0
        share = max(share, bridge(asked, overlap))
    is_short = len(content) <= SHORT or asked.weight < SAYS_LITTLE
    return max(CANNOT_TELL if is_short else 0.0, scaled(share))


def bridge(asked: Overlap, answered: Overlap) -> float:
    """Return how well one place in the chunks holds both the question and a sentence, 0 to 1."""
    if not answered.weight or not asked.weight:
        return 0.0
    other = answered.by_window
    joined = [share * other[at] for at, share in asked.by_window.items() if at in other]
    best = max(joined, default=0.0)
    return min(1.0, best / (asked.weight * answered.weight))


def chunk_relevance(question: Sequence[Term], index: PassageIndex) -> tuple[float, ...] | None:
    """Return each chunk's relevance to the question; None if the question says too little.

    Args:
        question: The question's terms.
        index: The chunks.
    """
    total = sum([term.weight for term in question])
    # By identity: the places of a key are one object, and one that holds several keys counts once.
    weights: dict[tuple[int, bool], float] = {}
    held_at: dict[tuple[int, bool], Places] = {}
    exact = index.exact.of({term.key for term in question})
    loose = index.loose.of({term.prefix for term in question})
    for term in question:
        is_exact = term.key in exact
        places = exact[term.key] if is_exact else loose.get(term.prefix)
        if places and term.weight:
            place = id(places), is_exact
            weights[place] = weights.get(place, 0.0) + term.weight
            held_at[place] = places
    if not total or (total < SAYS_LITTLE and not held_at):
        return None
    held = [0.0] * len(index.plain)
    for which, places in held_at.items():
        for chunk in places.chunks:
            held[chunk] += weights[which]
    return tuple([scaled(weight / total) for weight in held])
