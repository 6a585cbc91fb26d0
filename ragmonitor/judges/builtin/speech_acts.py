"""Speech acts of sentences: claims, and what refuses, asks back, greets or announces a list."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ragmonitor.judges.builtin import speech_act_phrases as phrases
from ragmonitor.judges.builtin.framing import in_lower_case
from ragmonitor.judges.builtin.stems import stems
from ragmonitor.judges.builtin.terms import Key, Term, terms
from ragmonitor.runtime.patterns import lazy_pattern


class SpeechAct(Enum):
    """The act of a sentence."""

    CLAIM = auto()
    QUESTION = auto()
    COURTESY = auto()
    """A greeting, thanks, an offer, advice to ask elsewhere."""
    HEADING = auto()
    """A heading, an announcement (`Here are the steps:`), or nothing but the name of a source."""
    REFUSAL = auto()
    """It declines to answer, or says that the sources do not tell."""


_MAX_HEAD: Final = 400
"""Characters of a sentence that are searched for set phrases: they stand at its beginning."""
_HEADING: Final = lazy_pattern(
    r"\s{0,3}(?:#{1,6}\s|(?:\*\*|__)[^*_\n]{0,120}[^*_\n.!。！](?:\*\*|__)[:：]?\s*\Z"
    r"|【[^】\n]{1,40}】\s*\Z|(?:={3,}|-{3,}|\*{3,})\s*\Z|[^\n]{1,120}\n(?:={3,}|-{3,})\s*\Z"
    r"|\|[^\n]{1,400}\n[ \t]{0,12}\|[-:| \t]{3,400}\Z)"
)
_ENDS_ASKING: Final = lazy_pattern("[?？][!！?？]*[\"'”’」』）)*_\\s]{0,8}\\Z")
_AS_FOLLOWS: Final = lazy_pattern(r"(?:as follows|如下)\W*\Z")
_MAX_ANNOUNCEMENT: Final = 7
"""Terms with content; a longer sentence before a colon claims something itself."""
_MAX_COURTESY: Final = 120
"""Characters; a longer sentence is never only polite."""
_MIN_STATEMENT: Final = 3
"""Terms with content from which a clause beside a refusal counts as an answer."""


_REFUSING: Final = stems(
    "lack insufficient silent absent missing outside beyond need required necessary unclear unknown"
    " unsure enough"
) | {"!", ">only"}
"""Keys of which every English refusal of `REFUSALS` holds one: to look for them is quicker."""


def speech_act_of(text: str, bare: str, keys: set[Key], content: Sequence[Term]) -> SpeechAct:
    """Return what a sentence does; `CLAIM` where there is any doubt.

    Args:
        text: The sentence.
        keys: Its keys.
        bare: It without its framing.
        content: The terms of that.
    """
    if (text[0] in "#*_【=-| " or "\n" in text) and _HEADING.match(text):
        return SpeechAct.HEADING
    lowered = in_lower_case(text)
    head = lowered[:_MAX_HEAD]
    if _refuses(head, keys) and not any(map(_answers, phrases.CLAUSES.split(head))):
        return SpeechAct.REFUSAL
    is_short = len(text) <= _MAX_COURTESY
    if (is_short and phrases.ONE_WORD.match(lowered)) or phrases.OFFERS.match(head):
        return SpeechAct.COURTESY
    if ("?" in text or "？" in text) and _ENDS_ASKING.search(text, max(0, len(text) - 16)):
        return SpeechAct.QUESTION
    count = content_count(content)
    if not count and bare is not text:
        return SpeechAct.HEADING
    if count <= _MAX_ANNOUNCEMENT and len(text) <= _MAX_HEAD and _announces(text, bare, content):
        return SpeechAct.HEADING
    if is_short and phrases.ONLY_COURTESIES.match(lowered):
        return SpeechAct.COURTESY
    return SpeechAct.CLAIM


def may_be_claim(text: str) -> bool:
    """Return whether an apparent refusal may be the chunks' own statement: `no evidence that`."""
    return not phrases.FIRST_PERSON.search(in_lower_case(text[:_MAX_HEAD]))


def is_about_sources(text: str) -> bool:
    """Return whether a sentence says what the sources are about."""
    return bool(phrases.ABOUT_SOURCES.match(in_lower_case(text[:_MAX_HEAD])))


def content_count(content: Sequence[Term]) -> float:
    """Return how many terms with content there are; Chinese pairs count half."""
    kinds = [term.kind for term in content if term.weight and term.kind != "unit"]
    return len(kinds) - kinds.count("pair") / 2


def _refuses(lowered: str, keys: set[Key]) -> bool:
    """Return whether a text in lower case, of which some keys are given, holds a refusal."""
    return bool(
        phrases.WHOLE_REFUSALS.match(lowered)
        or (not _REFUSING.isdisjoint(keys) and phrases.REFUSALS.search(lowered))
        or (not lowered.isascii() and phrases.CHINESE_REFUSALS.search(lowered))
    )


def _answers(clause: str) -> bool:
    """Return whether a clause beside a refusal, in lower case, says something of the matter."""
    clause = clause.strip(" ,，")
    if _refuses(clause, {term.key for term in terms(clause)}):
        return False
    if phrases.ABOUT_SOURCES.match(clause) or phrases.OFFERS.match(clause):
        return False
    content = terms(phrases.COURTESIES.sub(" ", clause))
    has_number = any(term.kind == "number" and term.weight == 1.0 for term in content)
    return has_number or content_count(content) >= _MIN_STATEMENT


def _announces(text: str, bare: str, content: Sequence[Term]) -> bool:
    """Return whether a sentence only announces the next ones."""
    if any(term.kind in {"number", "time"} and term.weight for term in content):
        return False
    for each in (text,) if bare is text else (text, bare):
        said = in_lower_case(each)
        if said.rstrip(" *_")[-1:] in {":", "："}:
            if content_count(content) <= _MIN_STATEMENT or phrases.ANNOUNCES.search(said):
                return True
        elif phrases.ANNOUNCES_ALONE.match(said) or _AS_FOLLOWS.search(said[-20:]):
            return True
    return False
