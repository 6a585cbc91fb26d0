"""Times of day, days of the week and opening hours, as fields and as sentences give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.quantities import alternatives
from ragmonitor.judges.builtin.terms import Term
from ragmonitor.judges.builtin.word_lists import WEEKDAYS
from ragmonitor.runtime.patterns import lazy_pattern


class Token(NamedTuple):
    """A word, figure or time of a text."""

    key: str
    start: int
    end: int


def token_of(term: Term, key: object = None) -> Token:
    """Return a term that has an offset, with its key or another."""
    return Token(str(key or term.key), term.at, term.at + len(term.surface))


NAMED: Final = {"noon": "@720", "midnight": "@0"}


def times(content: Sequence[Term]) -> list[Token]:
    """Return the times of day among the terms of a text, in order."""
    return [
        token_of(term, NAMED.get(str(term.key)))
        for term in content
        if term.kind == "time" or term.key in NAMED
    ]


def is_same(time: Token, other: Token) -> bool:
    """Return whether both may be the same time of day."""
    return other.key in alternatives(time.key) or time.key in alternatives(other.key)


DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY: Final = (
    r"(?:\b(?:mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?)s?\b\.?|(?:周|星期|礼拜)[一二三四五六日天])"
)
_DAYS: Final = lazy_pattern(
    rf"(?P<first>{DAY})(?:\s?(?:-|–|—|to|through|thru|till|until|至|到|~)\s?"
    rf"(?P<last>{DAY}|[一二三四五六日天]))?"
    r"|(?P<every>\bevery ?day\b|\bdaily\b|\b(?:seven|7) days a week\b"
    r"|每天|每日|全周|天天|全年无休)"
    r"|(?P<working>\bweekdays?\b|工作日)|(?P<weekend>\bweekends?\b|周末)",
    re.IGNORECASE,
)
_HAN_DAYS: Final = "一二三四五六日天"


def days(text: str) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """Return where a text names days of the week, and which, from 1, Monday, to 7."""
    return [(found.span(), _days(found)) for found in _DAYS.finditer(text)]


def days_of(text: str) -> tuple[int, ...]:
    """Return the days of the week that a text names."""
    return tuple(day for _, which in days(text) for day in which)


def _days(found: re.Match[str]) -> tuple[int, ...]:
    if not found["first"]:
        return tuple(range(6 if found["weekend"] else 1, 6 if found["working"] else 8))
    first = _day(found["first"])
    last = _day(found["last"] or found["first"])
    return tuple((first - 1 + step) % 7 + 1 for step in range((last - first) % 7 + 1))


def _day(name: str) -> int:
    at = _HAN_DAYS.find(name[-1])
    return WEEKDAYS[name[:3].lower()] if at < 0 else min(at + 1, 7)


CLOSED: Final = lazy_pattern(
    r"\bclosed\b|\bshut\b|休息|闭馆|关闭|不营业|不开放|休馆|歇业|停业", re.IGNORECASE
)
SAYS_OPEN: Final = lazy_pattern(
    r"\bopen(?:s|ed)?\b|\bclos(?:es?|ing)\b|关门|打烊|开放|营业|开门|开馆", re.IGNORECASE
)

Side = tuple[Token, bool]
"""A time, and whether something opens at it; else it closes."""


_RANGE: Final = lazy_pattern(r"\s?(?:-|–|—|to\b|until\b|至|到)")
_SIDE: Final = lazy_pattern(
    r"(?P<opens>\b(?:open(?:s|ed|ing)?|from|between|start(?:s|ing)?)\b|从|开放|开门|营业|开始)"
    r"|\b(?:clos(?:es?|ed|ing)|shuts?|until|till?)\b|(?:\b(?:to|through|and|by)|[-–—~至到])\s*\Z"
    r"|关门|打烊|闭馆|结束|停止|止",
    re.IGNORECASE,
)


def edges(text: str, found: Sequence[Token], floor: int) -> Iterator[Side]:
    """Yield those of some times at which something opens (True) or closes (False).

    Args:
        text: What the times stand in.
        found: The times, in order.
        floor: Where the clause begins.
    """
    starts = [time.start for time in found]
    for at, time in enumerate(found):
        follows = starts[at] in starts[at + 1 : at + 2]  # `9:00-17:00`
        if follows or (at and starts[at - 1] == time.start):
            yield time, follows
        elif at + 1 < len(found) and _RANGE.match(text, time.end):
            yield time, True
        else:
            *_, before = None, *_SIDE.finditer(text, max(floor, time.start - 48), time.start)
            sign = before or _SIDE.search(text, time.end, time.end + 8)
            if sign:
                yield time, bool(sign["opens"])
        floor = time.end
