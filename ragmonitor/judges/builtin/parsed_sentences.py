"""Sentences by themselves, whatever the chunks hold: their act, their terms, their clauses."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.framing import without_framing
from ragmonitor.judges.builtin.speech_acts import SpeechAct, content_count, speech_act_of
from ragmonitor.judges.builtin.terms import Term, terms
from ragmonitor.runtime.patterns import lazy_pattern


@dataclass(slots=True)
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


def parse_sentence(text: str) -> ParsedSentence:
    """Return what a sentence says and does."""
    all_terms = terms(text)
    bare = without_framing(text)
    content = all_terms if bare is text else terms(bare)
    act = speech_act_of(text, bare, content, {term.key for term in all_terms})
    return parsed(text, bare, act, content)


def parsed(text: str, bare: str, act: SpeechAct, content: list[Term]) -> ParsedSentence:
    """Return a sentence of which the act is known."""
    is_chinese = not text.isascii() and any(term.kind == "pair" for term in content)
    return ParsedSentence(text, bare, act, content, sum(t.weight for t in content), is_chinese)


_BORDER: Final = lazy_pattern(
    r"[,;]\s+(?:(?:and|but|while|whereas|so|yet|plus)\s+)?(?=\w)"
    r"|\s+(?:and|but|while|whereas|plus|as well as)\s+"
    r"|[，；](?:并且|而且|同时|以及|并|且|但)?|(?:并且|而且|同时|以及)"
)
_MIN_CLAUSE: Final = 2
"""Terms with content of a clause that says something of its own; in Chinese it is one, and no
number."""


class Clause(NamedTuple):
    """A part of a sentence."""

    start: int
    text: str
    terms: list[Term]
    """In Chinese with the offsets of the sentence."""
    weight: float

    def parsed(self, *, is_chinese: bool) -> ParsedSentence:
        """Return it as a sentence of its own."""
        content = self.terms
        if is_chinese and self.start:
            content = [Term(*term[:4], term.at - self.start) for term in content]
        return parsed(self.text, self.text, SpeechAct.CLAIM, content)


def clauses_of(sentence: ParsedSentence) -> Iterator[Clause]:
    """Yield the clauses of a claim; nothing if it is but one.

    What says too little alone belongs to the clause behind it, or to the last.
    """
    text = sentence.bare
    borders = [border.start() for border in _BORDER.finditer(text)]
    if not borders:
        return
    cuts, at, count = [0], 0, 0.0
    for end in [*borders, len(text)]:
        piece = _terms_within(sentence, at, end)
        if sentence.is_chinese:
            count += 2 * content_count([term for term in piece if term.kind == "pair"])
        else:
            count += content_count(piece)
        at = end
        if count >= _MIN_CLAUSE:
            cuts.append(end)
            count = 0.0
    if len(cuts) < 3:
        return
    cuts[-1] = len(text)
    for start, end in pairwise(cuts):
        content = _terms_within(sentence, start, end)
        yield Clause(start, text[start:end], content, sum(term.weight for term in content))


def _terms_within(sentence: ParsedSentence, start: int, end: int) -> list[Term]:
    """Return the terms of a part of a sentence."""
    if not sentence.is_chinese:
        return terms(sentence.bare[start:end])
    found = sentence.terms
    first, last = (bisect_left(found, place, key=attrgetter("at")) for place in (start, end))
    return found[first:last]
