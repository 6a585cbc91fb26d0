"""What a text states and what it negates: each key with a sign, opposites as one key with two.

`closed` is `open` with a minus, `not closed` with a plus. A sign of negation reaches the next
content word of its clause, in Chinese the next four characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ragmonitor.judges.builtin import word_lists
from ragmonitor.judges.builtin.stems import stem, stems
from ragmonitor.judges.builtin.terms import Key, Term, chinese_signs, pair_key, terms
from ragmonitor.runtime.patterns import lazy_pattern

REACH: Final = 4
"""Characters behind a Chinese sign of negation that it negates."""


_SCOPES: Final = stems("before after outside above below beyond") | {">from", ">within"}
"""Words that say on which side of a limit something holds."""
_DENIALS: Final = frozenset(map(stem, word_lists.DENIALS))
_GRANTS: Final = frozenset(map(stem, (*word_lists.GRANTS, "possible", "permit")))
_HARMLESS: Final = stems("doubt matter wonder later earlier") | {">only"}
"""Keys that a negation does not negate: `not only`, `no doubt`."""


def _signs_of(pairs: Iterable[tuple[Key, Key]]) -> dict[Key, tuple[Key, int]]:
    """Return, for each word with an opposite, the one word that stands for both, and the sign."""
    opposites: dict[Key, set[Key]] = {}
    for left, right in pairs:
        opposites.setdefault(left, set()).add(right)
        opposites.setdefault(right, set()).add(left)
    signed: dict[Key, tuple[Key, int]] = {}
    for first in opposites:
        waiting = [] if first in signed else [first]
        signed.setdefault(first, (first, 1))
        while waiting:
            key = waiting.pop()
            for other in opposites[key] - signed.keys():
                signed[other] = first, -signed[key][1]
                waiting.append(other)
    return signed


OPPOSITE: Final = _signs_of(
    [
        *((stem(left), stem(right)) for left, right in word_lists.OPPOSITES),
        *((pair_key(left), pair_key(right)) for left, right in word_lists.CHINESE_OPPOSITES),
    ]
)
"""Maps `clos` to (`open`, -1) and `open` to (`open`, 1)."""
HAS_OPPOSITE: Final = frozenset(OPPOSITE)
_BY_SIGN: Final[dict[tuple[Key, int], set[Key]]] = {}
for _key, _sign in OPPOSITE.items():
    _BY_SIGN.setdefault(_sign, set()).add(_key)
OTHERS: Final = {key: _BY_SIGN.get((base, -sign), set()) for key, (base, sign) in OPPOSITE.items()}
"""Maps a key to those that say the opposite."""
SIGNS: Final = frozenset({"!", ">except", *_DENIALS})
"""Keys that negate others; Chinese signs are keys of sentences alone, and none of chunks."""
NEGATIVE: Final = SIGNS.union(key for key, (_, sign) in OPPOSITE.items() if sign < 0)
"""Keys of which every text that negates something holds one, but for Chinese signs."""


_LOOKED: Final = 8
"""Keys behind a sign among which what it may negate is looked for."""


class _Clause(NamedTuple):
    keys: list[tuple[Key, int]]
    """Each key, and which sign of the clause negates it; 0: none."""
    signs: int
    """How many signs of negation there are."""
    is_open: bool
    """Whether it leaves open what they mean: `unless`."""


@dataclass(slots=True)
class Polarity:
    """The signed keys of a text."""

    scopes: set[str]
    """On which side of a limit it holds."""
    signs: dict[Key, int] = field(default_factory=dict)
    """1: stated; -1: negated; 0: both, or it cannot be told."""
    cause: dict[Key, int] = field(default_factory=dict)
    """Which sign negates a key."""
    near_sign: set[Key] = field(default_factory=set)
    """The keys of clauses that negate something."""
    through: dict[Key, Key] = field(default_factory=dict)
    """Maps the object of a negated verb to the verb: the `cash` of `do not take cash`."""


def _polarity(clauses: Iterable[_Clause], scopes: set[str]) -> Polarity:
    found = Polarity(scopes)
    read = list(clauses)
    is_open = any(clause.is_open for clause in read)
    count = 0
    for clause in read:
        last: Key = ""
        for key, cause in clause.keys:
            own, sign = OPPOSITE.get(key, (key, 1))
            sign = 0 if is_open or clause.signs > 1 else -sign if cause else sign
            if clause.signs:
                found.near_sign.add(own)
            if last in _GRANTS and found.signs.get(last) == -1:
                found.through[own] = last
            found.signs[own] = sign if found.signs.get(own, sign) == sign else 0
            if sign == -1:
                found.cause[own] = count + cause if cause else -(len(found.signs) + count)
            last = own
        count += clause.signs + 1
    return found


def english_polarity(keys: Sequence[Key]) -> Polarity:
    """Return the polarity of a text given by its keys, in order."""
    return _polarity(_clauses(keys), {str(key) for key in keys if key in _SCOPES})


def _clauses(keys: Sequence[Key]) -> Iterator[_Clause]:
    clause: list[tuple[Key, int]] = []
    count = pending = 0
    is_open = False
    for at, key in enumerate((*keys, ".")):
        if key in {".", ",", ">but"}:
            # `Cats are not`: of what stands before.
            yield _Clause(clause, count, is_open or bool(pending))
            clause, count, pending, is_open = [], 0, 0, False
        elif key == "!" or (key == ">except" and not count):
            if not (at + 1 < len(keys) and keys[at + 1] in _HARMLESS):
                pending = count = count + 1
        elif key == ">nor":
            pending = count
        elif key == ">if":
            is_open = True
        elif str(key)[0] != ">" and not (key == "#1" and pending):  # `no one`
            clause.append((key, pending))
            pending = 0


_OPEN: Final = lazy_pattern("如果|除非|直到|未经|非经|否则")
_SIDE: Final = lazy_pattern("[天年月日点时岁度分米元人以之]([前后内外上下])")
_BORDER: Final = lazy_pattern("[，。；;|\t\n]|, ")


def chinese_polarity(text: str, found: Sequence[Term] = ()) -> Polarity:
    """Return the polarity of a Chinese text, whose terms may be known."""
    is_open = bool(_OPEN.search(text))
    scopes = {side[1] for side in _SIDE.finditer(text)}
    return _polarity(_chinese_clauses(text, found or terms(text), is_open=is_open), scopes)


def _chinese_clauses(text: str, found: Sequence[Term], *, is_open: bool) -> Iterator[_Clause]:
    borders = [*(border.end() for border in _BORDER.finditer(text)), len(text) + 1]
    clause: list[tuple[Key, int]] = []
    count, until, which = 0, -1, 0
    for term in found:
        if term.at >= borders[which]:
            yield _Clause(clause, count, is_open)
            clause, count, until = [], 0, -1
            while term.at >= borders[which]:
                which += 1
        end = term.at + len(term.surface)
        if term.kind == "negation":
            count += 1
            until = end + REACH
        elif term.weight:
            clause.append((term.key, count if end <= until else 0))
    yield _Clause(clause, count, is_open)


def conflict(here: Polarity, there: Polarity) -> set[Key]:
    """Return the keys that one text states and the other negates, if an odd number of signs does.

    Two signs that each negate something of their own leave it open.
    """
    if here.scopes - there.scopes:
        return set()
    ours, theirs = _seen_from(here, there), _seen_from(there, here)
    both = ours.keys() & theirs.keys()
    agreed: set[tuple[int, int]] = set()
    """Signs of either side that negate the same, as (side, sign)."""
    conflicts: dict[Key, tuple[int, int]] = {}
    for key in both:
        product = ours[key][0] * theirs[key][0]
        if product == 1 and ours[key][0] < 0:
            agreed |= {(0, ours[key][1]), (1, theirs[key][1])}
        elif product == -1:
            conflicts[key] = (0, ours[key][1]) if ours[key][0] < 0 else (1, theirs[key][1])
    negates = [
        any(sign < 0 and (side, cause) not in agreed for sign, cause in seen.values())
        for side, seen in ((0, ours), (1, theirs))
    ]
    if conflicts.keys().isdisjoint(there.near_sign):
        negates[1] = False  # of another matter, in another clause
    if all(negates) and len(set(conflicts.values())) < 2:
        return set()
    left = {key: cause for key, cause in conflicts.items() if cause not in agreed}
    return set(left) if len(set(left.values())) % 2 else set()


def _seen_from(one: Polarity, other: Polarity) -> dict[Key, tuple[int, int]]:
    """Return the signs and their causes.

    What a negated verb denies is negated, too, if the other text lacks the verb.
    """
    seen = {key: (sign, one.cause.get(key, 0)) for key, sign in one.signs.items()}
    for key, verb in one.through.items():
        if verb not in other.signs:
            seen[key] = -1, one.cause.get(verb, 0)
    return seen


def denied_in_english(order: Sequence[Key]) -> set[Key]:
    """Return the keys that a text may negate, of opposites the one that stands for both.

    They are the two behind each sign, a verb and its object, and the negative ones of opposites.
    """
    near = set[Key](NEGATIVE.intersection(order))
    for at in [at for at, key in enumerate(order) if key in SIGNS or key == ">nor"]:
        behind = [key for key in order[at + 1 : at + _LOOKED] if str(key)[0] not in ">!"]
        near.update(behind[:2])
    return {OPPOSITE.get(key, (key, 1))[0] for key in near}


def denied_in_chinese(text: str, keys: set[Key]) -> set[Key]:
    """Return the keys that a text may negate, of opposites the one that stands for both."""
    behind = [text[end : end + REACH] for _, end in chinese_signs(text)]
    near = {pair_key(part[at : at + 2]) for part in behind for at in range(len(part) - 1)}
    return {OPPOSITE.get(key, (key, 1))[0] for key in near | (NEGATIVE & keys)}
