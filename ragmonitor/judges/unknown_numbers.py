"""Numbers of a sentence that stand in none of its sources, whichever way they are written."""

from __future__ import annotations

import re

from ragmonitor.runtime.patterns import lazy_pattern

_SCALES = {
    "k": 1e3,
    "thousand": 1e3,
    "million": 1e6,
    "bn": 1e9,
    "billion": 1e9,
    "trillion": 1e12,
    "千": 1e3,
    "万": 1e4,
    "萬": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "億": 1e8,
    "万亿": 1e12,
}
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: float(value) for value, word in enumerate(_SMALL.split())} | {
    word: 10.0 * value for value, word in enumerate(_TENS.split(), 3)
}
_HAN = {han: float(value) for value, han in enumerate("零一二三四五六七八九十")} | {
    "两": 2.0,
    "兩": 2.0,
}

# One character for one, so that offsets stay those of the text.
_WIDE = {0xFF10 + digit: str(digit) for digit in range(10)} | {0xFF0C: ",", 0xFF0E: "."}
_SCALE = "|".join(sorted(map(re.escape, _SCALES), key=len, reverse=True))
_FIGURE = lazy_pattern(
    # No \b in front: Chinese sets no space between words and figures, 共300人.
    r"(?<![A-Za-z0-9_])(?<![0-9]\.)"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?)"
    rf"(?:[ \t]?(?P<scale>{_SCALE})(?![A-Za-z]))?"
)
_LIST_MARKER = lazy_pattern(r"\s*\(?[0-9]{1,3}[.)、]\s")
_WORD = lazy_pattern(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_MAX_DIGITS = 30
"""Longer runs are identifiers, compared as they stand."""


def unknown_figures(sentence: str, *sources: str) -> tuple[str, ...]:
    """Return the numbers of a sentence that no source gives, as they stand in it.

    Only numbers in digits are looked for, and a list marker at the start is none; a source may
    give them in digits, with another scale (3 million, 300万), or in small number words.
    """
    wide = sentence.translate(_WIDE)
    marker = _LIST_MARKER.match(wide)
    figures = list(_FIGURE.finditer(wide, marker.end() if marker else 0))
    if not figures:
        return ()
    known: set[float | str] = set()
    for source in sources:
        known |= _values(source)
    return tuple(
        sentence[match.start() : match.end()] for match in figures if _value(match) not in known
    )


def _values(text: str) -> set[float | str]:
    wide = text.translate(_WIDE)
    values = {_value(match) for match in _FIGURE.finditer(wide)}
    values.update(_WORDS[word.lower()] for word in _WORD.findall(wide))
    values.update(_HAN[han] for han in _HAN.keys() & set(wide))
    return values


def _value(match: re.Match[str]) -> float | str:
    digits = match["digits"].replace(",", "")
    if len(digits) > _MAX_DIGITS:
        return digits
    scale = match["scale"]
    return float(digits) if scale is None else round(float(digits) * _SCALES[scale], 6)
