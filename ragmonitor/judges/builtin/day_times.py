"""Times of day in prose: `9 am`, `18:00`, `下午6点`, with or without the half of the day."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ragmonitor.patterns import lazy_pattern

UNIT: Final = "clock"
"""Unit of the term of a time of day."""


class DayTime(NamedTuple):
    """A time of day in a text."""

    end: int
    key: str
    """The minutes since midnight; with a question mark if the half of the day is not said."""
    prefix: str
    """Stands among `prefixes` of every time that may be the same."""


_SIGN: Final = "[点时](?![间段期代候速差装])"
_HALF: Final = r"[ap]\.?m\b\.?"
_SPACE: Final = r"[ \xa0\u202f]?"
_TAIL: Final = lazy_pattern(
    rf"[:：](?P<minute>[0-5]\d)(?![\d:：])(?:{_SPACE}(?P<half>{_HALF}))?"
    rf"|{_SPACE}(?P<alone>{_HALF})"
    rf"|(?P<sign>{_SIGN})(?:(?P<minutes>[0-5]?\d)分|(?P<past>半)|(?P<full>[整钟]))?"
    rf"|(?={_SPACE}(?:[-–—~至到]|to\b){_SPACE}\d{{1,2}}"
    rf"(?:[:：][0-5]\d(?![\d:：])|{_SPACE}{_HALF}|{_SIGN}))",
    re.IGNORECASE,
)
_BEGIN_TAIL: Final = frozenset(":： \xa0\u202faApP点时-–—~至到t")
_RANGES: Final = frozenset("-–—~至到")
_MORNING: Final = frozenset({"上午", "早上", "早晨", "凌晨"})
_EVENING: Final = frozenset({"下午", "傍晚", "晚上", "晚间"})
_NIGHT: Final = frozenset({"凌晨", "晚上", "晚间"})
"""The words for the hour of midnight, twelve."""
_NOON: Final = "中午"
_NO_TIME_BEFORE: Final = frozenset(".:：/")
_MAX_HOUR: Final = 24
_NOON_HOUR: Final = 12
_LAST_OF_NOON: Final = 3
"""The last hour of which `中午` is said."""
_DAY: Final = 1_440
_MIN_SURE_HOUR: Final = 13


def day_time_at(text: str, start: int, end: int, hour: int) -> DayTime | None:
    """Return the time of day whose hour stands at `text[start:end]`; None: it is another number."""
    if hour > _MAX_HOUR or text[end : end + 1] not in _BEGIN_TAIL:
        return None
    tail = _TAIL.match(text, end)
    left = text[start - 1 : start]
    if tail is None or left in _NO_TIME_BEFORE or (tail.end() == end and left in _RANGES):
        return None
    before = text[max(0, start - 2) : start]
    is_chinese = before in _MORNING or before in _EVENING or before == _NOON
    if tail["sign"] and not (is_chinese or _is_time(text, start, hour, tail)):
        return None
    minute = 30 if tail["past"] else int(tail["minute"] or tail["minutes"] or 0)
    half = (tail["half"] or tail["alone"] or "")[:1].lower()
    is_sure = bool(half) or is_chinese or hour >= _MIN_SURE_HOUR or text[start] == "0"
    if half == "a" or (before in _NIGHT and hour == _NOON_HOUR):
        hour %= _NOON_HOUR
    elif half == "p" or before in _EVENING or (before == _NOON and hour <= _LAST_OF_NOON):
        hour = hour % _NOON_HOUR + _NOON_HOUR
    minutes = (60 * hour + minute) % _DAY
    if is_sure:
        return DayTime(tail.end(), f"{UNIT}#{minutes}", f"{UNIT}~{minutes}")
    return DayTime(tail.end(), f"{UNIT}#{minutes}?", f"{UNIT}~{minutes % (_DAY // 2)}?")


def _is_time(text: str, start: int, hour: int, tail: re.Match[str]) -> bool:
    """Return whether `3点` is a time of day, and not three points."""
    return bool(
        tail["sign"] == "时"
        or hour >= _MIN_SURE_HOUR
        or tail["minutes"]
        or tail["past"]
        or tail["full"]
        or text[tail.end() : tail.end() + 1] in _RANGES
        or text[start - 1 : start] in _RANGES
    )


def prefixes(key: str) -> tuple[str, ...]:
    """Return the prefixes that a text with a time's key is found by."""
    said = key.partition("#")[2]
    minutes = int(said.rstrip("?"))
    first = minutes % (_DAY // 2)
    if not said.endswith("?"):
        return f"{UNIT}~{minutes}", f"{UNIT}~{first}?"
    return f"{UNIT}~{first}?", f"{UNIT}~{first}", f"{UNIT}~{first + _DAY // 2}"
