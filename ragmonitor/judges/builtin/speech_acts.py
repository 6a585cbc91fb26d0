"""Speech acts of sentences: claims, and what refuses, asks back, greets or announces a list."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ragmonitor.judges.builtin import speech_act_phrases as phrases
from ragmonitor.judges.builtin.text_terms import Term, terms
from ragmonitor.patterns import lazy_pattern


class SpeechAct(Enum):
    """The act of a sentence."""

    CLAIM = auto()
    QUESTION = auto()
    COURTESY = auto()
    """A greeting, thanks, an offer, advice to ask elsewhere."""
    HEADING = auto()
    """A heading or an announcement: `Here are the steps:`."""
    REFUSAL = auto()
    """It declines to answer, or says that the sources do not tell."""


_MAX_HEAD: Final = 400
"""Characters of a sentence that are searched for set phrases: they stand at its beginning."""

_LATIN: Final = lazy_pattern("[A-Za-z]")
_HEADING: Final = lazy_pattern(
    r"\s{0,3}(?:#{1,6}\s|(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__)[:：]?\s*\Z|【[^】\n]{1,40}】\s*\Z"
    r"|(?:={3,}|-{3,}|\*{3,})\s*\Z|[^\n]{1,120}\n(?:={3,}|-{3,})\s*\Z)"
)
_ENDS_ASKING: Final = lazy_pattern("[?？][!！?？]*[\"'”’」』）)*_\\s]{0,8}\\Z")
_MAX_ANNOUNCEMENT: Final = 7
"""Terms with content; a longer sentence before a colon claims something itself."""
_MAX_COURTESY: Final = 120
"""Characters; a longer sentence is never only polite."""
_MIN_STATEMENT: Final = 3
"""Terms with content from which a clause beside a refusal counts as an answer."""


def speech_act_of(text: str, all_terms: Sequence[Term]) -> SpeechAct:
    """Return the speech act of a sentence with these terms; `CLAIM` where there is any doubt."""
    if _HEADING.match(text):
        return SpeechAct.HEADING
    head = text[:_MAX_HEAD]
    if _is_refusal(head):
        return SpeechAct.REFUSAL
    if phrases.OFFERS.match(head):
        return SpeechAct.COURTESY
    if _ENDS_ASKING.search(text, max(0, len(text) - 16)):
        return SpeechAct.QUESTION
    is_open = text.rstrip(" *_")[-1:] in {":", "："}
    if (is_open or phrases.ANNOUNCES_ALONE.match(head)) and _announces(text, all_terms):
        return SpeechAct.HEADING
    if len(text) <= _MAX_COURTESY and _is_courtesy(text, all_terms):
        return SpeechAct.COURTESY
    return SpeechAct.CLAIM


def may_be_claim(text: str) -> bool:
    """Return whether an apparent refusal may be the chunks' own statement: `no evidence that`."""
    return not phrases.FIRST_PERSON.search(text[:_MAX_HEAD])


def declines(sentences: Sequence[str], acts: Sequence[SpeechAct]) -> bool:
    """Return whether an answer declines to answer: it refuses, and nothing in it answers.

    A sentence that says what the sources lack is no refusal beside sentences that answer.
    """
    if SpeechAct.REFUSAL not in acts:
        return False
    return not any(
        act is SpeechAct.CLAIM
        and not phrases.ABOUT_SOURCES.match(text[:_MAX_HEAD])
        and _content_count(terms(text)) > 1
        for text, act in zip(sentences, acts, strict=True)
    )


def _is_refusal(head: str) -> bool:
    """Return whether a sentence refuses and no clause of it answers."""
    if not may_refuse(head) or not phrases.REFUSALS.search(head):
        return False
    return not any(_answers(clause) for clause in phrases.CLAUSES.split(head))


def may_refuse(head: str) -> bool:
    """Return whether a text holds one of the signs of which every refusal holds one."""
    if not phrases.CHINESE_SIGNS.isdisjoint(head):
        return True
    if not _LATIN.search(head):
        return False
    lowered = head.lower()
    return any(map(lowered.__contains__, phrases.ENGLISH_SIGNS))


def _answers(clause: str) -> bool:
    """Return whether a clause beside a refusal says something of the matter."""
    clause = clause.strip(" ,，")
    if (
        phrases.REFUSALS.search(clause)
        or phrases.ABOUT_SOURCES.match(clause)
        or phrases.OFFERS.match(clause)
    ):
        return False
    return _content_count(terms(phrases.COURTESIES.sub(" ", clause))) >= _MIN_STATEMENT


def _is_courtesy(text: str, all_terms: Sequence[Term]) -> bool:
    """Return whether nothing is said besides courtesies."""
    first = next((term for term in all_terms if term.weight), None)
    # Most sentences end here: what comes first in them belongs to no courtesy.
    if first and not any(phrases.COURTESIES.match(text, at) for at in range(first.end)):
        return False
    rest, count = phrases.COURTESIES.subn(" ", text)
    return count > 0 and not _content_count(terms(rest))


def _announces(text: str, all_terms: Sequence[Term]) -> bool:
    """Return whether a sentence that ends in a colon only announces the next ones."""
    if len(text) > _MAX_HEAD or any(term.kind == "number" and term.weight for term in all_terms):
        return False
    limit = _MAX_ANNOUNCEMENT if phrases.ANNOUNCES.search(text) else _MIN_STATEMENT
    return _content_count(all_terms) <= limit


def _content_count(all_terms: Sequence[Term]) -> int:
    """Return how many terms with content there are; Chinese pairs count half."""
    content = [term for term in all_terms if term.weight]
    pairs = sum(term.kind == "pair" for term in content)
    return len(content) - pairs // 2
