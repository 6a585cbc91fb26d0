"""The polarity of a text's terms: what it states and what it negates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin.text_terms import NEGATION, Term
from ragmonitor.patterns import lazy_pattern

REACH: Final = 24
"""Characters behind a sign of negation within which it negates the next content word."""


@dataclass(frozen=True, slots=True)
class Polarity:
    """The terms of a text by whether a sign of negation negates them."""

    first: Mapping[str, Term]
    """Maps each key to the first term with it, signs of negation left out."""
    negated: AbstractSet[str]
    """Keys that are negated somewhere in the text."""
    stated: AbstractSet[str]
    """Keys that stand somewhere without a negation."""
    unsure: AbstractSet[str]
    """Keys with a negation on the other side of a table's line or a clause's end."""
    signs: AbstractSet[str]
    """Keys of the signs of negation, and of the words at which a negation ends."""


def polarity(text: str, content: Sequence[Term]) -> Polarity:
    """Return which terms of a text are negated.

    Args:
        text: What the terms' offsets point into.
        content: The terms, in order.
    """
    first: dict[str, Term] = {}
    negated: set[str] = set()
    stated: set[str] = set()
    unsure: set[str] = set()
    signs: set[str] = set()
    sign_end = -1
    for term in content:
        if term.kind == "negation":
            signs.add(term.key)
            sign_end = term.end if term.key == NEGATION else -1
            continue
        first.setdefault(term.key, term)
        if sign_end < 0 or term.start > sign_end + REACH:
            stated.add(term.key)
        elif _BORDERS.search(text, sign_end, term.start):
            unsure.add(term.key)
        else:
            negated.add(term.key)
        sign_end = -1
    return Polarity(first, negated, stated, unsure, signs)


_BORDERS: Final = lazy_pattern(r"[|\t\n;；。，]|, ")
"""Borders of a negation's reach: cells of a table, clauses."""
