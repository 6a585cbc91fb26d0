"""Numbers that states and banks give to people, found by format, check digit or the word before.

Every pattern begins at a place that a lookbehind bounds and has only bounded repetitions, so that
the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from ragmonitor.patterns import lazy_pattern
from ragmonitor.redaction.detections import Detection


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """The format of one kind of numbers."""

    kind: str
    pattern: re.Pattern[str]
    """Its group `value`, where there is one, is the number, and else all of it."""
    is_right: Callable[[str], bool] = bool
    """Takes the number without spaces and hyphens."""


def numbers_in(text: str) -> Iterator[Detection]:
    """Yield the numbers of people in a text; some may overlap."""
    plain = plain_digits(text)
    for number_format in FORMATS:
        pattern = number_format.pattern
        group = "value" if "value" in pattern.groupindex else 0
        for match in pattern.finditer(plain):
            if number_format.is_right(re.sub(r"[ \-.]", "", match[group])):
                yield Detection(*match.span(group), number_format.kind)


def plain_digits(text: str) -> str:
    """Return a text of the same length with digits and letters of full width as plain ones."""
    return text if text.isascii() else text.translate(_FULL_WIDTH)


_FULL_WIDTH = {
    0xFEE0 + ord(sign): sign
    for sign in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz@.+-_"
}


def is_cn_id_card(number: str) -> bool:
    """Return whether the date and the last digit of a Chinese identity number are right.

    Of the 15 digits of before 1999, which had no check digit, the province and the date are.

    Source:
        GB 11643-1999, section 4.2 (ISO 7064, MOD 11-2); GB/T 2260 for the provinces.
    """
    if len(number) == 15:
        return number[:2] in _PROVINCES and _is_date(f"19{number[6:12]}")
    if number[:2] not in _PROVINCES or not _is_date(number[6:14]):
        return False
    total = sum(int(digit) * weight for digit, weight in zip(number, _CN_WEIGHTS, strict=False))
    return _CN_CHECKS[total % 11] == number[17].upper()


_CN_WEIGHTS = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CN_CHECKS = "10X98765432"
_PROVINCES = frozenset(
    f"{first}{second}"
    for first, seconds in (
        *(("1", "12345"), ("2", "123"), ("3", "1234567"), ("4", "123456"), ("5", "01234")),
        *(("6", "12345"), ("7", "1"), ("8", "123")),
    )
    for second in seconds
)


def _is_date(digits: str) -> bool:
    try:
        found = date(int(digits[:4]), int(digits[4:6]), int(digits[6:8]))
    except ValueError:
        return False
    return 1850 <= found.year <= 2099


def is_luhn(number: str) -> bool:
    """Return whether a number's last digit is right. Source: ISO/IEC 7812-1, annex B."""
    digits = [int(digit) for digit in reversed(number)]
    total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return total % 10 == 0 and len(set(number)) > 1


_LETTERS = {letter: 10 + place for place, letter in enumerate("ABCDEFGHJKLMNPQRSTUVXYWZIO")}
"""Taiwan's values of letters."""


def _is_taiwan_id(number: str) -> bool:
    code = _LETTERS[number[0]]
    digits = (code // 10, code % 10, *map(int, number[1:]))
    return (
        sum(d * w for d, w in zip(digits, (1, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1), strict=True)) % 10 == 0
    )


def _is_hong_kong_id(number: str) -> bool:
    body, check = number[: number.index("(")], number[number.index("(") + 1]
    values = [36] if len(body) == 7 else []
    values += [ord(sign) - 55 if sign.isalpha() else int(sign) for sign in body]
    total = sum(v * w for v, w in zip(values, range(9, 1, -1), strict=True))
    return (total + (10 if check == "A" else int(check))) % 11 == 0


def _is_singapore_id(number: str) -> bool:
    weights = (2, 7, 6, 5, 4, 3, 2)
    total = sum(int(d) * w for d, w in zip(number[1:8], weights, strict=True))
    total += 4 if number[0] in "TG" else 3 if number[0] == "M" else 0
    if number[0] == "M":
        return "KLJNPQRTUWX"[10 - total % 11] == number[8]
    return ("JZIHGFEDCBA" if number[0] in "ST" else "XWUTRQPNMLK")[total % 11] == number[8]


def _is_korea_id(number: str) -> bool:
    century = {"1": "19", "2": "19", "5": "19", "6": "19"}.get(number[6], "20")
    return _is_date(century + number[:6])


def _is_spain_id(number: str) -> bool:
    number = {"X": "0", "Y": "1", "Z": "2"}.get(number[0], number[0]) + number[1:]
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number[:-1]) % 23] == number[-1]


def _is_france_id(number: str) -> bool:
    return 97 - int(number[:13]) % 97 == int(number[13:])


def _is_brazil_id(number: str) -> bool:
    digits = [*map(int, number)]
    for length in (9, 10):
        total = sum(d * w for d, w in zip(digits, range(length + 1, 1, -1), strict=False))
        if total * 10 % 11 % 10 != digits[length]:
            return False
    return len(set(digits)) > 1


