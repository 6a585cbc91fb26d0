"""What a text states and what it negates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical.words import NEGATION, Term

REACH: Final = 24
"""Characters behind a sign of negation within which the next content word is what it turns."""


@dataclass(frozen=True, slots=True)
class Polarity:
    """Which of a text's terms a negation turns."""

    first: Mapping[str, Term]
    """Maps each key to the first term with it, signs of negation left out."""
    negated: AbstractSet[str]
    """Those keys that a negation turns somewhere in the text."""
    signs: AbstractSet[str]
    """Keys of the signs of negation, and of the words at which a negation ends."""


def polarity(content: Sequence[Term]) -> Polarity:
    """Return which of a text's terms a negation turns."""
    first: dict[str, Term] = {}
    negated: set[str] = set()
    signs: set[str] = set()
    open_until = -1
    for term in content:
        if term.kind == "negation":
            signs.add(term.key)
            open_until = term.end + REACH if term.key == NEGATION else -1
            continue
        first.setdefault(term.key, term)
        if term.start <= open_until:
            negated.add(term.key)
        open_until = -1
    return Polarity(first, negated, signs)
