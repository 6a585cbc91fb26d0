"""Reads who does what to whom: names around a verb, so that exchanged roles are seen.

`B bought A` has all the words of `A bought B`. Only what is plain is read: two names with one verb
between them, active or passive, and in Chinese a verb of a list. What reads otherwise has no roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.judges.builtin.word_lists import CHINESE_ACTS, IRREGULAR, MUTUAL
from ragmonitor.judges.sentences import HAN
from ragmonitor.patterns import lazy_pattern


@dataclass(frozen=True, slots=True)
class Act:
    """One verb, who does it and to whom it is done."""

    verb: str
    """The key of the verb, with its preposition."""
    doer: frozenset[str]
    """Keys of the name of who does it; in Chinese, the endings of what stands before it."""
    other: frozenset[str]
    """The names of whom it is done to; in Chinese, the beginnings of what
    stands behind."""
    term: Term
    """The verb."""


def acts_of(text: str, content: Sequence[Term]) -> list[Act]:
    """Return the acts of a text, in order, in time linear in its length.

    Args:
        text: What the terms' offsets point into.
        content: The terms, in order.
    """
    return [*_english(text, content), *_chinese(text)]


def is_reversed(act: Act, others: Sequence[Act]) -> bool:
    """Return whether others say the act with exchanged roles, and none as it is."""
    same = [other for other in others if other.verb == act.verb]
    if any(_meets(act.doer, other.doer) and _meets(act.other, other.other) for other in same):
        return False
    return any(
        _meets(act.doer, other.other)
        and _meets(act.other, other.doer)
        and not _meets(act.doer, other.doer)
        and not _meets(act.other, other.other)
        for other in same
    )


def _meets(one: frozenset[str], other: frozenset[str]) -> bool:
    return not one.isdisjoint(other)


_BEFORE: Final = lazy_pattern(
    r"\.?(?:\s{1,2}(?:has|have|had|was|were|is|are|been|being|be|got|will|would|did|also|later|then"
    r"|finally|once|just|already)){0,4}\s{1,2}",
    re.IGNORECASE,
)
# The class comes first, as that is what a search skips ahead by.
_LETTER: Final = lazy_pattern(r"[A-HJ-Z](?<![\w.'’&-][A-HJ-Z])(?![\w'’&-])")
"""`I` is none."""
_BE: Final = lazy_pattern(r"\b(?:was|were|is|are|been|being|be|got)\b", re.IGNORECASE)
_BEHIND: Final = lazy_pattern(
    r"(?:\s{1,2}(?P<preposition>by|to|over|against|from))?"
    r"(?:\s{1,2}(?:the|a|an|its|his|her|their))?\s{1,2}",
    re.IGNORECASE,
)
_JOINS: Final = frozenset({" ", "-", ". ", " of ", " the ", " of the ", "'", "’", " & "})
"""The signs that stand between the words of one name."""
_MUTUAL: Final = frozenset(map(stem, MUTUAL))
_MAX_GAP: Final = 48
"""Characters between a name and its verb."""
_MIN_NAMES: Final = 2
"""Names of an act."""


def _english(text: str, content: Sequence[Term]) -> Iterator[Act]:
    """Yield the acts between two names with one verb between them."""
    placed = _with_letters(text, content)
    if [term.kind for term in placed].count("name") < _MIN_NAMES:
        return
    runs: list[list[Term]] = []
    for term in placed:
        last = runs[-1][-1] if runs else None
        is_joined = (
            last is not None
            and last.kind == term.kind == "name"
            and text[last.end : term.start] in _JOINS
        )
        if is_joined:
            runs[-1].append(term)
        else:
            runs.append([term])
    for doer, verb, other in zip(runs, runs[1:], runs[2:], strict=False):
        if doer[0].kind == other[0].kind == "name" and _is_verb(text, verb[0]):
            yield from _act(text, doer, verb[0], other)


def _with_letters(text: str, content: Sequence[Term]) -> Sequence[Term]:
    """Return the terms, and among them single capital letters: `B` and `Plant B` are names."""
    letters = [
        Term(*found.span(), found[0].lower(), "", 0.0, "name") for found in _LETTER.finditer(text)
    ]
    return sorted([*content, *letters], key=_start) if letters else content


def _start(term: Term) -> int:
    return term.start


def _is_verb(text: str, term: Term) -> bool:
    surface = text[term.start : term.end]
    is_form = surface.endswith(("ed", "s")) or surface in IRREGULAR
    return term.kind == "word" and is_form and surface.islower() and term.key not in _MUTUAL


def _act(text: str, doer: Sequence[Term], verb: Term, other: Sequence[Term]) -> Iterator[Act]:
    before, behind = text[doer[-1].end : verb.start], text[verb.end : other[0].start]
    if max(len(before), len(behind)) > _MAX_GAP or not _BEFORE.fullmatch(before):
        return
    found = _BEHIND.fullmatch(behind)
    if found is None:
        return
    preposition = (found["preposition"] or "").lower()
    one, two = (frozenset(term.key for term in name) for name in (doer, other))
    # `Alpha Corp` and `Beta Corp` are told apart by what they do not share.
    one, two = one - two, two - one
    if not one or not two:
        return
    is_passive = bool(_BE.search(before))
    if is_passive != (preposition == "by"):
        return
    if is_passive:
        one, two, preposition = two, one, ""
    yield Act(f"{verb.key} {preposition}", one, two, verb)


_CHINESE_ACTS: Final = lazy_pattern("|".join(sorted(CHINESE_ACTS, key=len, reverse=True)))
_STRETCH: Final = lazy_pattern(rf"[{HAN}A-Za-z0-9·]+")
_BY: Final = lazy_pattern("[被由遭](?!于)")
_ADVERBS: Final = lazy_pattern(
    "(?:已经?|曾经?|将|会|成功|宣布|正式|最终|再次|首次|随后|后来|全资|完全|计划|同意|于[0-9]{1,4}年"
    "|[0-9]{1,4}年){1,4}\\Z"
)
_WHERE: Final = lazy_pattern("[在于以从向对将把]")
"""The words that say how, where and when it is done, between the name and the verb."""
_KIND: Final = lazy_pattern(
    "(?<=..)(?:有限|股份|责任){0,3}(?:公司|集团|[队市省县区]|大学|先生|女士)\\Z"
)
"""Two names that end in it are not therefore the same."""
_MAX_NAME: Final = 12
"""Characters before and behind a Chinese verb that may be a name."""


def _chinese(text: str) -> Iterator[Act]:
    """Yield the acts of Chinese verbs: what stands before and behind, as far as a name goes."""
    if not _CHINESE_ACTS.search(text):
        return
    for stretch in _STRETCH.finditer(text):
        verbs = list(_CHINESE_ACTS.finditer(text, *stretch.span()))
        if len(verbs) != 1:  # which belongs to which is not known
            continue
        start, end = verbs[0].span()
        before = text[max(stretch.start(), start - _MAX_NAME) : start]
        behind = text[end : min(stretch.end(), end + _MAX_NAME)].lstrip("了过")
        by = _BY.search(before)
        if by:
            before, behind = before[by.end() :], before[: by.start()]
        before = _ADVERBS.sub("", before)
        where = _WHERE.search(before, _MIN_NAME)
        before = _KIND.sub("", before[: where.start()] if where else before)
        ends = _endings(behind) if by else _beginnings(behind)
        term = Term(start, end, verbs[0][0], "", 0.0, "pair")
        if len(before) >= _MIN_NAME and len(behind) >= _MIN_NAME and not _DENIED.search(before):
            yield Act(verbs[0][0], _endings(before), ends, term)


_MIN_NAME: Final = 2
_DENIED: Final = lazy_pattern("[不没未]")


def _endings(text: str) -> frozenset[str]:
    return frozenset(text[at:] for at in range(len(text) - 1))


def _beginnings(text: str) -> frozenset[str]:
    return frozenset(text[:at] for at in range(_MIN_NAME, len(text) + 1))
