"""Times of day, days of the week and opening hours, as fields and as sentences give them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ragmonitor.judges.builtin.quantities import alternatives
from ragmonitor.judges.builtin.terms import Key, Term
from ragmonitor.judges.builtin.word_lists import WEEKDAYS
from ragmonitor.runtime.patterns import lazy_pattern

_NAMED: Final[dict[Key, Key]] = {"noon": "@720", "midnight": "@0"}


def times(content: Sequence[Term]) -> list[Term]:
    """Return the times of day among the terms of a text, in order."""
    return [
        term._replace(key=_NAMED.get(term.key, term.key))
        for term in content
        if term.kind == "time" or term.key in _NAMED
    ]


def is_same(time: Term, other: Term) -> bool:
    """Return whether both may be the same time of day."""
    return other.key in alternatives(str(time.key)) or time.key in alternatives(str(other.key))


DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ENGLISH_DAY: Final = (
    r"mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?"
    r"|sat(?:urday)?|sun(?:day)?"
)
DAY: Final = rf"(?:\b(?:{_ENGLISH_DAY})s?\b\.?|(?:周|星期|礼拜)[一二三四五六日天])"
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
    if found["every"]:
        return tuple(range(1, 8))
    if not found["first"]:
        return (1, 2, 3, 4, 5) if found["working"] else (6, 7)
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

Side = tuple[Term, bool]
"""A time, and whether something opens at it; else it closes."""


class Schedule:
    """The opening hours of one row, day by day."""

    def __init__(self) -> None:
        self.hours: dict[int, list[tuple[Term, Term]] | None] = {}
        """Maps each day to its opening and closing times; empty: closed; None: unknown."""
        self._labels: dict[int, str] = {}

    def add(
        self, which: Sequence[int], value: str | None, found: Sequence[Term], path: str
    ) -> None:
        """Add what a field says of some days, and the times in it."""
        for day in which:
            self._labels[day] = f"{path}: {value}"
            if value is not None and CLOSED.search(value):
                self.hours[day] = []
            elif len(found) >= 2 and found[0].key != found[1].key:
                spans = zip(found[::2], found[1::2], strict=False)
                self.hours[day] = [*(self.hours.get(day) or ()), *spans]
            else:
                self.hours[day] = None

    def label(self, day: int) -> str:
        """Return the field that speaks of a day, and its value; of a day without one, its name."""
        path = min(self._labels.values()).partition(": ")[0]
        return self._labels.get(day) or f"{path.rpartition('.')[0] or path}.{DAY_NAMES[day - 1]}"

    def agrees(self, day: int, sides: Collection[Side], *, says_closed: bool) -> bool:
        """Return whether the hours of a day are what is said of it."""
        spans = self.hours[day] or ()
        if not sides:
            return bool(spans) != says_closed
        return all(
            any(is_same(time, span[0] if opens else span[1]) for span in spans)
            for time, opens in sides
        )


_RANGE: Final = lazy_pattern(r"\s?(?:-|–|—|to\b|until\b|至|到)")
_SIDE: Final = lazy_pattern(
    r"(?P<opens>\b(?:open(?:s|ed|ing)?|from|between|start(?:s|ing)?)\b|从|开放|开门|营业|开始)"
    r"|\b(?:clos(?:es?|ed|ing)|shuts?|until|till?)\b|(?:\b(?:to|through|and|by)|[-–—~至到])\s*\Z"
    r"|关门|打烊|闭馆|结束|停止|止",
    re.IGNORECASE,
)


def edges(text: str, found: Sequence[Term], floor: int) -> Iterator[Side]:
    """Yield those of some times at which something opens (True) or closes (False).

    Args:
        text: What the times stand in.
        found: The times, in order.
        floor: Where the clause begins.
    """
    last = floor
    for at, time in enumerate(found):
        end = time.at + len(time.surface)
        follows = at + 1 < len(found) and found[at + 1].at == time.at  # `9:00-17:00`
        if follows or (at and found[at - 1].at == time.at):
            yield time, follows
        elif at + 1 < len(found) and _RANGE.match(text, end):
            yield time, True
        else:
            *_, before = None, *_SIDE.finditer(text, max(last, time.at - 48), time.at)
            sign = before or _SIDE.search(text, end, end + 8)
            if sign:
                yield time, bool(sign["opens"])
        last = end
