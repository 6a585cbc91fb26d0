"""Numbers, units, currencies, times of day and dates of both languages, as keys.

A key is a number (`#412`, `#-5.13`), a unit (`°km`, `°$`), a month or weekday (`~m3`, `~w2`) or a
time of day (`@540`; `@540?` where the half of the day is open). Equal keys mean equal quantities.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from ragmonitor.judges.builtin.word_lists import (
    CHINESE_DIGITS,
    CHINESE_SCALES,
    NUMBER_WORDS,
    SCALES,
    UNITS,
)
from ragmonitor.runtime.patterns import lazy_pattern

Kind = Literal[
    "word", "name", "number", "date", "time", "unit", "pair", "negation", "sign", "small", "border"
]


class Atom(NamedTuple):
    """What a token or a figure reads as."""

    key: str
    weight: float
    """From 0 (signs of negation, `one`) to 1 (numbers, words)."""
    kind: Kind


_MAX_DIGITS: Final = 18
"""Digits; longer runs are identifiers and are compared as text."""
_SMALL_NUMBER: Final = 0.6
"""Weight of whole numbers below 10: they stand in most texts."""
UNIT_WEIGHT: Final = 0.35
_CHINESE_UNIT_WEIGHT: Final = 0.25


def number_key(value: float) -> str:
    """Return the key of a number; numbers that differ beyond the twelfth digit are equal."""
    return f"#{value:.12g}"


def number_of(key: str) -> float | None:
    """Return the number of a key; None if it is another key, or an identifier in digits."""
    return float(key[1:]) if key[0] == "#" and len(key) <= _MAX_DIGITS + 2 else None


def number(digits: str, factor: float = 1.0) -> Atom:
    """Return a number that is given in digits."""
    digits = digits.replace(",", "").replace("，", "")
    key = f"#{digits}" if len(digits) > _MAX_DIGITS else number_key(float(digits) * factor)
    return Atom(key, _SMALL_NUMBER if len(key) == 2 else 1.0, "number")


def date(kind: Literal["m", "w"], which: int) -> Atom:
    """Return a month or a weekday, counted from 1."""
    return Atom(f"~{kind}{which}", 0.8, "date")


def unit(name: str) -> Atom:
    """Return a unit, by the name that stands for all its spellings."""
    return Atom(f"°{name}", UNIT_WEIGHT, "unit")


def clock(hour: int, minute: int, half: str = "") -> Atom:
    """Return a time of day. `half`: a or p; empty: it is open before 13 hours."""
    if half:
        return Atom(f"@{(hour % 12 + 12 * (half == 'p')) * 60 + minute}", 1.0, "time")
    return Atom(f"@{hour % 24 * 60 + minute}" + "?" * (hour < 13), 1.0, "time")


def alternatives(key: str) -> tuple[str, ...]:
    """Return a key and those of times and currencies that may be the same.

    `9:00` may be 9 am or 9 pm; `¥` may be yuan or yen.
    """
    if key[0] == "@":
        minutes = int(key[1:].rstrip("?"))
        if key[-1] == "?":
            return key, f"@{minutes % 720}", f"@{minutes % 720 + 720}"
        return key, f"@{minutes % 720}?"
    if key == "°¥?":
        return key, "°¥", "°yen"
    return (key, "°¥?") if key in {"°¥", "°yen"} else (key,)


def is_year(key: str, unit_key: str) -> bool:
    """Return whether a number may be a year, by the key of the unit behind it."""
    return len(key) == 5 and "#1000" <= key <= "#2199" and unit_key in {"", "°year"}


# --- English ------------------------------------------------------------------------------------

TENS: Final = {word: value for word, value in NUMBER_WORDS.items() if 20 <= value <= 90}
_LETTER_SCALES: Final = {"M": 1e6, "MM": 1e6, "B": 1e9, "K": 1e3, "k": 1e3}
SCALE_WORDS: Final = {name: value for name, value in SCALES.items() if len(name) > 1}
CURRENCIES: Final = frozenset({"$", "€", "£", "¥", "yen", "CHF", "₹", "HK$"})
_CURRENCY_SIGNS: Final = {"US$": "$", "$": "$", "Y$": "¥?", "HK$": "HK$"}
PART: Final = lazy_pattern(
    r"(?P<year>[12]\d{3})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)"
    r"|(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?P<half>[ap]\.?m)?"
    r"|(?P<minus>(?<![\w%)])-)?(?P<currency>US\$|HK\$|Y\$|\$|EUR|GBP|CNY|RMB|JPY|CHF|USD)?"
    r"(?P<number>\d[\d,]*(?:\.\d+)?|\.\d+)(?:(?:st|nd|rd|th)\b|(?P<suffix>%|[A-Za-z]+2?))?"
    r"|(?P<letters>(?:[A-Za-z]\.){2,8}[A-Za-z]?)"
    r"|(?P<word>[^\W\d_]+(?:'[^\W\d_]+)?\d*)|(?P<percent>%)"
)
"""A part of a token that is no plain word."""


def read_part(found: re.Match[str]) -> tuple[list[Atom], str]:
    """Return what a match of `PART` without a word reads as, and a word that is glued to it."""
    if found["year"]:
        return [number(found["year"]), date("m", int(found["month"])), number(found["day"])], ""
    if found["hour"]:
        half = (found["half"] or "")[:1] or ("a" if found["hour"][0] == "0" else "")
        return [clock(int(found["hour"]), int(found["minute"]), half)], ""
    if found["percent"]:
        return [unit("%")], ""
    suffix, digits = found["suffix"] or "", found["number"]
    if suffix.lower() in {"am", "pm"} and digits.isdecimal() and int(digits) <= 12:
        return [clock(int(digits), 0, suffix[0].lower())], ""
    sign = found["currency"] or ""
    currency = _CURRENCY_SIGNS.get(sign) or UNITS.get(sign.lower(), "")
    scale = _LETTER_SCALES.get(suffix) if suffix != "MM" or currency else None
    scale = scale or SCALE_WORDS.get(suffix.lower())
    read = [number(digits, (scale or 1.0) * (-1 if found["minus"] else 1))]
    name = currency or UNITS.get(suffix.lower(), "")
    if name:
        read.append(unit(name))
    return read, suffix if suffix not in {"", "s"} and not name and not scale else ""


# --- Chinese ------------------------------------------------------------------------------------

_DIGITS: Final = "".join(CHINESE_DIGITS)
_NUMERALS: Final = _DIGITS + "".join(CHINESE_SCALES)
_HAN_UNITS: Final = "|".join(
    sorted((name for name in UNITS if not name[0].isascii() and name not in "￥％"), key=len)[::-1]
)
_MEASURES: Final = frozenset(
    "年月日号个人次元岁天米吨名家位座条项辆架艘只件种届级层楼万亿成折倍时点分秒%％周小公英季章本台套张间"
)
"""Characters that make a number of a single Chinese numeral before them."""
_SCALE: Final = r"(?:(?!千(?:克|米|瓦|字|卡|伏))[十百千万亿]){0,3}"
"""A scale, but for the first character of `千克`: a unit, as `公斤` is."""
FRACTIONS: Final = "¼½¾⅓⅔"
_FIGURE: Final = lazy_pattern(
    rf"(?=[-−\d{_NUMERALS}周期拜零¥￥$€£{FRACTIONS}])"
    rf"(?:(?P<whole>\d{{1,3}})?(?P<fraction>[{FRACTIONS}])|(?P<parts>百|[{_NUMERALS}]{{1,3}})分之"
    rf"(?P<share>[{_NUMERALS}]{{1,8}}|\d{{1,6}}(?:\.\d+)?)(?:点(?P<decimals>[{_DIGITS}]{{1,6}}))?"
    r"|(?:(?P<hour>\d{1,2})[:：](?P<minute>[0-5]\d)(?!\d)"
    r"|(?P<hour2>\d{1,2}|[一二两三四五六七八九十]{1,3}) ?[点时](?![间段期代候速差装])"
    r"(?: ?(?P<minute2>[0-5]?\d) ?分|(?P<past>半)|(?P<full>[整钟]))?)"
    r"|(?P<year>[12]\d{3})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)"
    r"|(?P<minus>(?<![\dA-Za-z])[-−](?=[\d$¥￥€£])|零下 ?)?(?P<currency>[$€£¥￥])?"
    rf"(?P<number>\d[\d,，]*(?:\.\d+)?|[{_NUMERALS}]{{1,12}}) ?(?P<scale>{_SCALE})"
    rf"(?P<more>(?:\d+(?:\.\d+)?{_SCALE.replace('{0,3}', '')})?) ?"
    rf"(?P<unit>个?小时|个?月|[%％℃]|[A-Za-z]{{1,3}}2?(?![A-Za-z])|{_HAN_UNITS}|[年月日号])?"
    r"|(?:周|(?<=星)期|(?<=礼)拜)(?P<weekday>[一二三四五六日天])(?![期末年]))"
)
_PERIODS: Final = {"年": "year", "日": "day", "号": "day", "月": "month", "个小时": "hour"}
_SIGN_NAMES: Final = {"$": "$", "€": "€", "£": "£", "¥": "¥?", "￥": "¥?"}
_MORNING: Final = ("上午", "早上", "早晨", "凌晨")
_AFTERNOON: Final = ("下午", "傍晚", "晚上", "晚间", "中午")


def chinese_value(digits: str) -> float:
    """Return the value of numerals: 二十五 is 25, 一九九八 1998, 一万五 15,000; also of digits."""
    digits = digits.replace(",", "").replace("，", "")
    if digits[0].isdecimal():
        return float(digits)
    if not any(each in CHINESE_SCALES for each in digits):
        return float("".join([str(CHINESE_DIGITS[each]) for each in digits]))
    total = section = digit = 0
    largest = 0
    """The scale that `total` was multiplied by."""
    for each in digits:
        if each in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[each]
            continue
        scale = CHINESE_SCALES[each]
        if scale < CHINESE_SCALES["万"]:
            section += (digit or 1) * scale
        elif scale < largest:  # the 万 of 八亿九千万
            total, section = total + (section + digit or 1) * scale, 0
        else:
            total, section, largest = (total + section + digit or 1) * scale, 0, scale
        digit = 0
    before = CHINESE_SCALES.get(digits[-2], 0) if len(digits) > 1 else 0
    is_tenth = digit and before >= 100  # 三百五 is 350
    return float(total + section + digit * (before // 10 if is_tenth else 1))


_NUMBERS: dict[str, tuple[Atom, ...]] = {}
"""What numbers read as, each with the character behind it."""
_MAX_NUMBERS: Final = 20_000


def chinese_figures(text: str) -> Iterator[tuple[int, int, tuple[Atom, ...]]]:
    """Yield where the numbers, dates and times of a Chinese text stand and what they say."""
    for found in _FIGURE.finditer(text):
        start, end = found.span()
        if found.lastgroup in {"more", "unit"}:
            seen = text[start : end + 1]
            read = _NUMBERS.get(seen)
            if read is None:
                read = tuple(_figure(found, text))
                if len(_NUMBERS) < _MAX_NUMBERS:
                    _NUMBERS[seen] = read
        else:
            read = tuple(_figure(found, text))
        if read:
            yield start, end - (text[end - 1] == " "), read


def _figure(found: re.Match[str], text: str) -> list[Atom]:
    if found["weekday"]:
        return [date("w", "一二三四五六日".find(found["weekday"].replace("天", "日")) + 1)]
    if found["fraction"]:
        value = int(found["whole"] or 0) + float(f"{unicodedata.numeric(found['fraction']):.3g}")
        return [Atom(number_key(value), 1.0, "number")]
    if found["parts"]:
        return _share(found)
    if found["hour"] or found["hour2"]:
        return [_chinese_time(found, text)]
    if found["year"]:
        return [number(found["year"]), date("m", int(found["month"])), number(found["day"])]
    digits, name = found["number"], found["unit"] or ""
    follows = text[found.end("number") : found.end("number") + 2].lstrip(" ")[:1]
    if not digits[0].isdecimal() and not found["minus"]:
        is_word = len(digits) == 1 and not name and follows not in _MEASURES
        if digits[0] in "万亿百千" or is_word:
            return []
    value = chinese_value(digits) if len(digits) <= _MAX_DIGITS else 0.0
    value = _scaled(value, found["scale"])
    if found["more"]:  # 8亿9000万
        tail = found["more"].rstrip("十百千万亿")
        value += _scaled(float(tail), found["more"][len(tail) :])
    if name == "月" and value <= 12:
        return [date("m", int(value))]
    name = _SIGN_NAMES.get(found["currency"] or "") or _PERIODS.get(name.removeprefix("个"), name)
    name = UNITS.get(name.lower(), name if name in _PERIODS.values() or name == "¥?" else "")
    key = number_key(-value if found["minus"] else value)
    weight = _SMALL_NUMBER if len(key) == 2 and not name else 1.0
    read = [Atom(key, 0.0 if digits == "一" else weight, "number")]
    return [*read, Atom(f"°{name}", _CHINESE_UNIT_WEIGHT, "unit")] if name else read


def _scaled(value: float, scales: str) -> float:
    for scale in scales:
        value *= CHINESE_SCALES[scale]
    return value


def _share(found: re.Match[str]) -> list[Atom]:
    """Return 百分之十五点五 as a percentage, 三分之二 as a fraction."""
    value = chinese_value(found["share"])
    if decimals := found["decimals"]:
        value += chinese_value(decimals) / 10 ** len(decimals)
    if found["parts"] == "百":
        return [Atom(number_key(value), 1.0, "number"), unit("%")]
    return [Atom(number_key(value / (chinese_value(found["parts"]) or 1)), 1.0, "number")]


def _chinese_time(found: re.Match[str], text: str) -> Atom:
    hour = found["hour"] or found["hour2"]
    before = text[max(0, found.start() - 3) : found.start()].rstrip(" ")
    value = int(chinese_value(hour))
    half = "a" if before.endswith(_MORNING) else "p" if before.endswith(_AFTERNOON) else ""
    is_written_out = any(found[part] for part in ("hour", "minute2", "past", "full"))
    is_sure = half or is_written_out or value >= 13 or text[found.end() - 1] == "时"
    if value > 24 or not (is_sure or text[found.end() : found.end() + 1] in {"至", "到", "-"}):
        return number(str(value))  # three points
    half = half or ("a" if hour[0] == "0" else "")
    minute = 30 if found["past"] else int(found["minute"] or found["minute2"] or 0)
    return clock(value, minute, half if value <= 12 else "")
