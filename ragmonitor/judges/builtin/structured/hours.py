"""Times of day, days of the week and opening hours, as fields and as sentences give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.quantities import chinese_value
from ragmonitor.judges.builtin.word_lists import WEEKDAYS
from ragmonitor.runtime.patterns import lazy_pattern


class Time(NamedTuple):
    """A time of day in a text."""

    start: int
    end: int
    minutes: int
    """The minutes since midnight."""
    is_sure: bool
    """Whether it says which half of the day it is in."""

    def equals(self, other: Time) -> bool:
        """Return whether both may be the same time."""
        apart = abs(self.minutes - other.minutes) % 1440
        return apart == 0 or (apart == 720 and not (self.is_sure and other.is_sure))


_HALF: Final = r"(?P<half>上午|早上|早晨|凌晨|中午|下午|傍晚|晚上|晚间)?"
_TIME: Final = lazy_pattern(
    rf"{_HALF}(?<![\d.:])(?P<h>[01]?\d|2[0-4])[:：](?P<m>[0-5]?\d)(?![\d:])"
    r"(?:[ \u202f]?(?P<ap>[ap]\.?m\b\.?))?"
    r"|(?<![\d.:])(?P<h2>[01]?\d)[ \u202f]?(?P<ap2>[ap]\.?m\b\.?)"
    rf"|{_HALF.replace('half', 'half3')}"
    r"(?P<h3>[01]?\d|2[0-4]|[一二两三四五六七八九十]{1,3})[点时]"
    r"(?!间|段|期)(?:(?P<m3>[0-5]?\d)分?|(?P<half_past>半))?"
    r"|\b(?P<word>noon|midnight)\b",
    re.IGNORECASE,
)
_HAS_TIME: Final = lazy_pattern("[0-9点时]|noon|midnight")
_LATE: Final = frozenset({"下午", "傍晚", "晚上", "晚间"})


def times(text: str) -> list[Time]:
    """Return the times of day in a text, in order."""
    if not _HAS_TIME.search(text):
        return []
    return [_time(found) for found in _TIME.finditer(text)]


def _time(found: re.Match[str]) -> Time:
    start, end = found.span()
    if found["word"]:
        return Time(start, end, 720 if found["word"].lower() == "noon" else 0, True)
    digits = found["h"] or found["h2"] or found["h3"]
    hour = int(chinese_value(digits))
    minute = 30 if found["half_past"] else int(found["m"] or found["m3"] or 0)
    half, letter = found["half"] or found["half3"], (found["ap"] or found["ap2"] or "")[:1].lower()
    if (letter == "p" or half in _LATE) and hour < 12:
        hour += 12
    elif (letter == "a" or half == "凌晨") and hour == 12:
        hour = 0
    is_sure = bool(letter or half) or hour > 12 or (digits[0] == "0" and len(digits) == 2)
    return Time(start, end, hour * 60 + minute, is_sure)


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


class Days(NamedTuple):
    """Days of the week in a text."""

    start: int
    end: int
    days: tuple[int, ...]
    """From 1, Monday, to 7."""
    is_named: bool
    """Whether they are named, and not all weekdays, a weekend or every day."""


def days(text: str) -> list[Days]:
    """Return the days and ranges of days in a text, in order."""
    return [
        Days(*found.span(), _days(found), bool(found["first"])) for found in _DAYS.finditer(text)
    ]


def _days(found: re.Match[str]) -> tuple[int, ...]:
    if found["every"]:
        return tuple(range(1, 8))
    if found["working"]:
        return (1, 2, 3, 4, 5)
    if found["weekend"]:
        return (6, 7)
    first = _day(found["first"])
    last = _day(found["last"]) if found["last"] else first
    return tuple((first - 1 + step) % 7 + 1 for step in range((last - first) % 7 + 1))


def _day(name: str) -> int:
    if name[-1] in "一二三四五六日天":
        return "一二三四五六日天".index(name[-1]) % 7 + 1 if name[-1] != "天" else 7
    return WEEKDAYS.get(name.lower().rstrip(".").removesuffix("s")) or WEEKDAYS[name.lower()[:3]]


CLOSED: Final = lazy_pattern(
    r"\bclosed\b|\bshut\b|休息|闭馆|关闭|不营业|不开放|休馆|歇业|停业", re.IGNORECASE
)


class Schedule:
    """The opening hours of one row, day by day."""

    def __init__(self) -> None:
        self.hours: dict[int, list[tuple[Time, Time]] | None] = {}
        """Maps each day to its opening and closing times; empty: closed; None: unknown."""
        self._labels: dict[int, str] = {}
        self._path = ""

    def add(self, which: Sequence[int], value: str | None, path: str) -> None:
        """Add what a field says of some days."""
        self._path = self._path or path
        found = times(value or "")
        has_day = bool(_DAYS.search(path.rpartition(".")[2].replace("_", " ")))
        for day in which:
            if value is not None and CLOSED.search(value):
                self.hours[day] = []
            elif len(found) >= 2 and found[0].minutes != found[1].minutes:
                spans = zip(found[::2], found[1::2], strict=False)
                self.hours[day] = [*(self.hours.get(day) or ()), *spans]
            else:
                self.hours[day] = None
            name = "" if has_day else f" ({DAY_NAMES[day - 1]})"
            self._labels[day] = f"{path}{name}: {value}"

    def label(self, day: int) -> str:
        """Return the field that speaks of a day, and its value; of a day without one, its name."""
        place = self._path.rpartition(".")[0] or self._path
        return self._labels.get(day) or f"{place}.{DAY_NAMES[day - 1]}"


_OPENS: Final = lazy_pattern(
    r"\bopen(?:s|ed|ing)?\b[^.;]{0,24}?\b(?:at|from)\s*\Z"
    r"|\b(?:from|between|starting|starts)\s*(?:at\s*)?\Z"
    r"|\bopen(?:s|ing)?(?: time)?(?: is)?\s*\Z|从\s*\Z"
    r"|(?:营业|开放|开门)(?:时间)?(?:为|是|从)?\s*\Z",
    re.IGNORECASE,
)
_CLOSES: Final = lazy_pattern(
    r"\b(?:clos(?:es?|ed|ing)|shuts?)\b[^.;]{0,24}?\b(?:at|by)\s*\Z"
    r"|\b(?:until|till|til|to|through|and|clos(?:es?|ing)(?: time)?(?: is)?)\s*\Z"
    r"|[-–—~至到]\s*\Z",
    re.IGNORECASE,
)
_OPENS_BEHIND: Final = lazy_pattern(r"\s*(?:开门|开始营业|开始|起|开放|营业)")
_CLOSES_BEHIND: Final = lazy_pattern(r"\s*(?:关门|打烊|闭馆|结束|停止|为止|止)")
SAYS_OPEN: Final = lazy_pattern(
    r"\bopen(?:s|ed)?\b|\bclos(?:es?|ing)\b|关门|打烊|开放|营业|开门|开馆", re.IGNORECASE
)
_RANGE: Final = lazy_pattern(r"\s?(?:-|–|—|to\b|until\b|至|到)")


def edges(text: str, found: Sequence[Time], floor: int) -> Iterator[tuple[Time, bool]]:
    """Yield those of some times at which something opens (True) or closes (False).

    Args:
        text: What the times stand in.
        found: The times, in order.
        floor: Where the clause begins.
    """
    for at, time in enumerate(found):
        before = text[max(floor, time.start - 48) : time.start]
        behind = text[time.end : time.end + 8]
        if _RANGE.match(behind) and at + 1 < len(found):
            yield time, True
        elif _CLOSES_BEHIND.match(behind) or _CLOSES.search(before):
            yield time, False
        elif _OPENS_BEHIND.match(behind) or _OPENS.search(before):
            yield time, True


def agrees(
    spans: Sequence[tuple[Time, Time]], sides: Sequence[tuple[Time, bool]], *, says_closed: bool
) -> bool:
    """Return whether a day's hours are what is said of it."""
    if not sides:
        return bool(spans) != says_closed
    return all(
        any(time.equals(span[0] if opens else span[1]) for span in spans) for time, opens in sides
    )