def _is_poland_id(number: str) -> bool:
    total = sum(int(d) * w for d, w in zip(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3), strict=False))
    month = int(number[2:4])
    century = {0: "19", 1: "20"}.get(month // 20, "")
    return (
        -total % 10 == int(number[10])
        and bool(century)
        and _is_date(f"{century}{number[:2]}{month % 20:02d}{number[4:6]}")
    )


def _is_finland_id(number: str) -> bool:
    digits = number[:6] + number[-4:-1]
    check = "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits) % 31]
    return check == number[-1] and _is_date(f"19{number[4:6]}{number[2:4]}{number[:2]}")


def _is_sweden_id(number: str) -> bool:
    digits = re.sub(r"\D", "", number)
    return is_luhn(digits) and _is_date(f"19{digits[:6]}")


_ALONE = r"(?<![\dA-Za-z])"
_ENDS = r"(?![\dA-Za-z])"
_SEP = r"[ -]?"


def _format(kind: str, pattern: str, is_right: Callable[[str], bool] = bool) -> NumberFormat:
    return NumberFormat(kind, lazy_pattern(f"{_ALONE}{pattern}{_ENDS}", re.ASCII), is_right)


def _named(pattern: str, value: str) -> NumberFormat:
    between = (
        r"(?:[ ]?(?:no|number|num|id|#|号码?|編號|编号))?[.']?[ ]?(?:[:：#=]|is|为|是)?[ ]{0,2}"
    )
    whole = f"(?:{pattern}){between}(?P<value>{value})(?![0-9A-Za-z])"
    return NumberFormat("NATIONAL_ID", lazy_pattern(whole, re.IGNORECASE | re.ASCII), _has_digits)


def _has_digits(number: str) -> bool:
    return sum(map(str.isdigit, number)) >= 5


FORMATS = (
    _format("CN_ID_CARD", rf"[1-9](?:{_SEP}\d){{16}}{_SEP}[\dXx]", is_cn_id_card),
    _format("CN_ID_CARD", rf"[1-9](?:{_SEP}\d){{14}}", is_cn_id_card),
    # UnionPay's have up to 19 digits; Mastercard's begin with 2 too.
    _format("CREDIT_CARD", rf"(?:62|81)\d{{2}}(?:{_SEP}\d{{4}}){{3}}(?:{_SEP}\d{{1,3}})?", is_luhn),
    _format("CREDIT_CARD", rf"(?:62|81)\d{{4}}{_SEP}\d{{13}}", is_luhn),
    _format("CREDIT_CARD", rf"2[2-7]\d{{2}}(?:{_SEP}\d{{4}}){{3}}", is_luhn),
    _format("NATIONAL_ID", r"[A-Z]{1,2}\d{6} ?\([\dA]\)(?<=\))", _is_hong_kong_id),
    _format("NATIONAL_ID", r"[A-Z][12]\d{8}", _is_taiwan_id),
    _format("NATIONAL_ID", r"[STFGM]\d{7}[A-Z]", _is_singapore_id),
    _format("NATIONAL_ID", r"\d{6}-[1-8]\d{6}", _is_korea_id),
    _format("NATIONAL_ID", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d{2}){3} ?[A-D]"),
    _format("NATIONAL_ID", r"\d{8}-?[A-HJ-NP-TV-Z]", _is_spain_id),
    _format("NATIONAL_ID", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", _is_spain_id),
    _format("NATIONAL_ID", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]"),
    _format(
        "NATIONAL_ID",
        r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}",
        _is_france_id,
    ),
    _format("NATIONAL_ID", r"\d{3}\.\d{3}\.\d{3}-\d{2}", _is_brazil_id),
    _format("NATIONAL_ID", r"[A-Z]{3}[ABCFGHLJPT][A-Z]\d{4}[A-Z]"),
    _format("NATIONAL_ID", r"\d{11}", _is_poland_id),
    _format("NATIONAL_ID", r"\d{6}[-+A]\d{3}[\dA-FHJ-NPR-Y]", _is_finland_id),
    _format("NATIONAL_ID", r"(?:19|20)?\d{6}[-+]\d{4}", _is_sweden_id),
    _format("NATIONAL_ID", r"9\d{2}-[5-9]\d-\d{4}"),
    _named("passport|护照|護照|通行证|通行證|军官证", r"[A-Z]{0,2}\d{6,10}"),
    _named("driv(?:er'?s?|ing) licen[cs]e|驾驶证|驾照", r"[A-Z0-9][A-Z0-9-]{5,17}"),
    _named(r"\b(?:SIN|TFN|NHS|Aadhaar|My ?Number|Steuer-?ID|SSN|BSN)", r"\d(?:[ -]?\d){7,11}"),
    _named("社保号|社会保障号|医保卡号|学号|工号", r"[A-Z0-9]{6,20}"),
)
