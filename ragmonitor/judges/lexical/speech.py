"""What sentences do besides claiming: refuse, ask back, greet, announce a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ragmonitor.judges.lexical import phrases
from ragmonitor.judges.lexical.words import Term, terms


class Act(Enum):
    """What a sentence does."""

    CLAIM = auto()
    QUESTION = auto()
    COURTESY = auto()
    """Greetings, thanks, offers, advice to ask elsewhere."""
    HEADING = auto()
    """Headings and announcements: `Here are the steps:`."""
    REFUSAL = auto()
    """Declines to answer, or says that the sources do not tell."""


_LOOKED_AT: Final = 400
"""Characters of a sentence that are searched for set phrases: they stand at its beginning."""

_REFUSALS: Final = re.compile(phrases.REFUSALS, re.IGNORECASE)
_ABOUT_SOURCES: Final = re.compile(phrases.ABOUT_SOURCES, re.IGNORECASE)
_FIRST_PERSON: Final = re.compile(phrases.FIRST_PERSON, re.IGNORECASE)
_OFFERS: Final = re.compile(phrases.OFFERS, re.IGNORECASE)
_COURTESIES: Final = re.compile(phrases.COURTESIES, re.IGNORECASE)
_ANNOUNCES: Final = re.compile(phrases.ANNOUNCES, re.IGNORECASE)
_CLAUSES: Final = re.compile(phrases.CLAUSES, re.IGNORECASE)
_LATIN: Final = re.compile("[A-Za-z]")
_HEADING: Final = re.compile(
    r"\s{0,3}(?:#{1,6}\s|(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__)[:：]?\s*\Z|【[^】\n]{1,40}】\s*\Z|={3,}|-{3,}|\*{3,})"
)
_ENDS_ASKING: Final = re.compile("[?？][!！?？]*[\"'”’」』）)*_\\s]{0,8}\\Z")
_LONGEST_ANNOUNCEMENT: Final = 7
"""Terms with content; a longer sentence before a colon claims something itself."""
_LONGEST_COURTESY: Final = 120
"""Characters; more than that is never only polite."""
_SAYS_SOMETHING: Final = 3
"""Terms with content from which a clause beside a refusal counts as an answer."""


def act_of(text: str, said: Sequence[Term]) -> Act:
    """Return what a sentence with these terms does; `CLAIM` where there is any doubt."""
    if _HEADING.match(text):
        return Act.HEADING
    head = text[:_LOOKED_AT]
    if _is_refusal(head):
        return Act.REFUSAL
    if _OFFERS.match(head):
        return Act.COURTESY
    if _ENDS_ASKING.search(text, max(0, len(text) - 16)):
        return Act.QUESTION
    if text.rstrip(" *_")[-1:] in {":", "："} and _announces(text, said):
        return Act.HEADING
    if len(text) <= _LONGEST_COURTESY and _is_courtesy(text, said):
        return Act.COURTESY
    return Act.CLAIM


def may_be_claim(text: str) -> bool:
    """Return whether what reads as a refusal may be the chunks' own: `no evidence that`."""
    return not _FIRST_PERSON.search(text[:_LOOKED_AT])


def declines(sentences: Sequence[str], acts: Sequence[Act]) -> bool:
    """Return whether an answer declines to answer: it refuses, and nothing in it answers.

    A sentence that says what the sources lack is no refusal beside sentences that answer.
    """
    if Act.REFUSAL not in acts:
        return False
    return not any(
        act is Act.CLAIM
        and not _ABOUT_SOURCES.match(text[:_LOOKED_AT])
        and _content(terms(text)) > 1
        for text, act in zip(sentences, acts, strict=True)
    )


def _is_refusal(head: str) -> bool:
    """Return whether a sentence refuses and no clause of it answers."""
    if not may_refuse(head) or not _REFUSALS.search(head):
        return False
    return not any(_answers(clause) for clause in _CLAUSES.split(head))


def may_refuse(head: str) -> bool:
    """Return whether a text holds anything that every refusal holds one of."""
    if not phrases.CHINESE_SIGNS.isdisjoint(head):
        return True
    if not _LATIN.search(head):
        return False
    lowered = head.lower()
    return any(sign in lowered for sign in phrases.ENGLISH_SIGNS)


def _answers(clause: str) -> bool:
    """Return whether a clause beside a refusal says something of the matter."""
    clause = clause.strip(" ,，")
    if _REFUSALS.search(clause) or _ABOUT_SOURCES.match(clause) or _OFFERS.match(clause):
        return False
    return _content(terms(_COURTESIES.sub(" ", clause))) >= _SAYS_SOMETHING


def _is_courtesy(text: str, said: Sequence[Term]) -> bool:
    """Return whether nothing is said besides courtesies."""
    first = next((term for term in said if term.weight), None)
    # Most sentences end here: what comes first in them belongs to no courtesy.
    if first and not any(_COURTESIES.match(text, at) for at in range(first.end)):
        return False
    rest, count = _COURTESIES.subn(" ", text)
    return count > 0 and not _content(terms(rest))


def _announces(text: str, said: Sequence[Term]) -> bool:
    """Return whether what ends in a colon only announces what follows."""
    if len(text) > _LOOKED_AT or any(term.kind == "number" and term.weight for term in said):
        return False
    limit = _LONGEST_ANNOUNCEMENT if _ANNOUNCES.search(text) else _SAYS_SOMETHING
    return _content(said) <= limit


def _content(said: Sequence[Term]) -> int:
    """Return how many terms with content there are; Chinese pairs count half."""
    found = [term for term in said if term.weight]
    pairs = sum(term.kind == "pair" for term in found)
    return len(found) - pairs // 2
