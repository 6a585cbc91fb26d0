"""Formats of addresses and numbers of people, checked by python-stdnum where it knows them.

Every pattern begins at a place that a lookbehind bounds and has only bounded repetitions, so that
the time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from ragmonitor.redaction.detections import Detection
from ragmonitor.runtime.patterns import lazy_pattern


class Format(NamedTuple):
    """The format of one kind of personal data."""

    kind: str
    pattern: re.Pattern[str]
    """Its group `value` is what must not leave."""
    is_right: Callable[[str], bool]


def formatted_in(text: str) -> Iterator[Detection]:
    """Yield what is in a text; some may overlap."""
    for each in FORMATS:
        for match in each.pattern.finditer(text):
            if each.is_right(match["value"]):
                yield Detection(*match.span("value"), each.kind)


def plain_digits(text: str) -> str:
    """Return a text of the same length with digits and letters of full width as plain ones."""
    return text if text.isascii() else text.translate(_FULL_WIDTH)


_FULL_WIDTH = {
    0xFEE0 + ord(sign): sign
    for sign in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz@.+-_"
}
_SEP = r"[ -]?"


def _format(kind: str, pattern: str, is_right: Callable[[str], bool] = bool) -> Format:
    whole = rf"(?<![\dA-Za-z])(?P<value>{pattern})(?![\dA-Za-z])"
    return Format(kind, lazy_pattern(whole, re.ASCII), is_right)


def _standard(kind: str, pattern: str, module: str, *, compact: bool = False) -> Format:
    """Return a format whose check digit or date the module of python-stdnum knows."""

    def is_right(value: str) -> bool:
        number = re.sub(r"[ -]", "", value) if compact else value
        return len(set(number)) > 1 and bool(import_module(f"stdnum.{module}").is_valid(number))

    return _format(kind, pattern, is_right)


def _named(pattern: str, value: str) -> Format:
    """Return a format that is known by the name before it."""
    between = (
        r"(?:[ ]?(?:no|number|num|id|#|号码?|編號|编号))?[.']?[ ]?(?:[:：#=]|is|为|是)?[ ]{0,2}"
    )
    whole = f"(?:{pattern}){between}(?P<value>{value})(?![0-9A-Za-z])"
    return Format("NATIONAL_ID", lazy_pattern(whole, re.IGNORECASE | re.ASCII), _has_digits)


def _has_digits(number: str) -> bool:
    return sum(map(str.isdigit, number)) >= 5


FORMATS = (
    Format(
        "EMAIL_ADDRESS",
        lazy_pattern(
            r"(?<![A-Za-z0-9._%+-])(?P<value>[A-Za-z0-9._%+-]{1,64}+"
            r"@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24})(?![A-Za-z0-9])"
        ),
        bool,
    ),
    _standard("CN_ID_CARD", rf"[1-9](?:{_SEP}\d){{16}}{_SEP}[\dXx]", "cn.ric", compact=True),
    # UnionPay's have up to 19 digits; Mastercard's begin with 2 too.
    _standard(
        "CREDIT_CARD",
        rf"(?:4\d|5[1-5]|2[2-7]|6\d|81)\d\d(?:{_SEP}\d{{4}}){{3}}(?:{_SEP}\d{{1,3}})?",
        "luhn",
        compact=True,
    ),
    _standard("CREDIT_CARD", rf"(?:62|81)\d{{4}}{_SEP}\d{{13}}", "luhn", compact=True),
    _standard("CREDIT_CARD", rf"3[47]\d\d{_SEP}\d{{6}}{_SEP}\d{{5}}", "luhn", compact=True),
    _standard("IBAN_CODE", rf"[A-Z]{{2}}\d\d(?:{_SEP}[A-Z0-9]{{1,4}}){{3,8}}", "iban"),
    _standard("US_SSN", r"\d{3}-\d{2}-\d{4}", "us.ssn"),
    _format("PHONE_NUMBER", r"(?:(?:\+|00)?86[ -]?)?1[3-9]\d(?:[ -]?\d{4}){2}"),  # China's mobiles
    _standard("NATIONAL_ID", r"\d{6}-[1-8]\d{6}", "kr.rrn"),
    _standard("NATIONAL_ID", r"\d{8}-?[A-HJ-NP-TV-Z]", "es.dni"),
    _standard("NATIONAL_ID", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]", "es.nie"),
    _standard("NATIONAL_ID", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", "it.codicefiscale"),
    _standard("NATIONAL_ID", r"[12] ?\d\d ?[01]\d ?\d\d ?\d{3} ?\d{3} ?\d\d", "fr.nir"),
    _standard("NATIONAL_ID", r"\d{3}\.\d{3}\.\d{3}-\d{2}", "br.cpf"),
    _standard("NATIONAL_ID", r"[A-Z]{5}\d{4}[A-Z]", "in_.pan"),
    _standard("NATIONAL_ID", r"\d{11}", "pl.pesel"),
    _standard("NATIONAL_ID", r"\d{6}[-+A]\d{3}[\dA-Y]", "fi.hetu"),
    _standard("NATIONAL_ID", r"(?:19|20)?\d{6}[-+]\d{4}", "se.personnummer"),
    _standard("NATIONAL_ID", r"9\d{2}-\d{2}-\d{4}", "us.itin"),
    _format("NATIONAL_ID", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d{2}){3} ?[A-D]"),  # Britain
    _format("NATIONAL_ID", r"[A-Z]{1,2}\d{6} ?\([\dA]\)(?<=\))"),  # Hong Kong
    _named("passport|护照|護照|通行证|通行證|军官证", r"[A-Z]{0,2}\d{6,10}"),
    _named("driv(?:er'?s?|ing) licen[cs]e|驾驶证|驾照", r"[A-Z0-9][A-Z0-9-]{5,17}"),
    _named(r"\b(?:SIN|TFN|NHS|Aadhaar|My ?Number|Steuer-?ID|SSN|BSN)", r"\d(?:[ -]?\d){7,11}"),
    _named(r"\bNRIC|身[份分][证證]|社保号|社会保障号|医保卡号|学号|工号", r"[A-Z0-9]{6,20}"),
)
