"""Speech acts of sentences: claims, and what refuses, asks back, greets or announces a list."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from itertools import repeat
from typing import Final

from ragmonitor.judges.builtin import speech_act_phrases as phrases
from ragmonitor.judges.builtin.text_terms import Term, in_lower_case, terms
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

_LETTERS: Final = lazy_pattern("[a-z]+")
_HEADING: Final = lazy_pattern(
    r"\s{0,3}(?:#{1,6}\s|(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__)[:：]?\s*\Z|【[^】\n]{1,40}】\s*\Z"
    r"|(?:={3,}|-{3,}|\*{3,})\s*\Z|[^\n]{1,120}\n(?:={3,}|-{3,})\s*\Z"
    r"|\|[^\n]{1,400}\n[ \t]{0,12}\|[-:| \t]{3,400}\Z)"
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
    lowered = in_lower_case(text)
    head = lowered[:_MAX_HEAD]
    if _is_refusal(text[:_MAX_HEAD], head):
        return SpeechAct.REFUSAL
    if phrases.OFFERS.match(head):
        return SpeechAct.COURTESY
    if _ENDS_ASKING.search(text, max(0, len(text) - 16)):
        return SpeechAct.QUESTION
    if _announces(text, all_terms):
        is_open = text.rstrip(" *_")[-1:] in {":", "："}
        if is_open or phrases.ANNOUNCES_ALONE.match(head):
            return SpeechAct.HEADING
    if len(text) <= _MAX_COURTESY and _is_courtesy(text, lowered, all_terms):
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


def _is_refusal(head: str, lowered: str) -> bool:
    """Return whether a sentence, also given in lower case, refuses and no clause of it answers."""
    if not may_refuse(lowered) or not _refuses(lowered):
        return False
    return not any(_answers(clause) for clause in phrases.CLAUSES.split(head))


def may_refuse(lowered: str) -> bool:
    """Return whether a text in lower case holds one of the signs of which every refusal has one."""
    if not phrases.ENGLISH_SIGNS.isdisjoint(_LETTERS.findall(lowered)):
        return True
    if phrases.GERMAN_SIGN in lowered:
        return True
    return not (lowered.isascii() or phrases.CHINESE_SIGNS.isdisjoint(lowered))


def _refuses(lowered: str) -> bool:
    """Return whether a text in lower case holds a refusal."""
    return bool(
        phrases.REFUSALS_AT_THE_HEAD.match(lowered)
        or phrases.REFUSALS_IN_WORDS.search(lowered)
        or (not lowered.isascii() and phrases.REFUSALS_IN_CHINESE.search(lowered))
    )


def _answers(clause: str) -> bool:
    """Return whether a clause beside a refusal says something of the matter."""
    clause = clause.strip(" ,，")
    lowered = in_lower_case(clause)
    if _refuses(lowered) or phrases.ABOUT_SOURCES.match(clause) or phrases.OFFERS.match(lowered):
        return False
    return _content_count(terms(phrases.COURTESIES.sub(" ", clause))) >= _MIN_STATEMENT


def _is_courtesy(text: str, lowered: str, all_terms: Sequence[Term]) -> bool:
    """Return whether nothing is said besides courtesies in a text, also given in lower case."""
    first = next((term for term in all_terms if term.weight), None)
    # Most sentences end here: what comes first in them belongs to no courtesy.
    if first:
        match = phrases.COURTESIES_IN_LOWER_CASE.match
        if not any(map(match, repeat(lowered), range(first.end))):
            return False
    rest, count = phrases.COURTESIES.subn(" ", text)
    return count > 0 and not _content_count(terms(rest))


def _announces(text: str, all_terms: Sequence[Term]) -> bool:
    """Return whether a sentence would only announce the next ones, if it ended in a colon."""
    count = _content_count(all_terms)
    if count > _MAX_ANNOUNCEMENT or len(text) > _MAX_HEAD:
        return False
    if any(term.kind == "number" and term.weight for term in all_terms):
        return False
    return count <= _MIN_STATEMENT or phrases.ANNOUNCES.search(text) is not None


def _content_count(all_terms: Sequence[Term]) -> int:
    """Return how many terms with content there are; Chinese pairs count half."""
    kinds = [term.kind for term in all_terms if term.weight]
    return len(kinds) - kinds.count("pair") // 2
