"""Quantities in texts: commas, full-width digits, number words, 万 and 亿, percentages."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.word_lists import (
    CHINESE_DIGITS,
    CHINESE_SCALES,
    NUMBER_WORDS,
    SCALES,
    UNITS,
)
from ragmonitor.patterns import lazy_pattern


class Quantity(NamedTuple):
    """A number with its unit, as a text gives it."""

    start: int
    end: int
    """After the number and its scale (`3.5 million`); the unit is not part of it."""
    value: str
    """Canonical: equal numbers have equal values, `1,200`, `1200` and `1.2 thousand`."""
    unit: str
    """A name from `UNITS`; `year`, `CALENDAR_MONTH`, `day` in dates; empty: none, or an unknown
    one."""


_MAX_DIGITS: Final = 18
"""Digits; longer runs are identifiers and are compared as text."""

# A class comes first and alone, as that is what a search skips ahead by.
NUMBER: Final = (
    r"(?P<number>(?i:\d\d{0,39}(?:[,，]\d{3}(?!\d)){0,12}(?:\.\d{1,40})?"
    r"(?P<ordinal>(?:st|nd|rd|th)\b)?"
    r"(?P<scale>[ \t\xa0-]?(?:hundred|thousand|million|billion|trillion|bn|mn)\b|[kKbBmM]\b|"
    r"[十百千万亿]{1,3})?))"
)
"""Pattern of a number in digits, for use inside another pattern."""
_NUMERALS = "".join((*CHINESE_DIGITS, *CHINESE_SCALES))
CHINESE_NUMBER: Final = lazy_pattern(
    f"(?P<parts>(?:百|[{_NUMERALS}]{{1,3}})分之)?(?P<digits>[{_NUMERALS}]{{1,12}})"
    f"(?(parts)(?:点(?P<decimals>[{''.join(CHINESE_DIGITS)}]{{1,6}}))?)"
)
"""Pattern of a number in Chinese numerals, a share (`百分之五点三`), a fraction (`三分之二`)."""
FRACTIONS: Final = {character: unicodedata.numeric(character) for character in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
"""Fractions of one character, and their values."""
_UNIT_BEHIND = lazy_pattern(
    r"[ \t\xa0-]?(?P<sign>[%％°℃℉][CFcf]?|[A-Za-z]{1,12}[²2]?)|(?P<han>"
    + "|".join(
        sorted((u for u in UNITS if not u[0].isascii() and len(u) > 1), key=len, reverse=True)
    )
    + "|[元米克吨升亩秒天周岁度年月日号])"
)
_BEFORE_NO_UNIT: Final = frozenset(["", *".,;:!?)]\"'/\n"])
"""The signs that often follow a number, and are neither a unit nor a space before one."""
MEASURES: Final = (
    "年月日号个人次元岁天米吨名家位座条项辆架艘只件种届级层楼万亿成折倍时点分秒%％周小公英季"
)
"""Characters that make a number of a single Chinese numeral before them."""
_MEASURES = frozenset(MEASURES)
_CURRENCIES = {"$": "$", "€": "€", "£": "£", "¥": "¥", "￥": "¥"}
CALENDAR_MONTH: Final = "month of a year"
"""Unit of the 3 of `3月`, which is March; that of `3个月` and `3 months` is `month`."""
_CHINESE_PERIODS = {"年": "year", "月": CALENDAR_MONTH, "日": "day", "号": "day"}


_new = tuple.__new__
"""Builds a named tuple faster than its constructor, which is written in Python."""


def read_number(text: str, found: re.Match[str]) -> Quantity:
    """Return the quantity of a match of a pattern with `NUMBER`, with the unit around it."""
    surface, ordinal, scale = found.group("number", "ordinal", "scale")
    start, end = found.span()
    factor = 1.0
    if ordinal or scale:
        surface = surface[: len(surface) - len(scale or "") - len(ordinal or "")]
        factor = _scale(scale.strip(" \t\xa0-").lower()) if scale else 1.0
    return _new(Quantity, (start, end, canonical(surface, factor), _unit(text, start, end)))


def read_chinese(text: str, found: re.Match[str]) -> Quantity | None:
    """Return the quantity of a match of `CHINESE_NUMBER`, or None if it reads as plain words."""
    digits = found["digits"]
    end = found.end()
    if found["parts"]:
        return _share(found)
    follows = text[end : end + 1]
    if digits[0] in "万亿百千" or (len(digits) == 1 and follows not in _MEASURES):
        return None
    return Quantity(
        found.start(), end, spelled(chinese_value(digits)), _unit(text, found.start(), end)
    )


def _share(found: re.Match[str]) -> Quantity | None:
    """Return the quantity of `百分之十五点五` or `三分之二`; None: it divides by nothing."""
    value = chinese_value(found["digits"])
    if found["decimals"]:
        value += chinese_value(found["decimals"]) / 10 ** len(found["decimals"])
    parts = found["parts"].removesuffix("分之")
    if parts == "百":
        return Quantity(*found.span(), spelled(value), "%")
    whole = chinese_value(parts)
    return Quantity(*found.span(), spelled(value / whole), "") if whole else None


def chinese_value(digits: str) -> float:
    """Return the value of a run of Chinese numerals: 二十五 is 25, 一九九八 1998, 一万五 15,000."""
    if not any(character in CHINESE_SCALES for character in digits):
        return float("".join(str(CHINESE_DIGITS[character]) for character in digits))
    total = section = digit = 0
    for character in digits:
        if character in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[character]
            continue
        scale = CHINESE_SCALES[character]
        if scale >= CHINESE_SCALES["万"]:
            total = (total + section + digit or 1) * scale
            section = 0
        else:
            section += (digit or 1) * scale
        digit = 0
    before = CHINESE_SCALES.get(digits[-2], 0) if len(digits) > 1 else 0
    if digit and before >= _SCALE_BEFORE_PART:
        digit *= before // 10
    return float(total + section + digit)


_SCALE_BEFORE_PART = 100
"""A scale from which a digit behind it counts tenths of it: `三百五` is 350, `三百零五` 305."""


def word_value(word: str) -> float | None:
    """Return the value of an English number word, a scale (`million`) included; None: no number."""
    return NUMBER_VALUES.get(word) or None


def join(before: str, number: float) -> float | None:
    """Return the number that two number words make together, None if they are two numbers.

    `twenty` and `five` make 25, `3.5` and `million` 3,500,000, `ten thousand` and `one` 10,001,
    that and `hundred` 10,100.
    """
    if len(before) > _MAX_DIGITS:
        return None
    first = float(before)
    if number in _SCALE_VALUES:
        low = first % number
        return first - low + low * number if low else None
    if first in _TENS and 1 <= number <= 9:
        return first + number
    if first >= 100 and first % 100 == 0 and number < 100:
        return first + number
    return None


_TENS = frozenset(range(20, 100, 10))


def unit_behind(text: str, end: int) -> str:
    """Return the unit that follows a number, or an empty string."""
    if text[end : end + 1] in _BEFORE_NO_UNIT:
        return ""
    found = _UNIT_BEHIND.match(text, end)
    if found is None:
        return ""
    if found.lastgroup == "han":
        return _CHINESE_PERIODS.get(found["han"]) or UNITS[found["han"]]
    unit = UNITS.get(found["sign"].lower(), "")
    return "" if unit and _goes_on(text, found.end()) else unit


def _goes_on(text: str, at: int) -> bool:
    following = text[at : at + 1]
    return following.isascii() and following.isalpha()


def canonical(digits: str, scale: float = 1.0) -> str:
    """Return one spelling for all spellings of a number, given in digits."""
    if scale == 1.0 and len(digits) <= _PRECISION and digits.isdecimal():
        is_spelled = digits[0] != "0" and digits.isascii()
        return digits if is_spelled else str(int(digits))
    digits = digits.replace(",", "").replace("，", "")
    if len(digits) > _MAX_DIGITS:
        return digits
    return spelled(float(digits) * scale)


_SCALE_WORDS = {
    form: value for name, value in SCALES.items() if len(name) > 2 for form in (name, f"{name}s")
}
NUMBER_VALUES: Final = {**_SCALE_WORDS, **NUMBER_WORDS}
"""The number words and scales, and their values."""
_SCALE_VALUES = frozenset(_SCALE_WORDS.values())


def spelled(value: float) -> str:
    """Return the canonical spelling of a value."""
    return f"{value:.{_PRECISION}g}"


_PRECISION: Final = 12
"""Significant digits in which two numbers may differ."""


def _scale(name: str) -> float:
    if name in SCALES:
        return SCALES[name]
    factor = 1.0
    for character in name:
        factor *= CHINESE_SCALES[character]
    return factor


def _unit(text: str, start: int, end: int) -> str:
    return _CURRENCIES.get(text[start - 1 : start]) or unit_behind(text, end)


_ROUNDED_DIGITS = 2
"""Significant digits that a rounded number must at least have kept to stand for the exact one."""


def kept_digits(rounded: str) -> int:
    """Return to how many significant digits a canonical number may be rounded; 0: it is exact."""
    if not _ROUNDED_DIGITS <= len(rounded) <= _MAX_DIGITS:
        return 0
    digits = rounded.replace(".", "").strip("0").lstrip("-")
    return len(digits) if len(digits) >= _ROUNDED_DIGITS and digits.isdigit() else 0


def is_year(value: str) -> bool:
    """Return whether a bare number reads as a year."""
    return len(value) == 4 and value.isdigit() and "1000" <= value <= "2199"
