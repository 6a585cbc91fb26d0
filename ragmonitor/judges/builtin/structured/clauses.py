"""Clauses of sentences, and which fields they speak of."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured import hours
from ragmonitor.judges.builtin.structured.fields import (
    HAN_RUN,
    MAX_HAN,
    MAX_PHRASE,
    MAX_SHARED,
    Fact,
    FieldTable,
    Number,
    Token,
    numbers_of,
    tokens,
)
from ragmonitor.judges.builtin.terms import Term
from ragmonitor.runtime.patterns import lazy_pattern

MAX_PER_CLAUSE: Final = 24
"""Numbers or fields of one clause; of more, none is read."""
_VERBS: Final = (
    r"(?:is|are|was|were|does|do|did|has|have|had|can)(?:n.t)?|offers?|provides?|accepts?|allows?"
)
_BORDER: Final = lazy_pattern(
    r"(?P<hard>[;；。，]|(?:,\s{0,3})?\b(?:but|however|although|though|while|whereas|rather than"
    r"|instead of)\b|,\s{1,3}(?:yet|with)\b)"
    r"|(?P<soft>(?:,|\band\b)\s{1,3}(?:and\s{1,3})?(?=(?:[\w'’-]{1,24}\s{1,3}){0,3}"
    rf"(?:{_VERBS}|it|they|there|no|not|until|till|from|opens|closes|closing)\b"
    rf"|{hours.DAY}[^.;,]{{0,24}}?\d|\d{{1,2}}(?::\d\d)?\s?[ap]\.?m\b|\d{{1,2}}:\d\d))"
    rf"|(?P<verb>\b(?:{_VERBS}|opens?|closes|closed|starts?|runs?)\b|\d)",
    re.IGNORECASE,
)
"""Borders of clauses; a soft one is one only behind a verb or a figure."""
_NEGATIVE: Final = lazy_pattern(
    r"\b(?:disabled|unavailable|lack(?:s|ing)?|without|prohibited|forbidden|banned|disallowed"
    r"|(?:turned|switched) off|missing|excluded|excludes|neither|rather than|instead of)\b"
    r"|禁止|谢绝|关闭|停用",
    re.IGNORECASE,
)
"""Words that deny, besides signs of negation."""
_JOINS: Final = lazy_pattern(r"\b(?:n?or)\b|[,、或]")


class Mention(NamedTuple):
    """What a clause says of some fields, which are spoken of by the same words."""

    group: Sequence[Fact]
    """All of them, of whatever row."""
    at: Sequence[Token]
    """The words that speak of them."""
    facts: Sequence[Fact]
    """Those of the rows that are named."""


class Clause:
    """One clause of a sentence, and what is said in it."""

    def __init__(
        self,
        text: str,
        span: tuple[int, int],
        said: Sequence[Token],
        content: Sequence[Term],
        table: FieldTable,
    ) -> None:
        """Read a clause.

        Args:
            text: The sentence.
            span: Where the clause begins and ends in it.
            said: The words of the clause.
            content: The terms of the clause.
            table: The fields.
        """
        self.text = text
        self.start, self.end = start, end = span
        self.own = text[start:end]
        self.tokens = said
        self.keys = frozenset(token.key for token in said)
        self.times = [
            time._replace(start=time.start + start, end=time.end + start)
            for time in hours.times(self.own)
        ]
        self.phrases: dict[str, tuple[int, int]] = {}
        """Maps each run of words to where it stands."""
        for position, first in enumerate(said):
            joined = ""
            for last in said[position : position + MAX_PHRASE]:
                joined = f"{joined}|{last.key}" if joined else last.key
                self.phrases.setdefault(joined, (first.start, last.end))
        names = [
            name for name in self.phrases if 0 < len(table.by_name.get(name, ())) <= MAX_SHARED
        ]
        self.named = frozenset(row for name in names for row in table.by_name[name])
        """The rows that are named, here or elsewhere in the sentence."""
        taken = [(time.start, time.end) for time in self.times]
        taken += [self.phrases[name] for name in names]
        self.numbers = self._numbers(content, taken)
        self.signs = [(t.at, t.at + len(t.surface)) for t in content if t.kind == "negation"]
        """Where signs of negation begin and end."""
        self.mentions: list[Mention] = []

    def _numbers(self, content: Sequence[Term], taken: Sequence[tuple[int, int]]) -> list[Number]:
        """Return the numbers that are neither of a time or a name nor glued to a word."""
        found = numbers_of(self.text, content)
        if len(found) > MAX_PER_CLAUSE:
            return []
        return [
            number
            for number in found
            if not any(first < number.end and last > number.start for first, last in taken)
            and not _is_letter(self.text[max(self.start, number.start - 1) : number.start])
        ]

    def is_negated(self, at: Sequence[Token] = ()) -> bool:
        """Return whether the clause denies what some of its words speak of, or anything."""
        signs = [s for s in self.signs if not any(t.start <= s[0] < t.end for t in at)]
        for other in self.mentions if at else ():
            # `Not near the harbour` denies that alone, and what `or` joins to it.
            first = other.at[0].start
            is_joined = at[0].start > first and _JOINS.search(self.text, first, at[0].start)
            if set(other.at).isdisjoint(at) and not is_joined:
                signs = [sign for sign in signs if not 0 <= first - sign[1] <= 8]
        return bool(signs) != bool(_NEGATIVE.search(self.own))

    def find_mentions(self, everywhere: frozenset[str], table: FieldTable) -> None:
        """Find the fields all words of which stand here or, of numbers, in the whole sentence."""
        groups = dict.fromkeys(
            name
            for key in dict.fromkeys(token.key for token in self.tokens)
            if len(table.by_word.get(key, ())) <= MAX_SHARED
            for name in table.by_word.get(key, ())
        )
        found: list[tuple[frozenset[Token], Mention]] = []
        for name in groups:
            said, around = name
            facts = table.groups[name]
            known = everywhere if any(fact.numbers for fact in facts[:2]) else self.keys
            if said <= known and not (around and around.isdisjoint(self.keys)):
                own = [token for token in self.tokens if token.key in said]
                wide = frozenset(token for token in self.tokens if token.key in said | around)
                found.append((wide, Mention(facts, own, table.of(facts, self.named))))
        whole = [wide for wide, mention in found if not self._has_number_within(mention.at)]
        if len(found) <= MAX_PER_CLAUSE:
            self.mentions = [
                mention for wide, mention in found if not any(wide < other for other in whole)
            ]

    def _has_number_within(self, at: Sequence[Token]) -> bool:
        return any(at[0].start <= number.start < at[-1].end for number in self.numbers)


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def read_clauses(text: str, content: Sequence[Term], table: FieldTable) -> list[Clause]:
    """Return the clauses of a sentence, with what they mention.

    Rows that are named in any of them go for those that name none.
    """
    found = sorted([*tokens(text), *_chinese_tokens(text, table)], key=lambda token: token.start)
    borders = [0]
    has_verb = False
    for border in _BORDER.finditer(text):
        if border["verb"]:
            has_verb = True
        elif border["hard"] or has_verb:
            borders.append(border.start())
            has_verb = False
    borders.append(len(text))
    clauses: list[Clause] = []
    for start, end in pairwise(borders):
        said = found[_place(found, start) : _place(found, end)]
        first, last = (bisect_left(content, at, key=attrgetter("at")) for at in (start, end))
        clauses.append(Clause(text, (start, end), said, content[first:last], table))
    named = frozenset(row for clause in clauses for row in clause.named)
    everywhere = frozenset(token.key for token in found)
    for clause in clauses:
        if len(named) <= MAX_SHARED:
            clause.named = clause.named or named
        clause.find_mentions(everywhere, table)
    return clauses


def _place(found: Sequence[Token], at: int) -> int:
    """Return the position of the first word that begins at an offset, or behind it."""
    return bisect_left(found, at, key=lambda token: token.start)


def _chinese_tokens(text: str, table: FieldTable) -> Iterator[Token]:
    """Yield the words of a Chinese text by which any field is spoken of."""
    for run in HAN_RUN.finditer(text):
        for at in range(run.start(), run.end()):
            for size in range(2, min(MAX_HAN, len(text) - at) + 1):
                word = text[at : at + size].lower()
                for known in {word if word in table.han else "", words.SAME.get(word, "")} - {""}:
                    yield Token(known, at, at + size)
