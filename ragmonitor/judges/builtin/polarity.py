"""The polarity of a text's terms: what it states and what it negates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin.text_terms import DENYING, NEGATION, Term
from ragmonitor.judges.builtin.word_lists import EXCEPTIONS
from ragmonitor.patterns import lazy_pattern

REACH: Final = 24
"""Characters behind a sign of negation within which it negates the next content word."""
MAX_NEGATED: Final = 4
"""Chinese characters that a sign negates together: a verb and its object."""


@dataclass(frozen=True, slots=True)
class Polarity:
    """The terms of a text by whether a sign of negation negates them."""

    first: dict[str, Term]
    """Maps each key to the first term with it, signs of negation left out."""
    negated: set[str]
    """Keys that are negated somewhere in the text."""
    stated: set[str]
    """Keys that stand somewhere without a negation."""
    unsure: set[str]
    """Keys with a negation on the other side of a table's line or a clause's end, in a clause with
    two negations, or in a text that sets a condition (`unless`)."""
    limited: set[str]
    """Keys in a clause that limits what it states: `only`."""
    signs: set[str]
    """Keys of the signs of negation, and of the words at which a negation ends."""
    scopes: set[str]
    """Words that say on which side of a limit it holds: `before`, `within`, `后`."""


def polarity(text: str, content: Sequence[Term]) -> Polarity:
    """Return which terms of a text are negated. It is linear in the text's length.

    Args:
        text: What the terms' offsets point into.
        content: The terms, in order.
    """
    found = Polarity({}, set(), set(), set(), set(), set(), scopes_of(text))
    sets_condition = bool(_CONDITIONS.search(text))
    hanging: Term | None = None
    for start, end, clause in _clauses(text, content):
        stated, negated, count = set[str](), set[str](), 0
        sign = pair = None  # the sign, and the pair that it negates, that reach what follows
        for term in clause:
            if term.kind == "negation":
                found.signs.add(term.key)
                is_sign = term.key == NEGATION or (not count and _excepts(text, term))
                sign, pair, hanging = (term if is_sign else None), None, None
                count += is_sign and text[term.start : term.end].lower() != "nor"
                continue
            if not term.weight and term.kind == "number":  # `no one was`
                continue
            if term.key in DENYING and _PASSIVE.search(text, max(0, term.start - 6), term.end):
                found.signs.add(term.key)
                sign, pair, hanging = (None if stated else term), None, None
                stated, negated = set(), negated | stated
                count += 1
                continue
            found.first.setdefault(term.key, term)
            if hanging is not None and term.start <= hanging.end + REACH:
                found.unsure.add(term.key)
            if (sign is not None and _reaches(sign, pair, term)) or _FREE_OF.match(text, term.end):
                negated.add(term.key)
                pair = term if term.kind == "pair" else None
            else:
                stated.add(term.key)
                pair = None
            if pair is None:
                sign = None
            hanging = None
        hanging = sign if sign is not None and pair is None else hanging
        if count > 1 or sets_condition:
            found.unsure.update(stated, negated)
            continue
        found.negated.update(negated)
        found.stated.update(stated)
        if _LIMITS.search(text, start, end):
            found.limited.update(stated, negated)
    return found


def scopes_of(text: str) -> set[str]:
    """Return the words of a text that say on which side of a limit it holds."""
    return {found["side"] or found[0].lower() for found in _SCOPES.finditer(text)}


def _clauses(text: str, content: Sequence[Term]) -> Iterator[tuple[int, int, Sequence[Term]]]:
    """Yield the clauses of a text, cells of tables among them: start, end, terms."""
    start = at = 0
    for end in [*(border.start() for border in _BORDERS.finditer(text)), len(text)]:
        begin = at
        while at < len(content) and content[at].start < end:
            at += 1
        yield start, end, content[begin:at]
        start = end


def _reaches(sign: Term, pair: Term | None, term: Term) -> bool:
    """Return whether a sign of negation negates a term: the next one, or a run of pairs."""
    if pair is None:
        return term.start <= sign.end + REACH
    return term.start == pair.start + 1 and term.end <= sign.end + MAX_NEGATED


def _excepts(text: str, term: Term) -> bool:
    return text[term.start : term.end].lower() in EXCEPTIONS


_BORDERS: Final = lazy_pattern(r"[|\t\n;；。，]|, ")
"""Borders of a negation's reach: cells of a table, clauses."""
_CONDITIONS: Final = lazy_pattern(
    r"\b(?:unless|until|till|otherwise)\b|除非|直到|未经|非经|否则", re.IGNORECASE
)
_LIMITS: Final = lazy_pattern(
    r"(?<!not )\b(?:only|solely|exclusively)\b|(?<!不)[只仅]|才", re.IGNORECASE
)
_SCOPES: Final = lazy_pattern(
    r"\b(?:before|after|from|within|outside|above|below|beyond)\b"
    "|(?:[天年月日点时岁度分米元人以之])(?P<side>[前后内外上下])",
    re.IGNORECASE,
)
_PASSIVE: Final = lazy_pattern(r"(?<!\bhas )(?<!\bhave )(?<!\bhad )\b\w{1,9}e[dn]\Z", re.IGNORECASE)
_FREE_OF: Final = lazy_pattern(r"-free\b|除外", re.IGNORECASE)
"""Behind a term, it negates the term: `sugar-free`, `周一除外`."""
