"""Sentences by themselves, whatever the chunks hold: their act, their terms, their clauses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
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
from ragmonitor.judges.builtin.terms import AND, Key, Term, in_ascii, placed, terms
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

    def __post_init__(self) -> None:
        """Find what every check asks for."""
        self.keys = [term.key for term in self.terms if term.key != AND]
        self.kinds = [term.kind for term in self.terms]
        self.weights = {term.key: term.weight for term in self.terms if term.weight}
        self.weight = sum([term.weight for term in self.terms])
        self.is_chinese = "pair" in self.kinds

    @cached_property
    def wanted(self) -> dict[Key, float]:
        """The weights of its keys with content, of opposites the one that stands for both."""
        if HAS_OPPOSITE.isdisjoint(self.weights):
            return self.weights
        return {OPPOSITE.get(key, (key, 1))[0]: weight for key, weight in self.weights.items()}

    @cached_property
    def placed(self) -> ParsedSentence:
        """The same in plain letters, with the offsets of its terms."""
        bare = in_ascii(self.bare)
        known = self.terms if bare == self.bare else ()
        return replace(self, bare=bare, terms=placed(bare, known))

    @cached_property
    def polarity(self) -> Polarity:
        """What it states and what it negates."""
        if self.is_chinese:
            return chinese_polarity(self.bare, self.terms)
        return english_polarity(self.keys)


def parse_sentence(text: str) -> ParsedSentence:
    """Return what a sentence says and does."""
    whole = terms(text)
    bare = without_framing(text)
    content = whole if bare is text else terms(bare)
    act = speech_act_of(text, bare, {term.key for term in whole}, content)
    return ParsedSentence(text, bare, act, content)


_BORDERS: Final = frozenset({".", ",", ">but", AND})
_NO_BORDER: Final = frozenset(":.!?")
"""Last characters of tokens that are no border of clauses."""
_CHINESE_BORDER: Final = lazy_pattern("[，；]|[并而]且|同时|以及")
_MIN_CLAUSE: Final = 2
"""Terms with content of a clause that says something of its own; in Chinese it is one, and no
number."""


def clauses_of(sentence: ParsedSentence) -> list[tuple[int, list[Term]]]:
    """Return the terms of each clause of a claim, and in Chinese where it begins; none: it is one.

    What says too little alone belongs to the clause behind it, or to the last.
    """
    every = sentence.terms
    if sentence.is_chinese:
        places = [border.start() for border in _CHINESE_BORDER.finditer(sentence.bare)]
        borders = [(place, bisect_left(every, place, key=attrgetter("at"))) for place in places]
    else:
        borders = [
            (-1, at)
            for at, term in enumerate(every)
            if term.key in _BORDERS
            and term.surface[-1:] not in _NO_BORDER
            and (term.surface != "well" or " as well as " in sentence.bare)
        ]
    clauses: list[tuple[int, list[Term]]] = []
    start, place = 0, 0
    for next_place, end in (*borders, (-1, len(every))) if borders else ():
        content = every[start:end]
        said = [term for term in content if term.kind == "pair"] if sentence.is_chinese else content
        if content_count(said) >= (_MIN_CLAUSE / 2 if sentence.is_chinese else _MIN_CLAUSE):
            clauses.append((place, content))
            start, place = end, next_place
    if len(clauses) < 2:
        return []
    clauses[-1][1].extend(every[start:])
    return clauses


def parsed_clauses(
    sentence: ParsedSentence, clauses: Sequence[tuple[int, list[Term]]]
) -> list[tuple[int, ParsedSentence]]:
    """Return the clauses, and where each begins in the sentence."""
    text = sentence.bare
    starts = [place for place, _ in clauses]
    if not sentence.is_chinese:
        found = iter(placed(text, sentence.terms))
        for n, (_, content) in enumerate(clauses):
            first, *_ = islice(found, len(content))
            starts[n] = first.at + len(first.surface) * (first.kind == "border") if n else 0
            starts[n] -= 3 * (first.surface == "well")  # `as well as`
    return [
        (at, ParsedSentence(text[at:end], " " * at + text[at:end], SpeechAct.CLAIM, content))
        for (at, end), (_, content) in zip(pairwise([*starts, len(text)]), clauses, strict=True)
    ]
