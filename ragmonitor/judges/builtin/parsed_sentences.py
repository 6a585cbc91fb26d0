"""Sentences by themselves, whatever the chunks hold: their act, their terms, their clauses."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Final

from ragmonitor.judges.builtin.framing import without_framing
from ragmonitor.judges.builtin.polarity import (
    HAS_OPPOSITE,
    OPPOSITE,
    Polarity,
    chinese_polarity,
    english_polarity,
)
from ragmonitor.judges.builtin.speech_acts import SpeechAct, content_count, speech_act_of
from ragmonitor.judges.builtin.terms import Key, Term, terms
from ragmonitor.runtime.patterns import lazy_pattern


@dataclass
class ParsedSentence:
    """A sentence, or a clause of one."""

    text: str
    bare: str
    """It without its framing."""
    act: SpeechAct
    terms: list[Term]
    """The terms of `bare`."""
    weight: float
    is_chinese: bool

    @cached_property
    def weights(self) -> dict[Key, float]:
        """The weights of its keys with content."""
        return {term.key: term.weight for term in self.terms if term.weight}

    @cached_property
    def wanted(self) -> dict[Key, float]:
        """The same, of opposites the one that stands for both."""
        if HAS_OPPOSITE.isdisjoint(self.weights):
            return self.weights
        return {OPPOSITE.get(key, (key, 1))[0]: weight for key, weight in self.weights.items()}

    @cached_property
    def polarity(self) -> Polarity:
        """What it states and what it negates."""
        if self.is_chinese:
            return chinese_polarity(self.bare, self.terms)
        return english_polarity([term.key for term in self.terms])


def parse_sentence(text: str) -> ParsedSentence:
    """Return what a sentence says and does."""
    bare = without_framing(text)
    content = terms(bare)
    act = speech_act_of(text, bare, content)
    return parsed(text, bare, act, content)


def parsed(text: str, bare: str, act: SpeechAct, content: list[Term]) -> ParsedSentence:
    """Return a sentence of which the act is known."""
    is_chinese = not text.isascii() and any(term.kind == "pair" for term in content)
    return ParsedSentence(text, bare, act, content, sum(t.weight for t in content), is_chinese)


# The class comes first and alone, as that is what a search skips ahead by.
_BORDER: Final = lazy_pattern(
    r"[,;\s，；并而同以](?:(?<=[,;])\s+(?:(?:and|but|while|whereas|so|yet|plus)\s+)?(?=\w)"
    r"|(?<=\s)(?:and|but|while|whereas|plus|as well as)\s"
    r"|(?<=[，；])(?:并且|而且|同时|以及|并|且|但)?|(?<=[并而])且|(?<=同)时|(?<=以)及)"
)
_MIN_CLAUSE: Final = 2
"""Terms with content of a clause that says something of its own; in Chinese it is one, and no
number."""


def clauses_of(sentence: ParsedSentence) -> list[tuple[int, ParsedSentence]]:
    """Return the clauses of a claim, and where each begins; nothing if it is but one.

    What says too little alone belongs to the clause behind it, or to the last.
    """
    text = sentence.bare
    borders = [border.start() for border in _BORDER.finditer(text)]
    found: list[tuple[int, int, list[Term]]] = []
    start, content = 0, list[Term]()
    for at, end in pairwise((0, *borders, len(text))) if borders else ():
        content += _terms_within(sentence, at, end)
        said = [term for term in content if term.kind == "pair"] if sentence.is_chinese else content
        if content_count(said) >= (_MIN_CLAUSE / 2 if sentence.is_chinese else _MIN_CLAUSE):
            found.append((start, end, content))
            start, content = end, []
    if len(found) < 2:
        return []
    found[-1] = found[-1][0], len(text), [*found[-1][2], *content]
    return [
        (at, parsed(" " * at + text[at:end], " " * at + text[at:end], SpeechAct.CLAIM, terms))
        for at, end, terms in found
    ]


def _terms_within(sentence: ParsedSentence, start: int, end: int) -> list[Term]:
    """Return the terms of a part of a sentence, in Chinese with its offsets."""
    if not sentence.is_chinese:
        return terms(sentence.bare[start:end])
    found = sentence.terms
    first, last = (bisect_left(found, place, key=attrgetter("at")) for place in (start, end))
    return found[first:last]
