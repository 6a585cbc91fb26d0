"""Clauses of sentences, with the fields, rows and values of structured chunks in them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin.structured import clock
from ragmonitor.judges.builtin.structured import field_words as words
from ragmonitor.judges.builtin.structured.fields import (
    HAN_RUN,
    MAX_HAN,
    MAX_PHRASE,
    MAX_SHARED,
    Fact,
    FieldTable,
    Group,
    Token,
    is_scale,
    tokens,
)
from ragmonitor.judges.builtin.text_terms import NEGATION, Term
from ragmonitor.patterns import lazy_pattern

Span = tuple[int, int]
MAX_PER_CLAUSE: Final = 24
"""Numbers, and fields, of a clause that are compared; a clause with more of them is a list."""


class Spans:
    """Parts of a text, in which a term is found in time that hardly grows with their number."""

    def __init__(self, spans: Iterable[Span]) -> None:
        """Keep the parts, which may overlap."""
        self._starts: list[int] = []
        self._ends: list[int] = []  # the furthest end of the parts that begin no later
        for start, end in sorted(spans):
            self._starts.append(start)
            self._ends.append(max(end, self._ends[-1] if self._ends else 0))

    def hold(self, term: Term) -> bool:
        """Return whether a part of a term lies in one of them."""
        at = bisect_left(self._starts, term.end)
        return at > 0 and self._ends[at - 1] > term.start


class Mention(NamedTuple):
    """A clause that speaks of a field."""

    group: Group
    at: tuple[Token, ...]
    facts: Sequence[Fact]

    @property
    def span(self) -> Span:
        """From its first word to its last."""
        return min(token.start for token in self.at), max(token.end for token in self.at)


@dataclass(slots=True)
class Clause:
    """One clause of a sentence, and what is said in it."""

    start: int
    end: int
    text: str
    """The whole sentence."""
    own: str
    """Its own text."""
    tokens: Sequence[Token]
    times: Sequence[clock.Time]
    """Its times of day, by their places in its own text."""
    numbers: Sequence[Term]
    """Its numbers that are part of no name and no time."""
    phrases: dict[str, Span]
    """The names and values in it, by `phrase`."""
    named: frozenset[int]
    """The rows that it names, or else the whole sentence."""
    signs: Sequence[Span]
    """Signs of negation."""
    keys: frozenset[str]
    mentions: list[Mention] = field(default_factory=list)

    def is_negated(self, *around: Span) -> bool:
        """Return whether it is negated by a sign that is no part of some words."""
        signs = [s for s in self.signs if not any(a <= s[0] < b for a, b in around)]
        return bool(signs) != bool(_NEGATIVE.search(self.own))

    def denies(self, mention: Mention) -> bool:
        """Return whether it denies a field that it speaks of.

        A sign right before another field denies that one, and what `or` or a comma joins to it: in
        `near the harbour, which is not family friendly` it is not the harbour that is denied.
        """
        start, _ = mention.span
        of_others = [
            sign
            for sign in self.signs
            for other in self.mentions
            if 0 <= other.span[0] - sign[1] <= _MAX_BETWEEN
            and set(mention.at).isdisjoint(other.at)
            and (start < sign[0] or not _JOINS.search(self.text, other.span[1], start))
        ]
        return self.is_negated(*((token.start, token.end) for token in mention.at), *of_others)


_MAX_BETWEEN: Final = 8
"""Characters between a sign of negation and the field that it denies: `not very`, `not a`."""
_JOINS: Final = lazy_pattern(r"\b(?:n?or)\b|[,、或]", re.IGNORECASE)


_NEGATIVE: Final = lazy_pattern(
    r"\b(?:disabled|unavailable|lack(?:s|ing)?|without|prohibited|forbidden|banned|disallowed"
    r"|(?:turned|switched) off|missing|excluded|excludes|neither|rather than|instead of)\b"
    r"|禁止|谢绝|关闭|停用",
    re.IGNORECASE,
)
_VERBS: Final = (
    r"(?:is|are|was|were|does|do|did|has|have|had|can)(?:n.t)?|offers?|provides?|accepts?|allows?"
)
_BORDER: Final = lazy_pattern(
    r"(?P<hard>[;；。，]|(?:,\s{0,3})?\b(?:but|however|although|though|while|whereas|rather than"
    r"|instead of)\b|,\s{1,3}(?:yet|with)\b)"
    r"|(?P<soft>(?:,|\band\b)\s{1,3}(?:and\s{1,3})?(?=(?:[\w'’-]{1,24}\s{1,3}){0,3}"
    rf"(?:{_VERBS}|it|they|there|no|not|until|till|from|opens|closes|closing)\b"
    rf"|{clock.DAY}[^.;,]{{0,24}}?\d|\d{{1,2}}(?::\d\d)?\s?[ap]\.?m\b|\d{{1,2}}:\d\d))"
    rf"|(?P<verb>\b(?:{_VERBS}|opens?|closes|closed|starts?|runs?)\b|\d)",
    re.IGNORECASE,
)


def _borders(text: str) -> Iterator[int]:
    """Yield where clauses end: at `but`, and at an `and` between two of which each has a verb."""
    has_verb = False
    for found in _BORDER.finditer(text):
        if found["verb"]:
            has_verb = True
        elif found["hard"] or has_verb:
            has_verb = False
            yield found.start()


def clauses_of(text: str, content: Sequence[Term], table: FieldTable) -> list[Clause]:
    """Return the clauses of a sentence, each with the fields and rows that it speaks of."""
    borders = [0, *_borders(text), len(text)]
    tokens_of_clauses = _by_clause(
        sorted([*tokens(text), *_han_tokens(text, table)], key=_start), borders
    )
    terms = _by_clause(content, borders)
    clauses = [
        _clause(text, *within, table)
        for within in zip(pairwise(borders), tokens_of_clauses, terms, strict=True)
    ]
    everywhere = frozenset(token.key for within in tokens_of_clauses for token in within)
    named = frozenset(row for clause in clauses for row in clause.named)
    for clause in clauses:
        clause.named = clause.named or (named if len(named) <= MAX_SHARED else frozenset())
        clause.mentions = _mentions(clause, everywhere, table)
    return clauses


def _start(placed: Token | Term) -> int:
    return placed.start


_Placed = TypeVar("_Placed", Token, Term)


def _by_clause(placed: Sequence[_Placed], borders: Sequence[int]) -> list[Sequence[_Placed]]:
    """Return what begins in each clause."""
    at = [bisect_left(placed, border, key=_start) for border in borders]
    return [placed[first:last] for first, last in pairwise(at)]


_GLUED: Final = lazy_pattern("[A-Za-z]")


def _clause(
    text: str, span: Span, said: Sequence[Token], terms: Sequence[Term], table: FieldTable
) -> Clause:
    phrases = dict(_phrases(said))
    names = {name: rows for name in phrases if (rows := table.rows_named(name))}
    named = frozenset(row for rows in names.values() for row in rows)
    start, end = span
    own = text[start:end]
    times = clock.times(own)
    in_times = ((start + time.start, start + time.end) for time in times)
    apart = Spans([*in_times, *(phrases[name] for name in names)])
    numbers = [
        term
        for term in terms
        if term.kind == "number"
        and term.weight  # no `one` and its like
        and term.key[0] == "#"  # nor a time of day
        and not apart.hold(term)
        and not _GLUED.match(text, max(start, term.start - 1), term.start)  # nor the 8 of `V8`
        and not is_scale(text, term.start)
    ]
    return Clause(
        start=start,
        end=end,
        text=text,
        own=own,
        tokens=said,
        times=times,
        numbers=numbers if len(numbers) <= MAX_PER_CLAUSE else (),
        phrases=phrases,
        named=named if len(named) <= MAX_SHARED else frozenset(),
        signs=[(term.start, term.end) for term in terms if term.key == NEGATION],
        keys=frozenset(token.key for token in said),
    )


def _han_tokens(text: str, table: FieldTable) -> Iterator[Token]:
    """Yield the Chinese words of fields, and those that stand for English ones."""
    lowered = text.lower() if HAN_RUN.search(text) else ""
    for run in HAN_RUN.finditer(lowered):
        for at in range(run.start(), run.end()):
            for size in range(2, min(MAX_HAN, len(text) - at) + 1):
                word = lowered[at : at + size]
                if word in table.han:
                    yield Token(word, at, at + size)
                if word in words.SAME:
                    yield Token(words.SAME[word], at, at + size)


def _phrases(found: Sequence[Token]) -> Iterator[tuple[str, Span]]:
    """Yield each run of words, and where it stands first."""
    seen: set[str] = set()
    for position, first in enumerate(found):
        joined = ""
        for last in found[position : position + MAX_PHRASE]:
            joined = f"{joined}|{last.key}" if joined else last.key
            if joined not in seen:
                seen.add(joined)
                yield joined, (first.start, last.end)


def _mentions(clause: Clause, everywhere: frozenset[str], table: FieldTable) -> list[Mention]:
    """Return the fields that a clause speaks of; not `parking` where it is of `bike parking`.

    Some words of a figure may stand in another clause of the sentence.
    """
    by_key: dict[str, list[Token]] = {}
    for token in clause.tokens:
        by_key.setdefault(token.key, []).append(token)
    groups = {id(group): group for key in by_key for group in table.groups_of(key)}
    found: list[tuple[frozenset[Token], Mention]] = []
    for group in groups.values():
        around = group.facts[0].around
        known = everywhere if any(fact.numbers for fact in group.facts[:2]) else clause.keys
        if not group.said <= known or (around and around.isdisjoint(clause.keys)):
            continue
        own = tuple(token for key in group.said for token in by_key.get(key, ()))
        wide = frozenset(own).union(*(by_key.get(key, ()) for key in around))
        facts = group.of(clause.named)
        if facts:
            found.append((wide, Mention(group, own, facts)))
    if len(found) > MAX_PER_CLAUSE:
        return []
    whole = [wide for wide, _ in found if _is_one(clause, wide)]
    return [mention for wide, mention in found if not any(wide < other for other in whole)]


def _is_one(clause: Clause, said: frozenset[Token]) -> bool:
    """Return whether the words of a field stand together: `bike parking`, and no number between."""
    start, end = min(t.start for t in said), max(t.end for t in said)
    return not any(start <= number.start < end for number in clause.numbers)
